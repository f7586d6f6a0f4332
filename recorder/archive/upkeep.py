"""Upkeep of an archive: small files are merged, deleted rows and old snapshots leave nothing behind.

Rules of this file:

* The caller holds the lock of the catalog: to DuckLake, a file of a transaction that has not committed is an orphan.
* No file is deleted before those that replace it are on the disk.
* The catalog has the least and the greatest value of each column, texts of sessions among them. DuckLake widens those
  of a table when rows are added and never narrows them: after a purge they are computed again.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL

from recorder import files
from recorder.archive.lake import EXTRA, LAKE, data_path, translated
from recorder.archive.place import database_of
from recorder.archive.schema import VERSION
from recorder.errors import StoreError
from recorder.store.duckdb.connection import connected
from recorder.store.engine import querying_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

log = logging.getLogger(__name__)

MERGED = "64MB"
"""The size of a file that is not merged any more. All of one is in memory when it is written."""

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


def prepare(connection: DuckDBPyConnection) -> None:
    """Set the options of a new archive."""
    connection.execute(f"CALL {LAKE}.set_option('target_file_size', '{MERGED}')")
    connection.execute(f"CALL {LAKE}.set_option('data_inlining_row_limit', 0)")


def sizes(connection: DuckDBPyConnection) -> dict[str, int]:
    """Return the bytes of the files of each month."""
    return {month: size_bytes for month, size_bytes in connection.execute(_SIZES).fetchall()}


def take_memory(connection: DuckDBPyConnection) -> None:
    """Let a connection read and write whole row groups, one after the other: each thread would hold one of its own."""
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


def rewrite(connection: DuckDBPyConnection) -> None:
    """Write the files anew that have deleted rows."""
    take_memory(connection)
    connection.execute(f"CALL ducklake_rewrite_data_files('{LAKE}', delete_threshold => 0)").fetchall()


def clean(connection: DuckDBPyConnection) -> None:
    """Delete all files but those of the newest snapshot: replaced ones, and those of transactions that broke off.

    Raise `StoreError` if the data path has no files of an archive: a catalog of somebody else may name any folder.
    """
    place = data_path(connection)
    if not connection.execute("SELECT 1 FROM glob($1) LIMIT 1", [f"{place}{FIRST_FILES}/**"]).fetchall():
        raise StoreError(f"{place} has no files of an archive, and nothing is deleted there: look where they are.")
    sync(connection)
    connection.execute(f"SELECT count(*) FROM ducklake_expire_snapshots('{LAKE}', older_than => now())").fetchall()
    connection.execute(f"CALL ducklake_cleanup_old_files('{LAKE}', cleanup_all => true)").fetchall()
    connection.execute(f"CALL ducklake_delete_orphaned_files('{LAKE}', cleanup_all => true)").fetchall()


def narrow(url: URL, command: str) -> None:
    """Take the limits of columns from the files that there are. Without any, they are those of an empty text.

    Nobody may have the archive open here.
    """
    catalog = database_of(url)
    source = querying_of(catalog).duckdb_source(catalog)
    with (
        translated(url),
        connected(command, EXTRA, lambda opening: opening.attach(source, _CATALOG)) as connection,
    ):
        for table_id, column_id, least, greatest, *limits in connection.execute(_LIMITS).fetchall():
            if (least, greatest) not in (tuple(limits), (None, None)):
                connection.execute(_SET_LIMITS, [*limits, table_id, column_id])


def sync(connection: DuckDBPyConnection) -> None:
    """Wait until the files of an archive are on the disk: DuckDB does not. On S3 they are when they are written."""
    place = data_path(connection)
    if "://" in place:
        return
    for folder, _, names in os.walk(place):
        for name in (".", *names):
            files.sync(Path(folder, name))
