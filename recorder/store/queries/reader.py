"""The reader of the log, for an event loop: in short transactions, never in the way of the writer.

Rules of this file:

* It only reads, through connections that cannot write (`Reading.reader`).
* A transaction holds one page. A reader that stays in one would keep the WAL from being emptied, so no caller can.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from sqlalchemy import URL, Select, bindparam, func, or_, select, text
from sqlalchemy.sql import Executable

from recorder.errors import NotFoundError, StoreError, UsageError
from recorder.model.events import BODY_KINDS, LATEST, PROBE, Event, Exchange, Session
from recorder.model.facts import Links
from recorder.model.ids import ID_LENGTH, ids_beginning
from recorder.model.text import storable
from recorder.store.bodies.rows import SharedRow, damaged, is_shared, sources_sql
from recorder.store.engine import AnyRow, address_of
from recorder.store.location import database_url
from recorder.store.maintain.migrate import require_head
from recorder.store.maintain.purge.tombstone import Tombstone
from recorder.store.protocols import ReadSource, reading_of, source_of
from recorder.store.queries.costs import (
    HAS_PRICES,
    MODELS,
    CostSum,
    ExchangeCost,
    by_exchange,
    by_session,
    exchange_costs,
    session_costs,
)
from recorder.store.queries.resumed_response import EARLIER_EVENTS, each_number_once, earlier
from recorder.store.queries.session_list import (
    LAST_ID,
    NEWEST_FIRST,
    OUTLINES,
    SPANS,
    Listing,
    ListPlace,
    Outline,
    PlacedSession,
    SessionFilter,
    SessionPage,
    SessionRow,
    listed,
    outline_of,
    parts_of,
    place_of,
    placed,
)
from recorder.store.queries.usage import (
    EVERYTHING,
    By,
    CostTally,
    Summed,
    Tally,
    Unpriced,
    costs,
    costs_by,
    sums_by,
    tallies,
    unpriced,
)
from recorder.store.schema import REBUILD_IS_DUE, events, exchanges, sessions, tables_of, tombstones
from recorder.store.sql import HAS_ENDED, of_exchange, of_same_exchange, struct_of

AnySelect = Select[*tuple[Any, ...]]

_requests = tables_of["requests"]

PAGE_ROWS = 500
PAGE_BYTES = 4 * 2**20  # a page passes it by one event at most: what a slow consumer holds
CANDIDATES = 5
KINDS = 32  # sets of kinds whose statement is kept: writing one takes longer than reading a short exchange

_SESSION = select(sessions).where(sessions.c.session_id == bindparam("session_id"))
_NAMED = select(sessions.c.session_id).where(sessions.c.name == bindparam("name"))
_EXCHANGES = (
    select(exchanges)
    .where(exchanges.c.session_id == bindparam("session_id"))
    .order_by(exchanges.c.started_ns, exchanges.c.exchange_id)
)
_NUMBER = re.compile("[1-9][0-9]{0,8}")  # of an exchange in its session
_numbers = (
    select(
        exchanges.c.exchange_id,
        func.row_number().over(order_by=(exchanges.c.started_ns, exchanges.c.exchange_id)).label("number"),
    )
    .where(exchanges.c.session_id == bindparam("session_id"))
    .subquery()
)
_numbered = (
    select(exchanges, _numbers.c.number)
    .join_from(_numbers, exchanges, _numbers.c.exchange_id == exchanges.c.exchange_id)
    .where(exchanges.c.session_id == bindparam("session_id"))
    .order_by(_numbers.c.number)
)
_OF_NUMBER = _numbered.where(_numbers.c.number == bindparam("number"))
_OF_IDS = _numbered.where(exchanges.c.exchange_id.between(bindparam("first"), bindparam("last")))

_REBUILD_IS_DUE = text(REBUILD_IS_DUE)

_after = [
    events.c.session_id == bindparam("session_id"),
    events.c.exchange_id == bindparam("exchange_id"),
    events.c.pos > bindparam("after"),
]

_EVENT = select(events).where(of_exchange(events), events.c.pos == bindparam("pos"))
_HASH = select(events.c.hash).where(of_exchange(events), events.c.pos == bindparam("pos"))
_BODY_BEFORE = select(func.coalesce(func.sum(func.length(events.c.raw)), 0)).where(
    of_exchange(events), events.c.pos < bindparam("pos"), events.c.kind.in_(sorted(BODY_KINDS))
)


@lru_cache(KINDS)
def _page(kinds: frozenset[str] | None) -> AnySelect:
    """Select the events after a position that fit in a page: the sizes decide where it ends, then the rows are read."""
    wanted = [*_after, events.c.kind.in_(sorted(kinds))] if kinds is not None else _after
    size = func.length(events.c.raw)
    before = (func.sum(size).over(order_by=events.c.pos) - size).label("before")
    sizes = select(events.c.pos, before).where(*wanted).order_by(events.c.pos).limit(PAGE_ROWS).subquery()
    until = select(func.max(sizes.c.pos)).where(sizes.c.before < PAGE_BYTES).scalar_subquery()
    return select(events).where(*wanted, events.c.pos <= until).order_by(events.c.pos)


_having = select(_requests.c.exchange_id).where(_requests.c.session_id == bindparam("session_id"))
# The exchanges that links may lead to, by `Links`; those that only retrieved a response included.
_CONTINUED = _having.where(_requests.c.response_id == bindparam("response_id")).union(
    _having.where(_requests.c.conversation_id == bindparam("conversation_id"))
)


class EventPlace(msgspec.Struct, frozen=True):
    """An event, the hash of the one before it, and the bytes of the decoded response body before it."""

    event: Event
    previous: bytes | None
    body_offset: int


class ExchangeProgress(msgspec.Struct, frozen=True):
    """An exchange, its session, and how many events of it the log has."""

    session_id: str
    exchange_id: str
    session_name: str
    origin: str
    last_pos: int | None
    ended: bool


_PROGRESS = (
    select(
        *(exchanges.c[name] for name in ("session_id", "exchange_id")),
        sessions.c.name.label("session_name"),
        sessions.c.origin,
        select(func.max(events.c.pos))
        .where(of_same_exchange(events, exchanges))
        .correlate(exchanges)
        .scalar_subquery()
        .label("last_pos"),
        HAS_ENDED.label("ended"),
    )
    .join_from(exchanges, sessions, exchanges.c.session_id == sessions.c.session_id)
    .where(
        or_(
            exchanges.c.exchange_id >= bindparam("since"),
            exchanges.c.exchange_id.in_(bindparam("others", expanding=True)),
        )
    )
    .order_by(exchanges.c.exchange_id)
)
_PROGRESS_OF_SESSION = _PROGRESS.where(exchanges.c.session_id == bindparam("session_id"))


class LogReader:
    """A log, open for reading. `await LogReader.open(url)`, and `close` it before the event loop ends.

    `recorder.archive.open_log` opens it together with its archives.
    """

    def __init__(self, url: URL, source: ReadSource | None = None) -> None:
        """`source` is another one than the engine of the URL."""
        self.source = source = source or source_of(url)
        self.url, self.name, self.engine = url, source.name, source.dialect
        self._pool, self._translated, self._search = source.pool, source.translated, source.search
        self._sources = text(sources_sql(source.of_bodies))

    @classmethod
    async def open(cls, url: str | Path | URL) -> Self:
        """Open a log without its archives.

        Raise `NotFoundError` if there is no database, `StoreError` if it is not a log that can be read.
        """
        given = database_url(url)
        address_of(given).require(given)
        log = cls(given)
        try:
            require_head(log.name, await reading_of(given).revision(given, lambda sql: log._all(text(sql))))
        except BaseException:
            await log.close()
            raise
        return log

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._pool.dispose()

    async def sessions(self, limit: int | None = None, wanted: SessionFilter | None = None) -> list[SessionRow]:
        """Return the sessions of the newest exchanges, newest first, each with the sums of its exchanges."""
        return (await self.session_page(limit, wanted)).rows

    async def session_page(
        self, limit: int | None, wanted: SessionFilter | None = None, before: ListPlace | None = None
    ) -> SessionPage:
        """Return the sessions that follow a place in the list, and the place where it goes on."""
        listing = Listing(wanted or SessionFilter(), limit, self._search, before)
        lines: list[AnyRow] = []
        sums: list[AnyRow] = []
        costs: dict[str, CostSum] = {}
        with self._translated(self.url):
            async with self._pool.connect() as connection:
                found = await listed(connection, listing)
                for of_exchanges, of_projections in listing.about(found):  # of no session a view would sum up all
                    lines += (await connection.execute(of_exchanges)).all()
                    sums += (await connection.execute(of_projections)).all()
                priced = found and (await connection.execute(HAS_PRICES)).scalar_one()
                for ids in parts_of(found) if priced else []:
                    named = session_costs(self.engine)
                    costs |= by_session((await connection.execute(named, {"session_ids": ids})).all())
        return SessionPage(listing.rows(found, lines, sums, costs), listing.next(found), list(map(place_of, found)))

    async def has_prices(self) -> bool:
        """Return whether there is any price: without one, no cost is known."""
        [(has_prices,)] = await self._all(HAS_PRICES)
        return bool(has_prices)

    async def models(self) -> set[tuple[str, str]]:
        """Return the upstreams and models that have costs."""
        return {(row.provider, row.model) for row in await self._all(MODELS)}

    async def exchange_costs(self, session_id: str) -> dict[str, ExchangeCost]:
        """Return the costs of the exchanges of a session that have ended; none if there are no prices."""
        if not await self.has_prices():
            return {}
        return by_exchange(await self._all(exchange_costs(self.engine), session_ids=[session_id]))

    async def session(self, ref: str) -> Session:
        """Return the session of `ref`: `latest`, an id, a name (the newest of that name), or the beginning of an id.

        Raise `NotFoundError` if there is none, `UsageError` if it is the beginning of several ids.
        """
        ref = ref.encode("utf-8", "replace").decode()  # an argument of a command line may be any bytes
        if ref == LATEST:
            found = [each.session for each in await self._last_used()]
        else:
            exact = ids_beginning(ref.lower()) if len(ref) == ID_LENGTH else None
            found = await self._with_id(exact.first) if exact else []
            found = found or await self._newest(sessions.c.name == ref, limit=1)
            found = found or await self._beginning_with(ref.lower())
        if found:
            return found[0]
        purged = await self.tombstone(ref)
        if purged is not None:
            raise NotFoundError(str(purged))
        remedy = "nothing is recorded there" if ref == LATEST else "`recorder sessions` lists what there is"
        raise NotFoundError(f"There is no session {ref!r} in {self.name}: {remedy}.")

    async def tombstone(self, ref: str) -> Tombstone | None:
        """Return the tombstone of the purged session with this id, or of the only one whose id begins so."""
        meant, ids = ids_beginning(ref.lower()), tombstones.c.session_id
        if meant is None:
            return None
        rows = await self._all(select(tombstones).where(ids.between(*meant)).order_by(ids).limit(2))
        return struct_of(Tombstone, rows[0]) if len(rows) == 1 else None

    async def count_named(self, name: str) -> int:
        """Return the number of sessions of a name."""
        return len(await self._ids_named(name))

    async def names(self, beginning: str, limit: int) -> list[str]:
        """Return the names of the newest sessions whose names begin so."""
        begins = sessions.c.name.startswith(beginning, autoescape=True)
        found = await self._newest(begins, sessions.c.source != PROBE, limit=limit)
        return [session.name for session in found]

    async def exchanges(self, session_id: str) -> list[Exchange]:
        """Return the exchanges of a session, in order of their start."""
        return [struct_of(Exchange, row) for row in await self._all(_EXCHANGES, session_id=session_id)]

    async def exchanges_named(self, session_id: str, ref: str) -> list[tuple[int, Exchange]]:
        """Return the exchange of a session with this number, else those whose ids begin so; each with its number."""
        rows: Sequence[AnyRow] = ()
        if _NUMBER.fullmatch(ref):
            rows = await self._all(_OF_NUMBER, session_id=session_id, number=int(ref))
        if not rows and (meant := ids_beginning(ref)) is not None:
            rows = await self._all(_OF_IDS, session_id=session_id, first=meant.first, last=meant.last)
        return [(row.number, struct_of(Exchange, row)) for row in rows]

    async def spans(self, session_id: str) -> dict[str, int]:
        """Return the nanoseconds that each exchange of a session has taken so far, up to its last event."""
        rows = await self._all(SPANS, session_id=session_id)
        return {row.exchange_id: row.t_ns for row in rows if row.t_ns is not None}

    async def outlines(self, session_id: str) -> list[Outline]:
        """Return how far each exchange of a session has come, in no order."""
        return [outline_of(row) for row in await self._all(OUTLINES, session_id=session_id)]

    async def usage(self, by: Sequence[By], summed: Summed = EVERYTHING) -> list[Tally]:
        """Return the tokens of ended exchanges, summed by some keys."""
        return tallies(by, await self._all(sums_by(by, summed, self.engine)))

    async def costs(
        self, by: Sequence[By], summed: Summed = EVERYTHING
    ) -> tuple[dict[tuple[Any, ...], CostTally], list[Unpriced]]:
        """Return the costs of ended exchanges by the same keys, and the models of them that have no price."""
        without_price = [struct_of(Unpriced, row) for row in await self._all(unpriced(summed))]
        return costs(by, await self._all(costs_by(by, summed))), without_price

    async def rebuild_is_due(self) -> bool:
        """Return whether the projections lack exchanges that the log has."""
        [(is_due,)] = await self._all(_REBUILD_IS_DUE)
        return bool(is_due)

    async def events(
        self, session_id: str, exchange_id: str, after: int = -1, kinds: Collection[str] | None = None
    ) -> AsyncIterator[Event]:
        """Yield the events of an exchange after a position, in order, of all kinds or of some.

        Ends with the last event that there is now; call it again with the last `pos` to follow an open exchange.
        """
        page = _page(None if kinds is None else frozenset(kinds))
        while True:
            rows = await self._all(page, session_id=session_id, exchange_id=exchange_id, after=after)
            for row in rows:
                yield await self._event(row) if is_shared(row) else Event(*row)
            if len(rows) < PAGE_ROWS and sum(len(row.raw) for row in rows) < PAGE_BYTES:
                return
            after = rows[-1].pos

    async def place(self, session_id: str, exchange_id: str, pos: int) -> EventPlace | None:
        """Return the event at a position, or None if there is none (yet)."""
        key = {"session_id": session_id, "exchange_id": exchange_id}
        rows = await self._all(_EVENT, **key, pos=pos)
        if not rows:
            return None
        before = await self._all(_HASH, **key, pos=pos - 1)
        [(offset,)] = await self._all(_BODY_BEFORE, **key, pos=pos)
        event = await self._event(rows[0]) if is_shared(rows[0]) else Event(*rows[0])
        return EventPlace(event, before[0].hash if before else None, int(offset))

    async def earlier_events(self, exchange: Exchange) -> list[Event]:
        """Return the events of the response that an exchange resumes, from before it was resumed."""
        values = earlier(exchange)
        found = [Event(*row) for row in await self._all(EARLIER_EVENTS, **values)] if values else []
        return list(each_number_once(found))

    async def continued(self, session_id: str, links: Links) -> list[str]:
        """Return the exchanges of a session that have the response or the conversation that a request continues."""
        ids = {name: storable(id) for name, id in links._asdict().items()}  # as the rows have them
        rows = await self._all(_CONTINUED, session_id=session_id, **ids)
        return [row.exchange_id for row in rows]

    async def progress(
        self, since: str, others: Collection[str] = (), session_id: str | None = None
    ) -> list[ExchangeProgress]:
        """Return how far exchanges have come whose id is `since` or later, and some `others`, in order of their ids:
        of one session, or of all.
        """
        values: dict[str, Any] = {"since": since, "others": list(others)}
        if session_id is not None:
            values["session_id"] = session_id
        statement = _PROGRESS if session_id is None else _PROGRESS_OF_SESSION
        return [struct_of(ExchangeProgress, row) for row in await self._all(statement, **values)]

    async def rows(self, statement: Executable, **values: Any) -> Sequence[AnyRow]:
        """Return the rows of a statement of the caller, which fit in a page, in a separate transaction."""
        return await self._all(statement, **values)

    async def _event(self, row: AnyRow) -> Event:
        """Return the event of a shared row. One at a time: of a page of recipes, not all bodies are in memory."""
        try:
            whole = SharedRow(row)
            return whole.event(await self._all(self._sources, **whole.parameters))
        except ValueError as error:
            raise StoreError(damaged(row, error)) from error

    async def _beginning_with(self, prefix: str) -> list[Session]:
        meant = ids_beginning(prefix)
        if meant is None:
            return []
        found = await self._newest(sessions.c.session_id.between(*meant), limit=CANDIDATES + 1)
        if len(found) > 1:
            named = "".join(f"\n  {session.session_id} {session.name}" for session in found[:CANDIDATES])
            more = "\n  …" if len(found) > CANDIDATES else ""
            raise UsageError(
                f"{prefix!r} is the beginning of several session ids; give more of it. The newest are:{named}{more}"
            )
        return found

    async def _last_used(self) -> list[PlacedSession]:
        with self._translated(self.url):
            async with self._pool.connect() as connection:
                return list(map(placed, await listed(connection, Listing(SessionFilter(), 1, self._search))))

    async def _with_id(self, session_id: str) -> list[Session]:
        return [struct_of(Session, row) for row in await self._all(_SESSION, session_id=session_id)]

    async def _ids_named(self, name: str) -> set[str]:
        return {row.session_id for row in await self._all(_NAMED, name=name)}

    async def _newest(self, *where: Any, limit: int) -> list[Session]:
        return [each.session for each in await self._newest_placed(*where, limit=limit)]

    async def _newest_placed(self, *where: Any, limit: int) -> list[PlacedSession]:
        statement = select(sessions, LAST_ID).where(*where).order_by(*NEWEST_FIRST).limit(limit)
        return list(map(placed, await self._all(statement)))

    async def _all(self, statement: Executable, **values: Any) -> Sequence[AnyRow]:
        """Return the rows of one statement, in a separate transaction."""
        with self._translated(self.url):
            async with self._pool.connect() as connection:
                return (await connection.execute(statement, values)).all()
