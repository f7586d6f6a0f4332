"""The store: the one way that rows enter the log.

Rules of this file:

* Synchronous, for one thread: the ingester is a process of its own, and a driver-level `executemany` of a statement
  compiled once is as fast as `sqlite3` itself.
* Only `INSERT … ON CONFLICT DO NOTHING` and `SELECT` touch the log. Writing the same again changes nothing, so whoever
  does not know whether a commit happened repeats the transaction.
* The write lock is held for the transaction, and for the checkpoint that may follow it, and never otherwise.
* What is committed is in the file that the path names: SQLite would go on writing into one that was deleted.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from sqlalchemy import URL, Connection, CursorResult, Table, bindparam, delete, func, select
from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.sql import Executable

from recorder import migrate
from recorder.errors import StoreBusyError, StoreError, StoreLostError
from recorder.events import Event, Exchange, Session
from recorder.location import database_path, database_url, default_url
from recorder.projector import Projector
from recorder.resumed import begins
from recorder.schema import LOG, events, exchanges, ingest_offsets, sessions
from recorder.sqlite import BUSY_TIMEOUT_S, WRITER, translated, write_lock, writer_engine

__all__ = ["Store", "database_path", "database_url", "default_url"]

WAL_BYTES = 16 * 2**20  # over this, a commit is followed by a checkpoint: readers search the WAL, and restarts read it
RECENT_EXCHANGES = 1_000  # how far back a response id is looked for: a bound instead of an index

_key = attrgetter("session_id", "exchange_id", "pos")


def _insert(table: Table) -> str:
    statement = insert(table).on_conflict_do_nothing(index_elements=list(table.primary_key))
    return str(statement.compile(dialect=dialect.dialect()))


_INSERTS = {table.name: _insert(table) for table in LOG}

_SESSION_NAMED = (
    select(sessions.c.session_id)
    .where(sessions.c.name == bindparam("name"), sessions.c.source == bindparam("source"))
    .order_by(sessions.c.created_ns.desc(), sessions.c.session_id.desc())
    .limit(1)
)

_SESSION_OF_EXCHANGE = select(exchanges.c.session_id).where(exchanges.c.exchange_id == bindparam("exchange_id"))

_LAST_EVENT = (
    select(events)
    .where(events.c.session_id == bindparam("session_id"), events.c.exchange_id == bindparam("exchange_id"))
    .order_by(events.c.pos.desc())
    .limit(1)
)

_recent = (
    select(exchanges.c.session_id, exchanges.c.exchange_id)
    .order_by(exchanges.c.exchange_id.desc())
    .limit(RECENT_EXCHANGES)
    .subquery()
)
_SESSION_OF_RESPONSE = (
    select(_recent.c.session_id)
    .join(events, (events.c.session_id == _recent.c.session_id) & (events.c.exchange_id == _recent.c.exchange_id))
    .where(begins(events))
    .where(func.instr(events.c.raw, bindparam("quoted_id")) > 0)
    .order_by(_recent.c.exchange_id.desc())
    .limit(1)
)

_SET_OFFSET = insert(ingest_offsets)
_SET_OFFSET = _SET_OFFSET.on_conflict_do_update(
    index_elements=[ingest_offsets.c.recorder_id],
    set_={"segment": _SET_OFFSET.excluded.segment, "offset": _SET_OFFSET.excluded.offset},
)
_OFFSET = select(ingest_offsets.c.segment, ingest_offsets.c.offset)


class Store:
    """The database, open for writing. Creates it, or brings it to the newest schema."""

    def __init__(self, url: str | Path | URL, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        """`busy_timeout_s` is how long a transaction waits for another writer before it raises `StoreBusyError`."""
        self.url = database_url(url)
        self.path = database_path(self.url)
        self._busy_timeout_s = busy_timeout_s
        migrate.upgrade(self.url, busy_timeout_s)
        self._file = _file_at(self.path)  # before it is opened: if it is replaced just now, it is lost, not mistaken
        with translated(self.path):
            self._connection: Connection = writer_engine(self.path, WRITER, busy_timeout_s).connect()
        self.projector = Projector(self)  # inside a transaction, as everything else
        self._checkpoint_at = WAL_BYTES
        self._failure: StoreError | None = None  # of a statement of this transaction

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is committed at its end, durably, or not at all if it raises.

        Raises `StoreBusyError` when another program writes for too long or the disk is full: nothing is written then,
        and the same transaction may be repeated. Raises `StoreLostError` when the file was deleted or replaced: it may
        be repeated with a new store, once this one is closed.
        """
        with write_lock(self.path, self._busy_timeout_s):
            self._check_file()
            self._failure = None
            with translated(self.path), self._connection.begin():
                yield
                if self._failure is not None:
                    raise self._failure
            self._check_file()
            if self._wal_bytes() > self._checkpoint_at:
                with suppress(StoreError):  # what was committed stays so, whatever hinders the checkpoint
                    self._checkpoint()

    def session_named(self, name: str, source: str) -> str | None:
        """The id of the newest session with that name, found by that rule."""
        found: str | None = self._execute(_SESSION_NAMED, name=name, source=source).scalar()
        return found

    def session_of_exchange(self, exchange_id: str) -> str | None:
        """The id of the session that an exchange is in, if it is in the log already."""
        found: str | None = self._execute(_SESSION_OF_EXCHANGE, exchange_id=exchange_id).scalar()
        return found

    def session_of_response(self, response_id: str) -> str | None:
        """The id of the session in which one of the last exchanges had that response id."""
        quoted_id = msgspec.json.encode(response_id)
        found: str | None = self._execute(_SESSION_OF_RESPONSE, quoted_id=quoted_id).scalar()
        return found

    def last_event(self, session_id: str, exchange_id: str) -> Event | None:
        """The last event that the log has of an exchange."""
        row = self._execute(_LAST_EVENT, session_id=session_id, exchange_id=exchange_id).one_or_none()
        return None if row is None else Event(*tuple(row))

    def add_session(self, session: Session) -> None:
        """Raises `StoreConflictError` if that id has other content."""
        self._add(sessions, [session])

    def add_exchange(self, exchange: Exchange) -> None:
        """Raises `StoreConflictError` if that id has other content, or its session is not there."""
        self._add(exchanges, [exchange])

    def append(self, events_: Sequence[Event]) -> None:
        """Append events of any number of exchanges, in any order. Rows that stand already are skipped.

        Raises `StoreConflictError` if other content stands at a position, or one would be skipped.
        """
        self._add(events, sorted(events_, key=_key))

    def set_offset(self, recorder_id: str, segment: int, offset: int) -> None:
        """How far the journal of a recorder is in the log, from the next commit on."""
        self._execute(_SET_OFFSET, recorder_id=recorder_id, segment=segment, offset=offset)

    def offset(self, recorder_id: str) -> tuple[int, int] | None:
        """Segment and offset up to which the journal of a recorder is in the log."""
        row = self._execute(_OFFSET.where(ingest_offsets.c.recorder_id == recorder_id)).one_or_none()
        return None if row is None else (row.segment, row.offset)

    def forget_offset(self, recorder_id: str) -> None:
        """The journal of that recorder is gone."""
        self._execute(delete(ingest_offsets).where(ingest_offsets.c.recorder_id == recorder_id))

    def checkpoint(self) -> None:
        """Move the WAL into the database file and empty it, as far as no reader needs it. For idle moments."""
        with write_lock(self.path, self._busy_timeout_s):
            self._checkpoint()

    def close(self) -> None:
        """Let go of the database, its WAL empty if nothing is in the way."""
        if self._connection.closed:
            return
        try:
            with suppress(StoreError):
                self.checkpoint()
        finally:
            self._connection.close()

    def _add(self, table: Table, rows: Sequence[msgspec.Struct]) -> None:
        with self._statement():
            if rows:
                values = [msgspec.structs.astuple(row) for row in rows]
                self._connection.exec_driver_sql(_INSERTS[table.name], values)

    def _execute(self, statement: Executable, **values: Any) -> CursorResult[Any]:
        with self._statement():
            return self._connection.execute(statement, values)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """In a transaction: what fails inside is undone alone, and the rest may still be committed.

        Not so where the whole transaction is in question: the disk is full, the database locked or gone.
        """
        self.run("SAVEPOINT attempt", {})
        failure = self._failure
        try:
            yield
        except (StoreBusyError, StoreLostError):
            raise
        except BaseException:
            self._failure = failure
            self.run("ROLLBACK TO attempt", {})
            self.run("RELEASE attempt", {})
            raise
        self.run("RELEASE attempt", {})

    def run(self, sql: str, values: Any) -> None:
        """A statement of the projector, at the driver: there are some twenty of them for every exchange."""
        with self._statement():
            if isinstance(values, list):
                self._driver.executemany(sql, values)
            else:
                self._driver.execute(sql, values)

    def ask(self, sql: str, values: Any) -> Generator[Sequence[Any]]:
        """The rows of a statement, read as they are wanted: of a long exchange only a few are in memory."""
        with self._statement(), closing(self._driver.execute(sql, values)) as cursor:
            yield from cursor

    @property
    def _driver(self) -> Any:
        return self._connection.connection.driver_connection

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """A transaction in which a statement failed is not committed, even if the caller goes on.

        On a full disk SQLite undoes the statement or the whole transaction, and takes the next small row gladly.
        """
        if not self._connection.in_transaction():  # SQLAlchemy would begin one: without the write lock, without an end
            raise RuntimeError("A store is read and written inside `with store.transaction():` only.")
        try:
            with translated(self.path):
                yield
        except StoreError as error:
            self._failure = error
            raise

    def _check_file(self) -> None:
        if self._file is None or _file_at(self.path) != self._file:
            raise StoreLostError(f"The database {self.path} was deleted or replaced while it was open: open it again.")

    def _wal_bytes(self) -> int:
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def _checkpoint(self) -> None:
        """Without waiting for readers: with one in the way this is a PASSIVE checkpoint, without one it also empties
        the file, so that its size says what there is to do. After a vain attempt the next is `WAL_BYTES` later.
        """
        driver = self._driver
        try:
            with translated(self.path):
                driver.execute("PRAGMA busy_timeout = 0")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            driver.execute(f"PRAGMA busy_timeout = {round(self._busy_timeout_s * 1000)}")
            self._checkpoint_at = self._wal_bytes() + WAL_BYTES


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file a path names."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
