"""What is due to a collector: of all that has ended, in pages, and of what began lately, in a look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import URL

from recorder.exports.otlp import cursor as module
from recorder.exports.otlp.cursor import DueExchange, ExportCursor, Signal
from recorder.model.events import Exchange
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store
from tests.support.rows import START_NS, begin, make_end, make_events, make_exchange, make_session

BOTH: list[Signal] = ["traces", "metrics"]
HOUR_NS = 3600 * 10**9


@pytest.fixture
def store(database: URL) -> Iterator[Store]:
    with Store(database) as store:
        yield store


def end(store: Store, exchange: Exchange, *, is_projected: bool = True) -> None:
    with store.transaction():
        store.append(make_events(exchange, [b"{}", make_end("completed")], ["request", "end"]))
        if is_projected:
            store.projector.project(exchange.session_id, exchange.exchange_id)


def ended(store: Store, number: int) -> Exchange:
    exchange = begin(store, number)
    end(store, exchange)
    return exchange


@asynccontextmanager
async def cursor_of(
    store: Store, form: str = "1", signals: list[Signal] = BOTH
) -> AsyncIterator[ExportCursor]:
    async with await LogReader.open(store.url) as log:
        yield ExportCursor(log, store, "http://a", form, signals)


async def swept(cursor: ExportCursor) -> list[str]:
    return [each.exchange_id for page in [page async for page in cursor.sweep()] for each in page]


def ids(*exchanges: Exchange) -> list[str]:
    return [each.exchange_id for each in exchanges]


async def test_a_sweep_finds_all_that_has_ended_page_by_page(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [ended(store, number) for number in range(1, 6)]
    begin(store, 6)
    for size in (1, 2, 5, 6):
        monkeypatch.setattr(module, "_LAST_OF_PAGE", module._LAST_OF_PAGE.offset(size - 1))
        async with cursor_of(store) as cursor:
            pages = [page async for page in cursor.sweep()]
            assert [each.exchange_id for page in pages for each in page] == ids(*found)
            assert max(map(len, pages)) == min(size, 5)


async def test_what_has_no_projections_waits_for_them(store: Store) -> None:
    exchange = begin(store, 1)
    end(store, exchange, is_projected=False)
    async with cursor_of(store) as cursor:
        assert await swept(cursor) == []
        assert await cursor.recent(START_NS) == []
        with store.transaction():
            store.projector.project(exchange.session_id, exchange.exchange_id)
        assert await swept(cursor) == ids(exchange)
        assert [each.exchange_id for each in await cursor.recent(START_NS + HOUR_NS)] == ids(
            exchange
        )


async def test_a_signal_is_due_until_it_is_taken(store: Store) -> None:
    exchange = ended(store, 1)
    key = (exchange.session_id, exchange.exchange_id)
    async with cursor_of(store) as cursor:
        [[due]] = [page async for page in cursor.sweep()]
        assert due == DueExchange(*key, frozenset(BOTH))
        cursor.accepted([due], "traces", 1)
        assert await cursor.recent(START_NS) == [DueExchange(*key, frozenset({"metrics"}))]
        cursor.accepted([due], "metrics", 2)
        assert (await cursor.recent(START_NS), await swept(cursor)) == ([], [])
    async with cursor_of(store, "2") as another:
        assert await another.recent(START_NS) == [DueExchange(*key, frozenset({"traces"}))]


async def test_a_look_finds_what_began_lately_and_the_end_of_what_was_open(store: Store) -> None:
    old, waiting = ended(store, 1), begin(store, 2)
    session = make_session(3)
    late = make_exchange(session, 3 + 2 * 3_600_000, started_ns=START_NS + 2 * HOUR_NS)
    async with cursor_of(store) as cursor:
        assert ids(old) == [each.exchange_id for each in await cursor.recent(START_NS)]
        with store.transaction():
            store.add_session(session)
            store.add_exchange(late)
        end(store, late)
        assert [each.exchange_id for each in await cursor.recent(START_NS + HOUR_NS)] == ids(late)
        assert [each.exchange_id for each in await cursor.recent(START_NS + HOUR_NS)] == ids(late)
        end(store, waiting)
        assert [each.exchange_id for each in await cursor.recent(START_NS + HOUR_NS)] == ids(
            waiting, late
        )
        assert await swept(cursor) == ids(old, waiting, late)


async def test_the_tools_that_are_sent_add_up(store: Store) -> None:
    exchange = ended(store, 1)
    session_id, exchange_id = exchange.session_id, exchange.exchange_id
    async with cursor_of(store) as cursor:
        assert await cursor.tool_items(session_id, [exchange_id]) == {}
        [[due]] = [page async for page in cursor.sweep()]
        cursor.accepted([due], "traces", 1, {(session_id, exchange_id): {3, 1}})
        cursor.accepted([], "traces", 2, {(session_id, exchange_id): {2}})
        assert await cursor.tool_items(session_id, [exchange_id]) == {
            exchange_id: frozenset({1, 2, 3})
        }
    async with cursor_of(store, "2") as another:
        assert await another.tool_items(session_id, [exchange_id]) == {}
