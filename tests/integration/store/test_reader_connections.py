"""The connections of a reader: how many, whose, and what becomes of a statement that nobody waits
for any more.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sqlite3
import threading
from contextlib import AsyncExitStack

import aiosqlite
import pytest
from sqlalchemy import URL, text

from recorder.store.engine import READERS, ReadPool, reading_of
from recorder.store.postgres import connection as postgres
from recorder.store.sqlite.reading import _end_statement
from recorder.store.write.writer import Store

ENDLESS = text(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 - i FROM n) SELECT count(*) FROM n"
)
ONE = text("SELECT 1")
AT_ONCE_S = 90  # less than the timeout of a test, far more than a busy machine takes


def reader(database: URL) -> ReadPool:
    Store(database).close()
    return reading_of(database).reader(database)


async def answer(pool: ReadPool) -> object:
    async with pool.connect() as connection:
        return (await connection.execute(ONE)).scalar_one()


async def endless(pool: ReadPool) -> None:
    async with pool.connect() as connection:
        await connection.execute(ENDLESS)


async def test_a_cancelled_read_ends_its_statement_and_gives_its_connection_back(
    database: URL,
) -> None:
    pool = reader(database)
    async with asyncio.timeout(AT_ONCE_S):
        for _ in range(READERS + 1):  # each connection once, and one again
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(endless(pool), 0.05)
        assert await asyncio.gather(*(answer(pool) for _ in range(READERS))) == [1] * READERS
        await pool.dispose()


# aiosqlite drops a connection that nobody wants any more when it is open, and since Python 3.13
# sqlite3 says so.
@pytest.mark.filterwarnings("ignore:.*unclosed database:ResourceWarning")
@pytest.mark.filterwarnings(
    "ignore:Exception ignored .*<sqlite3.Connection:pytest.PytestUnraisableExceptionWarning"
)
async def test_a_task_that_is_cancelled_at_every_turn_of_the_loop_leaves_readers_that_work(
    database: URL,
) -> None:
    pool = reader(database)
    async with asyncio.timeout(AT_ONCE_S):
        for turns in range(3 * READERS):
            task = asyncio.ensure_future(endless(pool))
            for _ in range(
                turns
            ):  # up to the connection, the pragmas, the beginning, the statement
                await asyncio.sleep(0)
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
        assert await asyncio.gather(*(answer(pool) for _ in range(READERS))) == [1] * READERS
        await pool.dispose()
    gc.collect()  # here, where it is said of no other test


async def test_a_statement_that_had_not_begun_when_its_task_was_cancelled_is_ended() -> None:
    released = threading.Event()
    async with aiosqlite.connect(":memory:") as connection, asyncio.timeout(AT_ONCE_S):
        await connection.create_function("hold", 0, released.wait)
        statements = [
            asyncio.ensure_future(connection.execute(sql))
            for sql in ("SELECT hold()", str(ENDLESS))
        ]
        ending = asyncio.ensure_future(_end_statement(connection))
        await asyncio.sleep(0)
        ending.cancel()
        await asyncio.sleep(0)
        released.set()
        await ending
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            await asyncio.gather(*statements)


async def test_an_open_cursor_is_no_obstacle_to_the_end_of_a_statement() -> None:
    """SQLite interrupts all that begins while a statement has rows left, a rollback too."""
    async with aiosqlite.connect(":memory:") as connection, asyncio.timeout(AT_ONCE_S):
        await connection.execute("BEGIN")
        cursor = await connection.execute("SELECT 1 UNION ALL SELECT 2")
        assert await cursor.fetchone() == (1,)
        await _end_statement(connection)


async def test_who_wants_more_connections_than_there_are_waits_for_one(database: URL) -> None:
    pool = reader(database)
    async with asyncio.timeout(AT_ONCE_S), asyncio.TaskGroup() as tasks:
        async with AsyncExitStack() as stack:
            for _ in range(READERS):
                connection = await stack.enter_async_context(pool.connect())
                await connection.execute(ONE)
            waiting = tasks.create_task(answer(pool))
            for _ in range(50):  # far more than it takes to open one
                await connection.execute(ONE)
            assert not waiting.done()
        assert await waiting == 1
    await pool.dispose()


async def test_a_statement_that_fails_leaves_a_connection_that_works(database: URL) -> None:
    pool = reader(database)
    for _ in range(READERS + 1):
        with reading_of(database).translated(database), pytest.raises(Exception, match="no_such"):
            async with pool.connect() as connection:
                await connection.execute(text("SELECT * FROM no_such"))
    assert await answer(pool) == 1
    await pool.dispose()


async def test_a_server_that_does_not_answer_a_login_keeps_no_cancelled_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # the login itself waits longer than the test
    monkeypatch.setitem(postgres.CONNECTION, "connect_timeout", 3600)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = URL.create(
            "postgresql+psycopg",
            "nobody",
            host="127.0.0.1",
            port=silent.getsockname()[1],
            database="no",
        )
        pool = reading_of(url).reader(url)
        asking = asyncio.ensure_future(answer(pool))
        login, _ = await asyncio.to_thread(silent.accept)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asking, 9)  # the login itself would wait for ten
        login.close()
