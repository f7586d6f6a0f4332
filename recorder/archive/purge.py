"""The purge of an archive: sessions are deleted, and every file and every line of the catalog that has a byte of them.

Rules of this file:

* DuckLake keeps what was deleted: in older snapshots, in files beside a list of deleted rows, in the limits of columns.
  So files are rewritten, snapshots expire, replaced files are deleted, and the catalog is written anew.
* A tombstone stays in the archive. The one that the log has since the session was archived stays there, too.
* A purge that breaks off is finished by the next one, of the same session or of another.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import URL

from recorder.archive import upkeep
from recorder.archive.archiver import delete_sessions, private, those_in, transaction
from recorder.archive.lake import LAKE, catalog_lock, lake, translated
from recorder.archive.place import database_of, require
from recorder.archive.schema import ARCHIVED as ARCHIVED_SESSIONS
from recorder.archive.schema import months_of, of_sessions
from recorder.errors import StoreBusyError
from recorder.store.engine import writing_of
from recorder.store.maintain.purge.tombstone import Counts
from recorder.store.schema import events, exchanges, sessions, tombstones

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COMMAND = "db purge"


def sessions_there(archive: URL, session_ids: Collection[str]) -> set[str]:
    """Return which of some sessions an archive has, or had until a purge, which may have broken off.

    It waits for an archiver that copies just now. Once a session has its tombstone in the log, no other one copies it.
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
            for table in (ARCHIVED_SESSIONS, tombstones):  # a session that was purged while it was copied has no row
                there |= those_in(connection, table.name, month, ids)
        return there


def purge_archive(archive: URL, session_ids: Collection[str], reason: str, now_ns: int) -> list[Counts]:
    """Delete sessions from an archive, and what is left of those that were deleted before. Return the counts of those
    that were there.

    Raise `StoreBusyError` if a reader of the catalog prevents that it is written anew.
    """
    catalog = database_of(archive)
    done = []
    with private(), catalog_lock(archive):
        with lake(archive, COMMAND, writes=True) as connection, translated(archive):
            upkeep.take_memory(connection)  # also to count: a session may have more bytes than a file
            for month, ids in months_of(session_ids).items():
                done += _delete(connection, month, ids, reason, now_ns)
            upkeep.rewrite(connection)
            upkeep.merge(connection)
            upkeep.clean(connection)
        upkeep.narrow(archive, COMMAND)
        try:
            writing_of(catalog).sweep_catalog(catalog)
        except StoreBusyError as error:
            raise StoreBusyError(f"{error} Its catalog still has some values of what was purged.") from error
    return done


def _delete(
    connection: DuckDBPyConnection, month: str, session_ids: Collection[str], reason: str, now_ns: int
) -> list[Counts]:
    """Delete sessions of a month, with their tombstones, in one transaction."""
    done = []
    with transaction(connection):
        for session_id in those_in(connection, sessions.name, month, session_ids):
            counts, last_hash = _counted(connection, month, session_id)
            values = [session_id, now_ns, reason, msgspec.json.encode(counts).decode(), last_hash, month]
            connection.execute(f"INSERT INTO {LAKE}.{tombstones.name} VALUES ($1, $2, $3, $4, $5, $6)", values)
            done.append(counts)
        delete_sessions(connection, month, session_ids)
    return done


def _counted(connection: DuckDBPyConnection, month: str, session_id: str) -> tuple[Counts, bytes | None]:
    """Return the counts of a session, and the last hash of its last exchange."""
    which = of_sessions(month, [session_id])
    sql = f"SELECT count(*), arg_max(last_hash, exchange_id) FROM {LAKE}.{exchanges.name} WHERE {which}"
    [(count, last_hash)] = connection.execute(sql).fetchall()
    sql = f"SELECT count(*), coalesce(sum(octet_length(raw)), 0) FROM {LAKE}.{events.name} WHERE {which}"
    [(event_count, size_bytes)] = connection.execute(sql).fetchall()
    return Counts(count, event_count, int(size_bytes)), last_hash
