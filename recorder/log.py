"""The log as it is read: on an event loop, in short transactions, never in the way of the writer.

Rules of this file:

* It only reads, through connections that cannot write (`recorder.sqlite.READER`).
* A transaction holds one page. A reader that stays in one would keep the WAL from being emptied, so no caller can.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from sqlalchemy import URL, Row, Select, and_, bindparam, case, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from recorder import migrate
from recorder.errors import NotFoundError, UsageError
from recorder.events import BODY_KINDS, Event, Exchange, Session
from recorder.location import database_path, database_url
from recorder.schema import events, exchanges, sessions
from recorder.sqlite import reader_engine, translated

AnyRow = Row[*tuple[Any, ...]]
AnySelect = Select[*tuple[Any, ...]]

PAGE_ROWS = 500
PAGE_BYTES = 4 * 2**20  # a page passes it by one event at most: what a slow consumer holds
PREFIX_LENGTH = 4
CANDIDATES = 5

LATEST = "latest"

_ID_PREFIX = re.compile(rf"[0-9a-f-]{{{PREFIX_LENGTH},}}")

# The newest is the one with the newest exchange: ids of both are UUIDv7, and one seek in the key finds the last.
_last_exchange = select(func.max(exchanges.c.exchange_id)).where(exchanges.c.session_id == sessions.c.session_id)
_NEWEST_FIRST = (
    func.coalesce(_last_exchange.scalar_subquery(), sessions.c.session_id).desc(),
    sessions.c.session_id.desc(),
)


class SessionRow(Session, frozen=True):
    """A session and what can be said of its exchanges together."""

    exchanges: int = 0
    events: int = 0
    bytes: int = 0  # of the decoded response bodies
    first_ns: int = 0  # wall time of the first request; of the session itself if there is none
    last_ns: int = 0  # wall time of the last event
    used_ns: int = 0  # wall time of the newest request, which is what they are ordered by
    open: int = 0  # exchanges without an end
    gaps: int = 0  # exchanges of whose response something was not kept
    status: str = "open"  # how the last exchange ended, or that it has not
    apis: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


class _End(msgspec.Struct, frozen=True):
    """What is read here of an `end` event."""

    status: str = "unknown"
    body_bytes: int = 0
    gap_chunks: int = 0


_end_of = msgspec.json.Decoder(_End).decode

_last, _ending, _body = events.alias("last"), events.alias("ending"), events.alias("body")


def _within(table: Any) -> Any:
    return and_(table.c.session_id == exchanges.c.session_id, table.c.exchange_id == exchanges.c.exchange_id)


_last_pos = select(func.max(_body.c.pos)).where(_within(_body)).correlate(exchanges).scalar_subquery()
_open_bytes = (
    select(func.coalesce(func.sum(func.length(_body.c.raw)), 0))
    .where(_within(_body), _body.c.kind.in_(sorted(BODY_KINDS)))
    .correlate(exchanges)
    .scalar_subquery()
)
_SUMMARY = (
    select(
        exchanges.c.session_id,
        exchanges.c.started_ns,
        exchanges.c.api,
        exchanges.c.client,
        func.coalesce(_last.c.pos + 1, 0).label("events"),
        (exchanges.c.started_ns + func.coalesce(_last.c.t_ns, 0)).label("last_ns"),
        _ending.c.raw.label("ending"),
        case((_ending.c.raw.is_(None), _open_bytes), else_=0).label("open_bytes"),
    )
    .join_from(exchanges, _last, and_(_within(_last), _last.c.pos == _last_pos), isouter=True)
    .join(_ending, and_(_within(_ending), _ending.c.kind == "end"), isouter=True)
    .order_by(exchanges.c.session_id, exchanges.c.started_ns, exchanges.c.exchange_id)
)

_EXCHANGES = (
    select(exchanges)
    .where(exchanges.c.session_id == bindparam("session_id"))
    .order_by(exchanges.c.started_ns, exchanges.c.exchange_id)
)

_after = [
    events.c.session_id == bindparam("session_id"),
    events.c.exchange_id == bindparam("exchange_id"),
    events.c.pos > bindparam("after"),
]


def _page(kinds: Collection[str] | None) -> AnySelect:
    """Events after a position, as many as fit in a page: the sizes decide where it ends, then the rows are read."""
    wanted = [*_after, events.c.kind.in_(sorted(kinds))] if kinds is not None else _after
    size = func.length(events.c.raw)
    before = (func.sum(size).over(order_by=events.c.pos) - size).label("before")
    sizes = select(events.c.pos, before).where(*wanted).order_by(events.c.pos).limit(PAGE_ROWS).subquery()
    until = select(func.max(sizes.c.pos)).where(sizes.c.before < PAGE_BYTES).scalar_subquery()
    return select(events).where(*wanted, events.c.pos <= until).order_by(events.c.pos)


class Log:
    """The log, open for reading. `await Log.open(url)`, and `close` it before the event loop ends."""

    def __init__(self, path: Path, engine: AsyncEngine) -> None:
        self.path = path
        self._engine = engine

    @classmethod
    async def open(cls, url: str | Path | URL) -> Self:
        """Raises `NotFoundError` if there is no such file, `StoreError` if it is not a log that can be read here."""
        path = database_path(database_url(url))
        if not path.exists():
            raise NotFoundError(f"There is no database {path} yet: nothing has been recorded there.")
        log = cls(path, reader_engine(path))
        try:
            migrate.require_head(path, await log._revision())
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
        await self._engine.dispose()

    async def sessions(self, limit: int | None = None) -> list[SessionRow]:
        """Those of the newest exchanges, newest first, each with the sums of its exchanges."""
        newest = select(sessions).order_by(*_NEWEST_FIRST).limit(limit)
        chosen = newest.with_only_columns(sessions.c.session_id)
        summaries = _SUMMARY if limit is None else _SUMMARY.where(exchanges.c.session_id.in_(chosen))
        with translated(self.path):
            async with self._engine.connect() as connection:
                rows = (await connection.execute(newest)).all()
                lines = (await connection.execute(summaries)).all()
        sums = {session_id: _sum(group) for session_id, group in groupby(lines, attrgetter("session_id"))}
        return [_session_row(Session(*row), sums) for row in rows]

    async def session(self, ref: str) -> Session:
        """The session that `ref` means: `latest`, an id, a name (the newest of that name), or the beginning of an id.

        Raises `NotFoundError` if none does, `UsageError` if it is the beginning of several ids.
        """
        ref = ref.encode("utf-8", "replace").decode()  # an argument of a command line may be any bytes
        if ref == LATEST:
            found = await self._newest(limit=1)
        else:
            found = await self._newest(sessions.c.session_id == ref.lower(), limit=1)
            found = found or await self._newest(sessions.c.name == ref, limit=1)
            found = found or await self._beginning_with(ref.lower())
        if not found:
            raise NotFoundError(f"There is no session {ref!r} in {self.path}: `recorder sessions` lists what there is.")
        return found[0]

    async def exchanges(self, session_id: str) -> list[Exchange]:
        """The exchanges of a session, in order of their start."""
        return [Exchange(*row) for row in await self._all(_EXCHANGES, session_id=session_id)]

    async def events(
        self, session_id: str, exchange_id: str, after: int = -1, kinds: Collection[str] | None = None
    ) -> AsyncIterator[Event]:
        """The events of an exchange after a position, in order, of all kinds or of some.

        Ends with the last event that there is now; call it again with the last `pos` to follow an open exchange.
        """
        page = _page(kinds)
        while True:
            rows = await self._all(page, session_id=session_id, exchange_id=exchange_id, after=after)
            for row in rows:
                yield Event(*row)
            if len(rows) < PAGE_ROWS and sum(len(row.raw) for row in rows) < PAGE_BYTES:
                return
            after = rows[-1].pos

    async def _beginning_with(self, prefix: str) -> list[Session]:
        if not _ID_PREFIX.fullmatch(prefix):
            return []
        ids = sessions.c.session_id
        found = await self._newest(ids >= prefix, ids < f"{prefix}g", limit=CANDIDATES + 1)  # g: after any hex digit
        if len(found) > 1:
            named = ", ".join(f"{session.session_id} ({session.name})" for session in found[:CANDIDATES])
            more = " and more" if len(found) > CANDIDATES else ""
            raise UsageError(f"{prefix!r} is the beginning of several session ids: {named}{more}. Give more of it.")
        return found

    async def _newest(self, *where: Any, limit: int) -> list[Session]:
        statement = select(sessions).where(*where).order_by(*_NEWEST_FIRST).limit(limit)
        return [Session(*row) for row in await self._all(statement)]

    async def _all(self, statement: AnySelect, **values: Any) -> Sequence[AnyRow]:
        """The rows of one statement, in a transaction of its own."""
        with translated(self.path):
            async with self._engine.connect() as connection:
                return (await connection.execute(statement, values)).all()

    async def _revision(self) -> str | None:
        if migrate.is_empty(self.path):
            return None
        with translated(self.path):
            async with self._engine.connect() as connection:
                revision: str | None = (await connection.exec_driver_sql(migrate.READ_REVISION)).scalar()
                return revision


def _session_row(session: Session, sums: dict[str, dict[str, Any]]) -> SessionRow:
    empty = {"first_ns": session.created_ns, "last_ns": session.created_ns, "used_ns": session.created_ns}
    return SessionRow(*msgspec.structs.astuple(session), **sums.get(session.session_id, empty))


def _sum(group: Iterable[AnyRow]) -> dict[str, Any]:
    """What the exchanges of one session, in order of their start, come to."""
    lines = list(group)
    ends = [None if line.ending is None else _read_end(line.ending) for line in lines]
    return {
        "exchanges": len(lines),
        "events": sum(line.events for line in lines),
        "bytes": sum(end.body_bytes if end else line.open_bytes for line, end in zip(lines, ends, strict=True)),
        "first_ns": lines[0].started_ns,
        "last_ns": max(line.last_ns for line in lines),
        "used_ns": lines[-1].started_ns,
        "open": ends.count(None),
        "gaps": sum(end is not None and end.gap_chunks > 0 for end in ends),
        "status": ends[-1].status if ends[-1] else "open",
        "apis": tuple(dict.fromkeys(line.api for line in lines)),
        "clients": tuple(dict.fromkeys(line.client for line in lines if line.client)),
    }


def _read_end(raw: bytes) -> _End:
    try:
        return _end_of(raw)
    except msgspec.DecodeError:
        return _End()
