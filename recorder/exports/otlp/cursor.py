"""The cursor of a push: the exchanges that a target has, and those that are due.

Rules of this file:

* An exchange is due when it has ended, has its projections, and the target has not taken one of its
  signals. Exchanges that could not be folded (`dead_letters`) are never due; a rebuild that
  succeeds makes them so.
* A row for each exchange and target. Exchanges end in another order than they begin; imports and
  journals of a crash add old ones: by a time alone some of them would never be sent. A million rows
  take 260 MB in a file, far less than the events of a million exchanges.
* A row is written after the target has accepted a signal, and only while the log has the exchange:
  after a purge there is not a row of the session.
* No look reads more than a page, so that no transaction is long.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    exists,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from recorder.model.ids import BEFORE_ALL, first_id
from recorder.store.engine import AnyRow
from recorder.store.queries.reader import LogReader
from recorder.store.schema import events, exchanges, export_cursors, tables_of
from recorder.store.sql import HAS_ENDED, IS_END, Statement, of_exchange, of_same_exchange
from recorder.store.write.writer import Store

Signal = Literal["traces", "metrics"]

PAGE_ROWS = 5_000  # ended exchanges of one look: some 20 ms where the target has them all
IDS = 1_000  # in one query: SQLite takes 32,766 values
# open exchanges that are looked at each time; a sweep finds the end of the others
OPEN_LIMIT = 1_000

_COLUMNS: dict[Signal, Column[Any]] = {
    "traces": export_cursors.c.traces_ns,
    "metrics": export_cursors.c.metrics_ns,
}
_is_of_target = export_cursors.c.target == bindparam("target")
_IS_OF_FORM = and_(_is_of_target, export_cursors.c.form == bindparam("form"))
_projected = tables_of["exchanges"]


class DueExchange(NamedTuple):
    """An exchange, and the signals of it that its target has not taken."""

    session_id: str
    exchange_id: str
    signals: frozenset[Signal]


ToolItems = Mapping[tuple[str, str], AbstractSet[int]]
"""Items that are calls of tools, by the ids of the session and of the exchange with the call."""


class ExchangeKey(NamedTuple):
    """The ids of a session and of an exchange in it: the order of a sweep."""

    session_id: str
    exchange_id: str


START = ExchangeKey(BEFORE_ALL, BEFORE_ALL)
"""Before all exchanges."""

_key = tuple_(events.c.session_id, events.c.exchange_id)
# No value here is named `session_id`: a reader of a log with archives would look for the rows where
# that session is.
_after = _key > tuple_(bindparam("after_session_id"), bindparam("after_exchange_id"))
_until = _key <= tuple_(bindparam("last_session_id"), bindparam("last_exchange_id"))
_ENDED = select(events.c.session_id, events.c.exchange_id).where(IS_END)
_LAST_OF_PAGE = (
    _ENDED.where(_after)
    .order_by(events.c.session_id, events.c.exchange_id)
    .limit(1)
    .offset(PAGE_ROWS - 1)
)
_LAST = _ENDED.order_by(events.c.session_id.desc(), events.c.exchange_id.desc()).limit(1)


def _missing(table: Table, signal: Signal) -> ColumnElement[bool]:
    """Return the condition that the target has not taken a signal of the exchange of a row.

    Spans have a form: metrics are the same in all, and would be counted twice.
    """
    of_target = _IS_OF_FORM if signal == "traces" else _is_of_target
    return ~exists().where(
        of_same_exchange(export_cursors, table), of_target, _COLUMNS[signal].is_not(None)
    )


def _due_of(table: Table, signals: Sequence[Signal]) -> Select[Any]:
    """Return the statement for the exchanges of a table that lack a signal, with a column for each."""
    missing = {signal: _missing(table, signal) for signal in signals}
    columns = [lacks.label(signal) for signal, lacks in missing.items()]
    return select(table.c.session_id, table.c.exchange_id, *columns).where(or_(*missing.values()))


_HAS_BEGUN_SINCE = exchanges.c.started_ns >= bindparam("since_ns")


class ExportCursor:
    """The cursor of one target in one log."""

    def __init__(
        self,
        log: LogReader,
        store: Store,
        target: str,
        form: str,
        signals: Sequence[Signal],
        since_ns: int | None = None,
    ) -> None:
        """`since_ns` leaves out the exchanges that began before."""
        self._log, self._store, self._signals = log, store, tuple(signals)
        self._values: dict[str, Any] = {"target": target, "form": form}
        self._open: set[str] = set()
        is_projected = exists().where(of_same_exchange(_projected, events))
        page = (
            _due_of(events, self._signals)
            .where(IS_END, _after, _until, is_projected)
            .order_by(events.c.session_id, events.c.exchange_id)
        )
        is_projected = exists().where(of_same_exchange(_projected, exchanges))
        is_new = exchanges.c.exchange_id >= bindparam("from_id")
        is_other = exchanges.c.exchange_id.in_(bindparam("others", expanding=True))
        recent = (
            _due_of(exchanges, self._signals)
            .add_columns(and_(HAS_ENDED, is_projected).label("is_ready"))
            .where(or_(is_new, is_other))
            .order_by(exchanges.c.exchange_id.desc())
            .limit(PAGE_ROWS)
        )
        if since_ns is not None:
            self._values["since_ns"] = since_ns
            page = page.where(exists().where(of_same_exchange(exchanges, events), _HAS_BEGUN_SINCE))
            recent = recent.where(_HAS_BEGUN_SINCE)
        self._page, self._recent = page, recent

    async def sweep(self) -> AsyncIterator[list[DueExchange]]:
        """Yield all exchanges that are due, in order of their sessions, in pages; some are empty.

        What ends meanwhile in a part that the sweep has left is found by the next one.
        """
        after = START
        while (last := await self._last_of_page(after)) is not None:
            values = {**_named("after", after), **_named("last", last), **self._values}
            yield [self._due(row) for row in await self._log.rows(self._page, **values)]
            after = last

    async def recent(self, since_ns: int) -> list[DueExchange]:
        """Return the exchanges that are due of those that began since a time, and of those that
        were open in an earlier look, in order of their sessions.
        """
        since = first_id(since_ns)
        rows = await self._log.rows(
            self._recent, from_id=since, others=sorted(self._open), **self._values
        )
        waiting = [row.exchange_id for row in rows if not row.is_ready]
        self._open = set(waiting[:OPEN_LIMIT])
        return sorted(self._due(row) for row in rows if row.is_ready)

    async def tool_items(
        self, session_id: str, exchange_ids: Collection[str]
    ) -> dict[str, frozenset[int]]:
        """Return the tools whose spans the target has, by exchange with the call: of those whose
        own span it has.
        """
        found: dict[str, frozenset[int]] = {}
        ids, values = sorted(exchange_ids), {"of_session": session_id, **self._values}
        for start in range(0, len(ids), IDS):
            for row in await self._log.rows(
                _TOOL_ITEMS, exchange_ids=ids[start : start + IDS], **values
            ):
                found[row.exchange_id] = frozenset(_items(row.tool_items))
        return found

    def accepted(
        self,
        found: Collection[DueExchange],
        signal: Signal,
        now_ns: int,
        tool_items: ToolItems = MappingProxyType({}),
    ) -> None:
        """Record, in one transaction, that the target has taken a signal of some exchanges, and
        spans of tools.
        """
        form = {"target": self._values["target"], "form": self._values["form"]}
        rows = []
        for due in found:
            rows.append(
                {
                    "session_id": due.session_id,
                    "exchange_id": due.exchange_id,
                    **form,
                    "now_ns": now_ns,
                }
            )
        with self._store.transaction():
            if rows:
                self._store.run(_ACCEPT[signal], rows)
            for (session_id, exchange_id), items in tool_items.items():
                key = {"session_id": session_id, "exchange_id": exchange_id, **form}
                for (before,) in list(self._store.ask(_ITEMS_BEFORE, key)):
                    items = items | _items(before)
                self._store.run(
                    _SET_ITEMS, {**key, "items": msgspec.json.encode(sorted(items)).decode()}
                )

    async def _last_of_page(self, after: ExchangeKey) -> ExchangeKey | None:
        """Return the last exchange of the page after one; None at the end."""
        rows = await self._log.rows(
            _LAST_OF_PAGE, **_named("after", after)
        ) or await self._log.rows(_LAST)
        last = next((ExchangeKey(row.session_id, row.exchange_id) for row in rows), START)
        return last if last > after else None

    def _due(self, row: AnyRow) -> DueExchange:
        signals = frozenset(signal for signal in self._signals if getattr(row, signal))
        return DueExchange(row.session_id, row.exchange_id, signals)


def _named(name: str, key: ExchangeKey) -> dict[str, str]:
    return {f"{name}_session_id": key.session_id, f"{name}_exchange_id": key.exchange_id}


def _items(tool_items: str | None) -> set[int]:
    return msgspec.json.decode(tool_items or "[]", type=set[int])


_of_row = (of_exchange(export_cursors), _IS_OF_FORM)
_TOOL_ITEMS = select(export_cursors.c.exchange_id, export_cursors.c.tool_items).where(
    export_cursors.c.session_id == bindparam("of_session"),
    export_cursors.c.exchange_id.in_(bindparam("exchange_ids", expanding=True)),
    _IS_OF_FORM,
    export_cursors.c.traces_ns.is_not(None),
)
_ITEMS_BEFORE = Statement(select(export_cursors.c.tool_items).where(*_of_row))
_SET_ITEMS = Statement(update(export_cursors).where(*_of_row).values(tool_items=bindparam("items")))


def _accept(signal: Signal) -> Statement:
    column = _COLUMNS[signal]
    target, form = cast(bindparam("target"), Text), cast(bindparam("form"), Text)
    now_ns = cast(bindparam("now_ns"), BigInteger)
    row = select(exchanges.c.session_id, exchanges.c.exchange_id, target, form, now_ns).where(
        of_exchange(exchanges)
    )
    names = ["session_id", "exchange_id", "target", "form", column.name]
    adding = insert(export_cursors).from_select(names, row)
    return Statement(
        adding.on_conflict_do_update(
            index_elements=list(export_cursors.primary_key),
            set_={column.name: adding.excluded[column.name]},
        )
    )


_ACCEPT: dict[Signal, Statement] = {"traces": _accept("traces"), "metrics": _accept("metrics")}
