"""The connection that writes to a database file, and its locks: a `recorder.store.engine.Writing`.

Rules of this file:

* The write lock is held for a transaction, and for the checkpoint that may follow it, and never
  otherwise.
* What is committed is in the file that the path names: SQLite would continue to write into a
  deleted file.
* Triggers judge each row: one that is there already is skipped, one that contradicts the log is
  refused.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Table, bindparam
from sqlalchemy.dialects.postgresql import insert

from recorder.errors import StoreConflictError, StoreError, StoreLostError
from recorder.store.engine import BUSY_TIMEOUT_S
from recorder.store.schema import ABSENT, LOG, PURGED, events
from recorder.store.search import INDEX_NAMES, INDEXES, Indexed
from recorder.store.sql import ROLLBACK_TO, Statement, Step, dialect
from recorder.store.sqlite import address
from recorder.store.sqlite import connection as of_file
from recorder.store.sqlite.connection import (
    ENGINE,
    WRITER,
    apply,
    run_all,
    translated,
    write_lock,
    writer_engine,
)
from recorder.store.sqlite.tables import STORED

Row = tuple[Any, ...]

# over this, a commit is followed by a checkpoint: readers search the WAL, and restarts read it
WAL_BYTES = 16 * 2**20
# between two attempts where a reader is in the way and nothing is written
CHECKPOINT_AGAIN_S = 30.0


def _insert(table: Table) -> str:
    """Return the insert of rows without the numbers that the log gives."""
    columns = [column for column in table.columns if column.name != "number"]
    statement = insert(table).values({column.name: bindparam(column.name) for column in columns})
    ignoring = statement.on_conflict_do_nothing()
    return str(ignoring.compile(dialect=dialect(ENGINE, "qmark")))


_INSERTS = {table.name: _insert(STORED.get(table.name, table)) for table in LOG}

_EXCHANGE_NUMBER = "SELECT number FROM stored_exchanges WHERE session_id = ? AND exchange_id = ?"
_TYPE_NUMBER = "SELECT number FROM event_types WHERE type = ?"
_NEW_TYPE = "INSERT INTO event_types (type) VALUES (?)"
_ITEM_NUMBER = "SELECT number FROM event_items WHERE exchange = ? AND item_id = ?"
_NEW_ITEM = "INSERT INTO event_items (exchange, item_id) VALUES (?, ?)"
_IS_PURGED = "SELECT 1 FROM tombstones WHERE session_id = ?"

_OF_SESSION = "(SELECT number FROM stored_exchanges WHERE session_id = ?)"
_DELETE_SESSION = (
    f"DELETE FROM stored_events WHERE exchange IN {_OF_SESSION}",
    f"DELETE FROM event_items WHERE exchange IN {_OF_SESSION}",
    "DELETE FROM stored_exchanges WHERE session_id = ?",
    "DELETE FROM sessions WHERE session_id = ?",
)

_EMPTY = bytearray()


class Numbers:
    """The numbers that stand in rows of a file for exchanges, types and items: for one transaction,
    after which any of them may be another's.
    """

    def __init__(self, driver: sqlite3.Connection, path: Path) -> None:
        self._driver, self._path = driver, path
        self._exchanges, self._types, self._items = (
            cache(self._exchange),
            cache(self._type),
            cache(self._item),
        )

    def stored(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows of `stored_events` for rows of `events`.

        Raise `StoreConflictError` if one has no exchange.

        The driver binds a `bytearray` at once. For `bytes` it looks for an adapter first, which
        takes as long as a tenth of the row.
        """
        exchanges, types, items = self._exchanges, self._types, self._items
        last, place = ("", ""), 0
        for (
            session,
            exchange,
            pos,
            kind,
            t_ns,
            type,
            number,
            item,
            index,
            raw,
            start,
            length,
            hash,
        ) in rows:
            if exchange != last[1] or session != last[0]:  # rows of an exchange follow one another
                last = session, exchange
                place = exchanges(last)
            item = None if item is None else items((place, item))
            type = types(type)
            yield (
                place,
                pos,
                kind,
                t_ns,
                type,
                number,
                item,
                index,
                _EMPTY + raw,
                start,
                length,
                _EMPTY + hash,
            )

    def _exchange(self, key: tuple[str, str]) -> int:
        found = self._driver.execute(_EXCHANGE_NUMBER, key).fetchone()
        if found is not None:
            return int(found[0])
        is_purged = self._driver.execute(_IS_PURGED, key[:1]).fetchone() is not None
        reason = PURGED if is_purged else ABSENT
        raise StoreConflictError(f"The database {self._path} refused a row: {reason}.")

    def _type(self, type: str | None) -> int | None:
        return None if type is None else self._number(_TYPE_NUMBER, _NEW_TYPE, (type,))

    def _item(self, key: tuple[int, str]) -> int:
        return self._number(_ITEM_NUMBER, _NEW_ITEM, key)

    def _number(self, look_up: str, add: str, values: tuple[Any, ...]) -> int:
        found = self._driver.execute(look_up, values).fetchone()
        if found is not None:
            return int(found[0])
        return int(self._driver.execute(add, values).lastrowid or 0)


