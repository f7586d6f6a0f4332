"""The answers of the viewer's API: the same as the commands give."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from sqlalchemy import URL

from recorder import __version__
from recorder.projections.views.contract import VIEWS
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store
from recorder.ui import api, sql
from tests.support.conversations import (
    USAGE,
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
    thought,
)
from tests.support.corpus import ROOT
from tests.support.projects import stream
from tests.support.rows import add, begin, make_events, make_exchange, make_id, make_session
from tests.support.server import run
from tests.support.sockets import RawClient
from tests.support.viewer import team
from tests.support.viewer_api import WORDS, Viewing, fill, request, viewing

EXCHANGE = "/api/sessions/demo/exchanges/1"
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT"


async def test_about_names_the_log(database: URL) -> None:
    fill(database)
    async with viewing(database) as viewer, await LogReader.open(database) as log:
        about = await viewer.json("/api/about")
        assert about.pop("now_ns") > 1_700_000_000_000_000_000
        engine = database.get_backend_name()
        assert about == {
            "version": __version__,
            "database": log.name,
            "engine": engine,
            "is_stale": False,
        }


# -- sessions


def fill_sessions(database: Path | URL, count: int) -> None:
    with Store(database) as store:
        for number in range(1, count + 1):
            begin(store, number)


async def pages(viewer: Viewing, query: str) -> list[list[str]]:
    """The names of all sessions, page by page."""
    found, before = [], ""
    while True:
        answer = await viewer.json(f"/api/sessions?{query}{before}")
        found.append([row["name"] for row in answer["sessions"]])
        if answer["next"] is None:
            return found
        before = f"&before={answer['next']}"


async def test_sessions_come_in_pages_newest_first(database: URL) -> None:
    fill_sessions(database, 7)
    async with viewing(database) as viewer:
        names = [f"run-{number}" for number in range(7, 0, -1)]
        assert await pages(viewer, "") == [names]
        assert await pages(viewer, "limit=3") == [names[:3], names[3:6], names[6:]]
        assert await pages(viewer, "limit=7") == [names, []]
        assert await pages(
            viewer, "limit=2&since=1790000000000003000&until=1790000000000005001"
        ) == [
            ["run-5", "run-4"],
            ["run-3"],
        ]


async def test_a_session_of_the_list_is_that_of_the_command(db: Path) -> None:
    expected = json.loads(run(db, "sessions", "--json").out)
    async with viewing(db) as viewer:
        assert (await viewer.json("/api/sessions"))["sessions"] == expected
        for query in ("model=gpt", "status=completed", "q=sunny", "model=gpt&q=sunn*"):
            assert len((await viewer.json(f"/api/sessions?{query}"))["sessions"]) == 1, query
        for query in ("model=claude", "status=open", "q=rainy", "client=x", "probes=1", "until=1"):
            assert (await viewer.json(f"/api/sessions?{query}"))["sessions"] == [], query


async def test_a_session_has_a_summary_of_each_exchange(sqlite_database: URL) -> None:
    fill(sqlite_database, [stream(*WORDS), stream("again")])
    with Store(sqlite_database) as store, store.transaction():
        open_one = make_exchange(make_session(name="demo"), 3)
        store.add_exchange(open_one)
        store.append(make_events(open_one, [b"{}", b"data: {}\n\n"], ["request"]))
    async with viewing(sqlite_database) as viewer:
        answer = await viewer.json("/api/sessions/demo")
        assert (answer["session"]["name"], answer["session"]["exchanges"]) == ("demo", 3)
        first, second, last = answer["exchanges"]
        assert [each["number"] for each in (first, second, last)] == [1, 2, 3]
        assert [each["offset_ns"] for each in (first, second, last)] == [0, 1_000, 2_000]
        assert [each["has_ended"] for each in (first, second, last)] == [True, True, False]
        assert [each["status"] for each in (first, second, last)] == [
            "completed",
            "completed",
            None,
        ]
        assert (last["events"], last["duration_ns"]) == (2, 1_000)
        known = {
            "exchange_id": make_id(1),
            "api": "openai-responses",
            "method": "POST",
            "target": "/v1/responses",
        }
        assert known.items() <= first.items()


async def test_each_exchange_says_what_was_asked_and_which_sub_agent_asks(database: URL) -> None:
    team(Conversations(database).session("team"))
    async with viewing(database) as viewer:
        exchanges = (await viewer.json("/api/sessions/team"))["exchanges"]
    assert [(each["agent"], each["results"]) for each in exchanges] == [
        (None, []),
        (None, []),
        ("Galileo", []),
        ("Galileo", ["shell"]),
        (None, ["spawn_agent"]),
    ]
    asked = {
        "user_text": "Fix the tests that fail on a busy machine",
        "is_turn": True,
        "model": "gpt-5",
    }
    assert {**asked, "total_tokens": 1690, "cost_usd": None}.items() <= exchanges[1].items()


async def test_an_exchange_says_which_tools_failed_and_what_the_cache_missed(
    sqlite_database: URL,
) -> None:
    session = Conversations(sqlite_database).session("s")
    rules = {"model": "gpt-5", "stream": True, "instructions": "Be brief. " * 1000}
    asked = asking("Weather?")
    calls = [*call("weather", "{}"), *call("time", "{}", 1, "call_2")]
    session.exchange(response(*calls), body={**rules, "input": asked})
    said = [*asked, *answering('{"error": "no such city"}'), *answering("12:00", "call_2")]
    stale = {**USAGE, "input_tokens": 2500, "input_tokens_details": {"cached_tokens": 0}}
    again = response(*message("Sorry."), id="resp_2", usage=stale)
    session.exchange(
        again,
        body={**rules, "instructions": f"Now: {rules['instructions']}", "input": said},
        at_s=2,
    )
    async with viewing(sqlite_database) as viewer:
        first, second = (await viewer.json("/api/sessions/s"))["exchanges"]
    assert (first["failed"], second["results"], second["failed"]) == (
        [],
        ["weather", "time"],
        ["weather"],
    )
    assert second["missed_tokens"] > 1000


@pytest.mark.parametrize(
    ("known", "named"),
    [
        ({"told": "Look around"}, True),
        ({"agent_id": "of_another"}, True),
        ({"told": "Look around", "agent_id": "of_another"}, False),
    ],
)
async def test_a_sub_agent_is_known_by_its_thread_or_by_what_it_was_told(
    sqlite_database: URL, known: dict[str, str], named: bool
) -> None:
    team(Conversations(sqlite_database).session("team"), **known)
    async with viewing(sqlite_database) as viewer:
        exchanges = (await viewer.json("/api/sessions/team"))["exchanges"]
    assert (exchanges[2]["agent"] == "Galileo") is named


# -- events


async def test_events_are_found_by_a_text_as_it_is_and_as_json_escapes_it(database: URL) -> None:
    session = Conversations(database).session("s")
    session.exchange(response(*message("Zürich ", "is fine")), asking("Zürich?"))
    async with viewing(database) as viewer:
        found = await viewer.json(f"/api/sessions/s/find?text={quote('ZüRICH')}")
        rows = (await viewer.json("/api/sessions/s/exchanges/1/events"))["events"]
        assert found["is_all"]
        whole = [row["pos"] for row in rows if row["kind"] == "request" and row["pos"]]
        written = [row["pos"] for row in rows if "Zürich" in row["preview"]]
        assert {*whole, *written} <= {*found["events"]["1"]}
        assert 0 not in found["events"]["1"]
        assert (await viewer.json("/api/sessions/s/find?text=rainy"))["events"] == {}
        for text in ("", "x" * 201):
            await viewer.json(f"/api/sessions/s/find?text={text}", b"400")


async def test_a_text_over_several_deltas_leads_to_all_that_wrote_it(database: URL) -> None:
    session = Conversations(database).session("s")
    words = ("A sun", "ny", " day, ", "and Sun", "", "ny", " again")
    session.exchange(response(*message(*words)), asking("?"))
    session.exchange(response(*thought("Is it", " sunny?")), asking("?"), ended=False, at_s=9.0)
    async with viewing(database) as viewer:
        for exchange, text, wrote in ((1, "sunny", [0, 1, 3, 4, 5]), (2, "is it sunny", [0, 1])):
            rows = (await viewer.json(f"/api/sessions/s/exchanges/{exchange}/events"))["events"]
            deltas = [row["pos"] for row in rows if (row["type"] or "").endswith(".delta")]
            found = (await viewer.json(f"/api/sessions/s/find?text={quote(text)}"))["events"]
            assert [deltas.index(pos) for pos in found[str(exchange)] if pos in deltas] == wrote


async def test_events_are_those_of_the_command_in_a_few_words(db: Path) -> None:
    expected = json.loads(run(db, "events", "demo", "--json").out)
    async with viewing(db) as viewer:
        rows = (await viewer.json(f"{EXCHANGE}/events"))["events"]
        assert [(row["pos"], row["kind"], row["type"], row["t_ns"]) for row in rows] == [
            (each["pos"], each["kind"], each["type"], each["t_ns"]) for each in expected
        ]
        assert [row["preview"] for row in rows if row["type"] == "response.output_text.delta"] == [
            f'"{word}"' for word in WORDS
        ]
        some = (await viewer.json(f"{EXCHANGE}/events?from=3&limit=2"))["events"]
        assert some == rows[3:5]
        assert (await viewer.json(f"{EXCHANGE}/events?from=1000"))["events"] == []
        for each in expected:
            found = await viewer.json(f"{EXCHANGE}/events/{each['pos']}")
            assert found["event"] == each
            assert found["chain"]["holds"]
            assert found["chain"]["hash"] == each["hash"]


async def test_an_event_has_its_place_in_the_body_and_the_reads_that_it_came_in(
    sqlite_database: URL,
) -> None:
    body = stream(*WORDS)
    fill(sqlite_database, [body], cuts=(100, 200))
    async with viewing(sqlite_database) as viewer:
        rows = (await viewer.json(f"{EXCHANGE}/events"))["events"]
        frames = [
            await viewer.json(f"{EXCHANGE}/events/{row['pos']}")
            for row in rows
            if row["kind"] == "frame"
        ]
        rebuilt = b"".join(each["event"]["raw"].encode() for each in frames)
        assert rebuilt == body
        reads = [[2_000_000, 0, 100], [3_000_000, 100, 200], [4_000_000, 200, len(body)]]
        for each in frames:
            start = each["body_offset"]
            stop = start + len(each["event"]["raw"].encode())
            assert body[start:stop].decode() == each["event"]["raw"]
            assert each["reads"] == [read for read in reads if read[1] < stop and read[2] > start]
            assert (
                json.loads(each["payload"])["sequence_number"] == each["event"]["sequence_number"]
            )
        other = await viewer.json(f"{EXCHANGE}/events/0")
        assert (other["payload"], other["body_offset"], other["reads"]) == (None, None, None)
        assert (other["chain"]["previous"], other["chain"]["holds"]) == (None, True)


async def test_a_chain_that_does_not_hold_is_seen(tmp_path: Path) -> None:
    with Store(tmp_path / "log.db") as store:
        events = make_events(begin(store), [b"{}", b"one", b"two"], ["request"])
        add(store, [events[0], msgspec.structs.replace(events[1], raw=b"One"), events[2]])
    async with viewing(tmp_path / "log.db") as viewer:
        found = [
            await viewer.json(f"/api/sessions/run-1/exchanges/1/events/{pos}") for pos in range(3)
        ]
        assert [each["chain"]["holds"] for each in found] == [True, False, True]
        assert found[2]["chain"]["previous"] == found[1]["chain"]["hash"]


# -- SQL


@pytest.mark.long
async def test_a_query_gives_the_rows_of_the_command_that_it_names(database: URL) -> None:
    fill(database)
    async with viewing(database) as viewer:
        asked = {
            "sql": "select model, total_tokens, :word as word from usage_by_model",
            "params": {"word": "a 'b'"},
        }
        answer = msgspec.json.decode((await viewer.post("/api/query", asked)).body)
        assert (answer["columns"], answer["rows"]) == (
            ["model", "total_tokens", "word"],
            [["gpt-5", 9, "a 'b'"]],
        )
        assert answer["is_all"] is True
        assert answer["command"].startswith("recorder query 'select model, ")
        assert """ -p word 'a '"'"'b'"'"'' """ in answer["command"]


async def test_a_question_of_another_form_is_refused(db: Path) -> None:
    bodies: tuple[Any, ...] = (
        {},
        [],
        None,
        {"sql": 1},
        {"sql": "select 1", "more": 1},
        {"sql": "x", "params": [1]},
    )
    async with viewing(db) as viewer:
        assert [
            body for body in bodies if (await viewer.post("/api/query", body)).status[:3] != b"400"
        ] == []


@pytest.mark.long
async def test_an_answer_has_no_more_rows_and_bytes_than_a_page_can_hold(database: URL) -> None:
    """The statements end a little later than an answer does: one without a bound fails then, and
    takes no memory.
    """
    fill(database)
    async with viewing(database) as viewer:
        answer = await viewer.post(
            "/api/query", {"sql": f"{ENDLESS} n FROM t LIMIT {sql.MOST_ROWS + 1}"}
        )
        many = msgspec.json.decode(answer.body)
        assert (len(many["rows"]), many["is_all"]) == (sql.MOST_ROWS, False)
        wide = (
            "hex(zeroblob(1048576))"
            if database.get_backend_name() == "sqlite"
            else "repeat('0', 2097152)"
        )
        answer = await viewer.post("/api/query", {"sql": f"{ENDLESS} {wide} FROM t LIMIT 16"})
        long = msgspec.json.decode(answer.body)
        assert long["is_all"] is False
        assert 0 < len(answer.body) <= sql.MOST_BYTES + 1024


@pytest.mark.long
async def test_a_question_of_a_client_that_has_left_is_stopped(database: URL) -> None:
    fill(database)
    async with viewing(database) as viewer:
        body = msgspec.json.encode({"sql": f"{ENDLESS} max(n) FROM t"})
        # more than can be asked at once: none of them holds its place
        for _ in range(2 * sql.AT_ONCE):
            async with await RawClient.connect(viewer.port) as client:
                await client.send(
                    request(
                        "/api/query",
                        viewer.token,
                        b"Content-Type: application/json",
                        method="POST",
                        body=body,
                    )
                )
                await asyncio.sleep(0.02)
        # If they were not stopped, two rounds of them would end before. Each has a process to
        # start, on a busy machine.
        async with asyncio.timeout(1.8 * sql.TIMEOUT_S):
            assert (await viewer.post("/api/query", {"sql": "select 1"})).status[:3] == b"200"


async def test_the_views_are_those_of_the_command(db: Path) -> None:
    expected = json.loads(run(db, "query", "--list", "--json").out)
    async with viewing(db) as viewer:
        found = await viewer.json("/api/views")
    assert found == expected
    assert [view["view"] for view in found] == [view.name for view in VIEWS]


def test_every_request_is_documented_with_its_parameters() -> None:
    documented = set(
        re.findall(r"`((?:GET|POST) /api/\S+)`", (ROOT / "docs" / "formats.md").read_text())
    )
    names = {"{session}": "SESSION", "{exchange}": "N", "{pos}": "POS"}
    assert documented == {
        re.sub(r"\{\w+\}", lambda found: names[found[0]], each) for each in api.ROUTES
    }
