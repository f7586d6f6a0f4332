"""The timeline: a tick for each event, and blocks of items, of the connection and of the client's
own time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL

from recorder.model.chain import link, root
from recorder.model.events import Event, GapRecord
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store
from recorder.ui import lanes, ticks
from recorder.ui.lanes import timeline
from tests.integration.ingest.test_websocket_log import closed, ingested
from tests.support.conversations import (
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
    thought,
)
from tests.support.html_file import Json, shown
from tests.support.live import REALTIME, spoken
from tests.support.live import response as spoken_response
from tests.support.rows import add, make_exchange, make_session
from tests.support.websocket import Connection

QUESTION = asking("What is the weather in Paris?")
CALLS = response(*thought("Look it ", "up."), *call("get_weather", "{}", index=1), id="resp_1")


async def drawn(url: URL, session: str = "s", *chosen: Any) -> Json:
    """The answer as it is sent."""
    async with await LogReader.open(url) as log:
        return dict(msgspec.json.decode(msgspec.json.encode(await timeline(log, session, *chosen))))


def blocks(found: Json, kind: str, *names: str) -> list[Any]:
    """Some members of the blocks of a kind, those of items by their row's kind."""
    chosen = [
        each
        for each in found["blocks"]
        if kind in (each["kind"], found["rows"][each["row"]]["kind"])
    ]
    return [tuple(each[name] for name in names) for each in chosen]


async def test_each_event_is_a_tick(database: URL) -> None:
    made = Conversations(database).session("s")
    exchange = made.exchange(CALLS, QUESTION)
    made.exchange(response(*message("18 °C")), at_s=2.0)
    found = await drawn(database)
    first, second = found["exchanges"]
    async with await LogReader.open(database) as log:
        events = [event async for event in log.events(exchange.session_id, exchange.exchange_id)]
    assert first["t"] == [event.t_ns for event in events]
    assert [found["kinds"][kind] for kind in first["kind"]] == [event.kind for event in events]
    types = [None if type < 0 else found["types"][type] for type in first["type"]]
    assert types == [event.type for event in events]
    labels = [found["rows"][row]["label"] for row in first["row"]]
    expected = [
        "connection" if event.output_index is None else f"output {event.output_index}"
        for event in events
    ]
    assert labels == expected
    assert (first["offset_ns"], second["offset_ns"]) == (0, 2_000_000_000)
    assert [(each["number"], each["has_ended"], each["last_pos"]) for each in (first, second)] == [
        (1, True, len(events) - 1),
        (2, True, len(second["t"]) - 1),
    ]
    assert found["is_all"]


async def test_blocks_are_items_and_what_the_client_did(sqlite_database: URL) -> None:
    made = Conversations(sqlite_database).session("s")
    made.exchange(CALLS, QUESTION)
    made.exchange(response(*message("18 °C")), [*QUESTION, *answering("18 °C, clear")], at_s=2.0)
    found = await drawn(sqlite_database)
    assert blocks(
        found,
        "item",
        "exchange",
        "kind",
        "label",
        "item",
        "from_ns",
        "to_ns",
        "first_pos",
        "last_pos",
    ) == [
        (1, "reasoning", "reasoning", 0, 200_000_000, 500_000_000, 4, 7),
        (1, "tool_call", "get_weather", 1, 600_000_000, 900_000_000, 8, 11),
        (2, "message", "message", 0, 200_000_000, 600_000_000, 4, 8),
    ]
    async with await LogReader.open(sqlite_database) as log:
        [_, answered] = (await shown(log, "s", "1"))["items"]
    [(item, from_ns, to_ns)] = blocks(found, "client", "item", "from_ns", "to_ns")
    assert (item, to_ns - from_ns, to_ns) == (1, answered["latency_ns"], 2_000_000_000)
    assert blocks(found, "connection", "exchange", "kind", "from_ns", "to_ns")[:3] == [
        (1, "head", 0, 50_000_000),
        (1, "first_byte", 50_000_000, 100_000_000),
        (1, "body", 100_000_000, 1_000_000_000),
    ]


async def test_exchanges_beside_each_other_have_rows_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    for at_s in (0.0, 0.5, 0.6, 2.0):
        made.exchange(CALLS, QUESTION, at_s=at_s)
    found = await drawn(made.database)
    rows = found["rows"]
    assert [{rows[row]["group"] for row in each["row"]} for each in found["exchanges"]] == [
        {0},
        {1},
        {2},
        {0},
    ]
    monkeypatch.setattr(lanes, "GROUPS_LIMIT", 2)
    found = await drawn(made.database)
    groups = [{found["rows"][row]["group"] for row in each["row"]} for each in found["exchanges"]]
    assert groups == [{0}, {1}, {1}, {0}]


