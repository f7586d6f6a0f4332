"""The connections of `recorder.store.queries.reader.LogReader` to an archive, for an event loop.

Rules of this file:

* It is a `recorder.store.engine.ReadPool`, and its own one connection.
* A statement with the value `session_id` is about one session, and reads it as a log. Every other reads the tables of
  all sessions by DuckDB.
* Everything runs in one thread, in which the archive is opened with the first statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, Engine
from sqlalchemy.sql import Executable

from recorder.store.ducklake.dialect import lake_engine
from recorder.store.ducklake.sessions import ArchiveSessions
from recorder.store.engine import AnyRow, Prices
from recorder.store.thread_pool import Rows

COMMAND = "--db ducklake:…"
"""The part of a command that needs the extra, in the sentence for a user who does not have it."""


class LakePool:
    """An archive, open for reading: a pool whose connection is itself."""

    def __init__(self, url: URL, prices: Prices = ()) -> None:
        """`prices` are used in place of the archive's own."""
        self._prices = prices
        self._sessions = ArchiveSessions(url, COMMAND)
        self._engine: Engine | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="archive")

    def connect(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def execute(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Rows:
        """Return all rows of a statement. Raise the errors of the driver, or of SQLAlchemy."""
        run = asyncio.get_running_loop().run_in_executor
        return Rows(await run(self._thread, self._rows, statement, dict(values or {})))

    async def dispose(self) -> None:
        """Close everything. A statement that still runs is ended."""
        self._sessions.interrupt()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _rows(self, statement: Executable, values: dict[str, Any]) -> Sequence[AnyRow]:
        session_id = values.get("session_id")
        if session_id is not None:
            log = self._sessions.log(session_id)
            with log.translated(), log.engine.connect() as of_session:
                return of_session.execute(statement, values).all()
        self._engine = self._engine or lake_engine(self._sessions.connection, self._prices)
        with self._engine.connect() as connection:
            return connection.execute(statement, values).all()

    def _close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
        self._sessions.close()
