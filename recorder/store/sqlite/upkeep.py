"""The checks, the probe and the copy of a log in a file: a `recorder.store.maintain.upkeep.Upkeep`.

Rules of this file:

* A file is opened for reading only; for checks, without a WAL, not even side files are made.
* A backup reads the database in one transaction, page by page, while recorders continue: the copy
  is the database as of its beginning, down to the rowids that the full-text index goes by. Writers
  do not wait, only the store checkpoints.
* A copy has its name only when all of it is there, was read back, and is on the disk.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import URL

from recorder.errors import NotFoundError, RecorderError, StoreError
from recorder.files import sync
from recorder.journal.reader import size_bytes
from recorder.store.engine import Backup, Progress
from recorder.store.maintain.upkeep import (
    CHECKS,
    LIMIT_S,
    NOTHING,
    PROBE_S,
    Ask,
    Check,
    CheckResult,
    LogProbe,
    ProbeResult,
    of_schema,
    run_checks,
)
from recorder.store.schema import APPLICATION_ID, LOG, READ_REVISION
from recorder.store.sqlite import address
from recorder.store.sqlite.connection import application_id, is_empty, open_reader, translated

STEPS = 10_000  # of SQLite's machine between two looks at the time
# four times the size at which the store empties it: somebody keeps it from that
WAL_BYTES = 64 * 2**20
# the WAL-reset bug, in the releases of a branch and all later ones
FIXED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
LEAST = (3, 37, 0)  # STRICT tables
NEEDED = ("ENABLE_FTS5",)


class SqliteLogProbe(LogProbe):
    """A probe that opens the file again each time, which takes a part of a millisecond.

    Nothing ends a call of the system that hangs.
    """

    reads = "CAST(r.raw AS TEXT)"
    is_asked_for = "IN (SELECT value FROM json_each(?))"

    def __init__(self, url: URL) -> None:
        self._path = address.path(url)

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        try:
            result = self._look(begun, ended)
        except StoreError as error:
            result = NOTHING._replace(error=str(error))
        wal_bytes = size_bytes(Path(f"{self._path}-wal"))
        return result._replace(database_bytes=size_bytes(self._path), wal_bytes=wal_bytes)

    def _look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        with _limited(self._path, PROBE_S) as connection:

            def ask(sql: str, ids: Sequence[str]) -> list[Any]:
                return connection.execute(sql, (msgspec.json.encode(ids).decode(),)).fetchall()

            return self.found(ask, begun, ended)


log_probe = SqliteLogProbe


def library_checks() -> Iterator[CheckResult]:
    """Check the version of the SQLite library and how it was compiled."""
    version = sqlite3.sqlite_version_info
    if version < LEAST:
        least = ".".join(map(str, LEAST))
        yield CheckResult(
            "bad",
            "sqlite",
            f"SQLite {sqlite3.sqlite_version} is too old: install a Python with {least} or later.",
        )
    elif has_wal_fix(version):
        yield CheckResult(
            "ok", "sqlite", f"SQLite {sqlite3.sqlite_version} has the fix of the WAL-reset bug."
        )
    else:
        message = (
            f"SQLite {sqlite3.sqlite_version} has the WAL-reset bug, harmless here: it needs two connections that "
            "write or checkpoint at once, and recorder's take turns. Let no other program write to the database."
        )
        yield CheckResult("ok", "sqlite", message)
    with closing(sqlite3.connect(":memory:")) as connection:
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
    for missing in (name for name in NEEDED if name not in options):
        yield CheckResult(
            "bad",
            "sqlite",
            f"This SQLite was compiled without {missing}: install another Python or SQLite.",
        )


def has_wal_fix(version: tuple[int, ...]) -> bool:
    return version >= FIXED[-1] or any(
        version[:2] == fixed[:2] and version >= fixed for fixed in FIXED
    )


def file_checks(url: URL) -> Iterator[CheckResult]:
    """Check the size of the WAL, which grows while a reader holds a transaction open."""
    path = Path(f"{address.path(url)}-wal")
    size = path.stat().st_size if path.exists() else 0
    if size > WAL_BYTES:
        message = f"The WAL has {size // 2**20} MiB: end the program that reads the database without ever finishing."
        yield CheckResult("warn", "wal", message)
    else:
        yield CheckResult("ok", "wal", f"The WAL has {size / 2**20:.1f} MiB.")


def checks(url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
    path = address.path(url)
    if path.is_dir():
        yield CheckResult(
            "bad", "database", f"{path} is a directory: give the path of a file with --db."
        )
    elif not path.exists():
        yield CheckResult(
            "ok", "database", f"There is no database {path} yet: the first recording makes it."
        )
    elif Path(f"{path}-journal").exists():
        message = "An upgrade of the database was interrupted: run `recorder db upgrade`, which undoes and repeats it."
        yield CheckResult("warn", "database", message)
    elif path.stat().st_size == 0:
        yield CheckResult(
            "ok", "database", f"The database {path} is empty: the first recording fills it."
        )
    else:
        try:
            yield from _opened(path, more)
        except StoreError as error:
            yield CheckResult("bad", "database", str(error))


def _opened(path: Path, more: Mapping[str, Check]) -> Iterator[CheckResult]:
    if application_id(path) != APPLICATION_ID:
        yield CheckResult(
            "bad", "database", f"{path} belongs to another program: give another path with --db."
        )
        return
    wal = Path(f"{path}-wal")  # without one a file is complete, and opened as immutable
    options = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
    with _limited(path, LIMIT_S, options) as connection:
        ask = Ask(lambda sql: connection.execute(sql).fetchall())
        revision = ask(READ_REVISION)
        if wrong := of_schema(path, revision):
            yield wrong
            return
        size = path.stat().st_size
        yield CheckResult(
            "ok", "database", f"{path} has {size / 2**20:.1f} MiB and schema {revision}."
        )
        yield from run_checks({**CHECKS, **more}, ask, _is_timeout)


def _is_timeout(error: Exception) -> bool:
    return (
        isinstance(error, sqlite3.OperationalError)
        and error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT
    )


@contextmanager
def _limited(
    path: Path, limit_s: float, options: str | None = None
) -> Iterator[sqlite3.Connection]:
    """Open a file to read it, for so long: all questions together."""
    with translated(path), open_reader(path, limit_s, options) as connection:
        until_s = time.monotonic() + limit_s
        connection.set_progress_handler(lambda: time.monotonic() > until_s, STEPS)
        yield connection


PAGES = 2_000  # between two words on the progress: 8 MB


class Contents(NamedTuple):
    """The properties in which a copy must be equal to its source."""

    rows: tuple[int, ...]
    ended: int
    heads: bytes  # a digest of how every exchange ended, which is chained to all that came before


def back_up(url: URL, target: Path, progress: Progress, *, force: bool = False) -> Backup:
    """Copy a database to `target`.

    Raise `RecorderError` if it cannot be: then nothing is left there.
    """
    address.require(url)
    source = address.path(url)
    if is_empty(source):
        raise NotFoundError(f"There is nothing in the database {source} yet.")
    _check_target(source, target, force)
    with _partial(target) as partial:
        with translated(source), open_reader(source) as connection:
            connection.text_factory = str  # a text that is damaged is an error
            connection.execute("BEGIN")
            contents = contents_of(connection)
            offsets = {
                name: (segment, offset) for name, segment, offset in connection.execute(_OFFSETS)
            }
            _copy(connection, partial, progress)
        check(partial, contents)
        _put_in_place(partial, target)
    return Backup(contents.ended, offsets)


_OFFSETS = 'SELECT recorder_id, segment, "offset" FROM ingest_offsets'
_ENDS = "SELECT session_id, exchange_id, hash FROM events WHERE kind = 'end' ORDER BY session_id, exchange_id"


def contents_of(connection: sqlite3.Connection) -> Contents:
    """Return the row counts of a log, and a digest over the last hash of every exchange."""
    rows = tuple(
        connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0] for table in LOG
    )
    digest, ended = sha256(), 0
    for session_id, exchange_id, head in connection.execute(_ENDS):
        digest.update(f"{session_id}/{exchange_id}/".encode() + head)
        ended += 1
    return Contents(rows, ended, digest.digest())


def _copy(connection: sqlite3.Connection, target: Path, progress: Progress) -> None:
    def report(_status: int, remaining: int, total: int) -> None:
        progress(total - remaining, total)

    with translated(target), closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")  # it is synced when it is whole
        connection.backup(copy, pages=PAGES, progress=report)


def check(path: Path, contents: Contents) -> None:
    """Read a copy back. Raise `StoreError` unless it is sound and has these contents."""
    with translated(path), open_reader(path, options="mode=ro&immutable=1") as connection:
        connection.text_factory = str
        found = connection.execute("PRAGMA quick_check(1)").fetchall()
        if found != [("ok",)] or contents_of(connection) != contents:
            raise StoreError(
                f"The copy is not what was copied ({found[0][0]}): check the disk of {path.parent}."
            )


def _check_target(source: Path, target: Path, force: bool) -> None:
    if target.is_dir():
        raise RecorderError(f"{target} is a directory: the backup needs the path of a file.")
    if target.exists() and target.samefile(source):
        raise RecorderError(f"{target} is the database itself: the backup needs another path.")
    if target.exists() and not force:
        raise RecorderError(
            f"{target} is there already: give another path, or --force to replace it."
        )
    for suffix in ("-wal", "-journal"):  # it would be taken for a part of the new file
        if Path(f"{target}{suffix}").exists():
            raise RecorderError(
                f"{target} is a database that is in use ({target.name}{suffix}): give another path."
            )


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """Make a file beside the target, for its owner only, and delete it at the end if it is still
    there.
    """
    path = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise RecorderError(f"The backup {target} cannot be written: {error.strerror}.") from error
    try:
        yield path
    finally:
        for each in (path, Path(f"{path}-journal")):
            with suppress(FileNotFoundError):
                each.unlink()


def _put_in_place(partial: Path, target: Path) -> None:
    try:
        sync(partial)
        partial.replace(target)
        sync(target.parent)
    except OSError as error:
        raise RecorderError(f"The backup {target} cannot be written: {error.strerror}.") from error
