"""Who follows a session, or the list, over server-sent events: that there is more, at once and
never too often.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL

from recorder.model.events import Exchange
from recorder.store.queries import outlines
from recorder.store.queries.outlines import LATE_S
from recorder.store.write.writer import Store
from recorder.ui import follow
from tests.support.event_loop import eventually
from tests.support.rows import add, make_end, make_events, make_exchange, make_id, make_session
from tests.support.sockets import RawClient
from tests.support.viewer_api import Viewing, request, viewing

SESSION = "/api/sessions/demo/follow"
EVENTS = 100  # of a busy session


class Stream:
    """The events of a stream, in a client."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    async def next(self, name: str) -> Any:
        """The data of the next event of that name; comments and chunk sizes are skipped."""
        async with asyncio.timeout(30):
            await self._client.read_until(f"event: {name}\ndata: ".encode())
            return msgspec.json.decode((await self._client.read_until(b"\n\n")).strip())

    async def comment(self) -> None:
        async with asyncio.timeout(30):
            await self._client.read_until(b":\n\n")


@contextlib.asynccontextmanager
async def following(viewer: Viewing, target: str) -> AsyncIterator[Stream]:
    async with await RawClient.connect(viewer.port) as client:
        await client.send(request(target, viewer.token))
        head = await client.read_until(b"retry: 2000\n\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"content-type: text/event-stream\r\n" in head
        yield Stream(client)


def begun(number: int) -> Exchange:
    """An exchange of now."""
    return make_exchange(
        make_session(name="demo"), number, exchange_id=make_id(number, time.time_ns())
    )


def begin(database: URL) -> URL:
    """A session without exchanges."""
    with Store(database) as store, store.transaction():
        store.add_session(make_session(name="demo"))
    return database


@pytest.fixture
def log(sqlite_database: URL) -> URL:
    return begin(sqlite_database)


async def test_a_session_that_grows_says_how_far_it_has_come(database: URL) -> None:
    log = begin(database)
    exchange = begun(1)
    events = make_events(
        exchange, [b"{}", b"a", b"b", make_end("completed")], ["request", "frame", "frame", "end"]
    )
    point = {"number": 1, "exchange_id": exchange.exchange_id, "has_ended": False}
    with Store(log) as store:
        async with viewing(log) as viewer, following(viewer, SESSION) as stream:
            assert await stream.next("grew") == {"exchanges": []}
            with store.transaction():
                store.add_exchange(exchange)
                store.append(events[:1])
            assert await stream.next("grew") == {"exchanges": [{**point, "last_pos": 0}]}
            add(store, events[1:3])
            assert await stream.next("grew") == {"exchanges": [{**point, "last_pos": 2}]}
            add(store, events[3:])
            assert await stream.next("grew") == {
                "exchanges": [{**point, "last_pos": 3, "has_ended": True}]
            }


async def test_who_comes_later_gets_all_of_it_first(log: URL) -> None:
    with Store(log) as store:
        for number in (1, 2):
            with store.transaction():
                store.add_exchange(begun(number))
        async with viewing(log) as viewer, following(viewer, SESSION) as stream:
            found = (await stream.next("grew"))["exchanges"]
            assert [(each["number"], each["last_pos"], each["has_ended"]) for each in found] == [
                (1, -1, False),
                (2, -1, False),
            ]


async def test_an_exchange_of_another_session_is_news_for_the_list_alone(log: URL) -> None:
    other, mine = make_session(2), begun(9)
    with Store(log) as store:
        async with (
            viewing(log) as viewer,
            following(viewer, SESSION) as stream,
            following(viewer, "/api/follow") as sessions,
        ):
            await stream.next("grew")
            with store.transaction():
                store.add_session(other)
                store.add_exchange(make_exchange(other, 5, exchange_id=make_id(5, time.time_ns())))
            assert await sessions.next("sessions") == {}
            with store.transaction():
                store.add_exchange(mine)
            [found] = (await stream.next("grew"))["exchanges"]
            assert found["exchange_id"] == mine.exchange_id
            assert await sessions.next("sessions") == {}


async def test_a_busy_session_is_reported_a_few_times_a_second(log: URL) -> None:
    exchange = begun(1)
    events = make_events(exchange, [b"{}"] * EVENTS)
    with Store(log) as store:
        with store.transaction():
            store.add_exchange(exchange)
        # before the server counts: a busy machine reads the first message late
        began = time.monotonic()
        async with viewing(log) as viewer, following(viewer, SESSION) as stream:
            messages, last_pos = 0, -2
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_write_slowly(store, events))
                while last_pos < EVENTS - 1:
                    last_pos = (await stream.next("grew"))["exchanges"][0]["last_pos"]
                    messages += 1
            assert messages <= (time.monotonic() - began) / follow.POLL_S + 1


async def _write_slowly(store: Store, events: list[Any]) -> None:
    for event in events:
        add(store, [event])
        await asyncio.sleep(0.002)


async def test_of_many_exchanges_that_never_end_the_newest_are_followed(
    log: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlines, "OPEN_LIMIT", 2)
    began_ns = time.time_ns() - 10 * LATE_S * 10**9
    session = make_session(name="demo")
    left = [make_exchange(session, n, exchange_id=make_id(n, began_ns + n)) for n in (1, 2, 3)]
    with Store(log) as store:
        with store.transaction():
            for exchange in left:
                store.add_exchange(exchange)
        async with viewing(log) as viewer, following(viewer, SESSION) as stream:
            assert len((await stream.next("grew"))["exchanges"]) == 3
            with store.transaction():
                for exchange in left:
                    store.append(make_events(exchange, [b"{}"]))
            found = (await stream.next("grew"))["exchanges"]
            assert [each["exchange_id"] for each in found] == [
                each.exchange_id for each in left[1:]
            ]


async def test_a_stream_without_news_says_that_it_lives(
    log: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "BEAT_S", 0.0)
    async with viewing(log) as viewer:
        for target in (SESSION, "/api/follow"):
            async with following(viewer, target) as stream:
                await stream.comment()


async def test_of_a_session_that_is_not_there_nothing_is_followed(log: URL) -> None:
    async with viewing(log) as viewer:
        assert (await viewer.json("/api/sessions/none/follow", b"404"))["error"][
            "type"
        ] == "not_found"


async def test_a_client_that_leaves_takes_its_stream_with_it(log: URL) -> None:
    async with viewing(log) as viewer:
        async with following(viewer, SESSION):
            assert len(viewer.viewer._streams) == 1
        await eventually(lambda: not viewer.viewer._streams)


async def test_a_log_that_cannot_be_read_any_more_ends_the_stream_and_not_the_viewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "IDLE_POLL_S", 0.0)
    path = tmp_path / "log.db"
    with Store(path) as store, store.transaction():
        store.add_session(make_session(name="demo"))
    async with viewing(path) as viewer:
        async with await RawClient.connect(viewer.port) as client:
            await client.send(request(SESSION, viewer.token, b"Connection: close"))
            await client.read_until(b"\n\n")
            with path.open("r+b") as file:
                file.truncate(0)
            assert (await client.rest()).endswith(b"0\r\n\r\n"), "a proper end: browsers ask again"
        assert (await viewer.get("/")).status[:3] == b"200"
