"""Connections to a database file: how they are opened and locked, and the meaning of SQLite's
errors.

Rules of this file:

* It knows SQLite, and of the log only by which id its file is known.
* A pragma is set before the first transaction, read back, and the connection refused if SQLite did
  not take it.
* The file is never opened but by SQLite: closing any other descriptor of it would drop the locks
  that SQLite holds.
* A process that writes or checkpoints holds the lock of `write_lock`. Two connections never do so
  at once, which also keeps clear of the WAL-reset bug of SQLite before 3.51.3.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from sqlalchemy import URL, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError

from recorder.errors import StoreBusyError, StoreConflictError, StoreError
from recorder.store.engine import BUSY_TIMEOUT_S
from recorder.store.schema import APPLICATION_ID
from recorder.store.sql import Statement, Step
from recorder.store.sqlite.address import lock_path

ENGINE = "sqlite"
LOCK_POLL_S = 0.002  # a transaction takes about a millisecond
TASK_POLL_S = 0.05  # a task takes seconds

Recipe = Mapping[str, str | int]

MIGRATION: Recipe = {
    # FULL: in group commits as fast as NORMAL, which loses what was acknowledged in a power cut
    "synchronous": 2,
    "fullfsync": 1,  # without it, macOS does not wait for the disk
    "checkpoint_fullfsync": 1,
    "foreign_keys": 1,
    "secure_delete": 1,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "mmap_size": 0,
}
WRITER: Recipe = {
    "journal_mode": "wal",
    **MIGRATION,
    "wal_autocheckpoint": 0,  # the store checkpoints, under the write lock
    "journal_size_limit": 64 * 2**20,
}
READER: Recipe = {"query_only": 1, "trusted_schema": 0, "cell_size_check": 1, "mmap_size": 0}


def writer_engine(path: Path, recipe: Recipe, busy_timeout_s: float) -> Engine:
    """Return an engine that writes.

    Every transaction takes the write lock of SQLite at its beginning.
    """
    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool)
    prepare(engine, {**recipe, "busy_timeout": round(busy_timeout_s * 1000)}, "BEGIN IMMEDIATE")
    return engine


@contextmanager
def open_reader(
    path: Path, timeout_s: float = BUSY_TIMEOUT_S, options: str | None = None
) -> Iterator[sqlite3.Connection]:
    """Open a connection of the driver that only reads, for one thread; it begins its transactions
    itself.

    What is wrong with the text of a damaged file is read as it is, in place of an error.
    `timeout_s` is how long it waits for a lock. `options` are other ones than those of `reading`.
    """
    with translated(path):
        uri = f"{file_uri(path)}?{options or urlencode(reading(path))}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout_s)
    with closing(connection):
        connection.text_factory = _text
        with translated(path):
            apply(connection, READER)
        yield connection


def reading(path: Path) -> Mapping[str, str]:
    """Return how SQLite opens a file to read it.

    With `immutable` it makes no side files and sees no WAL.

    Elsewhere it makes an index of the WAL, which a read-only mount does not let it. A file there
    without a WAL is whole, and nobody has it open: whoever writes, on the other side of the mount,
    has made that index.
    """
    wal, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    try:
        is_read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:  # which SQLite will say better
        is_read_only = False
    if not is_read_only or index.exists():
        return {"mode": "ro"}
    if wal.exists() and wal.stat().st_size:
        raise StoreError(
            f"The database {path} is on a read-only mount, and {wal.name} has changes that are not in it yet: open it "
            "once where it can be written, or copy both files to such a place."
        )
    return {"mode": "ro", "immutable": "1"}


def file_uri(path: Path) -> str:
    # its bytes: a name in a folder need not be UTF-8
    return f"file:{quote(os.fsencode(path))}"


def journal_path(path: Path) -> Path:
    """Return the file in which SQLite has what an unfinished commit replaced, while a file is not
    in WAL mode.
    """
    return Path(f"{path}-journal")


def prepare(engine: Engine, recipe: Recipe, begin: str) -> None:
    """Have each connection of an engine take its pragmas, and begin each transaction with a
    statement.
    """

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: object) -> None:
        try:
            # else the driver begins transactions, late and only for some statements
            connection.isolation_level = None
            # the first is of an event loop
            getattr(connection, "driver_connection", connection).text_factory = _text
            apply(connection, recipe)
        except BaseException:
            connection.close()
            raise

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Any) -> None:
        connection.exec_driver_sql(begin)


def apply(connection: Any, recipe: Recipe) -> None:
    """Set pragmas on a DBAPI connection and read them back."""
    with closing(connection.cursor()) as cursor:
        for pragma, value in recipe.items():
            cursor.execute(f"PRAGMA {pragma} = {value}")
            cursor.execute(f"PRAGMA {pragma}")
            row = cursor.fetchone()
            if row is None or row[0] != value:
                raise StoreError(
                    f"This SQLite does not take PRAGMA {pragma} = {value}; it says {row and row[0]!r}."
                )


def rows(
    connection: sqlite3.Connection, statement: Statement, values: Any
) -> Generator[Sequence[Any]]:
    """Yield the rows of a statement as they are read."""
    with closing(connection.execute(statement.text(ENGINE), values)) as cursor:
        yield from cursor


def run_all(connection: sqlite3.Connection, steps: Sequence[Step]) -> list[list[Any]]:
    """Run statements one after another, and return the rows of each.

    The many rows of one are given by position: by name, the driver takes five times as long to bind
    them.
    """
    found: list[list[Any]] = []
    for statement, values in steps:
        if isinstance(values, list):
            sql, names = statement.positional(ENGINE)
            given = (tuple(map(row.__getitem__, names)) for row in values)
            found.append(connection.executemany(sql, given).fetchall())
        else:
            found.append(connection.execute(statement.text(ENGINE), values).fetchall())
    return found


_text = partial(str, encoding="utf-8", errors="replace")


def create_file(path: Path) -> None:
    """Create a file if there is none: 0600, its directories 0700.

    SQLite gives its side files the same mode.
    """
    try:
        for directory in reversed(path.parents):
            if not directory.exists():
                directory.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise StoreError(
                f"{path} is a directory: the database needs the path of a file."
            ) from None
    except OSError as error:
        raise StoreError(f"The database {path} cannot be created: {error.strerror}.") from error


@contextmanager
def write_lock(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock of writers to the database at `path`, among all processes of recorder.

    Raise `StoreBusyError` if it is not free within `timeout_s`.
    """
    refusal = f"Another recorder is writing to {path}; try again when it is done."
    with _locked(path, lock_path(path), timeout_s, refusal):
        yield


