from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest
from sqlalchemy import URL, Row

from recorder.errors import NotFoundError, StoreError, UsageError
from recorder.model.events import Event, Exchange
from recorder.store.queries.event_place import EventPlace, event_place
from recorder.store.queries.reader import PAGE_BYTES, PAGE_ROWS, LogReader
from recorder.store.queries.session_list import ListPlace, list_sessions, session_page
from recorder.store.queries.session_named import count_named, session_named
from recorder.store.write.writer import Store
from tests.support.corpus import ROOT
from tests.support.rows import (
    add,
    begin,
    make_end,
    make_events,
    make_exchange,
    make_id,
    make_session,
)


@pytest.fixture
async def log(store: Store) -> AsyncIterator[LogReader]:
    async with await LogReader.open(store.url) as log:
        yield log


async def read(
    log: LogReader, exchange: Exchange, after: int = -1, kinds: Collection[str] | None = None
) -> list[Event]:
    return [
        event async for event in log.events(exchange.session_id, exchange.exchange_id, after, kinds)
    ]


def held() -> int:
    """The sum of all large byte strings that are alive in pages just now."""
    pages = (
        value
        for value in gc.get_objects()
        if isinstance(value, list) and value and isinstance(value[0], Row)
    )
    return sum({id(row.raw): len(row.raw) for page in pages for row in page}.values())


async def test_what_the_store_wrote_is_read_back_in_order(store: Store, log: LogReader) -> None:
    exchanges = [begin(store, number) for number in (1, 2)]
    events = [
        make_events(exchange, [bytes([number]) * 40 for number in range(200)])
        for exchange in exchanges
    ]
    add(store, [event for both in zip(*events, strict=True) for event in both])
    for exchange, expected in zip(exchanges, events, strict=True):
        assert await read(log, exchange) == expected


@pytest.mark.parametrize("count", [0, 1, PAGE_ROWS - 1, PAGE_ROWS, PAGE_ROWS + 1, 3 * PAGE_ROWS])
async def test_pages_join_without_a_seam(store: Store, log: LogReader, count: int) -> None:
    exchange = begin(store)
    events = make_events(exchange, [b"x"] * count)
    add(store, events)
    assert await read(log, exchange) == events


async def test_a_page_is_bounded_in_bytes(store: Store, log: LogReader) -> None:
    exchange = begin(store)
    sizes = [1] * 100 + [1_000_000] * 12 + [1] * 10
    events = make_events(exchange, [bytes(size) for size in sizes])
    add(store, events)
    reading = log.events(exchange.session_id, exchange.exchange_id)
    await anext(reading)
    at_rest = held()
    assert [event.pos async for event in reading] == list(range(1, len(sizes)))
    assert PAGE_BYTES / 2 < at_rest < PAGE_BYTES + 1_000_000


async def test_reading_goes_on_after_any_position(store: Store, log: LogReader) -> None:
    exchange = begin(store)
    events = make_events(exchange, [b"x"] * 30)
    add(store, events)
    for after in (-1, 0, 13, 28, 29, 1000):
        assert await read(log, exchange, after) == events[after + 1 :]


async def test_only_the_kinds_asked_for_are_read(store: Store, log: LogReader) -> None:
    exchange = begin(store)
    events = make_events(exchange, [b"{}", b"{}", *[b"x"] * 1200, b"{}"], ["request", "response"])
    add(store, events)
    assert await read(log, exchange, kinds=["request", "response"]) == events[:2]
    assert await read(log, exchange, kinds={"frame"}) == events[2:]
    assert await read(log, exchange, kinds=()) == []


async def test_no_transaction_stays_open_between_pages(store: Store, log: LogReader) -> None:
    exchange = begin(store)
    add(store, make_events(exchange, [b"x"] * (PAGE_ROWS + 1)))
    reading = log.events(exchange.session_id, exchange.exchange_id)
    await anext(reading)
    store.checkpoint()
    assert Path(f"{store.path}-wal").stat().st_size == 0
    assert len([event async for event in reading]) == PAGE_ROWS


