"""The track: after its steps up to an event, the document is that of `recorder show --at-event`."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.errors import NotFoundError
from recorder.model.chain import link
from recorder.model.events import Event, Exchange
from recorder.projections.fold import Folding
from recorder.store.queries import session_state
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.store.write.writer import Store
from recorder.ui import running_document, track
from recorder.ui.track import SEGMENT, TrackCache, segment
from tests.integration.commands.test_show import FaultyFolding
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
from tests.support.facts import captured
from tests.support.html_file import Json, require_exact, shown, state_at, times, tracked
from tests.support.rows import make_exchange, make_session
from tests.support.server import run

WEATHER = '{"city": "Paris"}'
QUESTION = asking("What is the weather in Paris?")
CALLS = response(*thought("Look it ", "up."), *call("get_weather", WEATHER, index=1), id="resp_1")
GET: dict[str, Any] = {
    "method": "GET",
    "target": "/v1/responses/resp_1?stream=true",
    "resumes_response_id": "resp_1",
}


async def require_session(url: URL, session: str = "s") -> dict[int, list[Json]]:
    """Compare all exchanges of a session at all events; returns the segments of each."""
    async with await LogReader.open(url) as log:
        found = await session_named(log, session)
        numbers = range(1, len(await log.exchanges(found.session_id)) + 1)
        return {number: await require_exact(log, session, str(number)) for number in numbers}


def from_outside(segments: Iterable[Json]) -> list[tuple[int, int]]:
    """The positions and times of steps from outside of an exchange."""
    return [(step[0], step[2]) for each in segments for step in each["steps"] if len(step) == 3]


async def test_a_result_comes_with_its_request(database: URL) -> None:
    made = Conversations(database).session("s")
    made.exchange(CALLS, QUESTION)
    made.exchange(
        response(*message("18 °C"), id="resp_2"), [*QUESTION, *answering("18 °C, clear")], at_s=2.0
    )
    found = await require_session(database)
    assert from_outside(found[1]) == [(found[1][-1]["last"], 2_000_000_000)]
    assert from_outside(found[2]) == []


async def test_results_from_parallel_threads(sqlite_database: URL) -> None:
    """Requests of another thread come while a response streams, with results of the same call ids."""
    made = Conversations(sqlite_database).session("s")
    made.exchange(CALLS, QUESTION, thread_id="a")
    made.exchange(CALLS, [*QUESTION, *answering("of b")], at_s=0.75, thread_id="b")
    made.exchange(CALLS, [*QUESTION, *answering("of c")], at_s=0.75, thread_id="c")
    made.exchange([], [*QUESTION, *answering("of a")], at_s=3.0, thread_id="a")
    made.exchange([], [*QUESTION, *answering("of b, later")], at_s=3.5, thread_id="b")
    found = await require_session(sqlite_database)
    assert [t_ns for _, t_ns in from_outside(found[1])] == [750_000_000, 3_000_000_000], (
        "first of another thread"
    )
    assert [t_ns for _, t_ns in from_outside(found[2])] == [2_250_000_000, 2_750_000_000]


@pytest.mark.long
@pytest.mark.parametrize("ends", [(3, 3), (4, 2, 3), (8, 5), (3, 8, 8, 2)])
async def test_copies_of_a_response(tmp_path: Path, ends: tuple[int, ...]) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    frames = response(*message("It is ", "18 °C"))
    for number, end in enumerate(ends):
        made.exchange(
            frames[:end], at_s=number * 5.0, outcome="truncated", **(GET if number else {})
        )
    await require_session(made.database)


async def test_a_copy_that_comes_while_another_runs(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(CALLS, QUESTION)
    made.exchange(CALLS[:-1], at_s=0.35, **GET)
    made.exchange([], answering("18 °C"), at_s=2.0)
    made.exchange(CALLS, at_s=2.5, **GET)
    await require_session(made.database)


async def test_a_response_that_was_resumed(sqlite_database: URL) -> None:
    made = Conversations(sqlite_database).session("s")
    frames = response(*message("It is ", "18 °C"), *call("get_weather", WEATHER, index=1))
    made.exchange(frames[:4], QUESTION, outcome="client_disconnect")
    made.exchange(frames[4:], at_s=1.0, **{**GET, "resumes_after": 3})
    made.exchange([], answering("clear"), at_s=4.0)
    found = await require_session(sqlite_database)
    assert from_outside(found[1]), "that it is superseded"


async def test_turns_and_their_websocket_connection(sqlite_database: URL, tmp_path: Path) -> None:
    url = ingested(sqlite_database, tmp_path / "journal", closed())
    found = await require_session(url, "latest")
    assert len(found) == 4
    async with await LogReader.open(url) as log:
        assert "connection" in await shown(log, "latest", "1")


async def test_the_state_is_that_of_the_command(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(CALLS, QUESTION)
    made.exchange([], [*QUESTION, *answering("18 °C, clear")], at_s=2.0)
    async with await LogReader.open(made.database) as log:
        [found], at = await tracked(log, "s"), await times(log, "s")
    for pos in (0, 5, found["last"]):
        printed = json.loads(run(made.path, "show", "s", 1, "--at-event", pos, "--json").out)
        assert printed["exchanges"] == [state_at(found, pos, at[pos])]
    assert json.loads(run(made.path, "show", "s", 1, "--json").out)["exchanges"] == [
        state_at(found, found["last"], 3_000_000_000)
    ]


def long_response(count: int = 3 * SEGMENT) -> list[bytes]:
    words = [f"word {number} " for number in range(count // 3)]
    return response(
        *thought(*words), *message(*words, index=1), *call("get_weather", WEATHER, index=2)
    )


async def test_the_projections_have_the_end_that_a_fold_has(
    database: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Conversations(database).session("s")
    made.exchange(CALLS, QUESTION, thread_id="a")
    made.exchange(CALLS, [*QUESTION, *answering("of b")], at_s=0.75, thread_id="b")
    made.exchange([], [*QUESTION, *answering("of a")], at_s=3.0, thread_id="a")
    made.exchange(CALLS[:-1], at_s=3.5, outcome="truncated", **GET)
    made.exchange(CALLS, at_s=4.0, **GET)
    async with await LogReader.open(database) as log:
        for number in ("1", "2", "3"):
            folded = await tracked(log, "s", number)
            with monkeypatch.context() as patch:
                patch.setattr(track, "FOLDED", 0)
                end = await segment(log, "s", number, 10**9, TrackCache())
            last = end["last"]
            assert (end["from"], end["to"]) == (last, last)
            t_ns = [step[2] for step in end["steps"]]
            after_last = [step for step in folded[-1]["steps"] if step[0] == last]
            assert t_ns == [step[2] for step in after_last if len(step) == 3]
            for each in (0.0, *t_ns):
                assert state_at(end, last, each) == state_at(folded[-1], last, each)


async def test_an_end_is_folded_where_the_projections_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(CALLS, QUESTION)
    with closing(sqlite3.connect(tmp_path / "log.db")) as db:
        db.execute("DROP TABLE p_timing_v1")
    monkeypatch.setattr(track, "FOLDED", 0)
    async with await LogReader.open(made.database) as log:
        end = await segment(log, "s", "1", 10**9, TrackCache())
    assert (end["from"], end["to"]) == (0, end["last"])


async def test_a_segment_needs_no_other(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(long_response(), QUESTION)
    made.exchange([], answering("18 °C"), at_s=100.0)
    async with await LogReader.open(made.database) as log:
        whole = await require_exact(log, "s", "1", range(0, 500, 83))
        assert [(each["from"], each["to"]) for each in whole[:2]] == [
            (0, SEGMENT - 1),
            (SEGMENT, 2 * SEGMENT - 1),
        ]
        last = whole[-1]["last"]
        for at in (2 * SEGMENT, SEGMENT, 0, last - 1):
            [wanted] = [each for each in whole if each["from"] <= at <= each["to"]]
            for cache in (TrackCache(), TrackCache(0)):
                assert await segment(log, "s", "1", at, cache) == wanted


class _Counting(LogReader):
    """A log that counts the events that are read from it."""

    count = 0

    async def events(
        self,
        session_id: str,
        exchange_id: str,
        after: int = -1,
        kinds: Collection[str] | None = None,
    ) -> AsyncIterator[Event]:
        async for event in super().events(session_id, exchange_id, after, kinds):
            type(self).count += 1
            yield event


async def test_events_are_read_once_and_only_as_far_as_a_segment_needs(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(long_response(9 * SEGMENT), QUESTION)
    async with await _Counting.open(made.database) as log:
        cache = TrackCache()
        await segment(log, "s", "1", 0, cache)
        assert _Counting.count <= 2 * SEGMENT
        last = (await segment(log, "s", "1", 10**9, cache))["last"]
        assert _Counting.count <= 2 * SEGMENT, "the projections have the end"
        await segment(log, "s", "1", last - 1, cache)
        read = _Counting.count
        assert read <= last + 5, "its request twice: it may have results of other calls"
        await asyncio.gather(*(segment(log, "s", "1", at, cache) for at in range(0, last, 300)))
        assert _Counting.count == read
        cache.trim()
        small = TrackCache(1000)
        await segment(log, "s", "1", last - 1, small)
        await segment(log, "s", "1", last - 1, small)
        assert _Counting.count >= 3 * (last + 1), "a cache holds no more than its limit"


async def test_requests_are_not_read_for_a_call_that_none_has_the_result_of(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    for second in range(10):
        made.exchange(CALLS, QUESTION, at_s=float(second))
    async with await _Counting.open(made.database) as log:
        _Counting.count = 0
        last = (await segment(log, "s", "1", 0, TrackCache()))["last"]
        assert _Counting.count == last + 1, "those of the other nine are not read"


@pytest.mark.long
async def test_an_open_exchange_grows(sqlite_database: URL) -> None:
    """What was known of it before stays true, whatever follows; results may come before it is read
    again.
    """
    session = make_session(name="s")
    exchange = make_exchange(session)
    frames = long_response(2 * SEGMENT)
    ends = [sum(map(len, frames[: count + 1])) for count in range(len(frames))]
    request = json.dumps({"model": "gpt-5", "input": QUESTION}).encode()
    _, events = captured(
        b"".join(frames),
        cuts=ends,
        request=request,
        exchange=exchange,
        started_ns=exchange.started_ns,
    )
    later = make_exchange(session, 2, started_ns=exchange.started_ns + 10**12)
    _, result = captured(
        b"",
        request=json.dumps({"input": answering("18 °C")}).encode(),
        exchange=later,
        started_ns=later.started_ns,
    )
    cache, places = (
        TrackCache(),
        [0, 1, 2, 3, 7, SEGMENT - 1, SEGMENT, SEGMENT + 1, len(events) - 1, len(events)],
    )
    with Store(sqlite_database) as store:
        with store.transaction():
            store.add_session(session)
            store.add_exchange(exchange)
        async with await LogReader.open(sqlite_database) as log:
            with pytest.raises(NotFoundError):
                await segment(log, "s", "1", 0, cache)
            for start, end in pairwise(places):
                with store.transaction():
                    store.append(events[start:end])
                await same_as_first(log, cache, end == len(events))
            fields: Any = (
                len(events),
                "note",
                events[-1].t_ns + 1,
                None,
                None,
                None,
                None,
                b"{}",
                None,
                None,
            )
            noted = Event(*(*ids(exchange), *fields, link(events[-1].hash, *fields)))
            with store.transaction():
                store.append([noted])
            await same_as_first(log, cache, True)
            for rows in (result[:1], result[1:2], result[2:]):
                with store.transaction():
                    store.add_exchange(later)
                    store.append(rows)
                await same_as_first(log, cache, True)
            assert from_outside(await tracked(log, "s", "1", cache))


def ids(exchange: Exchange) -> tuple[str, str]:
    return exchange.session_id, exchange.exchange_id


async def same_as_first(log: LogReader, cache: TrackCache, has_ended: bool) -> None:
    kept, first = await tracked(log, "s", "1", cache), await tracked(log, "s", "1")
    assert kept == first
    assert {each["has_ended"] for each in kept} == {has_ended}
    at = await times(log, "s")
    last = max(at)
    assert state_at(kept[-1], last, at[last]) == await shown(log, "s", at_event=last)
    assert state_at(kept[-1], last, float("inf")) == await shown(log, "s")


async def test_what_another_says_of_a_time_that_was_seen_already(sqlite_database: URL) -> None:
    """The request of another thread may be in the log later than the events that follow it."""
    made = Conversations(sqlite_database).session("s")
    made.exchange(CALLS, QUESTION, ended=False)
    cache = TrackCache()
    async with await LogReader.open(sqlite_database) as log:
        before = await tracked(log, "s", "1", cache)
        made.exchange([], [*QUESTION, *answering("soon")], at_s=0.8)
        after = await tracked(log, "s", "1", cache)
        assert before != after == await tracked(log, "s", "1")
        await require_exact(log, "s")


async def test_an_exchange_that_cannot_be_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(response(*message("So far ", "poison", "!")), QUESTION)
    for module in (session_state, running_document):
        monkeypatch.setattr(module, "Folding", FaultyFolding)
    [[found]] = (await require_session(made.database)).values()
    assert "fault" in state_at(found, found["last"], 0)
    assert "items" in state_at(found, 5, 0)


@pytest.mark.parametrize("size_bytes", [7, 40])
async def test_a_document_in_parts(tmp_path: Path, size_bytes: int) -> None:
    """It is read when it may be complete: to read half of it at each part would take quadratic
    time.
    """
    item = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "a {b} c"}],
    }
    body = (
        b" "
        + json.dumps({"id": "resp_1", "status": "completed", "output": [item]}).encode()
        + b"\n "
    )
    parts = [body[start : start + size_bytes] for start in range(0, len(body), size_bytes)]
    made = Conversations(tmp_path / "log.db").session("s")
    exchange = made.exchange(parts, QUESTION, content_type="application/json")
    [found] = (await require_session(made.database)).values()
    assert found[-1]["last"] > len(parts)
    folding, held = Folding(exchange), 0
    async with await LogReader.open(made.database) as log:
        async for event in log.events(exchange.session_id, exchange.exchange_id):
            folding.apply(event)
            held += event.kind == "body" and folding.holds_back
    assert 0 < held <= 10, "at those that end as JSON may end, and blanks after them"
