"""The list of sessions: a filter, an order, and a summary of each session in one row.

Open exchanges are in it, because they come from the log. The content of a session comes from the projections, of the
exchanges that have ended.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    Select,
    and_,
    bindparam,
    case,
    column,
    exists,
    func,
    or_,
    select,
    table,
    text,
)

from recorder.errors import UsageError
from recorder.model.events import BODY_KINDS, PROBE, Session
from recorder.model.ids import ID_LENGTH, ids_beginning
from recorder.store.engine import AnyRow, ReadConnection
from recorder.store.queries.costs import CostSum
from recorder.store.schema import events, exchanges, sessions, tables_of
from recorder.store.search import SearchIndex
from recorder.store.sql import HAS_ENDED, constant, has_ended, struct_of

AnySelect = Select[*tuple[Any, ...]]

NAMED = 1_000  # sessions at most that a question names: each is a value, of which SQLite takes 32,766
OPEN = "open"
UNKNOWN = "unknown"  # the status of an end that cannot be read

# The newest is the one with the newest exchange: ids of both are UUIDv7, and one seek in the key finds the last.
_last_exchange = (
    select(exchanges.c.exchange_id)
    .where(exchanges.c.session_id == sessions.c.session_id)
    .order_by(exchanges.c.exchange_id.desc())
    .limit(1)
)
LAST_ID = func.coalesce(_last_exchange.scalar_subquery(), sessions.c.session_id).label("last_id")
NEWEST_FIRST = (LAST_ID.desc(), sessions.c.session_id.desc())


class SessionFilter(msgspec.Struct, frozen=True):
    """Conditions on sessions, all of which must hold. Texts match anywhere in a name, regardless of case."""

    model: str | None = None  # of an exchange that has ended, as asked for or as answered
    client: str | None = None
    status: str | None = None  # of any of its exchanges
    since_ns: int | None = None  # an exchange began then or later
    until_ns: int | None = None  # … and before this
    words: str | None = None  # all in one row of a full-text index; `wea*` begins one
    probes: bool = False  # those of probes, and no others
    session_id: str | None = None  # this one, of probes or not


class SessionRow(Session, frozen=True):
    """A session with the sums over its exchanges."""

    # From the log.
    started_ns: int = 0  # wall time of the first request; of the session itself if there is none
    ended_ns: int = 0  # wall time of the last event
    duration_ns: int = 0
    used_ns: int = 0  # wall time of the newest request, which is what they are ordered by
    exchanges: int = 0
    events: int = 0
    bytes: int = 0  # of the decoded response bodies
    open: int = 0  # exchanges without an end
    gaps: int = 0  # exchanges of whose response something was not kept
    status: str = OPEN  # how the last exchange ended, or that it has not: see `last_status`
    apis: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    # From the projections, as in the view `session_summary`.
    title: str | None = None
    turns: int = 0
    threads: int = 0
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tool_calls: int = 0
    errors: int = 0
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    total_tokens: int | None = None
    answers: int = 0  # exchanges that ask for an answer
    # By the prices, if there are any (`recorder.store.queries.costs`).
    cost_usd: str | None = None  # decimal text; None if the cost of no exchange is known
    cost_partial: bool | None = None  # some exchange has no known cost, or broke off: there may be more


_FIELDS = SessionRow.__struct_fields__
_PROJECTED = _FIELDS[_FIELDS.index("title") : _FIELDS.index("cost_usd")]
_LISTS = ("models", "tools")  # of which the view makes one text

_SEPARATOR = ", "
_summary = table("session_summary", column("session_id", sessions.c.session_id.type), *map(column, _PROJECTED))


class _End(msgspec.Struct, frozen=True):
    """The fields of an `end` event that are read here."""

    status: str = UNKNOWN
    body_bytes: int = 0
    gap_chunks: int = 0


_end_of = msgspec.json.Decoder(_End).decode

_event = events.alias("event")
_projected = tables_of["exchanges"]


def _within(table: Any) -> Any:
    return and_(table.c.session_id == exchanges.c.session_id, table.c.exchange_id == exchanges.c.exchange_id)


# Parts of an exchange, and no joins: in a file `events` is a view of two tables, and SQLite would go through all of it
# for an outer join.
def _of_last(name: str) -> Any:
    """Return a column of the last event of an exchange."""
    last = select(_event.c[name]).where(_within(_event)).order_by(_event.c.pos.desc()).limit(constant(1))
    return last.correlate(exchanges).scalar_subquery()


_ending = (
    select(_event.c.raw).where(_within(_event), _event.c.kind == constant("end")).correlate(exchanges).scalar_subquery()
)
_COUNT = func.coalesce(_of_last("pos") + 1, 0)
_open_bytes = (
    select(func.coalesce(func.sum(func.length(_event.c.raw)), 0))
    .where(_within(_event), _event.c.kind.in_(sorted(BODY_KINDS)))
    .correlate(exchanges)
    .scalar_subquery()
)
_LINES = (
    select(
        exchanges.c.session_id,
        exchanges.c.started_ns,
        exchanges.c.api,
        exchanges.c.client,
        _COUNT.label("events"),
        (exchanges.c.started_ns + func.coalesce(_of_last("t_ns"), 0)).label("ended_ns"),
        _ending.label("ending"),
        case((_ending.is_(None), _open_bytes), else_=0).label("open_bytes"),
        _projected.c.purpose,
    )
    .join_from(exchanges, _projected, _within(_projected), isouter=True)
    .order_by(exchanges.c.session_id, exchanges.c.started_ns, exchanges.c.exchange_id)
)

SPANS = select(exchanges.c.exchange_id, _of_last("t_ns").label("t_ns")).where(
    exchanges.c.session_id == bindparam("session_id")
)
"""The exchanges of a session, each with the time of its last event since it began, if it has one."""


class Outline(msgspec.Struct, frozen=True):
    """An exchange in a few words: how far it has come, and what the projections have of it once it has ended."""

    exchange_id: str
    events: int
    duration_ns: int  # up to its last event
    has_ended: bool
    status: str | None
    purpose: str | None


OUTLINES = (
    select(
        exchanges.c.exchange_id,
        _COUNT.label("events"),
        func.coalesce(_of_last("t_ns"), 0).label("duration_ns"),
        HAS_ENDED.label("has_ended"),
        _projected.c.status,
        _projected.c.purpose,
    )
    .join_from(exchanges, _projected, _within(_projected), isouter=True)
    .where(exchanges.c.session_id == bindparam("session_id"))
)
"""The rows of the exchanges of a session, for `outline_of`."""


def outline_of(row: AnyRow) -> Outline:
    return Outline(row.exchange_id, row.events, row.duration_ns, bool(row.has_ended), row.status, row.purpose)


class ListPlace(NamedTuple):
    """The place of a session in the list, newest first: its last exchange (the session itself if there is none), and
    its id. It stays what it was while the session goes on.
    """

    last_id: str
    session_id: str

    def cursor(self) -> str:
        return f"{self.last_id}.{self.session_id}"

    @classmethod
    def parse(cls, cursor: str) -> ListPlace:
        """Return the place of a cursor. Raise `UsageError` for other texts."""
        ids = [ids_beginning(part) for part in cursor.split(".")]
        if [len(part) for part in cursor.split(".")] != [ID_LENGTH, ID_LENGTH] or None in ids:
            raise UsageError("That is not a place in the list of sessions: give `next` of an earlier answer.")
        return cls(*cursor.split("."))


class SessionPage(NamedTuple):
    """A part of the list of sessions, and the place after which it goes on; None at its end."""

    rows: list[SessionRow]
    next: ListPlace | None
    places: list[ListPlace]  # of the rows


class PlacedSession(NamedTuple):
    """A session, and its place in the list of sessions."""

    place: ListPlace
    session: Session


_used, _later = exchanges.alias("used"), exchanges.alias("later")
_is_last = ~exists().where(_later.c.session_id == _used.c.session_id, _later.c.exchange_id > _used.c.exchange_id)
_has_none = ~exists().where(exchanges.c.session_id == sessions.c.session_id)


class Listing:
    """The statements for the newest sessions that match a filter, and the rows made of their results.

    Run `used`, `unused` with its rows, and what `about` returns, in one transaction. The first goes down the index of
    exchanges and stops when it has enough, so a page costs the same in a log of any size. Sessions without an exchange
    are few, and only those of the same time are looked for.
    """

    def __init__(
        self,
        wanted: SessionFilter,
        limit: int | None,
        search: Callable[[], SearchIndex],
        before: ListPlace | None = None,
    ) -> None:
        self._conditions, self._limit, self._before = _conditions(wanted, search), limit, before
        self._is_all = limit is None and wanted == SessionFilter() and before is None
        last_id = _used.c.exchange_id
        self.used: AnySelect = (
            select(sessions, last_id.label("last_id"))
            .join_from(_used, sessions, sessions.c.session_id == _used.c.session_id)
            .where(_is_last, *self._conditions, *self._until(last_id))
            .order_by(last_id.desc(), _used.c.session_id.desc())
            .limit(limit)
        )

    def unused(self, used: Sequence[Any]) -> AnySelect:
        """Return the statement for sessions without an exchange, among those that `used` found."""
        id = sessions.c.session_id
        since = [id >= used[-1].last_id] if self._limit is not None and len(used) == self._limit else []
        statement = select(sessions, id.label("last_id")).where(_has_none, *self._conditions, *self._until(id), *since)
        return statement.order_by(id.desc()).limit(self._limit)

    def _until(self, last_id: Any) -> list[Any]:
        if self._before is None:
            return []
        is_same = and_(last_id == self._before.last_id, sessions.c.session_id < self._before.session_id)
        return [last_id <= self._before.last_id, or_(last_id < self._before.last_id, is_same)]

    def merged(self, used: Sequence[Any], unused: Sequence[Any]) -> list[Any]:
        """Return the results of both, newest first."""
        found = sorted([*used, *unused], key=place_of, reverse=True)
        return found[: self._limit]

    def next(self, found: Sequence[Any]) -> ListPlace | None:
        """Return the place after which the list goes on, or None if it was all."""
        return place_of(found[-1]) if found and len(found) == self._limit else None

    def about(self, found: Sequence[Any]) -> list[tuple[AnySelect, AnySelect]]:
        """Return pairs of statements: for the exchanges of the sessions that were found, and for their projections.

        A view is summed up for all sessions, unless the statement itself names those that it is about.
        """
        if self._is_all and len(found) > NAMED:
            return [(_LINES, select(_summary))]
        return [
            (
                _LINES.where(exchanges.c.session_id.in_(part)),
                select(_summary).where(_summary.c.session_id.in_(part)),
            )
            for part in parts_of(found)
        ]

    @staticmethod
    def rows(
        found: Iterable[Any], lines: Iterable[Any], summaries: Iterable[Any], costs: Mapping[str, CostSum]
    ) -> list[SessionRow]:
        """Return a row for each session, from the results of the statements, in order."""
        sums = {
            session_id: _sum(list(group)) for session_id, group in groupby(lines, operator.attrgetter("session_id"))
        }
        projected = {row.session_id: _read(row._mapping) for row in summaries}
        for session_id, cost in costs.items():
            projected.setdefault(session_id, {}).update(cost_usd=cost.usd, cost_partial=cost.partial)
        made = []
        for row in found:
            session = struct_of(Session, row)
            made.append(_row(session, sums.get(row.session_id), projected.get(row.session_id, {})))
        return made


async def listed(connection: ReadConnection, listing: Listing) -> list[AnyRow]:
    """Return the rows of the sessions of a listing, newest first."""
    used = (await connection.execute(listing.used)).all()
    return listing.merged(used, (await connection.execute(listing.unused(used))).all())


def placed(row: AnyRow) -> PlacedSession:
    """Return the session in a row, and its place."""
    return PlacedSession(place_of(row), struct_of(Session, row))


def parts_of(found: Sequence[Any]) -> list[list[str]]:
    """Return the ids of sessions in parts of as many as a question may name."""
    ids = [row.session_id for row in found]
    return [ids[first : first + NAMED] for first in range(0, len(ids), NAMED)]


def place_of(row: Any) -> ListPlace:
    """Return the place of a row of `Listing.merged`, or of any other that has a `last_id`."""
    return ListPlace(row.last_id, row.session_id)


def _conditions(wanted: SessionFilter, search: Callable[[], SearchIndex]) -> list[Any]:
    """Return the conditions of a filter."""
    given = msgspec.structs.asdict(wanted)
    conditions = [make(given[name]) for name, make in _CONDITIONS.items() if given[name] is not None]
    if wanted.session_id is None:
        conditions.append((sessions.c.source == PROBE) == wanted.probes)
    began = [
        compare(exchanges.c.started_ns, given[name]) for name, compare in _BEGAN.items() if given[name] is not None
    ]
    if wanted.words is not None:
        conditions.append(sessions.c.session_id.in_(search().sessions(wanted.words)))
    return [*conditions, _some(exchanges, *began)] if began else conditions


def _some(table: Any, *conditions: Any) -> Any:
    return exists().where(table.c.session_id == sessions.c.session_id, *conditions)


def _has(column: Any, value: str) -> Any:
    return column.icontains(value, autoescape=True)


def _status() -> Any:
    """Return the expression for how an exchange ended, or that it has not."""
    status = select(_projected.c.status).where(_within(_projected)).correlate(exchanges).scalar_subquery()
    return case((text(has_ended("exchanges")), func.coalesce(status, UNKNOWN)), else_=OPEN)


_CONDITIONS: Mapping[str, Callable[[str], Any]] = {
    "session_id": lambda session_id: sessions.c.session_id == session_id,
    "model": lambda model: _some(
        _projected, or_(_has(_projected.c.request_model, model), _has(_projected.c.response_model, model))
    ),
    "client": lambda client: _some(exchanges, _has(exchanges.c.client, client)),
    "status": lambda status: _some(exchanges, _status() == status),
}
_BEGAN: Mapping[str, Callable[[Any, int], Any]] = {
    "since_ns": operator.ge,
    "until_ns": operator.lt,
}  # one exchange both


def _row(session: Session, sums: Mapping[str, Any] | None, projected: Mapping[str, Any]) -> SessionRow:
    created_ns = session.created_ns
    empty = {"started_ns": created_ns, "ended_ns": created_ns, "used_ns": created_ns}
    return SessionRow(**{**msgspec.structs.asdict(session), **(sums or empty), **projected})


def _read(summary: Mapping[str, Any]) -> dict[str, Any]:
    lists = {name: tuple(filter(None, (summary[name] or "").split(_SEPARATOR))) for name in _LISTS}
    return {**{name: summary[name] for name in _PROJECTED}, **lists}


def _sum(lines: Sequence[Any]) -> dict[str, Any]:
    """Return the sums over the exchanges of one session, in order of their start."""
    ends = [None if line.ending is None else _read_end(line.ending) for line in lines]
    started_ns, ended_ns = lines[0].started_ns, max(line.ended_ns for line in lines)
    return {
        "started_ns": started_ns,
        "ended_ns": ended_ns,
        "duration_ns": ended_ns - started_ns,
        "used_ns": lines[-1].started_ns,
        "exchanges": len(lines),
        "events": sum(line.events for line in lines),
        "bytes": sum(end.body_bytes if end else line.open_bytes for line, end in zip(lines, ends, strict=True)),
        "open": ends.count(None),
        "gaps": sum(end is not None and end.gap_chunks > 0 for end in ends),
        "status": last_status(
            (line.purpose, end.status if end else OPEN) for line, end in zip(lines, ends, strict=True)
        ),
        "apis": tuple(dict.fromkeys(line.api for line in lines)),
        "clients": tuple(dict.fromkeys(line.client for line in lines if line.client)),
    }


def last_status(exchanges: Iterable[tuple[str | None, str]]) -> str:
    """Return how the last of some exchanges ended, from the purpose and the status of each.

    A client also breaks off its own background requests, when it is done: such an end is not a fault of the session.
    """
    status = None
    for purpose, each in exchanges:
        if status is None or each != "client_disconnect" or purpose in (None, "turn"):
            status = each
    return status or OPEN


def _read_end(raw: bytes) -> _End:
    try:
        return _end_of(raw)
    except msgspec.DecodeError:
        return _End()
