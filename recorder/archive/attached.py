"""A log that is read together with its archives, as one.

Rules of this file:

* A session is looked for in the log first. One that is in both, because an archiver was stopped before it deleted the
  session from the log, is read from the log, and is listed and counted once.
* The log answers before the archives do. An archiver writes to the archive first and deletes from the log then, so no
  session is missed between the two answers.
* An archive is opened when it is needed: a session of the log is shown without it. One that cannot be read is left out,
  with one warning.
* Who writes is not asked of an archive: what is open, due or priced is known by the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from sqlalchemy import URL, bindparam, select
from sqlalchemy.sql import Executable

from recorder.archive.opening import open_alone
from recorder.archive.place import database_name
from recorder.archive.registry import warn_left_out
from recorder.errors import NotFoundError, RecorderError, StoreError
from recorder.model.events import Event, Session
from recorder.store.engine import AnyRow
from recorder.store.maintain.purge.tombstone import ARCHIVED, Tombstone
from recorder.store.queries.costs import ExchangeCost
from recorder.store.queries.reader import EventPlace, LogReader
from recorder.store.queries.session_list import (
    ListPlace,
    PlacedSession,
    SessionFilter,
    SessionPage,
    SessionRow,
)
from recorder.store.queries.usage import EVERYTHING, By, CostTally, Summed, Tally, Unpriced, added_up
from recorder.store.schema import prices, sessions

IDS = 10_000  # of sessions that are in memory at once while both sides are compared: a megabyte
HOMES = 10_000  # sessions of which it is remembered that they are in an archive: a viewer may run for months

T = TypeVar("T")

_HAS = select(sessions.c.session_id).where(sessions.c.session_id == bindparam("id"))
_SOME = select(sessions.c.session_id).where(sessions.c.session_id.in_(bindparam("ids", expanding=True)))
_IDS_AFTER = (
    select(sessions.c.session_id)
    .where(sessions.c.session_id > bindparam("after"))
    .order_by(sessions.c.session_id)
    .limit(IDS)
)
_PRICES = select(prices)
_IDS_BETWEEN = select(sessions.c.session_id).where(sessions.c.session_id.between(bindparam("first"), bindparam("last")))
_BEFORE_ALL = "00000000-0000-0000-0000-000000000000"


class _Line(msgspec.Struct, frozen=True):
    """A row of the list of sessions, and its place there."""

    place: ListPlace
    row: SessionRow


class AttachedReader(LogReader):
    """A `LogReader` of a log and of its archives: `open_log` returns it where there are archives."""

    def __init__(self, log: LogReader, archives: Sequence[URL]) -> None:
        """Take over an open log: it is closed with this."""
        super().__init__(log.url, log.source)
        self._log, self._urls = log, archives
        self._opening = asyncio.Lock()
        self._opened: list[LogReader] | None = None  # None: nothing has needed them yet
        self._left_out: list[str] = []  # the names of archives that cannot be read
        self._homes: dict[str, LogReader] = {}  # the archive of a session that is not in the log

    async def close(self) -> None:
        for each in [self._log, *(self._opened or [])]:  # the first has the connections of this one, too
            await each.close()

    # -- lists and sums over all

    async def session_page(
        self, limit: int | None, wanted: SessionFilter | None = None, before: ListPlace | None = None
    ) -> SessionPage:
        """Return the sessions that follow a place in the list of all, and the place where it goes on."""
        lines: list[_Line] = []
        while True:
            more, before = await self._lines(None if limit is None else limit - len(lines), wanted, before)
            lines += more
            if before is None or len(lines) == limit:
                return SessionPage([each.row for each in lines], before, [each.place for each in lines])

    async def _lines(
        self, limit: int | None, wanted: SessionFilter | None, before: ListPlace | None
    ) -> tuple[list[_Line], ListPlace | None]:
        """Return the next lines of the list, and where it goes on. They are fewer than there may be if a session is in
        the log and in an archive.
        """
        pages = [await self._log.session_page(limit, wanted, before)]
        pages += await self._of_each(lambda archive: archive.session_page(limit, wanted, before))
        known = await self._those_in_log([row.session_id for page in pages[1:] for row in page.rows])
        found: dict[str, _Line] = {}
        for number, page in enumerate(pages):
            for place, row in zip(page.places, page.rows, strict=True):
                if not number or row.session_id not in known:
                    found.setdefault(row.session_id, _Line(place, row))
        until = max((page.next for page in pages if page.next is not None), default=None)  # after it, a page has more
        lines = sorted(found.values(), key=attrgetter("place"), reverse=True)
        lines = [each for each in lines if until is None or each.place >= until]
        if limit is None or len(lines) <= limit:
            return lines, until
        return lines[:limit], lines[limit - 1].place

    async def usage(self, by: Sequence[By], summed: Summed = EVERYTHING) -> list[Tally]:
        found = await self._log.usage(by, summed)

        async def read(archive: LogReader) -> list[Tally]:
            return await archive.usage(by, await self._rest_of(summed, archive))

        return added_up(by, [*found, *(tally for part in await self._of_each(read) for tally in part)])

    async def costs(
        self, by: Sequence[By], summed: Summed = EVERYTHING
    ) -> tuple[dict[tuple[Any, ...], CostTally], list[Unpriced]]:
        found = [await self._log.costs(by, summed)]

        async def read(archive: LogReader) -> tuple[dict[tuple[Any, ...], CostTally], list[Unpriced]]:
            return await archive.costs(by, await self._rest_of(summed, archive))

        found += await self._of_each(read)
        sums: dict[tuple[Any, ...], CostTally] = {}
        counts: dict[tuple[str, str, str], Unpriced] = {}
        for costs, unpriced in found:
            for key, cost in costs.items():
                sums[key] = sums.get(key, CostTally()) + cost
            for each in unpriced:
                name = (each.provider, each.model or "", each.reason)
                exchanges = each.exchanges + (counts[name].exchanges if name in counts else 0)
                counts[name] = msgspec.structs.replace(each, exchanges=exchanges)
        return sums, [counts[name] for name in sorted(counts)]

    async def models(self) -> set[tuple[str, str]]:
        of_log = await self._log.models()
        return of_log.union(*await self._of_each(lambda archive: archive.models()))

    # -- one session

    async def session(self, ref: str) -> Session:
        try:
            return await super().session(ref)
        except NotFoundError as error:
            if not self._left_out:
                raise
            names = " and ".join(self._left_out)
            raise NotFoundError(
                f"{error} It may be in {names}: `recorder doctor` says why that is not read."
            ) from error

    async def tombstone(self, ref: str) -> Tombstone | None:
        """Return the tombstone of a purged session: that of an archive, if it was purged from there."""
        found = await self._log.tombstone(ref)
        if found is not None and found.reason != ARCHIVED:
            return found
        of_archives = await self._of_each(lambda archive: archive.tombstone(ref))
        return next((each for each in of_archives if each is not None), found)

    async def exchange_costs(self, session_id: str) -> dict[str, ExchangeCost]:
        return await self._in(session_id, lambda log: log.exchange_costs(session_id))

    async def place(self, session_id: str, exchange_id: str, pos: int) -> EventPlace | None:
        return await self._in(session_id, lambda log: log.place(session_id, exchange_id, pos))

    async def _all(self, statement: Executable, **values: Any) -> Sequence[AnyRow]:
        """Return the rows of a statement about the session in `session_id`; of the log if it is about none."""
        if "session_id" not in values:
            return await self._log._all(statement, **values)
        return await self._in(values["session_id"], lambda log: log._all(statement, **values))

    async def events(
        self, session_id: str, exchange_id: str, after: int = -1, kinds: Collection[str] | None = None
    ) -> AsyncIterator[Event]:
        if session_id not in self._homes:
            async for event in self._log.events(session_id, exchange_id, after, kinds):
                yield event
                after = event.pos
        archive = await self._home(session_id)  # it may have been archived while it was read: it goes on there
        if archive is not None:
            async for event in archive.events(session_id, exchange_id, after, kinds):
                yield event

    async def _in(self, session_id: str, read: Callable[[LogReader], Awaitable[T]]) -> T:
        """Return an answer about a session, of the database that it is in."""
        found = await read(self._log) if session_id not in self._homes else None
        archive = await self._home(session_id)  # after the log was read: what is there now was there then
        return await read(archive or self._log) if archive or found is None else found

    async def _home(self, session_id: str) -> LogReader | None:
        """Return the archive that a session is in; None if it is in the log, or nowhere."""
        if session_id in self._homes:
            return self._homes[session_id]
        if await self._log.rows(_HAS, id=session_id):
            return None
        for archive in await self._archives():
            if any(await self._of_each(lambda each: each.rows(_HAS, id=session_id), [archive])):
                if len(self._homes) == HOMES:
                    self._homes.clear()
                return self._homes.setdefault(session_id, archive)
        return None

    # -- what `session` looks for

    async def _with_id(self, session_id: str) -> list[Session]:
        found = await self._log._with_id(session_id)
        return found or [each for part in await self._of_each(lambda log: log._with_id(session_id)) for each in part]

    async def _ids_named(self, name: str) -> set[str]:
        return (await self._log._ids_named(name)).union(*await self._of_each(lambda log: log._ids_named(name)))

    async def _last_used(self) -> list[PlacedSession]:
        return _merged([await self._log._last_used(), *await self._of_each(lambda log: log._last_used())], 1)

    async def _newest_placed(self, *where: Any, limit: int) -> list[PlacedSession]:
        found = [await self._log._newest_placed(*where, limit=limit)]
        found += await self._of_each(lambda archive: archive._newest_placed(*where, limit=limit))
        return _merged(found, limit)

    # -- both sides

    async def _archives(self) -> list[LogReader]:
        """Return the archives that can be read, each opened once."""
        async with self._opening:
            if self._opened is None:
                self._opened = []
                own = [tuple(row) for row in await self._log.rows(_PRICES)]
                for url in self._urls:
                    try:
                        self._opened.append(await open_alone(url, own))
                    except RecorderError as error:
                        self._leave_out(url, error)
            return self._opened

    async def _of_each(
        self, read: Callable[[LogReader], Awaitable[T]], archives: Sequence[LogReader] | None = None
    ) -> list[T]:
        """Return the answers of all archives, or of some; one that cannot answer is left out from now on."""
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
        self._left_out.append(database_name(archive))
        warn_left_out(archive, error)

    async def _those_in_log(self, session_ids: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for first in range(0, len(session_ids), 1_000):  # each is a value, of which SQLite takes 32,766
            rows = await self._log.rows(_SOME, ids=session_ids[first : first + 1_000])
            found.update(row.session_id for row in rows)
        return found

    async def _rest_of(self, summed: Summed, archive: LogReader) -> Summed:
        """Leave out the sessions of an archive that the log has too: an archiver is not done with them."""
        found: list[str] = []
        after = _BEFORE_ALL
        while ids := [row.session_id for row in await archive.rows(_IDS_AFTER, after=after)]:
            here = {row.session_id for row in await self._log.rows(_IDS_BETWEEN, first=ids[0], last=ids[-1])}
            found += [each for each in ids if each in here]
            after = ids[-1]
        return msgspec.structs.replace(summed, without=[*summed.without, *found])


def _merged(parts: Sequence[Sequence[PlacedSession]], limit: int) -> list[PlacedSession]:
    """Return the newest sessions of some lists, each once: as it is in the first list that has it."""
    found: dict[str, PlacedSession] = {}
    for part in parts:
        for each in part:
            found.setdefault(each.session.session_id, each)
    return sorted(found.values(), key=attrgetter("place"), reverse=True)[:limit]
