"""A backup: the database file as it is at one moment, copied while recorders continue.

Rules of this file:

* It only reads the database, in one transaction, page by page: the copy is the database as of its beginning, down to
  the rowids that the full-text index goes by. Writers do not wait, and only the store checkpoints.
* A copy has its name only when all of it is there, was read back, and is on the disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL

from recorder.errors import NotFoundError, RecorderError, StoreError
from recorder.files import sync
from recorder.store.engine import Backup, Progress
from recorder.store.schema import LOG
from recorder.store.sqlite import address
from recorder.store.sqlite.connection import is_empty, open_reader, translated

PAGES = 2_000  # between two words on the progress: 8 MB


class Contents(NamedTuple):
    """The properties in which a copy must be equal to its source."""

    rows: tuple[int, ...]
    ended: int
    heads: bytes  # a digest of how every exchange ended, which is chained to all that came before


def back_up(url: URL, target: Path, progress: Progress, *, force: bool = False) -> Backup:
    """Copy a database to `target`. Raise `RecorderError` if it cannot be: then nothing is left there."""
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
            offsets = {name: (segment, offset) for name, segment, offset in connection.execute(_OFFSETS)}
            _copy(connection, partial, progress)
        check(partial, contents)
        _put_in_place(partial, target)
    return Backup(contents.ended, offsets)


_OFFSETS = 'SELECT recorder_id, segment, "offset" FROM ingest_offsets'
_ENDS = "SELECT session_id, exchange_id, hash FROM events WHERE kind = 'end' ORDER BY session_id, exchange_id"


def contents_of(connection: sqlite3.Connection) -> Contents:
    """Return the row counts of a log, and a digest over the last hash of every exchange."""
    rows = tuple(connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0] for table in LOG)
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
            raise StoreError(f"The copy is not what was copied ({found[0][0]}): check the disk of {path.parent}.")


def _check_target(source: Path, target: Path, force: bool) -> None:
    if target.is_dir():
        raise RecorderError(f"{target} is a directory: the backup needs the path of a file.")
    if target.exists() and target.samefile(source):
        raise RecorderError(f"{target} is the database itself: the backup needs another path.")
    if target.exists() and not force:
        raise RecorderError(f"{target} is there already: give another path, or --force to replace it.")
    for suffix in ("-wal", "-journal"):  # it would be taken for a part of the new file
        if Path(f"{target}{suffix}").exists():
            raise RecorderError(f"{target} is a database that is in use ({target.name}{suffix}): give another path.")


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """Make a file beside the target, for its owner only, and delete it at the end if it is still there."""
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
