"""The tables and views of a log and its archives, in one connection of DuckDB and under their own
names.

Rules of this file:

* DuckDB reads all of them and computes the views, in a process that has no file of the log open by
  the module `sqlite3` (`recorder.store.duckdb.connection`).
* Everything is read at one moment, the log first: an archiver writes to the archive first and
  deletes from the log then, so no session is missing. One that is in both counts as in the log.
* Prices are those of the log, and so is what belongs to no session. An archive that is read by
  itself has its own.
* Views are made here, whatever text an archive has of them.
* Ids are text as in a file, also of a log on a server, whose type for them compares otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Column, Table, Uuid

from recorder.archive.lake import EXTRA, LAKE, attach_lake, translated
from recorder.archive.place import database_name, is_archive, require
from recorder.archive.registry import archives_of, warn_left_out
from recorder.archive.schema import OF_SESSIONS, PRICES, TABLES, require_revision, revision
from recorder.errors import RecorderError
from recorder.projections.views.contract import VIEWS
from recorder.store.duckdb.connection import LOG, DuckdbOpening, connected, quoted
from recorder.store.maintain.purge.tombstone import ARCHIVED
from recorder.store.schema import events, exchanges, metadata, require_head, tombstones

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LAST_HASHES = "last_hashes"
"""A view with `session_id`, `exchange_id` and `last_hash` of each exchange that has ended."""

_WITHOUT_ARCHIVES = "analytics"  # the extra
_OF_ARCHIVE = {table.name for table in TABLES}


@contextmanager
def open_views(
    url: URL,
    command: str,
    *,
    session_id: str | None = None,
    leaves_out: bool = False,
    target: Path | None = None,
    prices: Sequence[Sequence[Any]] = (),
) -> Iterator[DuckDBPyConnection]:
    """Open the tables and views of a log and its archives, of all sessions or of one: its sums are
    of that alone.

    The connection is in a transaction. It may write to the folder `target`, and to no other.
    `prices` are in place of those of an archive.

    Raise `NotFoundError` or `StoreError` if there is none to read, `RecorderError` if an archive of
    the log cannot be read; with `leaves_out` it is left out then, with a warning. `command` is for
    the error without an extra.
    """
    archives = archives_of(url)
    require(url)
    extra = EXTRA if archives or is_archive(url) else _WITHOUT_ARCHIVES
    sources: list[_Source] = []

    def attach(opening: DuckdbOpening) -> None:
        if target is not None:
            opening.folders.append(f"{target}/")
        sources.append(_attached(opening, url, LAKE if is_archive(url) else LOG))
        for number, archive in enumerate(archives, 1):
            try:
                sources.append(_attached(opening, archive, f"archive_{number}"))
            except RecorderError as error:
                if not leaves_out:
                    raise RecorderError(
                        f"{error} Its sessions would be missing: let it be read, or take it from the log with "
                        f"`recorder db archive --detach {database_name(archive)}`."
                    ) from error
                warn_left_out(archive, error)

    with connected(command, extra, attach) as connection:
        connection.execute("BEGIN TRANSACTION")
        _leave_out_twice(connection, sources)
        for source in sources:
            source.conditions += (
                [] if session_id is None else [f"session_id = {quoted(session_id)}"]
            )
        _create_tables(connection, sources)
        if prices:
            _set_prices(connection, prices)
        for view in VIEWS:
            connection.execute(view.statement("duckdb"))
        yield connection


class _Source:
    """A database in a connection: a log, or an archive that is another log, or a lake."""

    def __init__(self, name: str, *, is_lake: bool) -> None:
        self.name, self.is_lake = name, is_lake
        self.conditions: list[str] = []  # on the rows of sessions

    def select(self, table: Table, *more: str) -> str:
        """Return the rows of a table; an id is text, and an archive has no hashes of events."""
        columns = [_as_text(column) for column in table.columns]
        if self.is_lake and table is events:
            columns[columns.index(_as_text(events.c.hash))] = "CAST(NULL AS BLOB) AS hash"
        conditions = self.conditions if "session_id" in table.c else []
        return f"SELECT {', '.join(columns)} FROM {self.name}.{table.name}{_where([*conditions, *more])}"


def _as_text(column: Column[Any]) -> str:
    types = (column.type, *column.type._variant_mapping.values())
    if any(isinstance(each, Uuid) for each in types):
        return f'CAST("{column.name}" AS VARCHAR) AS "{column.name}"'
    return f'"{column.name}"'


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _attached(opening: DuckdbOpening, url: URL, name: str) -> _Source:
    require(url)
    is_lake = is_archive(url)
    if is_lake:
        opening.folders.append(attach_lake(opening, url, name=name))
    else:
        opening.attach_log(url, name)
    with translated(url):
        if name == LOG:
            require_head(database_name(url), revision(opening.connection, name))
        else:
            require_revision(url, opening.connection, name)
    return _Source(name, is_lake=is_lake)


def _leave_out_twice(connection: DuckDBPyConnection, sources: Sequence[_Source]) -> None:
    """Leave out of each database the sessions that one before it has too. The log is read first."""
    earlier: list[str] = []
    for source in sources if len(sources) > 1 else ():
        own = f"SELECT CAST(session_id AS VARCHAR) FROM {source.name}.sessions"
        both = f"({' UNION ALL '.join(earlier)}) INTERSECT ({own})" if earlier else f"{own} LIMIT 0"
        twice = [quoted(session_id) for (session_id,) in connection.execute(both).fetchall()]
        if twice:
            source.conditions.append(f"session_id NOT IN ({', '.join(twice)})")
        earlier.append(own)


def _create_tables(connection: DuckDBPyConnection, sources: Sequence[_Source]) -> None:
    """Create the tables of all databases as one. The first is the log, or an archive by itself."""
    first, *archives = sources
    for table in metadata.tables.values():
        if first.is_lake and table.name not in _OF_ARCHIVE:
            continue
        is_moved = table is tombstones and archives  # what went to an archive is there
        parts = [first.select(table, *([f"reason <> {quoted(ARCHIVED)}"] if is_moved else []))]
        parts += [archive.select(table) for archive in archives if table.name in OF_SESSIONS]
        connection.execute(f"CREATE VIEW {table.name} AS {' UNION ALL '.join(parts)}")
    # The hashes of archives, which have none of events, are those of their exchanges.
    key = "session_id, exchange_id"
    parts = [
        f"SELECT {key}, hash AS last_hash FROM {events.name} WHERE kind = 'end' AND hash IS NOT NULL"
    ]
    for source in sources:
        if source.is_lake:
            parts.append(
                f"SELECT {key}, last_hash FROM {source.name}.{exchanges.name}{_where(source.conditions)}"
            )
    connection.execute(f"CREATE VIEW {LAST_HASHES} AS {' UNION ALL '.join(parts)}")


def _set_prices(connection: DuckDBPyConnection, prices: Sequence[Sequence[Any]]) -> None:
    """Make the table `prices` in memory, in place of the archive's own: no reader writes to an
    archive.
    """
    types = {name: type.removesuffix(" NOT NULL") for name, type in PRICES.columns.items()}
    rows = json.dumps([dict(zip(types, row, strict=True)) for row in prices])
    each = f"SELECT unnest(from_json({quoted(rows)}, {quoted(json.dumps([types]))})) AS r"
    connection.execute(f"DROP VIEW {PRICES.name}")
    connection.execute(
        f"CREATE TABLE {PRICES.name} AS SELECT {', '.join(f'r.{name}' for name in types)} FROM ({each})"
    )
