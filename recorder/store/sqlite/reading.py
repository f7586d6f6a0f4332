"""The connections to a database file that only read, for an event loop: a
`recorder.store.engine.Reading`.

Rules of this file:

* Only what reads imports it: a start of what writes does without.
* The statement of a task that is cancelled is ended. SQLAlchemy then closes its connection, but
  would wait for a statement that nobody wants any more.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import aiosqlite
from sqlalchemy import URL, event

from recorder.errors import UsageError
from recorder.store.async_engine import AsyncEngine, create_async_engine
from recorder.store.engine import BUSY_TIMEOUT_S, READERS, Fetch
from recorder.store.schema import READ_REVISION
from recorder.store.sqlite import address
from recorder.store.sqlite import connection as of_file
from recorder.store.sqlite.connection import READER, file_uri, is_empty, prepare, reading

AGAIN_S = 0.1  # a statement that had not begun when it was to end is ended then


def reader(url: URL) -> AsyncEngine:
    path = address.path(url)
    of_driver = URL.create(
        "sqlite+aiosqlite", database=file_uri(path), query={**reading(path), "uri": "true"}
    )
    engine = create_async_engine(of_driver, pool_size=READERS, max_overflow=0, pool_timeout=None)
    prepare(engine.sync_engine, {**READER, "busy_timeout": round(BUSY_TIMEOUT_S * 1000)}, "BEGIN")

    @event.listens_for(engine.sync_engine, "invalidate")
    def end(connection: Any, _record: object, _error: object) -> None:
        connection.run_async(_end_statement)

    return engine


def translated(url: URL) -> AbstractContextManager[None]:
    return of_file.translated(address.path(url))


async def revision(url: URL, fetch: Fetch) -> str | None:
    if is_empty(address.path(url)):
        return None
    for (number,) in await fetch(READ_REVISION):
        return str(number)
    return None


def login_url(_url: URL, _login: str) -> NoReturn:
    raise UsageError(
        "A file is for one user, whoever has a token: record into PostgreSQL, where each login sees its own rows."
    )


async def require_own_rows(url: URL, _fetch: Fetch) -> None:
    login_url(url, "")


async def _end_statement(connection: aiosqlite.Connection) -> None:
    """End what the thread of a connection does, however often the task is cancelled that waits for
    it.

    A statement that has not begun is not ended by an interrupt, so there may be more of them.
    """
    while True:
        await connection.interrupt()
        try:
            async with asyncio.timeout(AGAIN_S):
                return await connection.rollback()
        except (TimeoutError, asyncio.CancelledError):
            continue
        except sqlite3.OperationalError as error:
            # Beside an open cursor the interrupt is for the rollback too. The thread has got to it,
            # so nothing else runs, and the connection is closed next.
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                return None
            raise