@contextmanager
def task_lock(path: Path, task: str, timeout_s: float, refusal: str) -> Iterator[None]:
    """Hold the lock of a task on the database at `path`, among all processes of recorder.

    Its file goes at the end.
    """
    lock = Path(f"{path}.{task}.lock")
    with _locked(path, lock, timeout_s, refusal, TASK_POLL_S):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


@contextmanager
def _locked(
    path: Path, lock: Path, timeout_s: float, refusal: str, poll_s: float = LOCK_POLL_S
) -> Iterator[None]:
    deadline = time.monotonic() + timeout_s
    while (fd := _try_lock(path, lock)) is None:
        if time.monotonic() >= deadline:
            raise StoreBusyError(refusal)
        time.sleep(poll_s)
    try:
        yield
    finally:
        os.close(fd)


def _try_lock(path: Path, lock: Path) -> int | None:
    """Return the descriptor of a lock, None if another process has it."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"The database {path} cannot be written: {lock}: {error.strerror}."
        ) from error
    is_held = False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # the process that had it may have deleted the file
        is_held = os.path.samestat(os.fstat(fd), os.stat(lock))
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        if not is_held:
            os.close(fd)
    return fd if is_held else None


def application_id(path: Path) -> int:
    """Return the application id in the header of a file. Touches nothing: no lock, no side files.

    Without its WAL a file may be half of a checkpoint, and smaller than the size in its header:
    only the header counts here.
    """
    with (
        translated(path),
        closing(sqlite3.connect(f"{file_uri(path)}?mode=ro&immutable=1", uri=True)) as connection,
    ):
        connection.execute("PRAGMA writable_schema = ON")  # else the size is looked at too
        value: int = connection.execute("PRAGMA application_id").fetchone()[0]
        return value


def roll_back(path: Path) -> None:
    """Undo what a process left that died in the middle of a commit, before the file was in WAL
    mode.
    """
    if journal_path(path).exists():
        with (
            translated(path),
            closing(sqlite3.connect(f"{file_uri(path)}?mode=rw", uri=True)) as connection,
        ):
            # only now is the file read at all
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def is_empty(path: Path) -> bool:
    """Return whether a file is still to become a database.

    Raise `StoreError` if it is a file of another program.
    """
    roll_back(path)
    if path.stat().st_size == 0:
        return True
    if application_id(path) != APPLICATION_ID:
        raise StoreError(f"{path} belongs to another program, not to recorder; give another path.")
    return False


_MEANING: Mapping[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_BUSY: (
        StoreBusyError,
        "The database {path} is locked by another program; try again later.",
    ),
    sqlite3.SQLITE_LOCKED: (
        StoreBusyError,
        "The database {path} is locked by another program; try again later.",
    ),
    sqlite3.SQLITE_FULL: (
        StoreBusyError,
        "There is no room for the database {path}: free some disk space.",
    ),
    sqlite3.SQLITE_CONSTRAINT: (StoreConflictError, "The database {path} refused a row: {error}."),
    sqlite3.SQLITE_READONLY: (
        StoreError,
        "The database {path} cannot be written: check its permissions.",
    ),
    sqlite3.SQLITE_PERM: (
        StoreError,
        "The database {path} cannot be written: check its permissions.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        StoreError,
        "The database {path} cannot be opened: check that path and its permissions.",
    ),
    sqlite3.SQLITE_NOTADB: (StoreError, "{path} is not a database file; give another path."),
    sqlite3.SQLITE_CORRUPT: (
        StoreError,
        "The database {path} is damaged ({error}): restore a backup.",
    ),
    sqlite3.SQLITE_IOERR: (StoreError, "The disk failed under the database {path}: {error}."),
}

# what SQLite quotes the schema in
_QUOTING = (b"malformed database schema", b"no such ", b"near ", b"error in ")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what SQLite and SQLAlchemy raise into the errors of recorder."""
    try:
        yield
    except DBAPIError as error:
        raise meaning(error.orig, path) from error
    except sqlite3.Error as error:
        raise meaning(error, path) from error
    except (
        UnicodeDecodeError
    ) as error:  # the driver takes what SQLite says for UTF-8, but a damaged schema stands in it
        if not error.object.startswith(_QUOTING):
            raise
        sentence = _MEANING[sqlite3.SQLITE_CORRUPT][1]
        raise StoreError(
            sentence.format(path=path, error=error.object.decode("utf-8", "replace"))
        ) from error


def meaning(error: BaseException | None, path: Path) -> StoreError:
    """Return the error of recorder for an error of the driver about the database at `path`."""
    code = getattr(error, "sqlite_errorcode", None)
    kind, sentence = _MEANING.get(
        (code or 0) & 0xFF, (StoreError, "The database {path} failed: {error}.")
    )
    return kind(sentence.format(path=path, error=error))
