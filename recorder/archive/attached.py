"""A log that is read together with its archives, as one.

Rules of this file:

* A session is looked for in the log first. One that is in both, because an archiver was stopped
  before it deleted the session from the log, is read from the log, and is listed and counted once.
* The log answers before the archives do. An archiver writes to the archive first and deletes from
  the log then, so no session is missed between the two answers.
* An archive is opened when it is needed: a session of the log is shown without it. One that cannot
  be read is left out, with one warning.
* Who writes is not asked of an archive: what is open, due or priced is known by the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from sqlalchemy import URL, select, text
from sqlalchemy.sql import Executable

from recorder.archive.opening import open_alone
from recorder.archive.place import database_name
from recorder.archive.registry import warn_left_out
from recorder.errors import RecorderError, StoreError
from recorder.model.events import Event
from recorder.model.ids import BEFORE_ALL
from recorder.store.engine import AnyRow
from recorder.store.queries.reader import LogReader
from recorder.store.schema import prices

IDS = 10_000  # of sessions that are in memory at once while both sides are compared: a megabyte
# sessions of which it is remembered that they are in an archive: a viewer may run for months
HOMES = 10_000

T = TypeVar("T")

_HAS = text("SELECT session_id FROM sessions WHERE session_id = :id")
_IDS_AFTER = text(
    f"SELECT session_id FROM sessions WHERE session_id > :after ORDER BY session_id LIMIT {IDS}"
)
_IDS_BETWEEN = text("SELECT session_id FROM sessions WHERE session_id BETWEEN :first AND :last")


class AttachedReader(LogReader):
    """A `LogReader` of a log and of its archives: `open_log` returns it where there are archives."""

    def __init__(self, log: LogReader, archives: Sequence[URL]) -> None:
        """Take over an open log: it is closed with this."""
        super().__init__(log.url, log.source)
        self._log, self._urls = log, archives
        self._opening = asyncio.Lock()
        self._opened: list[LogReader] | None = None  # None: nothing has needed them yet
        self._homes: dict[str, LogReader] = {}  # the archive of a session that is not in the log

    async def close(self) -> None:
        # the first has the connections of this one, too
        for each in [self._log, *(self._opened or [])]:
            await each.close()

    async def rows(self, statement: Executable, **values: Any) -> Sequence[AnyRow]:
        if "session_id" not in values:
            return await self._log.rows(statement, **values)
        return await self.of_session(
            values["session_id"], lambda log: log.rows(statement, **values)
        )

    async def of_each(self, read: Callable[[LogReader], Awaitable[T]]) -> list[T]:
        own = await read(self._log)
        return [own, *await self._of_archives(read)]

    async def of_session(self, session_id: str, read: Callable[[LogReader], Awaitable[T]]) -> T:
        found = await read(self._log) if session_id not in self._homes else None
        # after the log was read: what is there now was there then
        archive = await self._home(session_id)
        return await read(archive or self._log) if archive or found is None else found

    async def repeated_in(self, part: LogReader) -> list[str]:
        found: list[str] = []
        after = BEFORE_ALL
        while part is not self._log and (
            ids := [row.session_id for row in await part.rows(_IDS_AFTER, after=after)]
        ):
            here = {
                row.session_id
                for row in await self._log.rows(_IDS_BETWEEN, first=ids[0], last=ids[-1])
            }
            found += [each for each in ids if each in here]
            after = ids[-1]
        return found

    async def events(
        self,
        session_id: str,
        exchange_id: str,
        after: int = -1,
        kinds: Collection[str] | None = None,
    ) -> AsyncIterator[Event]:
        if session_id not in self._homes:
            async for event in self._log.events(session_id, exchange_id, after, kinds):
                yield event
                after = event.pos
        # it may have been archived while it was read: it goes on there
        archive = await self._home(session_id)
        if archive is not None:
            async for event in archive.events(session_id, exchange_id, after, kinds):
                yield event

    async def _home(self, session_id: str) -> LogReader | None:
        """Return the archive that a session is in; None if it is in the log, or nowhere."""
        if session_id in self._homes:
            return self._homes[session_id]
        if await self._log.rows(_HAS, id=session_id):
            return None
        for archive in await self._archives():
            if any(await self._of_archives(lambda each: each.rows(_HAS, id=session_id), [archive])):
                if len(self._homes) == HOMES:
                    self._homes.clear()
                return self._homes.setdefault(session_id, archive)
        return None

    async def _archives(self) -> list[LogReader]:
        """Return the archives that can be read, each opened once."""
        async with self._opening:
            if self._opened is None:
                self._opened = []
                own = [tuple(row) for row in await self._log.rows(select(prices))]
                for url in self._urls:
                    try:
                        self._opened.append(await open_alone(url, own))
                    except RecorderError as error:
                        self._leave_out(url, error)
            return self._opened

    async def _of_archives(
        self, read: Callable[[LogReader], Awaitable[T]], archives: Sequence[LogReader] | None = None
    ) -> list[T]:
        """Return the answers of all archives, or of some; one that cannot answer is left out from
        now on.
        """
        found = []
        opened = await self._archives()
        for archive in list(opened if archives is None else archives):
            try:
                found.append(await read(archive))
            except StoreError as error:
                if archive in opened:
                    opened.remove(archive)
                    self._leave_out(archive.url, error)
                    await archive.close()
        return found

    def _leave_out(self, archive: URL, error: RecorderError) -> None:
        self.left_out.append(database_name(archive))
        warn_left_out(archive, error)
