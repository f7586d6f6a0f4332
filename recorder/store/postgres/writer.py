"""The connection that writes to a database of PostgreSQL: a `recorder.store.engine.Writing`.

Rules of this file:

* What triggers do in a file is done here, before rows are sent: those that are there already are
  left out, those that contradict the log are refused. Two who look at the same moment meet at the
  primary key, and the second looks again.
* New rows go by COPY, a few by INSERT, and all where they have policies: a server takes no COPY
  there.
* The server is as far away as it may be: what needs no answer goes with what is asked next, the
  begin of a transaction with its first question, its end with the last that was written. Such a
  statement fails later, and the transaction with it.
* Any number write at once, but none during a purge: a writer that checked before it would write
  after it. All hold one lock for a transaction, a purge holds it alone; and as nothing is looked at
  before, what it took away is not seen. Who only looks (`looking`) holds none: a purge may come
  right after it anyway, and what is written then is looked at.
* A connection that broke, or had no answer in time, is made again by the next transaction. Whether
  the last one was committed, or will be, is not known: if it was, its repetition finds its rows
  there, and waits for its end if not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any
from uuid import UUID

import psycopg
from sqlalchemy import URL, Connection, Table
from sqlalchemy.exc import DBAPIError

from recorder.errors import StoreBusyError, StoreConflictError, StoreError
from recorder.store.bodies.rows import is_same
from recorder.store.location import database_name
from recorder.store.postgres.connection import (
    ENGINE,
    Sending,
    open_reader,
    rows,
    send_all,
    sending,
    translated,
    writer_engine,
)
from recorder.store.postgres.connection import is_of_statement as is_of_statement
from recorder.store.postgres.connection import task_lock as task_lock
from recorder.store.postgres.ddl import MONTHS_AHEAD, OVER, PARTITIONED, SCHEMA
from recorder.store.postgres.patience import Patience
from recorder.store.schema import (
    ABSENT,
    ENDED,
    HOLE,
    LOG,
    OTHER,
    PURGED,
    dead_letters,
    events,
    exchanges,
    export_cursors,
    sessions,
    tables_of,
    tombstones,
)
from recorder.store.search import INDEX_NAMES
from recorder.store.sql import RELEASE, ROLLBACK_TO, SAVEPOINT, Statement, Step, dialect

log = logging.getLogger(__name__)

FEW = 256  # rows for which COPY is not worth its own round trips
# the lock of whoever writes: a number that no other program on the server is likely to lock
WRITING = 0x53534557
MONTHS_S = 3600.0  # between two looks at whether a new month needs a partition
POLL_S = 0.05  # between two looks at whether readers are done

_TYPES = {"UUID": "uuid", "TEXT": "text", "BIGINT": "int8", "BYTEA": "bytea"}

Row = tuple[Any, ...]
Key = tuple[Any, ...]


def _types_of(table: Table) -> list[str]:
    return [_TYPES[column.type.compile(dialect=dialect(ENGINE))] for column in table.columns]


def _arrays(table: Table) -> str:
    """Return the placeholders of all columns, each with the values of all rows: in the text format,
    with which the driver sends lists otherwise, bytes take five times as long.
    """
    return ", ".join(f"CAST(%b AS {type}[])" for type in _types_of(table))


def _names(columns: Iterable[Any]) -> str:
    return ", ".join(column.name for column in columns)


def _insert_all(table: Table) -> str:
    """Return the insert of any number of rows, given by column, that returns the keys of those that
    were not there. It leaves out what is of a purged session: that is told by another question, not
    by the foreign key.
    """
    key = _names(table.primary_key)
    is_purged = "EXISTS (SELECT FROM tombstones AS t WHERE t.session_id = given.session_id)"
    wanted = "" if table is tombstones else f"WHERE NOT {is_purged}"
    return (
        f"INSERT INTO {table.name} SELECT * FROM unnest({_arrays(table)}) AS given ({_names(table.columns)}) {wanted} "
        f"ON CONFLICT ({key}) DO NOTHING RETURNING {key}"
    )


_INSERTS = {table.name: _insert_all(table) for table in LOG if table is not events}
_INSERT_EVENTS = (
    f"INSERT INTO events SELECT * FROM unnest({_arrays(events)}) ON CONFLICT ({_names(events.primary_key)}) DO NOTHING"
).encode()
_EVENT_TYPES = _types_of(events)
_COPY_EVENTS = f"COPY events ({_names(events.columns)}) FROM STDIN (FORMAT BINARY)"

_HAS_POLICIES = Sending(f"SELECT row_security_active('{SCHEMA}.events')".encode())

_WITHIN = "{}.session_id BETWEEN %(first)s::uuid AND %(last)s::uuid"

# Of each exchange: where its events end, whether it is over, whether it is known, whether its
# session was purged. The bounds say nothing new: by them the planner leaves out the partitions of
# other months, which take it most of its time. A plan that is cached while the next month's
# partition is empty would scan it when it is not.
_STATE = f"""
SELECT CAST(a.session_id AS text), CAST(a.exchange_id AS text),
    (SELECT max(pos) FROM events AS e
        WHERE e.session_id = a.session_id AND e.exchange_id = a.exchange_id AND {_WITHIN.format("e")}),
    EXISTS (SELECT 1 FROM events AS ended WHERE ended.session_id = a.session_id AND ended.exchange_id = a.exchange_id
        AND ended.kind = 'end' AND {_WITHIN.format("ended")}),
    EXISTS (SELECT 1 FROM exchanges AS x
        WHERE x.session_id = a.session_id AND x.exchange_id = a.exchange_id AND {_WITHIN.format("x")}),
    EXISTS (SELECT 1 FROM tombstones AS t WHERE t.session_id = a.session_id)
