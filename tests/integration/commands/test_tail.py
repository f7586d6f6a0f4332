"""`recorder tail`: what is recorded just now, whoever records it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.commands.tail import BURST, Following, TailedEvent
from recorder.model.events import Event, Exchange, Kind
from recorder.store.queries.outlines import LATE_S
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store
from tests.support.empty_log import empty
from tests.support.rows import (
    START_NS,
    add,
    begin,
    make_end,
    make_events,
    make_exchange,
    make_session,
)

FRAME = b'data: {"type":"response.output_text.delta","delta":"Hi"}\n\n'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(empty(tmp_path / "recorder.db")) as store:
        yield store


def ended(exchange: Exchange, *frames: bytes) -> list[Event]:
    kinds: list[Kind] = ["request", "end"]
    kinds[1:1] = ["frame"] * len(frames)
    return make_events(exchange, [b"{}", *frames, make_end("completed")], kinds)


class Looking:
    """A follower whose looks are taken one by one, on a clock that stands still."""

    def __init__(self, log: LogReader, session_id: str | None = None) -> None:
        self.now_ns = START_NS
        self._following = Following(log, session_id, lambda: self.now_ns)

    async def begin(self) -> None:
        await self._following.begin()

    async def look(self) -> list[TailedEvent]:
        return [told async for told in self._following.news()]

    async def seen(self) -> list[tuple[str, int, int]]:
        return [(told.session_name, told.number, told.event.pos) for told in await self.look()]


async def test_what_ended_before_is_not_told_and_what_is_open_is_told_from_now_on(
    store: Store,
) -> None:
    over, going_on = begin(store, 1), begin(store, 2)
    events = ended(going_on, FRAME, FRAME)
    add(store, ended(over, FRAME))
    add(store, events[:2])
    async with await LogReader.open(store.path) as log:
        looking = Looking(log)
        await looking.begin()
        assert await looking.seen() == []
        add(store, events[2:3])
        assert await looking.seen() == [("run-2", 1, 2)]
        add(store, events[3:])
        assert await looking.seen() == [("run-2", 1, 3)]
        assert await looking.seen() == []


async def test_an_exchange_that_begins_and_ends_between_two_looks_is_told(store: Store) -> None:
    async with await LogReader.open(store.path) as log:
        looking = Looking(log)
        await looking.begin()
        add(store, ended(begin(store, 1), FRAME))
        assert await looking.seen() == [("run-1", 1, 0), ("run-1", 1, 1), ("run-1", 1, 2)]


async def test_an_exchange_that_enters_the_log_after_a_later_one_is_told(store: Store) -> None:
    async with await LogReader.open(store.path) as log:
        looking = Looking(log)
        await looking.begin()
        for number in (5, 4):
            add(store, ended(begin(store, number), FRAME))
            assert len(await looking.look()) == 3


async def test_what_is_known_is_forgotten_only_when_it_cannot_come_again(store: Store) -> None:
    async with await LogReader.open(store.path) as log:
        looking = Looking(log)
        await looking.begin()
        exchange = begin(store, 1)
        events = ended(exchange, FRAME)
        add(store, events[:2])
        assert len(await looking.look()) == 2
        looking.now_ns += 2 * LATE_S * 10**9
        assert await looking.look() == []
        add(store, events[2:])
        assert await looking.seen() == [("run-1", 1, 2)]
        assert await looking.look() == []


async def test_an_import_is_not_live(store: Store) -> None:
    async with await LogReader.open(store.path) as log:
        looking = Looking(log)
        await looking.begin()
        session = make_session(1, origin="import")
        exchange = make_exchange(session)
        with store.transaction():
            store.add_session(session)
            store.add_exchange(exchange)
        add(store, ended(exchange, FRAME))
        assert await looking.look() == []


async def test_one_session_can_be_followed_alone(store: Store) -> None:
    chosen = begin(store, 1)
    async with await LogReader.open(store.path) as log:
        looking = Looking(log, chosen.session_id)
        await looking.begin()
        add(store, ended(chosen))
        add(store, ended(begin(store, 2)))
        assert await looking.seen() == [("run-1", 1, 0), ("run-1", 1, 1)]


async def test_a_burst_is_told_over_several_looks_and_none_of_it_is_lost(store: Store) -> None:
    async with await LogReader.open(store.path) as log:
        looking = Looking(log)
        await looking.begin()
        events = ended(begin(store, 1), *[FRAME] * BURST)
        add(store, events)
        told = [await looking.look() for _ in range(3)]
        assert [len(look) for look in told] == [BURST, 2, 0]
        assert [each.event for look in told for each in look] == events