class SqliteWriter:
    """A `recorder.store.write.writer.Writer`."""

    engine = ENGINE

    def __init__(self, path: Path, busy_timeout_s: float) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        # before it is opened: if it is replaced just now, it is lost, not mistaken
        self._file = _file_at(self.path)
        with self.translated():
            self.connection: Connection = writer_engine(self.path, WRITER, busy_timeout_s).connect()
        self._numbers = Numbers(self._driver, self.path)
        self._checkpoint_at, self._checkpointed_s = WAL_BYTES, 0.0

    @contextmanager
    def translated(self) -> Iterator[None]:
        with translated(self.path):
            yield

    @contextmanager
    def transaction(self, alone: bool) -> Iterator[None]:
        with write_lock(self.path, self._busy_timeout_s):
            self._check_file()
            with self.translated(), self.connection.begin():
                self._numbers = Numbers(self._driver, self.path)
                yield
            self._check_file()
            if self._wal_bytes() > self._checkpoint_at:
                # what was committed stays so, whatever hinders the checkpoint
                with suppress(StoreError):
                    self._checkpoint()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Only ask, without a transaction: each statement sees what was committed, and waits for
        nobody.
        """
        self._check_file()
        with self.translated():
            try:
                yield
            finally:
                self.connection.rollback()  # what SQLAlchemy begins with a statement of its own

    def add(self, table: Table, rows: Sequence[Row]) -> int:
        given = self._numbers.stored(rows) if table is events else rows
        return int(self._driver.executemany(_INSERTS[table.name], given).rowcount)

    def delete_session(self, session_id: str) -> None:
        for statement in _DELETE_SESSION:
            self._driver.execute(statement, (session_id,))

    def run(self, statement: Statement, values: Any) -> None:
        if statement is ROLLBACK_TO:  # what was given in the attempt is nobody's now
            self._numbers = Numbers(self._driver, self.path)
        self.run_all([(statement, values)])

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        return of_file.rows(self._driver, statement, values)

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        return run_all(self._driver, steps)

    def checkpoint(self) -> None:
        """Move the WAL into the database file and empty it, as far as no reader needs it."""
        with write_lock(self.path, self._busy_timeout_s):
            self._checkpoint()

    def tidy(self) -> None:
        """Do the checkpoint that a reader was in the way of, if it is time."""
        is_due = time.monotonic() - self._checkpointed_s >= CHECKPOINT_AGAIN_S
        if is_due and self._wal_bytes() > WAL_BYTES:
            with suppress(StoreError):
                self.checkpoint()

    def close(self) -> None:
        """Close the connection, with a checkpoint that empties the WAL if nothing is in the way."""
        if self.connection.closed:
            return
        try:
            with suppress(StoreError):
                self.checkpoint()
        finally:
            self.connection.close()

    @property
    def _driver(self) -> Any:
        return self.connection.connection.driver_connection

    def _check_file(self) -> None:
        if self._file is None or _file_at(self.path) != self._file:
            raise StoreLostError(
                f"The database {self.path} was deleted or replaced while it was open: open it again."
            )

    def _wal_bytes(self) -> int:
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def _checkpoint(self) -> None:
        """Move the WAL without waiting for readers.

        With one in the way this is a PASSIVE checkpoint, without one it also empties the file, so
        that its size shows how much remains to be done. After a vain attempt the next is
        `WAL_BYTES` later.
        """
        driver = self._driver
        try:
            with self.translated():
                driver.execute("PRAGMA busy_timeout = 0")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            driver.execute(f"PRAGMA busy_timeout = {round(self._busy_timeout_s * 1000)}")
            self._checkpoint_at, self._checkpointed_s = (
                self._wal_bytes() + WAL_BYTES,
                time.monotonic(),
            )


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file that a path names, or None."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_OF_STATEMENT = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE)


def is_of_statement(error: BaseException) -> bool:
    if not isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlite_errorcode", None)  # what the driver itself refuses has none
    return code is None or code & 0xFF in _OF_STATEMENT


def writer(url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> SqliteWriter:
    return SqliteWriter(address.path(url), busy_timeout_s)


def task_lock(url: URL, task: str, timeout_s: float, refusal: str) -> AbstractContextManager[None]:
    return of_file.task_lock(address.path(url), task, timeout_s, refusal)


def sweep(url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
    """Take what was deleted out of the full-text indexes, the file (with `vacuum`) and its WAL,
    under the write lock.

    Return whether no reader was in the way of emptying the WAL.
    """
    path = address.path(url)
    with write_lock(path, busy_timeout_s), translated(path):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            apply(connection, {**WRITER, "busy_timeout": round(busy_timeout_s * 1000)})
            _forget_types(connection)
            for name in INDEX_NAMES:
                connection.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")
            if vacuum:
                _write_again(connection)
            [(is_busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not is_busy


def sweep_catalog(url: URL) -> None:
    """Write a file again that has the catalog of an archive.

    Raise `StoreBusyError` while somebody reads it.
    """
    path = address.path(url)
    with translated(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        apply(connection, {"secure_delete": 1, "busy_timeout": round(BUSY_TIMEOUT_S * 1000)})
        connection.execute("VACUUM")


def _forget_types(connection: sqlite3.Connection) -> None:
    """Delete the types that no event has any more.

    Mostly each is met within the first rows, and the search ends.
    """
    unused = {number for (number,) in connection.execute("SELECT number FROM event_types")}
    for (number,) in connection.execute("SELECT DISTINCT type FROM stored_events"):
        unused.discard(number)
        if not unused:
            break
    connection.executemany(
        "DELETE FROM event_types WHERE number = ?", [(number,) for number in unused]
    )


def _write_again(connection: sqlite3.Connection) -> None:
    """Write the file again.

    SQLite keeps the rowids that the full-text indexes go by, but does not promise to.
    """
    before = [_rowids(connection, index) for index in INDEXES]
    connection.execute("VACUUM")
    for index, rowids in zip(INDEXES, before, strict=True):
        if _rowids(connection, index) != rowids:
            connection.execute(f"INSERT INTO {index.name} ({index.name}) VALUES ('rebuild')")


def _rowids(connection: sqlite3.Connection, index: Indexed) -> Any:
    return connection.execute(
        f"SELECT count(*), max(rowid) FROM {index.projection.table}"
    ).fetchone()
