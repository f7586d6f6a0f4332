"""The projector: events of ended exchanges → rows of the projections, in the transaction of its
caller.

Rules of this file:

* It reads the log and writes projections, bookkeeping of projections included, and nothing else.
* What it writes for an exchange replaces what was there: twice is the same as once, and a rebuild
  is the same call.
* Exchanges that end together are written together: what is asked and what is written goes to a
  server at once, and the full-text indexes of SQLite are flushed at each savepoint.
* A fold that fails is a fault of this program, not of the log: the exchange is listed with the
  reason, and the others continue. Of several exchanges together, each is tried again alone then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Table, bindparam, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from recorder.errors import StoreBusyError, StoreError, StoreLostError
from recorder.model.events import Event, Exchange
from recorder.model.ids import BEFORE_ALL
from recorder.model.text import storable
from recorder.projections.exchanges import RepeatedCalls, repeated_calls
from recorder.projections.fold import Folding, Rows
from recorder.projections.rows import TABLES, ResultRow
from recorder.store.bodies.rows import whole_events
from recorder.store.engine import Database, schema_named
from recorder.store.queries.resumed_response import (
    EARLIER_EVENTS,
    MAY_RESUME,
    RESUMING,
    before,
    earlier,
)
from recorder.store.schema import (
    REBUILD,
    REBUILD_IS_DUE,
    dead_letters,
    events,
    exchanges,
    rebuilds,
    tables_of,
)
from recorder.store.search import INDEXES
from recorder.store.sql import (
    OF_EXCHANGE,
    RELEASE,
    ROLLBACK_TO,
    SAVEPOINT,
    Statement,
    Step,
    columns_of,
)
from recorder.store.write.call_keys import is_given, later_requests, rekey
from recorder.store.write.links import Asking, Comparisons, Key, Links, ask_together, key_of
from recorder.wire.grouping.session import HISTORY

log = logging.getLogger(__name__)


REASON_LIMIT = 500  # characters
# of events, whose rows are in memory together: several hundred short exchanges, or one
TOGETHER_BYTES = 8 * 2**20
TOGETHER = 500  # exchanges
SOURCES = 10_000  # sessions whose source is kept: a megabyte or two
START = (BEFORE_ALL, BEFORE_ALL)


def _insert(table: Table) -> Statement:
    """Return the insert of a projection.

    Of a row whose key has no exchange, because the requests of several carry it, it keeps the
    earliest.

    A row that is there already is not touched: on a server, another writer of the same row would
    wait for the end of this transaction.
    """
    if "exchange_id" in table.primary_key.columns:
        return Statement(insert(table))
    given = {column.name: bindparam(column.name, type_=column.type) for column in table.columns}
    is_stored = select(table.c.session_id).where(
        *(column == given[column.name] for column in table.primary_key),
        tuple_(table.c.started_ns, table.c.exchange_id)
        <= tuple_(given["started_ns"], given["exchange_id"]),
    )
    statement = insert(table).from_select(
        list(given), select(*given.values()).where(~is_stored.exists())
    )
    new = statement.excluded
    is_earlier = tuple_(new.started_ns, new.exchange_id) < tuple_(
        table.c.started_ns, table.c.exchange_id
    )
    values = {column.name: new[column.name] for column in table.columns if not column.primary_key}
    return Statement(
        statement.on_conflict_do_update(
            index_elements=list(table.primary_key), set_=values, where=is_earlier
        )
    )


_EXCHANGE = Statement(
    f"SELECT {columns_of(exchanges, 'x')} FROM exchanges AS x WHERE {OF_EXCHANGE}"
)
_SOURCE = Statement("SELECT source FROM sessions WHERE session_id = :session_id")
_EVENTS = Statement(
    f"SELECT {columns_of(events, 'e')} FROM events AS e WHERE {OF_EXCHANGE} ORDER BY pos",
    is_long=True,
)
_EARLIER = Statement(EARLIER_EVENTS)

_DELETES = [
    Statement(f"DELETE FROM {name} WHERE {OF_EXCHANGE}")
    for name in (*TABLES.values(), "dead_letters")
]
# In order of their keys: two who write the same results wait for each other in one direction only.
_KEYS = {
    name: itemgetter(*(column.name for column in table.primary_key))
    for name, table in tables_of.items()
}
_INSERTS = {name: _insert(table) for name, table in tables_of.items()}
_IS_PROJECTED = Statement(
    " UNION ALL ".join(
        f"SELECT exchange_id FROM {name} WHERE {OF_EXCHANGE}"
        for name in (TABLES["exchanges"], "dead_letters")
    )
)
_PUT_ASIDE = Statement(insert(dead_letters))

_FORGET_PLACE = Statement("DELETE FROM rebuilds WHERE name = :name")
_SET_PLACE = Statement(insert(rebuilds))
_DEAD = Statement(
    "SELECT session_id, exchange_id, reason FROM dead_letters ORDER BY session_id, exchange_id"
)

_REBUILD_IS_DUE = Statement(REBUILD_IS_DUE)


def of_each(name: Literal["add", "remove", "remove_session"]) -> list[Statement]:
    """Return one of the statements that keep the full-text indexes with their rows, for each of
    `INDEXES`.
    """
    return [Statement(partial(_of_index, name, number)) for number in range(len(INDEXES))]


def _of_index(name: str, number: int, engine: str) -> str:
    statement: str = getattr(schema_named(engine).search.statements[number], name)
    return statement


_INDEX = {index.projection.name: add for index, add in zip(INDEXES, of_each("add"), strict=True)}
_UNINDEX = of_each("remove")


@contextmanager
def attempt(database: Database) -> Iterator[None]:
    """Begin a part of the transaction that is undone alone if it fails; the rest may still be
    committed.

    Not so where the whole transaction is in question: the disk is full, the database locked or
    gone.
    """
    database.run(SAVEPOINT, {})
    try:
        yield
    except (StoreBusyError, StoreLostError):
        raise
    except BaseException:
        database.run(ROLLBACK_TO, {})
        database.run(RELEASE, {})
        raise
    database.run(RELEASE, {})


class Whole(NamedTuple):
    """An exchange with all its events, in memory."""

    exchange: Exchange
    events: Sequence[Event]


NOTHING: Mapping[Key, Whole] = {}


class _Known(NamedTuple):
    """What is known of exchanges without a look at the database: see `Projector.project_all`."""

    whole: Mapping[Key, Whole]
    in_order: bool
    is_new: bool


class Projector:
    """The writer of projections, for one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sources: dict[str, str] = {}  # of sessions: they never change

    def project(self, session_id: str, exchange_id: str) -> None:
        """Fold the events that the log has of an exchange, and replace its rows by the result."""
        self.project_all([(session_id, exchange_id)])

    def project_all(
        self,
        keys: Iterable[Key],
        whole: Mapping[Key, Whole] = NOTHING,
        *,
        in_order: bool = False,
        is_new: bool = False,
    ) -> None:
        """Fold the events that the log has of exchanges, and replace their rows by the result.

        Exchanges that resume the response of one are folded again: they may have been projected
        before it. `whole` has those that are in memory: the same that the log has. With `in_order`
        all later ones of a session follow; if they are `is_new`, none of them had ended before this
        transaction, and so none has rows.
        """
        wanted = dict.fromkeys(keys)
        for first in range(0, len(wanted), TOGETHER):
            some = list(wanted)[first : first + TOGETHER]
            later = self._project(some, _Known(whole, in_order=in_order, is_new=is_new))
            self._project(
                [key for key in later if key not in wanted],
                _Known(whole, in_order=in_order, is_new=False),
            )

    def add_results(self, rows: Sequence[ResultRow]) -> None:
        """Add the results that an exchange which goes on has for calls of others: its own
        projection has them, too.
        """
        if rows:
            self._database.run_all([*_inserts({"results": list(rows)})])

    def _project(self, keys: Sequence[Key], known: _Known) -> list[Key]:
        """Project some exchanges together, or each alone if that fails.

        Return those that resume one of them.
        """
        if not keys:
            return []
        try:
            with attempt(self._database):
                return self._projected(keys, known)
        except (StoreBusyError, StoreLostError):
            raise
        except Exception as error:
            # neither a bug nor a damaged table of ours may keep the log from growing
            if len(keys) == 1:
                [key] = keys
                self._put_aside(_ids(key), error)
                return []
        later: list[Key] = []
        for key in keys:
            later += self._project([key], known)
        return later

    def _projected(self, keys: Sequence[Key], known: _Known) -> list[Key]:
        """Project some exchanges, as many at once as memory allows."""
        later: list[Key] = []
        together = _Together()
        for exchange in self._exchanges(keys, known):
            self._fold(together, exchange, known)
            if together.size_bytes > TOGETHER_BYTES:
                later += self._write(together, in_order=known.in_order)
                together = _Together()
        return later + self._write(together, in_order=known.in_order)

    def _exchanges(self, keys: Sequence[Key], known: _Known) -> list[Exchange]:
        """Return the exchanges that the log has, with the sources of their sessions in memory and
        without rows.
        """
        if len(self._sources) > SOURCES:
            self._sources.clear()
        projected = () if known.is_new else keys
        stored = [key for key in keys if key not in known.whole]
        strange = sorted({session_id for session_id, _ in keys} - self._sources.keys())
        steps = [
            *((_IS_PROJECTED, _ids(key)) for key in projected),
            *((_EXCHANGE, _ids(key)) for key in stored),
            *((_SOURCE, {"session_id": session_id}) for session_id in strange),
        ]
        answers = iter(self._database.run_all(steps) if steps else [])
        self._clear([_ids(key) for key, rows in zip(projected, answers, strict=False) if rows])
        exchanges = {key: whole.exchange for key, whole in known.whole.items()}
        for key, rows in zip(stored, answers, strict=False):
            for row in rows:
                exchanges[key] = Exchange(*row)
        for session_id, rows in zip(strange, answers, strict=False):
            for (source,) in rows:
                self._sources[session_id] = source
        return [exchanges[key] for key in keys if key in exchanges]

    def _ask(self, statement: Statement, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Return all rows at once: a statement that is not read to its end stays open."""
        return list(self._database.ask(statement, values))

    def _fold(self, together: _Together, exchange: Exchange, known: _Known) -> None:
        folding = Folding(exchange, with_history=self._sources.get(exchange.session_id) == HISTORY)
        for event in self._earlier_events(exchange):
            folding.recall(event)
        key = key_of(exchange)
        if key in known.whole:
            folding.apply_all(together.counted(known.whole[key].events))
        else:
            with closing(self._database.ask(_EVENTS, _ids(key))) as rows:
                folding.apply_all(together.counted(whole_events(rows, self._database.ask)))
        together.add(folding.rows(), repeated_calls(folding.facts))

    def _earlier_events(self, exchange: Exchange) -> Iterator[Event]:
        values = earlier(exchange)
        return (
            before(exchange, (Event(*row) for row in self._ask(_EARLIER, values)))
            if values
            else iter(())
        )

    def _write(self, together: _Together, *, in_order: bool) -> list[Key]:
        """Write the rows of exchanges of which there are none, and return the exchanges that resume
        one of them.
        """
        rows = together.rows
        if not rows:
            return []
        retrievals = {key_of(row) for row in rows["exchanges"] if row.is_retrieval}
        links = Links(self._database, rows["requests"], retrievals, in_order=in_order)
        comparisons = Comparisons(self._database, rows["prompts"], links, in_order=in_order)
        resuming: list[Key] = []
        repeating: list[Key] = []
        works = [links.link(), comparisons.compare(), _resuming(rows["exchanges"], resuming)]
        if not in_order:
            works.append(later_requests(rows["items"], repeating))
        ask_together(self._database, works)
        rows["requests"], rows["prompts"] = links.rows, comparisons.rows
        inserts = [*_inserts(rows), *_additions(rows)]
        # Asked with the inserts: no further round trip to a server.
        questions = [is_given(calls) for calls in together.repeated]
        answers = self._database.run_all([*inserts, *questions])[len(inserts) :]
        unknown = [
            calls for calls, found in zip(together.repeated, answers, strict=True) if not found
        ]
        for key in dict.fromkeys(repeating):
            if (calls := self._repeated(key)) is not None:
                unknown.append(calls)
        rekey(self._database, unknown)
        links.follow()
        comparisons.follow()
        return resuming

    def _repeated(self, key: Key) -> RepeatedCalls | None:
        """Return the calls that a stored request repeats."""
        [row] = self._ask(_EXCHANGE, _ids(key))
        folding = Folding(Exchange(*row))
        with closing(self._database.ask(_EVENTS, _ids(key))) as rows:
            for event in whole_events(rows, self._database.ask):
                folding.apply(event)
                if event.kind != "request":  # it is over
                    break
        return repeated_calls(folding.facts)

    def _clear(self, ids: Sequence[Mapping[str, str]], *, unindexed: bool = True) -> None:
        """Delete the rows of exchanges, those of the indexes first if they can be read."""
        if ids:
            removed = _UNINDEX if unindexed else []
            self._database.run_all([(each, list(ids)) for each in (*removed, *_DELETES)])

    def _put_aside(self, ids: Mapping[str, str], error: Exception) -> None:
        """Note why an exchange has no projections.

        If it is the tables that fail, all are to be built again; a damaged index does not even give
        rows back.
        """
        reason = storable(f"{type(error).__name__}: {error}"[:REASON_LIMIT])
        log.error("exchange %s has no projections: %s", ids["exchange_id"], reason, exc_info=error)
        is_damaged = isinstance(error, StoreError)
        self._clear([ids], unindexed=not is_damaged)
        self._database.run(_PUT_ASIDE, {**ids, "reason": reason})
        if is_damaged:
            self.set_place(START)

    # -- rebuilding

    def set_place(self, place: tuple[str, str] | None) -> None:
        """Set the last exchange that a rebuild has done, from the next commit on; `None` when it is
        complete.
        """
        self._database.run(_FORGET_PLACE, {"name": REBUILD})
        if place is not None:
            self._database.run(_SET_PLACE, {"name": REBUILD, **_ids(place)})

    def reindex(self) -> None:
        """Make the full-text indexes again from the rows that are there."""
        for index in schema_named(self._database.engine).search.statements:
            for statement in index.rebuild:
                self._database.run(Statement(statement), {})

    def is_due(self) -> bool:
        """Return whether an exchange has ended without projections."""
        [(is_due,)] = self._ask(_REBUILD_IS_DUE, {})
        return bool(is_due)

    def dead_letters(self) -> list[tuple[str, str, str]]:
        """Return the exchanges that could not be folded: session, exchange, reason."""
        return [tuple(row) for row in self._ask(_DEAD, {})]


class _Together:
    """The rows of exchanges that are written together, by the name of the projection."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}
        self.repeated: list[RepeatedCalls] = []
        self.size_bytes = 0

    def counted(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            self.size_bytes += len(event.raw)
            yield event

    def add(self, rows: Rows, repeated: RepeatedCalls | None) -> None:
        for name in tables_of:
            self.rows.setdefault(name, []).extend(rows.get(name, ()))
        if repeated is not None:
            self.repeated.append(repeated)


def _ids(key: Key) -> dict[str, str]:
    session_id, exchange_id = key
    return {"session_id": session_id, "exchange_id": exchange_id}


def _resuming(rows: Iterable[Any], later: list[Key]) -> Asking:
    """Look for the exchanges that resume the responses of some, and add them to `later`."""
    responses = [row for row in rows if row.response_id is not None]
    sessions_ = sorted({row.session_id for row in responses})
    answers = yield [(MAY_RESUME, {"session_id": session_id}) for session_id in sessions_]
    may_resume = {session_id for session_id, found in zip(sessions_, answers, strict=True) if found}
    responses = [row for row in responses if row.session_id in may_resume]
    answers = yield [
        (RESUMING, {**_ids(key_of(row)), "response_id": row.response_id}) for row in responses
    ]
    for row, found in zip(responses, answers, strict=True):
        later += [(row.session_id, str(id)) for (id,) in found]


def _inserts(rows: Mapping[str, list[Any]]) -> Iterator[Step]:
    for name, some in rows.items():
        if some:
            yield _INSERTS[name], sorted(map(msgspec.structs.asdict, some), key=_KEYS[name])


def _additions(rows: Mapping[str, list[Any]]) -> Iterator[Step]:
    """Yield the steps that add to the full-text indexes what they do not have."""
    for name, add in _INDEX.items():
        keys = sorted({key_of(row) for row in rows[name]})
        if keys:
            yield add, list(map(_ids, keys))
