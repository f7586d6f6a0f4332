"""Removal of deleted bytes from the files and tables that still hold them, after a purge.

Rules of this file:

* Deleted is not gone. SQLite overwrites deleted rows in place (`secure_delete`), but pages that were split or joined
  before keep copies of the rows that were moved. Only a new file has none: a sweep writes it anew.
* A server keeps deleted rows for transactions that began before, and until a VACUUM; their bytes stay until the room is
  used again, and in its WAL and backups. A client of the server cannot promise more.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from recorder.store.location import database_path, database_url, is_file
from recorder.store.schema import SEARCH, dead_letters, events, exchanges, sessions, tables_of
from recorder.store.sqlite.connection import BUSY_TIMEOUT_S, WRITER, apply, translated, write_lock

SWEPT = (*(table.name for table in tables_of.values()), SEARCH, *(t.name for t in (dead_letters, events, exchanges)))
POLL_S = 0.05
_ITEMS = tables_of["items"].name

# Whoever was in a transaction when the sweep began. Of other users one sees none without `pg_read_all_stats`.
_READING = """SELECT pid, xact_start FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)"""


def sweep(database: str | Path | URL, *, vacuum: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S) -> bool:
    """Remove the traces of deleted rows, as far as possible from here: from the full-text index, a file, its WAL; on a
    server, from the tables.

    Without `vacuum` a file keeps its size, and copies of rows that were moved in it; a server does it at its own time.
    Returns whether nobody was in the way: a transaction that stays open keeps what existed when it began.
    """
    url = database_url(database)
    if is_file(url):
        return _sweep_file(database_path(url), vacuum, busy_timeout_s)
    return not vacuum or _sweep_server(url, busy_timeout_s)


def _sweep_file(path: Path, vacuum: bool, busy_timeout_s: float) -> bool:
    with write_lock(path, busy_timeout_s), translated(path):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            apply(connection, {**WRITER, "busy_timeout": round(busy_timeout_s * 1000)})
            connection.execute(f"INSERT INTO {SEARCH} ({SEARCH}) VALUES ('optimize')")
            if vacuum:
                _write_anew(connection)
            [(is_busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not is_busy


def _write_anew(connection: sqlite3.Connection) -> None:
    """Rewrite the file. The index depends on the rowids of the items: SQLite keeps them, and does not promise to."""
    rowids = f"SELECT count(*), max(rowid) FROM {_ITEMS}"
    before = connection.execute(rowids).fetchone()
    connection.execute("VACUUM")
    if connection.execute(rowids).fetchone() != before:
        connection.execute(f"INSERT INTO {SEARCH} ({SEARCH}) VALUES ('rebuild')")


def _sweep_server(url: URL, busy_timeout_s: float) -> bool:
    from recorder.store.postgres import connection as postgres

    with postgres.reader(url, {"default_transaction_read_only": "off"}) as connection:

        def reading() -> set[Any]:
            return set(connection.execute(_READING.encode()).fetchall())

        until_s = time.monotonic() + busy_timeout_s
        before = reading()
        while (left := before & reading()) and time.monotonic() < until_s:
            time.sleep(POLL_S)
        connection.execute(f"VACUUM {', '.join((*SWEPT, sessions.name))}".encode())
    return not left
