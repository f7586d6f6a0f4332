"""Upkeep of an archive: small files are merged, deleted rows and old snapshots leave nothing
behind.

Rules of this file:

* The caller holds the lock of the catalog: to DuckLake, a file of a transaction that has not
  committed is an orphan.
* No file is deleted before those that replace it are on the disk.
* The catalog has the least and the greatest value of each column, texts of sessions among them.
  DuckLake widens those of a table when rows are added and never narrows them: after a purge they
  are computed again.
* What was deleted is also in older snapshots, and in files beside a list of deleted rows. So a
  purge writes files again, lets snapshots expire, deletes replaced files, and writes the catalog
  again.
* A tombstone stays in the archive. The one that the log has since the session was archived stays
  there, too.
* A purge that breaks off is finished by the next one, of the same session or of another.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import URL

from recorder import files
from recorder.archive.lake import (
    EXTRA,
    LAKE,
    catalog_lock,
    data_path,
    lake,
    transaction,
    translated,
)
from recorder.archive.place import database_of, require
from recorder.archive.schema import ARCHIVED as ARCHIVED_SESSIONS
from recorder.archive.schema import PACKED, VERSION, months_of, of_sessions
from recorder.errors import StoreBusyError, StoreError
from recorder.store.duckdb.connection import connected
from recorder.store.engine import querying_of, writing_of
from recorder.store.maintain.purge.tombstone import Counts
from recorder.store.schema import events, exchanges, sessions, tombstones

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


COMMAND = "db purge"
log = logging.getLogger(__name__)

MEMORY = "512MB"  # a row group of large rows must fit, as it is read and as it is written

FIRST_FILES = f"main/{VERSION.name}"
"""The folder in a data path that every archive has from its beginning."""

_CATALOG = "catalog"  # its database as one of tables
_METADATA = f"__ducklake_metadata_{LAKE}"
_SIZES = f"""
SELECT p.partition_value, CAST(sum(f.file_size_bytes) AS BIGINT)
FROM {_METADATA}.ducklake_data_file AS f
JOIN {_METADATA}.ducklake_file_partition_value AS p USING (data_file_id)
WHERE f.end_snapshot IS NULL GROUP BY p.partition_value
"""
_LIMITS = f"""
SELECT t.table_id, t.column_id, t.min_value, t.max_value,
    coalesce(min(f.min_value), ''), coalesce(max(f.max_value), '')
FROM {_CATALOG}.ducklake_table_column_stats AS t
JOIN {_CATALOG}.ducklake_column AS c ON c.table_id = t.table_id AND c.column_id = t.column_id
    AND c.end_snapshot IS NULL AND lower(c.column_type) IN ('varchar', 'blob')
LEFT JOIN {_CATALOG}.ducklake_file_column_stats AS f ON f.table_id = t.table_id AND f.column_id = t.column_id
GROUP BY ALL
"""
_SET_LIMITS = f"""
UPDATE {_CATALOG}.ducklake_table_column_stats SET min_value = $1, max_value = $2 WHERE table_id = $3 AND column_id = $4
"""


def sizes(connection: DuckDBPyConnection) -> dict[str, int]:
    """Return the bytes of the files of each month."""
    return {month: size_bytes for month, size_bytes in connection.execute(_SIZES).fetchall()}


def take_memory(connection: DuckDBPyConnection) -> None:
    """Let a connection read and write whole row groups, one after the other: each thread would hold
    one of its own.
    """
    connection.execute(f"SET memory_limit = '{MEMORY}'")
    connection.execute("SET threads = 1")


def merge(connection: DuckDBPyConnection) -> None:
    """Merge the small files of each month. Without the memory for it they stay as they are."""
    import duckdb

    take_memory(connection)
    try:
        connection.execute(f"CALL ducklake_merge_adjacent_files('{LAKE}')").fetchall()
    except duckdb.OutOfMemoryException as error:
        log.warning("small files of the archive were not merged: %s", str(error).partition("\n")[0])


def clean(connection: DuckDBPyConnection) -> None:
    """Delete all files but those of the newest snapshot: replaced ones, and those of transactions
    that broke off.

    Raise `StoreError` if the data path has no files of an archive: a catalog of somebody else may
    name any folder.
    """
    place = data_path(connection)
    if not connection.execute(
        "SELECT 1 FROM glob($1) LIMIT 1", [f"{place}{FIRST_FILES}/**"]
    ).fetchall():
        raise StoreError(
            f"{place} has no files of an archive, and nothing is deleted there: look where they are."
        )
    sync(connection)
    connection.execute(
        f"SELECT count(*) FROM ducklake_expire_snapshots('{LAKE}', older_than => now())"
    ).fetchall()
    connection.execute(f"CALL ducklake_cleanup_old_files('{LAKE}', cleanup_all => true)").fetchall()
    connection.execute(
        f"CALL ducklake_delete_orphaned_files('{LAKE}', cleanup_all => true)"
    ).fetchall()


def _narrow(url: URL) -> None:
    """Take the limits of columns from the files that there are.

    Without any, they are those of an empty text.

    Nobody may have the archive open here.
    """
    catalog = database_of(url)
    source = querying_of(catalog).duckdb_source(catalog)
    with (
        translated(url),
        connected(COMMAND, EXTRA, lambda opening: opening.attach(source, _CATALOG)) as connection,
    ):
        for table_id, column_id, least, greatest, *limits in connection.execute(_LIMITS).fetchall():
            if (least, greatest) not in (tuple(limits), (None, None)):
                connection.execute(_SET_LIMITS, [*limits, table_id, column_id])


def sync(connection: DuckDBPyConnection) -> None:
    """Wait until the files of an archive are on the disk: DuckDB does not.

    On S3 they are when they are written.
    """
    place = data_path(connection)
    if "://" in place:
        return
    for folder, _, names in os.walk(place):
        for name in (".", *names):
            files.sync(Path(folder, name))


@contextmanager
def private() -> Iterator[None]:
    """Make files and folders for the user alone, as those of a log are."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def those_in(
    connection: DuckDBPyConnection, table: str, month: str, session_ids: Collection[str]
) -> set[str]:
    """Return the sessions of which a table of an archive has a row."""
    sql = f"SELECT session_id FROM {LAKE}.{table} WHERE {of_sessions(month, session_ids)}"
    return {session_id for (session_id,) in connection.execute(sql).fetchall()}


