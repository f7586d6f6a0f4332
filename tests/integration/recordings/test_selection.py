"""The exchanges of a session that a person names, by number, id, or the beginning of an id."""

from __future__ import annotations

import pytest
from sqlalchemy import URL

from recorder.errors import NotFoundError, UsageError
from recorder.model.events import Exchange
from recorder.recordings.selection import select_exchanges
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store
from tests.support.rows import make_exchange, make_id, make_session

SESSION, OTHER = make_session(1, name="demo"), make_session(2, name="other")
LATER, FIRST = (
    make_exchange(SESSION, 1, exchange_id="1" + make_id(1)[1:], started_ns=2_000),
    make_exchange(SESSION, 2, exchange_id=make_id(2), started_ns=1_000),
)


async def chosen(sqlite_database: URL, exchange: str | None) -> list[tuple[int, Exchange]]:
    with Store(sqlite_database) as store, store.transaction():
        for session in (SESSION, OTHER):
            store.add_session(session)
        for each in (LATER, FIRST, make_exchange(OTHER, 3)):
            store.add_exchange(each)
    async with await LogReader.open(sqlite_database) as log:
        return (await select_exchanges(log, "demo", exchange))[1]


@pytest.mark.parametrize("named", ["2", LATER.exchange_id, LATER.exchange_id[:4]])
async def test_a_number_an_id_and_its_beginning_name_one_exchange(
    sqlite_database: URL, named: str
) -> None:
    assert await chosen(sqlite_database, named) == [(2, LATER)]


async def test_without_a_name_all_are_chosen_in_order_of_their_start(sqlite_database: URL) -> None:
    assert await chosen(sqlite_database, None) == [(1, FIRST), (2, LATER)]


async def test_another_name_is_not_found(sqlite_database: URL) -> None:
    await chosen(sqlite_database, None)
    async with await LogReader.open(sqlite_database) as log:
        for named in ("0", "3", "02", "٢", "9" * 30, make_id(3), "zzzz", ""):
            with pytest.raises(NotFoundError, match="it has 1 to 2"):
                await select_exchanges(log, "demo", named)


async def test_the_beginning_of_several_ids_is_refused(sqlite_database: URL) -> None:
    session = make_session(3, name="two")
    with Store(sqlite_database) as store, store.transaction():
        store.add_session(session)
        for number in (8, 9):
            store.add_exchange(make_exchange(session, number))
    async with await LogReader.open(sqlite_database) as log:
        with pytest.raises(UsageError, match="beginning of 2 exchanges"):
            await select_exchanges(log, "two", make_id(8)[:8])
