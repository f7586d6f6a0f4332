"""SQL of the user's own over a log and its archives, as if they were one database.

Rules of this file:

* DuckDB reads all of them, in a process that has no file of the log open by the module `sqlite3`
  (`recorder.store.duckdb.connection`).
* Everything is read at one moment, the log first: an archiver writes to the archive first and deletes from the log
  then, so no session is missing. One that is in both counts as in the log.
* Prices are those of the log, and so is what belongs to no session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import URL, Column, Table, Uuid

from recorder.errors import RecorderError
from recorder.projections.views import VIEWS
from recorder.store.archive.registry import warn_left_out
from recorder.store.duckdb.connection import LOG, attach_log, attached, quoted
from recorder.store.duckdb.query import DuckdbQuery
from recorder.store.ducklake.connection import EXTRA, attach_lake, data_path, translated
from recorder.store.ducklake.schema import COPIED, require_known_archive
from recorder.store.engine import engine_of
from recorder.store.migrate import READ_REVISION, VERSION_TABLE
from recorder.store.purge.tombstone import ARCHIVED
from recorder.store.query import Query
from recorder.store.schema import events, metadata, tombstones

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COMMAND = "query"
_IS_STALE = "SELECT EXISTS (SELECT 1 FROM rebuilds)"  # the archiver takes no session whose projections are not computed
_OF_SESSIONS = {table.name for table in COPIED}


@contextmanager
def open_attached(log: URL, archives: Sequence[URL]) -> Iterator[Query]:
    """Open a log and its archives for questions. What cannot be read is left out, with a warning.

    Raise `NotFoundError` or `StoreError` if the log cannot be read.
    """
    with ExitStack() as rest:
        try:
            connection = rest.enter_context(attached(log, _COMMAND, EXTRA))
        except RecorderError as error:
            for archive in archives:
                warn_left_out(archive, error)
            yield rest.enter_context(engine_of(log).query(log))
            return
        found = list(_attached(connection, archives))
        connection.execute("SET integer_division = true")  # as in the other engines
        connection.execute("BEGIN")
        _create(connection, found)
        folders = [data_path(connection, each.name) for each in found if each.is_lake]
        yield DuckdbQuery(connection, folders, _IS_STALE)


class _Archive(NamedTuple):
    """An archive in a connection."""

    name: str
    is_lake: bool  # not another log


def _attached(connection: DuckDBPyConnection, archives: Sequence[URL]) -> Iterator[_Archive]:
    """Attach the archives that can be read."""
    for number, url in enumerate(archives, 1):
        archive = _Archive(f"archive_{number}", engine_of(url).is_archive)
        try:
            if archive.is_lake:
                attach_lake(connection, url, _COMMAND, name=archive.name)
                with translated(url):
                    revision = READ_REVISION.replace(VERSION_TABLE, f"{archive.name}.{VERSION_TABLE}")
                    [(found,)] = connection.execute(revision).fetchall()
                require_known_archive(url, str(found))
            else:
                engine_of(url).require(url)
                attach_log(connection, url, _COMMAND, EXTRA, archive.name)
        except RecorderError as error:
            warn_left_out(url, error)
            continue
        yield archive


def _create(connection: DuckDBPyConnection, archives: Sequence[_Archive]) -> None:
    """Create the tables of all databases as one, and recorder's views over them."""
    ids = f"SELECT CAST(session_id AS VARCHAR) FROM {LOG}.sessions"
    twice: list[str] = []  # the condition on the rows of each archive
    for archive in archives:
        own = f"SELECT CAST(session_id AS VARCHAR) FROM {archive.name}.sessions"
        known = connection.execute(f"({ids}) INTERSECT ({own})").fetchall()
        twice.append(f" WHERE session_id NOT IN ({', '.join(quoted(row[0]) for row in known)})" if known else "")
        ids += f" UNION ALL {own}"
    for table in metadata.tables.values():
        here = f" WHERE reason <> {quoted(ARCHIVED)}" if table is tombstones else ""
        parts = [f"{_select(table)} FROM {LOG}.{table.name}{here}"]
        if table.name in _OF_SESSIONS:
            parts += [
                f"{_select(table, archive.is_lake)} FROM {archive.name}.{table.name}{where}"
                for archive, where in zip(archives, twice, strict=True)
            ]
        connection.execute(f"CREATE VIEW {table.name} AS {' UNION ALL '.join(parts)}")
    for view in VIEWS:
        connection.execute(view.statement("duckdb"))


def _select(table: Table, is_lake: bool = False) -> str:
    return "SELECT " + ", ".join(_column(column, is_lake) for column in table.columns)


def _column(column: Column[object], is_lake: bool) -> str:
    """Return a column, an id as text; an archive has no hashes of events."""
    if is_lake and column is events.c.hash:
        return "CAST(NULL AS BLOB) AS hash"
    types = (column.type, *column.type._variant_mapping.values())
    if any(isinstance(each, Uuid) for each in types):
        return f'CAST("{column.name}" AS VARCHAR) AS "{column.name}"'
    return f'"{column.name}"'
