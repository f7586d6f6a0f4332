"""The ownership and the schema of a database file: whose it is, its revision, and the upgrade to the newest.

Rules of this file:

* The application id enters the file with the first schema, before WAL mode does. So it is always in the file's header,
  and the header alone shows which program the file belongs to.
* Beside a file of another program nothing is left, not even a lock file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection

from recorder.errors import StoreBusyError
from recorder.store.engine import BUSY_TIMEOUT_S, NEW_LOG_TIMEOUT_S
from recorder.store.maintain.migrate import require_known, run
from recorder.store.schema import HEAD, READ_REVISION, require_head
from recorder.store.sqlite.address import lock_path
from recorder.store.sqlite.connection import (
    MIGRATION,
    create_file,
    file_uri,
    is_empty,
    journal_path,
    open_reader,
    translated,
    write_lock,
    writer_engine,
)


def upgrade(path: Path, busy_timeout_s: float) -> None:
    """Bring the file to the newest schema; create it if there is none."""
    _claim(path)
    is_new = path.stat().st_size == 0 or journal_path(path).exists()  # as SQLite leaves it until the first commit
    with write_lock(path, max(busy_timeout_s, NEW_LOG_TIMEOUT_S) if is_new else busy_timeout_s):
        revision = current(path, busy_timeout_s)
        if revision == HEAD:
            return
        require_known(path, revision)
        with _connected(path, busy_timeout_s) as connection:
            run(connection)


@contextmanager
def migration(path: Path) -> Iterator[Connection]:
    """Open a connection in a new transaction, under the write lock."""
    _claim(path)
    with write_lock(path, BUSY_TIMEOUT_S):
        is_empty(path)
        with _connected(path, BUSY_TIMEOUT_S) as connection:
            yield connection


def current(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> str | None:
    """Return the revision of the schema, `None` if the file is empty. Raise `StoreError` if it is not recorder's."""
    if is_empty(path):
        return None
    uri = f"{file_uri(path)}?mode=rw"  # `ro` would leave side files
    with translated(path), closing(sqlite3.connect(uri, uri=True, timeout=busy_timeout_s)) as connection:
        row = connection.execute(READ_REVISION).fetchone()
        return row[0] if row else None


@contextmanager
def open_log(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a log for reading. Raise `StoreError` unless it is recorder's and has the schema of this program."""
    if is_empty(path):
        require_head(path, None)
    with open_reader(path) as connection:
        with translated(path):
            row = connection.execute(READ_REVISION).fetchone()
        require_head(path, row[0] if row else None)
        yield connection


def _claim(path: Path) -> None:
    """Make sure that there is a file to write to, and that it is not of another program."""
    create_file(path)
    if lock_path(path).exists():
        return
    try:
        is_empty(path)
    except StoreBusyError:
        # Another recorder began with this file in this moment: whoever waits for its lock has it when that is done.
        if not lock_path(path).exists():
            raise


@contextmanager
def _connected(path: Path, busy_timeout_s: float) -> Iterator[Connection]:
    with translated(path), writer_engine(path, MIGRATION, busy_timeout_s).begin() as connection:
        yield connection