FROM unnest(%(sessions)s::uuid[], %(exchanges)s::uuid[]) AS a (session_id, exchange_id)
""".encode()
_STORED = b"SELECT * FROM events WHERE session_id = %s AND exchange_id = %s AND pos BETWEEN %s AND %s ORDER BY pos"
_PURGED = b"SELECT 1 FROM tombstones WHERE session_id = ANY(CAST(%s AS uuid[])) LIMIT 1"

_DELETE_SESSION = [
    Statement(f"DELETE FROM {table.name} WHERE session_id = :session_id")
    for table in (events, exchanges, sessions)
]

# Of other users one sees none without `pg_read_all_stats`.
_READING = """SELECT pid, xact_start FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)"""
_SWEPT = (*tables_of.values(), dead_letters, export_cursors, events, exchanges, sessions)
_VACUUM = f"VACUUM {', '.join((*INDEX_NAMES, *(table.name for table in _SWEPT)))}"

_CATALOG_TABLES = """SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables
WHERE tablename ~ '^ducklake_'"""

_SAVEPOINT = sending(SAVEPOINT, {})
_BEGIN, _COMMIT = Sending(b"BEGIN", prepare=False), Sending(b"COMMIT", prepare=False)
_AMONG_OTHERS, _ALONE = (
    Statement(f"SELECT pg_advisory_xact_lock{kind}({WRITING})") for kind in ("_shared", "")
)

_exchange = itemgetter(0, 1)
_POS, _KIND = 2, 3


class PostgresWriter:
    """A `recorder.store.write.writer.Writer`."""

    engine = ENGINE

    def __init__(self, url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> None:
        self._url, self._patience = url, Patience(answer_timeout_s)
        engine = writer_engine(url, busy_timeout_s, self._patience)
        # The driver would send the begin of a transaction alone, and wait.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._looked_s = float("-inf")
        self._unsent: list[Sending] = []
        self._begin: list[Sending] = []  # what is unsent when nothing was written or asked
        self._open_savepoints = 0
        # a failure in this transaction that no attempt undoes
        self._lost: BaseException | None = None
        # exchanges of this transaction, as long as they have no events
        self._added: set[Key] = set()
        with self.translated():
            self.connection: Connection = self._engine.connect()

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            with translated(self._url):
                yield
        except StoreConflictError as error:
            if isinstance(_origin(error), psycopg.errors.UniqueViolation):
                raise StoreBusyError(
                    f"Somebody wrote the same to {database_name(self._url)}; look again."
                ) from error
            raise
        except StoreError as error:
            # as the driver of SQLite says it
            if isinstance(_origin(error), psycopg.errors.NumericValueOutOfRange):
                raise OverflowError(str(error)) from error
            if isinstance(_origin(error), psycopg.DataError):
                raise ValueError(str(error)) from error
            raise

    @contextmanager
    def transaction(self, alone: bool) -> Iterator[None]:
        with self.translated():
            self._connect_if_lost()
            self._look_at_months()
            with self.connection.begin():
                self._begin = [_BEGIN, sending(_ALONE if alone else _AMONG_OTHERS, {})]
                self._unsent, self._open_savepoints, self._lost = [*self._begin], 0, None
                self._added.clear()
                yield
                if any(each.adds for each in self._unsent):
                    self._send()  # whether they were there shows in the answer
                if self._unsent != self._begin:
                    self._send([_COMMIT])
                    self._patience.recover()

    @contextmanager
    def looking(self) -> Iterator[None]:
        with self.translated():
            self._connect_if_lost()
            with self.connection.begin():  # which sends nothing
                self._begin, self._unsent, self._open_savepoints, self._lost = [], [], 0, None
                yield

    def add(self, table: Table, rows: Sequence[Row]) -> int:
        if table is not events:
            return self._add_all(table, rows)
        new = self._new_events(rows)
        if len(new) > FEW and not self._has_policies():
            self._copy(new)
        elif new:
            self._unsent.append(Sending(_INSERT_EVENTS, _by_column(new), adds=len(new)))
        return len(new)

    def _has_policies(self) -> bool:
        """Return whether events have policies for this user, and send what is unsent with the
        question.
        """
        [[(has_policies,)]] = self._send([_HAS_POLICIES])
        return bool(has_policies)

    def _copy(self, rows: Sequence[Row]) -> None:
        ids = [number for number, type in enumerate(_EVENT_TYPES) if type == "uuid"]
        as_id = cache(UUID)  # many rows have the same
        with self._driver.cursor() as cursor, cursor.copy(_COPY_EVENTS) as copy:
            copy.set_types(_EVENT_TYPES)
            for row in rows:
                values = list(row)
                for number in ids:
                    values[number] = as_id(values[number])
                copy.write_row(values)

    def delete_session(self, session_id: str) -> None:
        for statement in _DELETE_SESSION:
            self.run(statement, {"session_id": session_id})

    def run(self, statement: Statement, values: Any) -> None:
        if statement is SAVEPOINT:
            self._open_savepoints += 1
        elif statement is RELEASE:
            self._open_savepoints -= 1
        elif statement is ROLLBACK_TO:
            self._added.clear()
        self._unsent.append(sending(statement, values))
        # it has to fail within the attempt that it is part of
        if self._open_savepoints and statement is not SAVEPOINT:
            self._send()

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        if statement.is_long:
            self._send()
            yield from rows(self._driver, statement, values)
        else:
            yield from self.run_all([(statement, values)])[0]

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        return self._send([sending(*step) for step in steps])

    def _send(self, questions: Sequence[Sending] = ()) -> list[list[Any]]:
        """Ask all at once, with what is not sent yet."""
        if self._lost is not None:
            raise self._lost
        unsent, self._unsent = self._unsent, []
        savepoint = max(
            (number for number, each in enumerate(unsent) if each == _SAVEPOINT), default=-1
        )
        answered: list[int] = []
        try:
            return send_all(self._driver, [*unsent, *questions], answered.append)[len(unsent) :]
        except BaseException as error:
            if not self._open_savepoints or max(answered, default=0) <= savepoint:
                self._lost = error
            raise

    def checkpoint(self) -> None:
        """Do nothing: checkpoints are the server's own affair."""

    tidy = checkpoint

    def close(self) -> None:
        with suppress(StoreError), self.translated():
            self.connection.close()
        self._engine.dispose()

    @property
    def _driver(self) -> Any:
        return self.connection.connection.driver_connection

    def _connect_if_lost(self) -> None:
        if not self.connection.closed:
            if not (self._driver.broken or self._driver.closed):
                return
            with suppress(StoreError), self.translated():
                self.connection.invalidate()
            with suppress(StoreError), self.translated():
                self.connection.close()
        self.connection = self._engine.connect()

    def _look_at_months(self) -> None:
        """Make the partitions of the next months before they begin; a user without the right uses
        the default ones.
        """
        if time.monotonic() - self._looked_s < MONTHS_S:
            return
        self._looked_s = time.monotonic()
        try:
            with self.connection.begin():
                self.connection.exec_driver_sql(f"SELECT add_partitions({MONTHS_AHEAD})")
        except DBAPIError as error:  # what is written goes to the default partitions
            log.debug("no partitions were made: %s", error)

    # -- rows that are there already

    def _new_events(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that are not there.

        Raise `StoreConflictError` as the triggers of a file do.
        """
        groups = {key: list(group) for key, group in groupby(rows, _exchange)}
        states: dict[Key, tuple[int | None, bool]] = {
            key: (None, False) for key in groups if key in self._added
        }
        known = [key for key in groups if key not in self._added]
        if known:
            session_ids, exchange_ids = map(list, zip(*known, strict=True))
            values = {"sessions": session_ids, "exchanges": exchange_ids}
            values |= {"first": min(session_ids), "last": max(session_ids)}
            [found] = self._send([Sending(_STATE, values, prepare=False)])
            for *key, last, is_over, is_known, is_purged in found:
                if is_purged:
                    raise _refused(PURGED)
                if not is_known:
                    raise _refused(ABSENT)
                states[tuple(key)] = last, is_over
        self._added.difference_update(groups)
        new: list[Row] = []
        for key, group in groups.items():
            new += self._after(group, *states[key])
        return new

    def _after(self, group: list[Row], last: int | None, is_over: bool) -> list[Row]:
        """Return the rows of an exchange that are not there.

        Its last position and whether it is over are known.
        """
        last = -1 if last is None else last
        repeated = [row for row in group if row[_POS] <= last]
        if repeated:
            key = (*repeated[0][:2], repeated[0][_POS], repeated[-1][_POS])
            stored = {row[_POS]: row for row in self._send([Sending(_STORED, key)])[0]}
            if any(not is_same(stored.get(row[_POS]), row) for row in repeated):
                raise _refused(OTHER)
        new = group[len(repeated) :]
        if [row[_POS] for row in new] != list(range(last + 1, last + 1 + len(new))):
            raise _refused(HOLE)
        for row in new:
            if is_over and row[_KIND] != "note":
                raise _refused(ENDED)
            is_over = is_over or row[_KIND] == "end"
        return new

    def _add_all(self, table: Table, rows: Sequence[Row]) -> int:
        """Add sessions, exchanges or tombstones.

        Those that somebody else adds at this moment are waited for.
        """
        ids = [row[0] for row in rows] if table.name != "tombstones" else []
        insert = Sending(_INSERTS[table.name].encode(), _by_column(rows))
        purged, new = self._send([Sending(_PURGED, (ids,)), insert])
        if purged:
            raise _refused(PURGED)
        width = len(table.primary_key)
        is_same_key = " AND ".join(f"{column.name} = %s" for column in table.primary_key)
        sql = f"SELECT * FROM {table.name} WHERE {is_same_key}".encode()
        added = set(new)
        for row in rows:
            if row[:width] not in added and self._send([Sending(sql, row[:width])])[0] != [row]:
                raise _refused(OTHER)
        if table is exchanges:
            self._added |= added
        return len(new)


def _by_column(rows: Sequence[Row]) -> tuple[list[Any], ...]:
    return tuple(map(list, zip(*rows, strict=True)))


def _refused(reason: str) -> StoreConflictError:
    return StoreConflictError(f"The database refused a row: {reason}.")


def _origin(error: BaseException) -> BaseException | None:
    cause = error.__cause__
    return getattr(cause, "orig", cause)


def writer(url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> PostgresWriter:
    return PostgresWriter(url, busy_timeout_s, answer_timeout_s)


def sweep(url: URL, *, vacuum: bool = True, busy_timeout_s: float) -> bool:
    """Vacuum the tables when all transactions of this moment have ended, or after `busy_timeout_s`.

    The partitions of months and days that are over and have no row any more are dropped.

    Return whether all had.
    """
    if not vacuum:
        return True
    with open_reader(url, {"default_transaction_read_only": "off"}) as connection:

        def reading() -> set[Any]:
            return set(connection.execute(_READING.encode()).fetchall())

        until_s = time.monotonic() + busy_timeout_s
        before = reading()
        while (left := before & reading()) and time.monotonic() < until_s:
            time.sleep(POLL_S)
        for (of,) in connection.execute(OVER.encode()).fetchall():
            _drop_if_empty(connection, of)
        connection.execute(_VACUUM.encode())
    return not left


def _drop_if_empty(connection: psycopg.Connection, of: str) -> None:
    """Drop the partitions of a month or a day, `_YYYY_MM_DD`, unless one has a row or is in use
    just now: then the next sweep does.

    A session of that time that is imported later goes to the default partitions.
    """
    try:
        with connection.transaction():
            # whoever comes later waits for this lock
            connection.execute(b"SET LOCAL lock_timeout = '50ms'")
            for parent in reversed(PARTITIONED):  # rows refer to those of the tables before
                child = parent + of
                connection.execute(f"ALTER TABLE {parent} DETACH PARTITION {child}".encode())
                if connection.execute(f"SELECT 1 FROM {child} LIMIT 1".encode()).fetchone():
                    raise psycopg.Rollback
                connection.execute(f"DROP TABLE {child}".encode())
    except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable) as error:
        log.debug("the partitions of %s stay: %s", of, error)


def sweep_catalog(url: URL) -> None:
    """Rewrite the tables of a catalog: they are small, and in their files nothing stays of what was
    deleted.
    """
    with translated(url), open_reader(url, {"default_transaction_read_only": "off"}) as connection:
        for (name,) in connection.execute(_CATALOG_TABLES.encode()).fetchall():
            connection.execute(f"VACUUM FULL {name}".encode())
