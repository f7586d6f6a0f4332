"""The exchanges of a session that a person names, by number, id, or the beginning of an id."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.errors import NotFoundError, UsageError
from recorder.model.events import Exchange
from recorder.recordings.selection import select_exchanges
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store
from tests.support.empty_log import empty
from tests.support.rows import make_exchange, make_id, make_session

SESSION, OTHER = make_session(1, name="demo"), make_session(2, name="other")
LATER, FIRST = (
    make_exchange(SESSION, 1, exchange_id="1" + make_id(1)[1:], started_ns=2_000),
    make_exchange(SESSION, 2, exchange_id=make_id(2), started_ns=1_000),
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return empty(tmp_path / "recorder.db")


async def chosen(database: Path, exchange: str | None) -> list[tuple[int, Exchange]]:
    with Store(database) as store, store.transaction():
        for session in (SESSION, OTHER):
            store.add_session(session)
        for each in (LATER, FIRST, make_exchange(OTHER, 3)):
            store.add_exchange(each)
    log = await LogReader.open(database)
    try:
        return (await select_exchanges(log, "demo", exchange))[1]
    finally:
        await log.close()


@pytest.mark.parametrize("named", ["2", LATER.exchange_id, LATER.exchange_id[:4]])
async def test_a_number_an_id_and_its_beginning_name_one_exchange(database: Path, named: str) -> None:
    assert await chosen(database, named) == [(2, LATER)]


async def test_without_a_name_all_are_chosen_in_order_of_their_start(database: Path) -> None:
    assert await chosen(database, None) == [(1, FIRST), (2, LATER)]


async def test_another_name_is_not_found(database: Path) -> None:
    await chosen(database, None)
    async with await LogReader.open(database) as log:
        for named in ("0", "3", "02", "٢", "9" * 30, make_id(3), "zzzz", ""):
            with pytest.raises(NotFoundError, match="it has 1 to 2"):
                await select_exchanges(log, "demo", named)


async def test_the_beginning_of_several_ids_is_refused(database: Path) -> None:
    session = make_session(3, name="two")
    with Store(database) as store, store.transaction():
        store.add_session(session)
        for number in (8, 9):
            store.add_exchange(make_exchange(session, number))
    log = await LogReader.open(database)
    try:
        with pytest.raises(UsageError, match="beginning of 2 exchanges"):
            await select_exchanges(log, "two", make_id(8)[:8])
    finally:
        await log.close()