WRITER = """
import sys
from recorder.store.write.writer import Store
from tests.support.rows import add, begin, make_events

count = int(sys.argv[2])
with Store(sys.argv[1]) as store:
    kinds = ["frame"] * (count - 1) + ["end"]
    streams = [make_events(begin(store, number), [b"x"] * count, kinds) for number in range(1, 9)]
    for pos in range(count):
        add(store, [stream[pos] for stream in streams])
"""


@pytest.mark.long
@pytest.mark.parametrize("count", [200, pytest.param(2_000, marks=pytest.mark.slow)])
async def test_a_reader_never_sees_an_event_without_the_one_before_it(
    store: Store, log: LogReader, count: int
) -> None:
    exchanges = [make_exchange(make_session(number), number) for number in range(1, 9)]
    seen = [0] * len(exchanges)
    looks_that_saw_more = 0
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(store.path), str(count), cwd=ROOT
    )
    try:
        while min(seen) < count:
            assert writer.returncode in (None, 0)
            for number, exchange in enumerate(exchanges):
                found = await read(log, exchange, after=seen[number] - 1)
                assert [event.pos for event in found] == list(
                    range(seen[number], seen[number] + len(found))
                )
                assert all((event.kind == "end") == (event.pos == count - 1) for event in found)
                seen[number] += len(found)
                looks_that_saw_more += bool(found)
        assert await writer.wait() == 0
    finally:
        if writer.returncode is None:
            writer.kill()
            await writer.wait()
    assert looks_that_saw_more > count / 40


async def test_an_open_exchange_can_be_followed(store: Store, log: LogReader) -> None:
    exchange = begin(store)
    events = make_events(exchange, [b"%d" % number for number in range(9)])
    followed: list[Event] = []
    for start in (0, 3, 6):
        add(store, events[start : start + 3])
        followed += await read(log, exchange, followed[-1].pos if followed else -1)
    assert followed == events


async def test_exchanges_come_in_the_order_of_their_start(store: Store, log: LogReader) -> None:
    session = make_session()
    starts = {1: 30, 2: 10, 3: 20, 4: 20}
    exchanges = {
        number: make_exchange(session, number, started_ns=start) for number, start in starts.items()
    }
    with store.transaction():
        store.add_session(session)
        for exchange in exchanges.values():
            store.add_exchange(exchange)
    assert await log.exchanges(session.session_id) == [exchanges[number] for number in (2, 3, 4, 1)]
    assert await log.exchanges("no such session") == []


async def test_a_session_is_listed_with_the_sums_of_its_exchanges(
    store: Store, log: LogReader
) -> None:
    session = make_session()
    first = make_exchange(session, 1, started_ns=1_000_000, client="codex")
    second = make_exchange(session, 2, started_ns=2_000_000, api="anthropic")
    third = make_exchange(session, 3, started_ns=3_000_000, client="codex")
    with store.transaction():
        store.add_session(session)
        for exchange in (first, second, third):
            store.add_exchange(exchange)
        store.append(
            make_events(
                first,
                [b"{}", b"abc", make_end("completed", 3), b"n"],
                ["request", "frame", "end", "note"],
            )
        )
        store.append(
            make_events(
                second, [b"{}", b"{}", b"abcd", b"ef"], ["request", "response", "frame", "tail"]
            )
        )
        store.append(make_events(third, [b"{}", make_end("truncated", 10)], ["request", "end"]))
    [row] = await list_sessions(log)
    assert (row.session_id, row.name, row.created_ns) == (
        session.session_id,
        session.name,
        session.created_ns,
    )
    assert (row.exchanges, row.events, row.bytes, row.open) == (3, 10, 3 + 6 + 10, 1)
    assert (row.started_ns, row.ended_ns, row.used_ns) == (1_000_000, 3_001_000, 3_000_000)
    assert (row.status, row.apis, row.clients) == (
        "truncated",
        ("openai-responses", "anthropic"),
        ("codex",),
    )


async def test_a_session_whose_last_exchange_still_streams_is_open(
    store: Store, log: LogReader
) -> None:
    add(store, make_events(begin(store), [b"{}", b"x"], ["request"]))
    [row] = await list_sessions(log)
    assert (row.status, row.open, row.bytes, row.events) == ("open", 1, 1, 2)


