"""The reader of the log, for an event loop: in short transactions, never in the way of the writer.

Rules of this file:

* It only reads, through connections that cannot write (`Reading.reader`).
* A transaction holds one page. A reader that stays in one would keep the WAL from being emptied, so
  no caller can.
* What is asked stands beside it, in the other modules here: whoever reads loads only the questions
  that it has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import URL, TextClause, bindparam, select, text
from sqlalchemy.sql import Executable

from recorder.errors import StoreError
from recorder.model.events import SHARED, Event, Exchange
from recorder.program import load
from recorder.store.engine import (
    AnyRow,
    ReadConnection,
    ReadSource,
    address_of,
    reading_of,
    source_of,
)
from recorder.store.location import database_url
from recorder.store.schema import REBUILD_IS_DUE, TEXT, events, exchanges, require_head
from recorder.store.sql import OF_EXCHANGE, columns_of, of_session, structs_of

T = TypeVar("T")

PAGE_ROWS = 500
PAGE_BYTES = 4 * 2**20  # a page passes it by one event at most: what a slow consumer holds
# sets of kinds whose statement is kept: writing one takes longer than reading a short exchange
KINDS = 32

_EXCHANGES = (
    select(exchanges)
    .where(of_session(exchanges))
    .order_by(exchanges.c.started_ns, exchanges.c.exchange_id)
)
_REBUILD_IS_DUE = text(REBUILD_IS_DUE)


@lru_cache(KINDS)
def _page(kinds: frozenset[str] | None) -> TextClause:
    """Select the events after a position that fit in a page: the sizes decide where it ends, then
    the rows are read.
    """
    wanted = f"{OF_EXCHANGE} AND pos > :after"
    if kinds is not None:
        wanted += " AND kind IN :kinds"
    page = text(f"""SELECT {columns_of(events, "e")} FROM events AS e WHERE {wanted} AND pos <= (
    SELECT max(pos) FROM (
        SELECT pos, sum(length(raw)) OVER (ORDER BY pos) - length(raw) AS before
        FROM events WHERE {wanted} ORDER BY pos LIMIT {PAGE_ROWS}
    ) AS sizes WHERE before < {PAGE_BYTES}
) ORDER BY pos""")
    return (
        page
        if kinds is None
        else page.bindparams(bindparam("kinds", sorted(kinds), type_=TEXT, expanding=True))
    )


class LogReader:
    """A log, open for reading.

    `await LogReader.open(url)`, and `close` it before the event loop ends.

    `recorder.archive.open_log` opens it together with its archives, which are read as one with it.
    """

    def __init__(self, url: URL, source: ReadSource | None = None) -> None:
        """`source` is another one than the engine of the URL."""
        self.source = source = source or source_of(url)
        self.url, self.name, self.engine, self.search = (
            url,
            source.name,
            source.dialect,
            source.search,
        )
        self.left_out: list[str] = []  # the names of archives that cannot be read

    @classmethod
    async def open(cls, url: str | Path | URL) -> Self:
        """Open a log without its archives.

        Raise `NotFoundError` if there is no database, `StoreError` if it is not a log that can be
        read.
        """
        given = database_url(url)
        address_of(given).require(given)
        log = cls(given)
        try:
            require_head(
                log.name, await reading_of(given).revision(given, lambda sql: log.rows(text(sql)))
            )
        except BaseException:
            await log.close()
            raise
        return log

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.source.pool.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[ReadConnection]:
        """Open a transaction for several statements.

        Errors of the driver become those of recorder.
        """
        with self.source.translated(self.url):
            async with self.source.pool.connect() as connection:
                yield connection

    async def rows(self, statement: Executable, **values: Any) -> Sequence[AnyRow]:
        """Return the rows of a statement, which fit in a page.

        With a value `session_id` it is about that session, wherever it is; any other is about the
        log alone.
        """
        async with self.transaction() as connection:
            return (await connection.execute(statement, values)).all()

    # -- a log and its archives

    async def of_each(self, read: Callable[[LogReader], Awaitable[T]]) -> list[T]:
        """Return what this log answers, and then each of its archives."""
        return [await read(self)]

    async def of_session(self, session_id: str, read: Callable[[LogReader], Awaitable[T]]) -> T:
        """Return what the log or the archive answers that has a session."""
        return await read(self)

    async def repeated_in(self, part: LogReader) -> list[str]:
        """Return the sessions of an archive that the log has too: an archiver is not done with
        them.
        """
        return []

    # -- what most ask

    async def rebuild_is_due(self) -> bool:
        """Return whether the projections lack exchanges that the log has."""
        [(is_due,)] = await self.rows(_REBUILD_IS_DUE)
        return bool(is_due)

    async def exchanges(self, session_id: str) -> list[Exchange]:
        """Return the exchanges of a session, in order of their start."""
        return structs_of(Exchange, await self.rows(_EXCHANGES, session_id=session_id))

    async def events(
        self,
        session_id: str,
        exchange_id: str,
        after: int = -1,
        kinds: Collection[str] | None = None,
    ) -> AsyncIterator[Event]:
        """Yield the events of an exchange after a position, in order, of all kinds or of some.

        Ends with the last event that there is now; call it again with the last `pos` to follow an
        open exchange.
        """
        page = _page(None if kinds is None else frozenset(kinds))
        while True:
            rows = await self.rows(
                page, session_id=session_id, exchange_id=exchange_id, after=after
            )
            for row in rows:
                yield await self.event_of(row)
            if len(rows) < PAGE_ROWS and sum(len(row.raw) for row in rows) < PAGE_BYTES:
                return
            after = rows[-1].pos

    async def event_of(self, row: AnyRow) -> Event:
        """Return the event of a row.

        A shared body is put together from other rows, one at a time: of a page of recipes, not all
        bodies are in memory.
        """
        if (row.kind, row.type) != ("request", SHARED):
            return Event(*row)
        bodies = load("recorder.store.bodies.rows")
        try:
            shared = bodies.SharedRow(row)
            sources = await self.rows(
                text(bodies.sources_sql(self.source.of_bodies)), **shared.parameters
            )
            event: Event = shared.event(sources)
        except ValueError as error:
            raise StoreError(bodies.damaged(row, error)) from error
        return event
