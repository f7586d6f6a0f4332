"""The projector: events of ended exchanges → rows of the projections, in the transaction of its caller.

Rules of this file:

* It reads the log and writes projections, bookkeeping of projections included, and nothing else.
* What it writes for an exchange replaces what was there: twice is the same as once, and a rebuild is the same call.
* A fold that fails is a fault of this program, not of the log: the exchange is listed with the reason, and the others
  continue.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from operator import itemgetter
from typing import Any, Protocol

import msgspec
from sqlalchemy import Table, bindparam, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from recorder.errors import StoreBusyError, StoreError, StoreLostError
from recorder.model.events import Event, Exchange
from recorder.model.text import storable
from recorder.projections.fold import Folding, Rows
from recorder.store.bodies.rows import whole_events
from recorder.store.cache_links import compare
from recorder.store.engine import engine_named
from recorder.store.request_links import link
from recorder.store.resumed_response import EARLIER_EVENTS, each_number_once, earlier
from recorder.store.schema import REBUILD_IS_DUE, dead_letters, events, exchanges, rebuilds, sessions, tables_of
from recorder.store.sql import HAS_ENDED, IS_END, Statement, of_exchange
from recorder.wire.grouping.session import HISTORY

log = logging.getLogger(__name__)


class Database(Protocol):
    """A database that a projector works on, in a transaction: `recorder.store.writer.Store`. It raises our errors."""

    @property
    def engine(self) -> str:
        """Return the name of its dialect (`Engine.name`)."""

    def run(self, statement: Statement, values: Any) -> None:
        """Run a statement with values by name, or for each of a list of them."""

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        """Yield the rows of a statement as they are read. To be closed if they are not read to the end."""

    def attempt(self) -> AbstractContextManager[None]:
        """Begin a part of the transaction that is undone alone if it fails."""


RESULTS = tables_of["results"]
REASON_LIMIT = 500  # characters
START = ("00000000-0000-0000-0000-000000000000",) * 2  # before every exchange
REBUILD = "projections"  # the one rebuild there is: of all of them at once


def _insert(table: Table) -> Statement:
    """Return the insert of a projection. Of a result that several requests carry, it keeps the earliest.

    A row that is there already is not touched: on a server, another writer of the same result would wait for the end of
    this transaction.
    """
    if table is not RESULTS:
        return Statement(insert(table))
    given = {column.name: bindparam(column.name, type_=column.type) for column in table.columns}
    is_stored = select(table.c.session_id).where(
        *(column == given[column.name] for column in table.primary_key),
        tuple_(table.c.started_ns, table.c.exchange_id) <= tuple_(given["started_ns"], given["exchange_id"]),
    )
    statement = insert(table).from_select(list(given), select(*given.values()).where(~is_stored.exists()))
    new = statement.excluded
    is_earlier = tuple_(new.started_ns, new.exchange_id) < tuple_(table.c.started_ns, table.c.exchange_id)
    values = {name: new[name] for name in ("exchange_id", "started_ns", "output", "failed")}
    return Statement(
        statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=values, where=is_earlier)
    )


_source = select(sessions.c.source).where(sessions.c.session_id == exchanges.c.session_id).scalar_subquery()
_EXCHANGE = Statement(select(exchanges, _source).where(of_exchange(exchanges)))
_EVENTS = Statement(select(events).where(of_exchange(events)).order_by(events.c.pos), is_long=True)
_EARLIER = Statement(EARLIER_EVENTS)

_RESUMING = Statement(
    select(exchanges.c.exchange_id)
    .where(exchanges.c.session_id == bindparam("session_id"), exchanges.c.exchange_id != bindparam("exchange_id"))
    .where(exchanges.c.resumes_response_id == bindparam("response_id"), exchanges.c.resumes_after.is_not(None))
    .where(HAS_ENDED)
)

_DELETES = {name: Statement(delete(table).where(of_exchange(table))) for name, table in tables_of.items()}
# In order of their keys: two who write the same results wait for each other in one direction only.
_KEYS = {name: itemgetter(*(column.name for column in table.primary_key)) for name, table in tables_of.items()}
_INSERTS = {name: _insert(table) for name, table in tables_of.items()}
_EXCHANGES = tables_of["exchanges"]
_IS_PROJECTED = Statement(
    select(_EXCHANGES.c.exchange_id)
    .where(of_exchange(_EXCHANGES))
    .union_all(select(dead_letters.c.exchange_id).where(of_exchange(dead_letters)))
)
_FORGIVE = Statement(delete(dead_letters).where(of_exchange(dead_letters)))
_PUT_ASIDE = Statement(insert(dead_letters))

_key = tuple_(events.c.session_id, events.c.exchange_id)
_PLACE = Statement(select(rebuilds.c.session_id, rebuilds.c.exchange_id).where(rebuilds.c.name == bindparam("name")))
_FORGET_PLACE = Statement(delete(rebuilds).where(rebuilds.c.name == bindparam("name")))
_SET_PLACE = Statement(insert(rebuilds))
_ENDED = Statement(select(func.count()).select_from(events).where(IS_END))
_after = _key > tuple_(bindparam("session_id"), bindparam("exchange_id"))
_ENDED_AFTER = Statement(
    select(events.c.session_id, events.c.exchange_id, events.c.pos)
    .where(IS_END, _after)
    .order_by(events.c.session_id, events.c.exchange_id),
    "LIMIT :limit",
)
_DEAD = Statement(select(dead_letters).order_by(dead_letters.c.session_id, dead_letters.c.exchange_id))

_REBUILD_IS_DUE = Statement(REBUILD_IS_DUE)

_INDEX = Statement(lambda engine: engine.search().add)
_UNINDEX = Statement(lambda engine: engine.search().remove)


class Projector:
    """The writer of projections, for one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def project(self, session_id: str, exchange_id: str, *, in_order: bool = False) -> None:
        """Fold the events that the log has of an exchange, and replace its rows by the result.

        Exchanges that resume its response are folded again: they may have been projected before it. With `in_order`
        all later ones of its session follow.
        """
        for row in self._project(session_id, exchange_id, in_order=in_order):
            if row.response_id is not None:
                values = {"session_id": session_id, "response_id": row.response_id, "exchange_id": exchange_id}
                for (later,) in self._ask(_RESUMING, values):
                    self._project(session_id, later, in_order=in_order)

    def _project(self, session_id: str, exchange_id: str, *, in_order: bool) -> list[Any]:
        """Return the row of the exchange itself, if it could be folded."""
        ids = {"session_id": session_id, "exchange_id": exchange_id}
        for *row, source in self._ask(_EXCHANGE, ids):
            try:
                with self._database.attempt():
                    rows = self._folded(Exchange(*row), ids, with_history=source == HISTORY)
                    self._replace(ids, rows)
                    link(self._database, rows["requests"])
                    compare(self._database, rows["prompts"], in_order=in_order)
                    return rows["exchanges"]
            except (StoreBusyError, StoreLostError):
                raise
            except Exception as error:  # neither a bug nor a damaged table of ours may keep the log from growing
                self._put_aside(ids, error)
        return []

    def _ask(self, statement: Statement, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Return all rows at once: a statement that is not read to its end stays open."""
        return list(self._database.ask(statement, values))

    def _folded(self, exchange: Exchange, ids: Mapping[str, str], *, with_history: bool) -> Rows:
        folding = Folding(exchange, with_history=with_history)
        for event in self._earlier_events(exchange):
            folding.recall(event)
        with closing(self._database.ask(_EVENTS, ids)) as rows:
            folding.tell_all(whole_events(rows, self._database.ask))
        return folding.rows()

    def _earlier_events(self, exchange: Exchange) -> Iterator[Event]:
        values = earlier(exchange)
        return each_number_once(Event(*row) for row in self._ask(_EARLIER, values)) if values else iter(())

    def _replace(self, ids: Mapping[str, str], rows: Rows) -> None:
        if self._ask(_IS_PROJECTED, ids):
            self._database.run(_UNINDEX, ids)
            self._clear(ids)
        for name, some in rows.items():
            if some:
                self._database.run(_INSERTS[name], sorted(map(msgspec.structs.asdict, some), key=_KEYS[name]))
        self._database.run(_INDEX, ids)

    def _clear(self, ids: Mapping[str, str]) -> None:
        for statement in (*_DELETES.values(), _FORGIVE):
            self._database.run(statement, ids)

    def _put_aside(self, ids: Mapping[str, str], error: Exception) -> None:
        """Note why an exchange has no projections.

        If it is the tables that fail, all are to be built anew; a damaged index does not even give rows back.
        """
        reason = storable(f"{type(error).__name__}: {error}"[:REASON_LIMIT])
        log.error("exchange %s has no projections: %s", ids["exchange_id"], reason, exc_info=error)
        is_damaged = isinstance(error, StoreError)
        if not is_damaged:
            self._database.run(_UNINDEX, ids)
        self._clear(ids)
        self._database.run(_PUT_ASIDE, {**ids, "reason": reason})
        if is_damaged:
            self.set_place(START)

    # -- rebuilding

    def place(self) -> tuple[str, str] | None:
        """Return the last exchange that a rebuild has done, `START` at its beginning, `None` if no rebuild is due."""
        for session_id, exchange_id in self._ask(_PLACE, {"name": REBUILD}):
            return session_id, exchange_id
        return None

    def set_place(self, place: tuple[str, str] | None) -> None:
        """Set the last exchange that a rebuild has done, from the next commit on; `None` when it is complete."""
        self._database.run(_FORGET_PLACE, {"name": REBUILD})
        if place is not None:
            self._database.run(_SET_PLACE, {"name": REBUILD, "session_id": place[0], "exchange_id": place[1]})

    def reindex(self) -> None:
        """Make the full-text index anew from the rows that are there."""
        for statement in engine_named(self._database.engine).search().rebuild:
            self._database.run(Statement(statement), {})

    def is_due(self) -> bool:
        """Return whether an exchange has ended without projections."""
        return bool(self._ask(_REBUILD_IS_DUE, {})[0][0])

    def ended(self) -> int:
        """Return the number of exchanges that have ended."""
        count: int = self._ask(_ENDED, {})[0][0]
        return count

    def ended_after(self, place: tuple[str, str], limit: int) -> list[tuple[str, str, int]]:
        """Return the next exchanges that have ended, in order of their ids, each with its number of events."""
        values = {"session_id": place[0], "exchange_id": place[1], "limit": limit}
        return [(session_id, exchange_id, pos + 1) for session_id, exchange_id, pos in self._ask(_ENDED_AFTER, values)]

    def dead_letters(self) -> list[tuple[str, str, str]]:
        """Return the exchanges that could not be folded: session, exchange, reason."""
        return [(row[0], row[1], row[2]) for row in self._ask(_DEAD, {})]