def delete_sessions(
    connection: DuckDBPyConnection, month: str, session_ids: Collection[str]
) -> None:
    """Delete all rows of some sessions. In a transaction."""
    for table in (*PACKED, ARCHIVED_SESSIONS.name) if session_ids else ():
        connection.execute(f"DELETE FROM {LAKE}.{table} WHERE {of_sessions(month, session_ids)}")


def sessions_there(archive: URL, session_ids: Collection[str]) -> set[str]:
    """Return which of some sessions an archive has, or had until a purge, which may have broken
    off.

    It waits for an archiver that copies just now. Once a session has its tombstone in the log, no
    other one copies it.
    """
    require(archive)
    with (
        private(),
        catalog_lock(archive),
        lake(archive, COMMAND) as connection,
        translated(archive),
    ):
        there: set[str] = set()
        for month, ids in months_of(session_ids).items():
            # a session that was purged while it was copied has no row
            for table in (ARCHIVED_SESSIONS, tombstones):
                there |= those_in(connection, table.name, month, ids)
        return there


def purge_archive(
    archive: URL, session_ids: Collection[str], reason: str, now_ns: int
) -> list[Counts]:
    """Delete sessions from an archive, and what is left of those that were deleted before.

    Return the counts of those that were there.

    Raise `StoreBusyError` if a reader of the catalog prevents that it is written anew.
    """
    catalog = database_of(archive)
    done = []
    with private(), catalog_lock(archive):
        with lake(archive, COMMAND, writes=True) as connection, translated(archive):
            take_memory(connection)  # also to count: a session may have more bytes than a file
            for month, ids in months_of(session_ids).items():
                done += _delete(connection, month, ids, reason, now_ns)
            # Files that have deleted rows are written again.
            connection.execute(
                f"CALL ducklake_rewrite_data_files('{LAKE}', delete_threshold => 0)"
            ).fetchall()
            merge(connection)
            clean(connection)
        _narrow(archive)
        try:
            writing_of(catalog).sweep_catalog(catalog)
        except StoreBusyError as error:
            raise StoreBusyError(
                f"{error} Its catalog still has some values of what was purged."
            ) from error
    return done


def _delete(
    connection: DuckDBPyConnection,
    month: str,
    session_ids: Collection[str],
    reason: str,
    now_ns: int,
) -> list[Counts]:
    """Delete sessions of a month, with their tombstones, in one transaction."""
    done = []
    with transaction(connection):
        for session_id in those_in(connection, sessions.name, month, session_ids):
            counts, last_hash = _counted(connection, month, session_id)
            values = [
                session_id,
                now_ns,
                reason,
                msgspec.json.encode(counts).decode(),
                last_hash,
                month,
            ]
            connection.execute(
                f"INSERT INTO {LAKE}.{tombstones.name} VALUES ($1, $2, $3, $4, $5, $6)", values
            )
            done.append(counts)
        delete_sessions(connection, month, session_ids)
    return done


def _counted(
    connection: DuckDBPyConnection, month: str, session_id: str
) -> tuple[Counts, bytes | None]:
    """Return the counts of a session, and the last hash of its last exchange."""
    which = of_sessions(month, [session_id])
    sql = f"SELECT count(*), arg_max(last_hash, exchange_id) FROM {LAKE}.{exchanges.name} WHERE {which}"
    [(count, last_hash)] = connection.execute(sql).fetchall()
    sql = f"SELECT count(*), coalesce(sum(octet_length(raw)), 0) FROM {LAKE}.{events.name} WHERE {which}"
    [(event_count, size_bytes)] = connection.execute(sql).fetchall()
    return Counts(count, event_count, int(size_bytes)), last_hash
