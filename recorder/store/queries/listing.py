"""The newest sessions that match a filter, in an order that a page can go on from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import Select, and_, case, exists, func, or_, select, text

from recorder.errors import UsageError
from recorder.model.events import PROBE
from recorder.model.ids import BEFORE_ALL, ID_LENGTH, ids_beginning
from recorder.store.engine import AnyRow, ReadConnection
from recorder.store.schema import exchanges, sessions, tables_of
from recorder.store.sql import has_ended, of_same_exchange

if TYPE_CHECKING:
    from recorder.store.search import SearchIndex

AnySelect = Select[*tuple[Any, ...]]

OPEN = "open"
UNKNOWN = "unknown"  # the status of an end that cannot be read

_projected = tables_of["exchanges"]

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


_used, _later = exchanges.alias("used"), exchanges.alias("later")
_is_last = ~exists().where(_later.c.session_id == _used.c.session_id, _later.c.exchange_id > _used.c.exchange_id)
_has_none = ~exists().where(exchanges.c.session_id == sessions.c.session_id)


class Listing:
    """The newest sessions that match a filter.

    The first statement goes down the index of exchanges and stops when it has enough, so a page costs the same in a log
    of any size. Sessions without an exchange are few, and only those of the same time are looked for.
    """

    def __init__(
        self,
        wanted: SessionFilter,
        limit: int | None,
        search: Callable[[], SearchIndex],
        before: ListPlace | None = None,
    ) -> None:
        self._conditions, self._limit, self._before = _conditions(wanted, search), limit, before
        self.is_all = limit is None and wanted == SessionFilter() and before is None

    async def read(self, connection: ReadConnection) -> list[AnyRow]:
        """Return the rows of the sessions, newest first."""
        used = (await connection.execute(self._used())).all()
        unused = (await connection.execute(self._unused(used))).all()
        return sorted([*used, *unused], key=place_of, reverse=True)[: self._limit]

    def _used(self) -> AnySelect:
        last_id = _used.c.exchange_id
        return (
            select(sessions, last_id.label("last_id"))
            .join_from(_used, sessions, sessions.c.session_id == _used.c.session_id)
            .where(_is_last, *self._conditions, *self._until(last_id))
            .order_by(last_id.desc(), _used.c.session_id.desc())
            .limit(self._limit)
        )

    def _unused(self, used: Sequence[AnyRow]) -> AnySelect:
        """Return the statement for sessions without an exchange, among those that `_used` found."""
        id = sessions.c.session_id
        statement = select(sessions, id.label("last_id")).where(_has_none, *self._conditions, *self._until(id))
        if self._limit is not None and len(used) == self._limit:
            statement = statement.where(id >= used[-1].last_id)
        return statement.order_by(id.desc()).limit(self._limit)

    def _until(self, last_id: Any) -> list[Any]:
        if self._before is None:
            # SQLite 3.53 sorts all exchanges for a small limit, unless a condition on the key sends it to the index.
            return [last_id > BEFORE_ALL]
        is_same = and_(last_id == self._before.last_id, sessions.c.session_id < self._before.session_id)
        return [last_id <= self._before.last_id, or_(last_id < self._before.last_id, is_same)]


def place_of(row: Any) -> ListPlace:
    """Return the place of a row that has a `last_id`."""
    return ListPlace(row.last_id, row.session_id)


def _conditions(wanted: SessionFilter, search: Callable[[], SearchIndex]) -> list[Any]:
    """Return the conditions of a filter."""
    given = msgspec.structs.asdict(wanted)
    conditions = [make(given[name]) for name, make in _CONDITIONS.items() if given[name] is not None]
    if wanted.session_id is None:
        conditions.append((sessions.c.source == PROBE) == wanted.probes)
    began = []  # one exchange in both
    if wanted.since_ns is not None:
        began.append(exchanges.c.started_ns >= wanted.since_ns)
    if wanted.until_ns is not None:
        began.append(exchanges.c.started_ns < wanted.until_ns)
    if wanted.words is not None:
        conditions.append(sessions.c.session_id.in_(search().sessions(wanted.words)))
    return [*conditions, _some(exchanges, *began)] if began else conditions


def _some(table: Any, *conditions: Any) -> Any:
    return exists().where(table.c.session_id == sessions.c.session_id, *conditions)


def _has(column: Any, value: str) -> Any:
    return column.icontains(value, autoescape=True)


def _status() -> Any:
    """Return the expression for how an exchange ended, or that it has not."""
    status = (
        select(_projected.c.status)
        .where(of_same_exchange(_projected, exchanges))
        .correlate(exchanges)
        .scalar_subquery()
    )
    return case((text(has_ended("exchanges")), func.coalesce(status, UNKNOWN)), else_=OPEN)


_CONDITIONS: Mapping[str, Callable[[str], Any]] = {
    "session_id": lambda session_id: sessions.c.session_id == session_id,
    "model": lambda model: _some(
        _projected, or_(_has(_projected.c.request_model, model), _has(_projected.c.response_model, model))
    ),
    "client": lambda client: _some(exchanges, _has(exchanges.c.client, client)),
    "status": lambda status: _some(exchanges, _status() == status),
}