async def test_a_session_without_exchanges_and_one_without_events_are_listed(
    store: Store, log: LogReader
) -> None:
    begin(store, 1)
    with store.transaction():
        store.add_session(make_session(2))
    empty, bare = await list_sessions(log)
    assert (empty.exchanges, empty.started_ns, empty.ended_ns) == (
        0,
        empty.created_ns,
        empty.created_ns,
    )
    assert empty.used_ns == empty.created_ns
    assert (bare.exchanges, bare.events, bare.status) == (1, 0, "open")


async def test_exchanges_with_gaps_are_counted(store: Store, log: LogReader) -> None:
    session = make_session()
    exchanges = [make_exchange(session, number) for number in (1, 2, 3)]
    ends = [
        make_end("completed"),
        b'{"status":"completed","gap_chunks":2}',
        b'{"status":"failed","gap_chunks":0}',
    ]
    with store.transaction():
        store.add_session(session)
        for exchange, end in zip(exchanges, ends, strict=True):
            store.add_exchange(exchange)
            store.append(make_events(exchange, [end], ["end"]))
    [row] = await list_sessions(log)
    assert (row.gaps, row.exchanges) == (1, 3)


@pytest.mark.parametrize("raw", [b"", b"not JSON", b"[]", b'{"status": 7}', b"\xff"])
async def test_an_end_that_cannot_be_read_is_listed_all_the_same(
    store: Store, log: LogReader, raw: bytes
) -> None:
    add(store, make_events(begin(store), [raw], ["end"]))
    [row] = await list_sessions(log)
    assert (row.status, row.open) == ("unknown", 0)


async def test_sessions_are_listed_by_their_newest_exchange_up_to_a_limit(
    store: Store, log: LogReader
) -> None:
    with store.transaction():
        for number in (1, 2, 3):
            store.add_session(make_session(number))
            store.add_exchange(make_exchange(make_session(number), number))
        store.add_exchange(make_exchange(make_session(1), 4))
    assert [row.name for row in await list_sessions(log)] == ["run-1", "run-3", "run-2"]
    assert [(row.name, row.exchanges) for row in await list_sessions(log, limit=2)] == [
        ("run-1", 2),
        ("run-3", 1),
    ]
    assert (await session_named(log, "latest")).name == "run-1", (
        "a session that is resumed is the latest"
    )


async def names_by_page(log: LogReader, limit: int) -> list[str]:
    """All names, a page at a time, as the cursor of each page says."""
    names, page = [], await session_page(log, limit)
    while True:
        names += [row.name for row in page.rows]
        if page.next is None:
            return names
        assert len(page.rows) == limit
        page = await session_page(log, limit, before=ListPlace.parse(page.next.cursor()))


@pytest.mark.long
async def test_pages_of_sessions_join_without_a_seam_whatever_their_size(database: URL) -> None:
    with Store(database) as store, store.transaction():
        for number in range(1, 13):
            store.add_session(make_session(number))
            # every third has none, every third goes on after all others
            for exchange in range(number % 3):
                store.add_exchange(make_exchange(make_session(number), number + exchange * 50))
    async with await LogReader.open(database) as log:
        whole = [row.name for row in await list_sessions(log)]
        assert sorted(whole) == sorted(f"run-{number}" for number in range(1, 13))
        assert whole[:4] == ["run-11", "run-8", "run-5", "run-2"], "those that were used last"
        assert [await names_by_page(log, limit) for limit in range(1, 14)] == [whole] * 13


async def test_a_session_that_goes_on_moves_no_page_behind_it(store: Store, log: LogReader) -> None:
    for number in (1, 2, 3, 4):
        begin(store, number)
    first = await session_page(log, 2)
    with store.transaction():
        store.add_exchange(make_exchange(make_session(3), 9))
    rest = await session_page(log, 2, before=first.next)
    assert [row.name for row in (*first.rows, *rest.rows)] == ["run-4", "run-3", "run-2", "run-1"]


@pytest.mark.parametrize(
    "cursor", ["", "latest", make_id(1), f"{make_id(1)}.", f"{make_id(1)}.{make_id(1)}.", "a.b"]
)
def test_a_text_that_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError, match="not a place in the list"):
        ListPlace.parse(cursor)


