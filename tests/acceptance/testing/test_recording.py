"""Recording in the process of a client: what it got is in the database, and is what a replay gives."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.errors import NotFoundError, RecorderError
from recorder.files import save
from recorder.ingest.capture import Capture
from recorder.model.events import (
    Event,
    Exchange,
    ExchangeEnd,
    GapRecord,
    RequestHead,
    ResponseHead,
    Session,
)
from recorder.recordings.files import load_cassette
from recorder.recordings.session import require_whole
from recorder.store.location import database_url
from recorder.store.write.writer import Store
from recorder.testing import (
    async_recording_transport,
    async_replay_transport,
    recorded_in,
    recording_transport,
    replay_transport,
)
from recorder.wire.dialects import by_name
from tests.integration.testing.test_testing import FAILURES, STREAMS, both_libraries, replayed
from tests.support.event_loop import eventually
from tests.support.rows import add, make_exchange, make_session
from tests.support.sdks import streamed, streamed_async
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    ScriptedUpstream,
    Send,
    answer,
    chunked,
)


@both_libraries
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_what_is_recorded_in_process_is_replayed(
    library: Any, asynchronous: bool, tmp_path: Path
) -> None:
    database = tmp_path / "runs.db"
    script: list[Action] = [Send(STREAM_HEAD)]
    script += [Send(chunked(frame)) for frame in STREAMS["openai-responses"]] + [Send(LAST_CHUNK)]
    async with ScriptedUpstream(script) as upstream:
        if asynchronous:
            transport = async_recording_transport(database, session="mine", library=library)
            async with library.AsyncClient(transport=transport) as client:
                came = await streamed_async("openai-responses", client, upstream.base)
        else:
            with library.Client(
                transport=recording_transport(database, session="mine", library=library)
            ) as client:
                came = await asyncio.to_thread(streamed, "openai-responses", client, upstream.base)
    [recording] = recorded_in(database, "mine")
    assert recording.exchange.provider == "openai"
    assert b"".join(piece.raw for piece in recording.pieces) == b"".join(
        STREAMS["openai-responses"]
    )
    assert came.error is None
    assert await replayed("openai-responses", library, recording, asynchronous=asynchronous) == came


async def test_failures_are_recorded_in_process_as_what_they_are(tmp_path: Path) -> None:
    for failure in ("closed in mid-event", "reset in mid-stream", "closed without an answer"):
        database, (script, _) = tmp_path / f"{failure}.db", FAILURES[failure]
        async with ScriptedUpstream(script("openai-chat")) as upstream:
            with httpx2.Client(transport=recording_transport(database)) as client:
                came = await asyncio.to_thread(streamed, "openai-chat", client, upstream.base)
        [recording] = recorded_in(database)
        again = await replayed("openai-chat", httpx2, recording, asynchronous=False)
        assert came.failure is not None, failure
        assert (again.events, again.failure) == (came.events, came.failure), failure


def with_a_gap() -> tuple[Session, Exchange, list[Event]]:
    session = make_session()
    exchange = make_exchange(session)
    capture = Capture(session.session_id, exchange.exchange_id, by_name(exchange.api), 0)
    head = RequestHead(
        exchange.exchange_id, session.session_id, 1, "POST", exchange.target, "openai", []
    )
    events = capture.request(head, b"{}", wire=b"{}")
    events += capture.response(1, ResponseHead(200, "OK", [("content-type", "text/event-stream")]))
    events += capture.chunk(2, b"data: 1\n\n")
    events += capture.gap(GapRecord("response", 1, 9, "", 3, 3, "the disk was full"))
    return session, exchange, [*events, *capture.end(4, ExchangeEnd("eof"))]


def test_a_recording_with_a_gap_is_no_answer(tmp_path: Path) -> None:
    """Neither from a database nor from a cassette."""
    session, exchange, events = with_a_gap()
    path = tmp_path / "run.sse.jsonl"
    save(path, cassette_lines(session, [(exchange, events)]))
    with Store(database_url(tmp_path / "runs.db")) as store:
        with store.transaction():
            store.add_session(session)
            store.add_exchange(exchange)
        add(store, events)
    plays: list[Callable[[], object]] = [
        lambda: recorded_in(tmp_path / "runs.db"),
        lambda: replay_transport(read_cassette(path)),
        lambda: async_replay_transport(read_cassette(path)),
        lambda: require_whole(load_cassette(path).recordings),
    ]
    for play in plays:
        with pytest.raises(
            RecorderError,
            match=r"^Exchange 1 .*has a gap, bytes that were not kept: record it again",
        ):
            play()


async def test_a_program_that_closes_nothing_is_recorded_nevertheless(tmp_path: Path) -> None:
    database = tmp_path / "runs.db"
    script = f"""
import sys, httpx2
from recorder.testing import recording_transport
client = httpx2.Client(transport=recording_transport({str(database)!r}, session="mine"))
client.post(sys.argv[1] + "/v1/responses", json={{}}).read()
"""
    async with ScriptedUpstream(
        answer(b"data: 1\n\n", b"Content-Type: text/event-stream")
    ) as upstream:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, upstream.base)
        assert await process.wait() == 0
    await eventually(lambda: _is_recorded(database))


def _is_recorded(database: Path) -> bool:
    try:
        return [
            each.end is not None and each.end.outcome for each in recorded_in(database, "mine")
        ] == ["eof"]
    except NotFoundError:
        return False
