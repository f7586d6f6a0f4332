"""The connection that writes to a database file.

Rules of this file:

* The write lock is held for a transaction, and for the checkpoint that may follow it, and never otherwise.
* What is committed is in the file that the path names: SQLite would continue to write into a deleted file.
* Triggers judge each row: one that is there already is skipped, one that contradicts the log is refused.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects.postgresql import insert

from recorder.errors import StoreError, StoreLostError
from recorder.store.engine import BUSY_TIMEOUT_S
from recorder.store.schema import LOG, events
from recorder.store.search import INDEX_NAMES, INDEXES, Indexed
from recorder.store.sql import Statement, Step, dialect
from recorder.store.sqlite.connection import ENGINE, WRITER, apply, run_all, translated, write_lock, writer_engine

WAL_BYTES = 16 * 2**20  # over this, a commit is followed by a checkpoint: readers search the WAL, and restarts read it
CHECKPOINT_AGAIN_S = 30.0  # between two attempts where a reader is in the way and nothing is written


def _insert(table: Table) -> str:
    statement = insert(table).on_conflict_do_nothing(index_elements=list(table.primary_key))
    return str(statement.compile(dialect=dialect(ENGINE, "qmark")))


_INSERTS = {table.name: _insert(table) for table in LOG}


_EMPTY = bytearray()


def _bound(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield rows of `events` for the driver, which binds a `bytearray` at once: for `bytes` it looks for an adapter
    first, which takes as long as a tenth of the row.
    """
    for session, exchange, pos, kind, t_ns, type, number, item, index, raw, start, length, hash in rows:
        yield session, exchange, pos, kind, t_ns, type, number, item, index, _EMPTY + raw, start, length, _EMPTY + hash


class SqliteWriter:
    """A `recorder.store.write.writer.Writer`."""

    engine = ENGINE

    def __init__(self, path: Path, busy_timeout_s: float) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self._file = _file_at(self.path)  # before it is opened: if it is replaced just now, it is lost, not mistaken
        with self.translated():
            self.connection: Connection = writer_engine(self.path, WRITER, busy_timeout_s).connect()
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
                yield
            self._check_file()
            if self._wal_bytes() > self._checkpoint_at:
                with suppress(StoreError):  # what was committed stays so, whatever hinders the checkpoint
                    self._checkpoint()

    def looking(self) -> AbstractContextManager[None]:
        return self.transaction(alone=False)

    def add(self, table: Table, rows: Sequence[tuple[Any, ...]]) -> int:
        given = _bound(rows) if table is events else rows
        return int(self._driver.executemany(_INSERTS[table.name], given).rowcount)

    def run(self, statement: Statement, values: Any) -> None:
        sql = statement.text(ENGINE)
        if isinstance(values, list):
            self._driver.executemany(sql, values)
        else:
            self._driver.execute(sql, values)

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        with closing(self._driver.execute(statement.text(ENGINE), values)) as cursor:
            yield from cursor

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
            raise StoreLostError(f"The database {self.path} was deleted or replaced while it was open: open it again.")

    def _wal_bytes(self) -> int:
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def _checkpoint(self) -> None:
        """Move the WAL without waiting for readers.

        With one in the way this is a PASSIVE checkpoint, without one it also empties the file, so that its size shows
        how much remains to be done. After a vain attempt the next is `WAL_BYTES` later.
        """
        driver = self._driver
        try:
            with self.translated():
                driver.execute("PRAGMA busy_timeout = 0")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            driver.execute(f"PRAGMA busy_timeout = {round(self._busy_timeout_s * 1000)}")
            self._checkpoint_at, self._checkpointed_s = self._wal_bytes() + WAL_BYTES, time.monotonic()


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file that a path names, or None."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def sweep(path: Path, vacuum: bool, busy_timeout_s: float) -> bool:
    """Take what was deleted out of the full-text indexes, the file (with `vacuum`) and its WAL, under the write lock.

    Return whether no reader was in the way of emptying the WAL.
    """
    with write_lock(path, busy_timeout_s), translated(path):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            apply(connection, {**WRITER, "busy_timeout": round(busy_timeout_s * 1000)})
            for name in INDEX_NAMES:
                connection.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")
            if vacuum:
                _write_anew(connection)
            [(is_busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not is_busy


def sweep_catalog(path: Path) -> None:
    """Write a file anew that has the catalog of an archive. Raise `StoreBusyError` while somebody reads it."""
    with translated(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        apply(connection, {"secure_delete": 1, "busy_timeout": round(BUSY_TIMEOUT_S * 1000)})
        connection.execute("VACUUM")


def _write_anew(connection: sqlite3.Connection) -> None:
    """Write the file anew. SQLite keeps the rowids that the full-text indexes go by, but does not promise to."""
    before = [_rowids(connection, index) for index in INDEXES]
    connection.execute("VACUUM")
    for index, rowids in zip(INDEXES, before, strict=True):
        if _rowids(connection, index) != rowids:
            connection.execute(f"INSERT INTO {index.name} ({index.name}) VALUES ('rebuild')")


def _rowids(connection: sqlite3.Connection, index: Indexed) -> Any:
    return connection.execute(f"SELECT count(*), max(rowid) FROM {index.projection.table}").fetchone()