async def test_an_event_is_found_with_what_is_before_it(store: Store, log: LogReader) -> None:
    exchange = begin(store)
    events = make_events(
        exchange, [b"{}", b"abc", b"defg", b"{}"], ["request", "frame", "frame", "reads"]
    )
    add(store, events)
    ids = exchange.session_id, exchange.exchange_id
    places = [await event_place(log, *ids, pos) for pos in range(5)]
    assert places == [
        EventPlace(events[0], None, 0),
        EventPlace(events[1], events[0].hash, 0),
        EventPlace(events[2], events[1].hash, 3),
        EventPlace(events[3], events[2].hash, 7),
        None,
    ]


async def test_a_session_is_found_by_id_name_prefix_and_latest(
    store: Store, log: LogReader
) -> None:
    old, other, new = (
        make_session(1, name="run"),
        make_session(2, name="other"),
        make_session(3, name="run"),
    )
    far = make_session(name="far", session_id=make_id(1, 1_000), created_ns=1)
    with store.transaction():
        for session in (old, other, new, far):
            store.add_session(session)
    assert await session_named(log, old.session_id) == old
    assert await session_named(log, old.session_id.upper()) == old
    assert await session_named(log, "run") == new
    assert await session_named(log, "latest") == new
    assert await session_named(log, far.session_id[:4]) == far
    assert await session_named(log, other.session_id[:-1]) == other


async def test_a_name_stands_above_the_beginning_of_an_id(store: Store, log: LogReader) -> None:
    named = make_session(9, name=make_session(1).session_id[:8])
    with store.transaction():
        store.add_session(make_session(1))
        store.add_session(named)
    assert await session_named(log, named.name) == named


@pytest.mark.parametrize(
    "ref", ["nothing", "", "%", "ffff", "019", "'; DROP TABLE sessions", "\udc00"]
)
async def test_a_session_that_is_not_there_is_one_sentence(
    store: Store, log: LogReader, ref: str
) -> None:
    begin(store)
    with pytest.raises(NotFoundError) as missing:
        await session_named(log, ref)
    assert str(missing.value).endswith("`recorder sessions` lists what there is.")


async def test_latest_of_nothing_is_not_found(log: LogReader) -> None:
    with pytest.raises(NotFoundError):
        await session_named(log, "latest")


async def test_the_beginning_of_several_ids_names_some_of_them(
    store: Store, log: LogReader
) -> None:
    with store.transaction():
        for number in range(1, 9):
            store.add_session(make_session(number))
    prefix = make_session(1).session_id[:8]
    with pytest.raises(UsageError) as refusal:
        await session_named(log, prefix)
    head, *listed = str(refusal.value).splitlines()
    assert (
        head
        == f"{prefix!r} is the beginning of several session ids; give more of it. The newest are:"
    )
    assert listed == [
        *(f"  {make_session(number).session_id} run-{number}" for number in (8, 7, 6, 5, 4)),
        "  …",
    ]


async def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for path in (tmp_path / "none.db", tmp_path / "no" / "directory.db"):
        with pytest.raises(NotFoundError, match="nothing has been recorded there"):
            await LogReader.open(path)
    assert list(tmp_path.iterdir()) == []


async def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"is a directory: the database needs the path of a file\."
    ):
        await LogReader.open(tmp_path)


async def test_sessions_of_one_name_are_counted(store: Store, log: LogReader) -> None:
    with store.transaction():
        for number, name in enumerate(("run", "run", "Run", "run"), 1):
            store.add_session(make_session(number, name=name))
    assert [await count_named(log, name) for name in ("run", "Run", "none")] == [3, 1, 0]


async def test_many_may_read_at_once(store: Store, log: LogReader) -> None:
    exchange = begin(store)
    events = make_events(exchange, [b"x"] * 700)
    add(store, events)
    found = await asyncio.gather(*(read(log, exchange) for _ in range(20)))
    assert found == [events] * 20


async def test_a_log_can_be_read_after_its_writer_has_gone(store: Store) -> None:
    exchange = begin(store)
    store.close()
    async with await LogReader.open(store.path) as log:
        assert await log.exchanges(exchange.session_id) == [exchange]
