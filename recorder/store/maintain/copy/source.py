"""A log as a copy reads it: the extent of every exchange, and events by the page.

Rules of this file:

* It only reads, and a transaction holds one page, as everywhere (`recorder.store.queries.reader`).
* Everything is in order of keys, so a page begins where the one before it ended, whatever was recorded meanwhile.
* A page of events is read as a stream and ends where it is large enough: no query for sizes comes first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import URL, BigInteger, Select, bindparam, func, literal, or_, select, text, tuple_

from recorder.errors import StoreError
from recorder.model.events import Event, Exchange, Session
from recorder.store.async_engine import AsyncEngine
from recorder.store.engine import AnyRow
from recorder.store.maintain.purge.tombstone import Tombstone
from recorder.store.queries.reader import LogReader
from recorder.store.schema import ID, events, exchanges, ingest_offsets, sessions, tombstones
from recorder.store.sql import FORMS, HAS_ENDED, of_same_exchange

EXTENTS = 500  # exchanges of a page
PAGE_ROWS = 2_000
PAGE_BYTES = 2 * 2**20
ROWS_AT_ONCE = 64  # as they come from the driver
FIRST_POS = -(2**63)  # nothing is before 0, and if something is, it is read
FIRST_ID, LAST_ID = ("-".join(digit * length for length in (8, 4, 4, 4, 12)) for digit in "0f")
_NONE = FIRST_ID[:-1] + "1"  # stands for the exchange of a session without one

Span = tuple[str, str]
"""The first and the last of some session ids."""


class Extent(NamedTuple):
    """An exchange and how far it is recorded; `exchange` is None for a session without any."""

    session: Session
    exchange: Exchange | None
    last_pos: int  # -1 before the first event
    last_hash: bytes | None
    has_ended: bool

    @property
    def key(self) -> tuple[str, str]:
        return self.session.session_id, self.exchange.exchange_id if self.exchange else _NONE


_last = (
    select(events)
    .where(of_same_exchange(events, exchanges))
    .order_by(events.c.pos.desc())
    .limit(1)
    .correlate(exchanges)
)


def _extents(*, of_all_sessions: bool) -> Select[*tuple[Any, ...]]:
    return select(
        *(*sessions.c, *exchanges.c),
        func.coalesce(_last.with_only_columns(events.c.pos).scalar_subquery(), -1),
        *(_last.with_only_columns(events.c.hash).scalar_subquery(), HAS_ENDED),
    ).join_from(sessions, exchanges, sessions.c.session_id == exchanges.c.session_id, isouter=of_all_sessions)


_session_id, _exchange_id, _until = (bindparam(name, type_=ID) for name in ("session_id", "exchange_id", "until"))
_place = func.coalesce(exchanges.c.exchange_id, literal(_NONE, ID))
_EXTENTS = (
    _extents(of_all_sessions=True)
    .where(sessions.c.session_id.between(_session_id, _until))
    .where(or_(sessions.c.session_id > _session_id, _place > _exchange_id), _place <= bindparam("newest", type_=ID))
    .order_by(sessions.c.session_id, exchanges.c.exchange_id)
    .limit(bindparam("limit", type_=BigInteger))
)
_EXTENTS_OF = _extents(of_all_sessions=False).where(exchanges.c.exchange_id.in_(bindparam("ids", expanding=True)))

_key = (events.c.session_id, events.c.exchange_id, events.c.pos)
_EVENTS = (
    select(events)
    .where(tuple_(*_key) > tuple_(_session_id, _exchange_id, bindparam("pos", type_=BigInteger)))
    .where(tuple_(*_key[:2]) <= tuple_(_until, bindparam("last", type_=ID)))
    .order_by(*_key)
    .limit(bindparam("limit", type_=BigInteger))
)
_COUNT = select(func.count()).select_from(exchanges)
_NEWEST = select(exchanges.c.exchange_id).order_by(exchanges.c.exchange_id.desc()).limit(1)
_PURGED = select(tombstones).order_by(tombstones.c.session_id)
_OFFSETS = select(*(ingest_offsets.c[name] for name in ("recorder_id", "segment", "offset")))


class BulkReader(LogReader):
    """A log that is copied, or copied to, open for reading."""

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        assert isinstance(self.source.pool, AsyncEngine)
        self._streaming = self.source.pool

    async def count(self, session_ids: Collection[str] | None = None) -> int:
        """Return the number of exchanges, in all sessions or in some."""
        some = _COUNT if session_ids is None else _COUNT.where(exchanges.c.session_id.in_(session_ids))
        return int((await self.rows(some))[0][0])

    async def tombstones(self) -> list[Tombstone]:
        """Return the tombstones of all purged sessions."""
        return [Tombstone(*row) for row in await self.rows(_PURGED)]

    async def offsets(self) -> dict[str, tuple[int, int]]:
        """Return the segment and offset up to which each journal is ingested, by recorder."""
        return {recorder_id: (segment, offset) for recorder_id, segment, offset in await self.rows(_OFFSETS)}

    async def extents(self, span: Span) -> AsyncIterator[list[Extent]]:
        """Yield pages of exchanges, of all sessions in a span, up to the newest one at the start."""
        (session_id, until), exchange_id = span, FIRST_ID
        newest = [row[0] for row in await self.rows(_NEWEST)] or [_NONE]
        values = {"until": until, "newest": newest[0], "limit": EXTENTS}
        while True:
            keys = {"session_id": session_id, "exchange_id": exchange_id}
            page = [_extent(row) for row in await self.rows(_EXTENTS, **values, **keys)]
            if page:
                yield page
            if len(page) < EXTENTS:
                return
            session_id, exchange_id = page[-1].key

    async def extents_of(self, exchange_ids: Collection[str]) -> dict[tuple[str, str], Extent]:
        """Return some exchanges by their keys, without those that do not exist."""
        found = [_extent(row) for row in await self.rows(_EXTENTS_OF, ids=list(exchange_ids))]
        return {each.key: each for each in found}

    async def events_between(self, first: tuple[str, str], last: tuple[str, str]) -> AsyncIterator[list[Event]]:
        """Yield pages of events of all exchanges from one key to another, in order."""
        after: tuple[str, str, int] = (*first, FIRST_POS)
        while page := await self._page(after, last):
            yield page
            after = (page[-1].session_id, page[-1].exchange_id, page[-1].pos)

    async def _page(self, after: tuple[str, str, int], last: tuple[str, str]) -> list[Event]:
        values = dict(zip(("session_id", "exchange_id", "pos", "until", "last"), (*after, *last), strict=True))
        found: list[Event] = []
        try:
            await self._read_into(found, {**values, "limit": PAGE_ROWS})
        except StoreError:
            if not found:  # else the next page begins with what cannot be read
                raise
        return found

    async def _read_into(self, found: list[Event], values: Mapping[str, Any]) -> None:
        size_bytes = 0
        with self.source.translated(self.url):
            async with self._streaming.connect() as connection, connection.stream(_EVENTS, values) as rows:
                async for some in rows.partitions(ROWS_AT_ONCE):
                    for row in some:
                        event = await self.event_of(row)
                        found.append(event)
                        size_bytes += len(event.raw)
                        if size_bytes >= PAGE_BYTES:
                            return

    async def server(self) -> tuple[str, ...]:
        """Return what identifies a database on a server, however its URL is written; empty for a file."""
        sql = FORMS[self.engine].identity
        return tuple((await self.rows(text(sql)))[0]) if sql else ()


def _extent(row: AnyRow) -> Extent:
    """Return the extent in a row; sessions without an exchange have NULL in its columns."""
    of_session, of_exchange = len(sessions.c), len(sessions.c) + len(exchanges.c)
    exchange = Exchange(*row[of_session:of_exchange]) if row[of_session] is not None else None
    last_pos, last_hash, has_ended = row[of_exchange:]
    return Extent(Session(*row[:of_session]), exchange, last_pos, last_hash, bool(has_ended))
