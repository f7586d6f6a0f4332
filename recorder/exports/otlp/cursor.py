"""The cursor of a push: the exchanges that a target has, and those that are due.

Rules of this file:

* An exchange is due when it has ended, has its projections, and the target has not taken one of its signals. Exchanges
  that could not be folded (`dead_letters`) are never due; a rebuild that succeeds makes them so.
* A row for each exchange and target. Exchanges end in another order than they begin; imports and journals of a crash
  add old ones: behind a mark of time there would be some that are never sent. A million rows take 260 MB in a file, far
  less than the events of a million exchanges.
* A row is written after the target has accepted a signal, and only while the log has the exchange: after a purge there
  is not a row of the session.
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

from recorder.model.ids import uuid7
from recorder.store.queries.reader import LogReader
from recorder.store.schema import events, exchanges, export_cursors, tables_of
from recorder.store.sql import HAS_ENDED, IS_END, Statement, of_exchange, of_same_exchange
from recorder.store.write.writer import Store

Signal = Literal["traces", "metrics"]

PAGE_ROWS = 5_000  # ended exchanges of one look: some 20 ms where the target has them all
IDS = 1_000  # in one query: SQLite takes 32,766 values
OPEN_LIMIT = 1_000  # open exchanges that are looked at each time; a sweep finds the end of the others
START = ("00000000-0000-0000-0000-000000000000",) * 2  # before the id of any session and exchange

_COLUMNS: dict[Signal, Column[Any]] = {"traces": export_cursors.c.traces_ns, "metrics": export_cursors.c.metrics_ns}
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

Place = tuple[str, str]
"""The ids of a session and of an exchange in it: the order of a sweep."""

_key = tuple_(events.c.session_id, events.c.exchange_id)
# No value here is named `session_id`: a reader of a log with archives would look for the rows where that session is.
_after = _key > tuple_(bindparam("after_session_id"), bindparam("after_exchange_id"))
_until = _key <= tuple_(bindparam("last_session_id"), bindparam("last_exchange_id"))
_LAST_OF_PAGE = (
    select(events.c.session_id, events.c.exchange_id)
    .where(IS_END, _after)
    .order_by(events.c.session_id, events.c.exchange_id)
    .limit(1)
    .offset(PAGE_ROWS - 1)
)
_LAST = (
    select(events.c.session_id, events.c.exchange_id)
    .where(IS_END)
    .order_by(events.c.session_id.desc(), events.c.exchange_id.desc())
    .limit(1)
)


def _missing(table: Table, signal: Signal) -> ColumnElement[bool]:
    """Return the condition that the target has not taken a signal of the exchange of a row. Spans have a form: metrics
    are the same in all, and would be counted twice.
    """
    of_target = _IS_OF_FORM if signal == "traces" else _is_of_target
    return ~exists().where(of_same_exchange(export_cursors, table), of_target, _COLUMNS[signal].is_not(None))


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
        missing = [_missing(events, signal) for signal in self._signals]
        page = (
            select(events.c.session_id, events.c.exchange_id, *missing)
            .where(IS_END, _after, _until)
            .where(or_(*missing))
            .where(exists().where(of_same_exchange(_projected, events)))
            .order_by(events.c.session_id, events.c.exchange_id)
        )
        missing = [_missing(exchanges, signal) for signal in self._signals]
        recent = (
            select(
                *(exchanges.c.session_id, exchanges.c.exchange_id),
                and_(HAS_ENDED, exists().where(of_same_exchange(_projected, exchanges))),
                *missing,
            )
            .where(
                or_(
                    exchanges.c.exchange_id >= bindparam("from_id"),
                    exchanges.c.exchange_id.in_(bindparam("others", expanding=True)),
                ),
                or_(*missing),
            )
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

        What ends meanwhile behind the place of the sweep is found by the next one.
        """
        place: Place = START
        while (last := await self._page_end(place)) is not None:
            given = dict(zip(("after_session_id", "after_exchange_id"), place, strict=True))
            until = dict(zip(("last_session_id", "last_exchange_id"), last, strict=True))
            rows = await self._log.rows(self._page, **given, **until, **self._values)
            yield [self._due(row[0], row[1], row[2:]) for row in rows]
            place = last

    async def recent(self, since_ns: int) -> list[DueExchange]:
        """Return the exchanges that are due of those that began since a time, and of those that were open in an
        earlier look, in order of their sessions.
        """
        since = uuid7(max(0, since_ns), bytes(10))
        rows = await self._log.rows(self._recent, from_id=since, others=sorted(self._open), **self._values)
        self._open = set([row[1] for row in rows if not row[2]][:OPEN_LIMIT])
        return sorted(self._due(row[0], row[1], row[3:]) for row in rows if row[2])

    async def tool_items(self, session_id: str, exchange_ids: Collection[str]) -> dict[str, frozenset[int]]:
        """Return the tools whose spans the target has, by exchange with the call: of those whose own span it has."""
        found: dict[str, frozenset[int]] = {}
        ids, values = sorted(exchange_ids), {"of_session": session_id, **self._values}
        for start in range(0, len(ids), IDS):
            rows = await self._log.rows(_TOOL_ITEMS, exchange_ids=ids[start : start + IDS], **values)
            found |= {row[0]: frozenset(msgspec.json.decode(row[1] or b"[]", type=list[int])) for row in rows}
        return found

    def accepted(
        self, found: Collection[DueExchange], signal: Signal, now_ns: int, tool_items: ToolItems = MappingProxyType({})
    ) -> None:
        """Record, in one transaction, that the target has taken a signal of some exchanges, and spans of tools."""
        form = {"target": self._values["target"], "form": self._values["form"]}
        rows = [{"session_id": each[0], "exchange_id": each[1], **form, "now_ns": now_ns} for each in found]
        with self._store.transaction():
            if rows:
                self._store.run(_ACCEPT[signal], rows)
            for (session_id, exchange_id), items in tool_items.items():
                key = {"session_id": session_id, "exchange_id": exchange_id, **form}
                for (before,) in list(self._store.ask(_ITEMS_BEFORE, key)):
                    items = items | set(msgspec.json.decode(before or b"[]", type=list[int]))
                self._store.run(_SET_ITEMS, {**key, "items": msgspec.json.encode(sorted(items)).decode()})

    async def _page_end(self, place: Place) -> Place | None:
        """Return the last place of the page after a place, or None at the end."""
        given = dict(zip(("after_session_id", "after_exchange_id"), place, strict=True))
        found = await self._log.rows(_LAST_OF_PAGE, **given) or await self._log.rows(_LAST)
        last = [(row[0], row[1]) for row in found]
        return last[0] if last and last[0] > place else None

    def _due(self, session_id: str, exchange_id: str, missing: Sequence[Any]) -> DueExchange:
        due = (signal for signal, is_missing in zip(self._signals, missing, strict=True) if is_missing)
        return DueExchange(session_id, exchange_id, frozenset(due))


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
    row = select(
        *(exchanges.c.session_id, exchanges.c.exchange_id),
        *(cast(bindparam(name), Text) for name in ("target", "form")),
        cast(bindparam("now_ns"), BigInteger),
    ).where(of_exchange(exchanges))
    names = ["session_id", "exchange_id", "target", "form", column.name]
    adding = insert(export_cursors).from_select(names, row)
    return Statement(
        adding.on_conflict_do_update(
            index_elements=list(export_cursors.primary_key), set_={column.name: adding.excluded[column.name]}
        )
    )


_ACCEPT: dict[Signal, Statement] = {"traces": _accept("traces"), "metrics": _accept("metrics")}