async def test_of_an_open_exchange_only_what_is_new(sqlite_database: URL) -> None:
    made = Conversations(sqlite_database).session("s")
    made.exchange(CALLS, QUESTION)
    made.exchange(CALLS[:-3], QUESTION, at_s=2.0, ended=False)
    found = await drawn(sqlite_database)
    assert [each["has_ended"] for each in found["exchanges"]] == [True, False]
    wanted = ("exchange", "kind", "label", "item", "from_ns", "to_ns", "first_pos", "last_pos")
    assert [each[1:] for each in blocks(found, "item", *wanted) if each[0] == 2] == [
        ("other", "output 0", None, 200_000_000, None, 4, 7),
        ("other", "output 1", None, 600_000_000, None, 8, 9),
    ]
    new = await drawn(sqlite_database, "s", "2", 7)
    [new_ticks] = new["exchanges"]
    assert (new_ticks["number"], new_ticks["last_pos"], len(new_ticks["t"])) == (2, 9, 2)
    assert [each[1:] for each in blocks(new, "item", *wanted)] == [
        ("other", "output 1", None, 600_000_000, None, 8, 9)
    ]
    [no_ticks] = (await drawn(sqlite_database, "s", "2", 9))["exchanges"]
    assert (no_ticks["t"], no_ticks["last_pos"]) == ([], 9)
    ended = await drawn(sqlite_database, "s", "1", 9)
    complete = [each for each in blocks(found, "item", *wanted) if each[0] == 1]
    assert blocks(ended, "item", *wanted) == complete, (
        "once it has ended, its blocks are those of all its events"
    )
    assert len(ended["exchanges"][0]["t"]) == ended["exchanges"][0]["last_pos"] - 9


async def test_a_connection_and_its_turns(sqlite_database: URL, tmp_path: Path) -> None:
    url = ingested(sqlite_database, tmp_path / "journal", closed())
    found = await drawn(url, "latest")
    groups = [{found["rows"][row]["group"] for row in each["row"]} for each in found["exchanges"]]
    assert groups == [{0}, {1}, {1}, {1}]
    assert {"sent", "control", "frames"} <= set(found["kinds"])


def put(url: URL, kinds: Any, *, output: Any = None) -> None:
    """An exchange of a session `s` with these kinds of events, which is not projected."""
    session = make_session(name="s")
    exchange = make_exchange(session)
    gap = GapRecord("response", 1, 500, "", 2_000, 9_000, "full")
    chained, events = root(exchange.session_id, exchange.exchange_id), []
    for pos, kind in enumerate(kinds):
        raw = msgspec.json.encode(gap) if kind == "gap" else b"{}"
        index = None if output is None else output(pos)
        fields: Any = (pos, kind, pos * 1_000, None, None, None, index, raw, None, None)
        chained = link(chained, *fields)
        events.append(Event(*(exchange.session_id, exchange.exchange_id, *fields, chained)))
    with Store(url) as store:
        with store.transaction():
            store.add_session(session)
            store.add_exchange(exchange)
        add(store, events)


async def test_gaps_and_an_exchange_without_projections(sqlite_database: URL) -> None:
    put(
        sqlite_database,
        ("request", "response", "frame", "gap", "frame", "end"),
        output=lambda pos: 0 if pos == 4 else None,
    )
    found = await drawn(sqlite_database)
    assert blocks(found, "gap", "label", "from_ns", "to_ns", "first_pos") == [
        ("500 bytes of the response not recorded", 2_000, 9_000, 3)
    ]
    assert blocks(found, "item", "label", "from_ns", "to_ns") == [("output 0", 4_000, 4_000)]


async def test_a_sound_is_a_mark_with_its_length_in_a_lane_of_its_own(
    database: URL, tmp_path: Path
) -> None:
    made = (
        Connection(REALTIME)
        .client({"type": "response.create"})
        .server(*spoken_response("resp_1", *spoken("Hello.")))
    )
    ingested(database, tmp_path / "journal", made.close().steps)
    found = await drawn(database, "latest")
    marks = dict(blocks(found, "item", "label", "row"))
    assert marks.keys() == {"message", "audio 1.0 s"}
    assert marks["message"] != marks["audio 1.0 s"]


async def test_many_outputs_share_a_row_and_pages_are_read_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Conversations(tmp_path / "log.db")
    count = lanes.ITEM_ROWS_LIMIT + 20
    put(
        made.database,
        ["request", *["frame"] * count],
        output=lambda pos: 2**40 + pos if pos else None,
    )
    whole = await drawn(made.database)
    assert [row["label"] for row in whole["rows"][-2:]] == [f"output {2**40 + 64}", "other outputs"]
    assert len(blocks(whole, "item", "label")) == lanes.ITEM_ROWS_LIMIT + 1
    monkeypatch.setattr(ticks, "SLICE", 7)
    assert await drawn(made.database) == whole
    monkeypatch.setattr(ticks, "TICKS_LIMIT", 20)
    cut = await drawn(made.database)
    assert (cut["is_all"], len(cut["exchanges"][0]["t"]), cut["exchanges"][0]["last_pos"]) == (
        False,
        21,
        20,
    )
    monkeypatch.setattr(ticks, "TICKS_LIMIT", 10**6)
    assert len((await drawn(made.database, "s", "1", 30))["exchanges"][0]["t"]) == count - 30


async def test_a_session_without_exchanges(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db")
    made.session("s")
    found = await drawn(made.database)
    assert (found["exchanges"], found["blocks"], found["rows"]) == ([], [], [])
