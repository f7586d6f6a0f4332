"""The tables and views of a log and its archives, in one connection of DuckDB and under their own names.

Rules of this file:

* DuckDB reads all of them and computes the views, in a process that has no file of the log open by the module `sqlite3`
  (`recorder.store.duckdb.connection`).
* Everything is read at one moment, the log first: an archiver writes to the archive first and deletes from the log
  then, so no session is missing. One that is in both counts as in the log.
* Prices are those of the log, and so is what belongs to no session. An archive that is read by itself has its own.
* Ids are text as in a file, also of a log on a server, whose type for them compares otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import URL, Column, Table, Uuid

from recorder.errors import RecorderError
from recorder.projections.views import VIEWS
from recorder.store.archive.registry import archives_of, warn_left_out
from recorder.store.duckdb.connection import LOG, attach_log, connected, quoted
from recorder.store.ducklake.connection import EXTRA, attach_lake, translated
from recorder.store.ducklake.schema import COPIED, TABLES, require_revision
from recorder.store.engine import engine_of
from recorder.store.location import database_name
from recorder.store.maintain.purge.tombstone import ARCHIVED
from recorder.store.schema import events, exchanges, metadata, tombstones

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LAST_HASHES = "last_hashes"
"""A view with `session_id`, `exchange_id` and `last_hash` of each exchange that has ended."""

_WITHOUT_ARCHIVES = "analytics"  # the extra
_OF_SESSIONS = {table.name for table in COPIED}
_OF_ARCHIVE = {table.name for table in TABLES}


@contextmanager
def open_views(
    url: URL,
    command: str,
    *,
    session_id: str | None = None,
    leaves_out: bool = False,
    target: Path | None = None,
) -> Iterator[DuckDBPyConnection]:
    """Open the tables and views of a log and its archives, of all sessions or of one: its sums are of that alone.

    The connection is in a transaction. It may write to the folder `target`, and to no other.

    Raise `NotFoundError` or `StoreError` if there is none to read, `RecorderError` if an archive of the log cannot be
    read; with `leaves_out` it is left out then, with a warning. `command` is for the error without an extra.
    """
    archives = archives_of(url)
    engine_of(url).require(url)
    extra = EXTRA if archives or engine_of(url).is_archive else _WITHOUT_ARCHIVES
    found: list[_AttachedDatabase] = []

    def attach(connection: DuckDBPyConnection) -> Sequence[str]:
        found.append(_attached(connection, url, LOG, command, extra))
        for number, archive in enumerate(archives, 1):
            try:
                found.append(_attached(connection, archive, f"archive_{number}", command, extra))
            except RecorderError as error:
                if not leaves_out:
                    raise _would_be_missing(archive, error) from error
                warn_left_out(archive, error)
        folders = [each.folder for each in found if each.folder is not None]
        return folders if target is None else [*folders, f"{target}/"]

    with connected(command, extra, attach) as connection:
        connection.execute("BEGIN TRANSACTION")
        connection.execute(f"SELECT 1 FROM {LOG}.sessions LIMIT 1").fetchall()  # the log first
        _create(connection, found, session_id)
        yield connection


def _would_be_missing(archive: URL, error: RecorderError) -> RecorderError:
    return RecorderError(
        f"{error} Its sessions would be missing: let it be read, or take it from the log with "
        f"`recorder db detach {database_name(archive)}`."
    )


class _AttachedDatabase(NamedTuple):
    """A database in a connection: a log, or an archive that is another log, or a lake with a folder of files."""

    name: str
    folder: str | None

    @property
    def is_lake(self) -> bool:
        return self.folder is not None


def _attached(connection: DuckDBPyConnection, url: URL, name: str, command: str, extra: str) -> _AttachedDatabase:
    engine_of(url).require(url)
    if not engine_of(url).is_archive:
        attach_log(connection, url, command, extra, name)
        return _AttachedDatabase(name, None)
    folder = attach_lake(connection, url, command, name=name)
    with translated(url):
        require_revision(url, connection, name)
    return _AttachedDatabase(name, folder)


def _create(connection: DuckDBPyConnection, sources: Sequence[_AttachedDatabase], session_id: str | None) -> None:
    """Create the tables of all databases as one, and recorder's views over them. The first is the log."""
    conditions = [[] if session_id is None else [f"session_id = {quoted(session_id)}"] for _ in sources]
    for condition, twice in zip(conditions, _in_earlier(connection, sources), strict=True):
        condition += [f"session_id NOT IN ({', '.join(map(quoted, twice))})"] if twice else []
    for table in metadata.tables.values():
        if sources[0].is_lake and table.name not in _OF_ARCHIVE:
            continue
        parts = []
        for number, (source, condition) in enumerate(zip(sources, conditions, strict=True)):
            if number and table.name not in _OF_SESSIONS:
                continue
            where = condition if "session_id" in table.c else []
            if table is tombstones and not number and len(sources) > 1:
                where = [*where, f"reason <> {quoted(ARCHIVED)}"]
            parts.append(_select(table, source, where))
        connection.execute(f"CREATE VIEW {table.name} AS {' UNION ALL '.join(parts)}")
    for view in VIEWS:
        connection.execute(view.statement("duckdb"))
    _create_last_hashes(connection, sources, conditions)


def _in_earlier(connection: DuckDBPyConnection, sources: Sequence[_AttachedDatabase]) -> Iterator[list[str]]:
    """Yield for each database the sessions that one before it has too."""
    earlier = ""
    for source in sources:
        own = f"SELECT CAST(session_id AS VARCHAR) FROM {source.name}.sessions"
        twice = connection.execute(f"({earlier}) INTERSECT ({own})").fetchall() if earlier else []
        yield [session_id for (session_id,) in twice]
        earlier += f"{' UNION ALL ' if earlier else ''}{own}"


def _create_last_hashes(
    connection: DuckDBPyConnection, sources: Sequence[_AttachedDatabase], conditions: Sequence[Sequence[str]]
) -> None:
    """Create the view: out of the view `events`, and for archives, which have no hashes of events, out of exchanges."""
    key = "session_id, exchange_id"
    parts = [f"SELECT {key}, hash AS last_hash FROM {events.name} WHERE kind = 'end' AND hash IS NOT NULL"]
    parts += [
        f"SELECT {key}, last_hash FROM {source.name}.{exchanges.name}{_where(condition)}"
        for source, condition in zip(sources, conditions, strict=True)
        if source.is_lake
    ]
    connection.execute(f"CREATE VIEW {LAST_HASHES} AS {' UNION ALL '.join(parts)}")


def _select(table: Table, source: _AttachedDatabase, conditions: Sequence[str]) -> str:
    columns = ", ".join(_column(column, source.is_lake) for column in table.columns)
    return f"SELECT {columns} FROM {source.name}.{table.name}{_where(conditions)}"


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _column(column: Column[object], is_lake: bool) -> str:
    """Return a column, an id as text; an archive has no hashes of events."""
    if is_lake and column is events.c.hash:
        return "CAST(NULL AS BLOB) AS hash"
    types = (column.type, *column.type._variant_mapping.values())
    if any(isinstance(each, Uuid) for each in types):
        return f'CAST("{column.name}" AS VARCHAR) AS "{column.name}"'
    return f'"{column.name}"'
