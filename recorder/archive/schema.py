"""The tables of an archive: those of the log and of the projections, as an engine has them that
writes by month.

Rules of this file:

* The columns are those of `recorder.store.schema`, in order; ids are text. An event has no `hash`.
  An exchange has two columns more: `last_hash`, the hash of its last event, and `root_kind`, a
  `recorder.archive.unpack.RootKind`.
* Each table with sessions has `month` at its end, by which its files are partitioned: that of the
  session's id, so that a session is in one month for ever. Rows of a file are sorted as the key of
  the table is.
* A table that was extended has its newest columns at the end: rows are inserted with the names of
  their columns.
* `recorder_version` has the revision of the log's schema that the tables are from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from sqlalchemy import URL, BigInteger, Column, Double, LargeBinary, Table, Text
from sqlalchemy.types import REAL, TypeEngine

from recorder.archive.lake import LAKE, lake, transaction, translated
from recorder.archive.place import database_name, require
from recorder.errors import StoreError
from recorder.projections.views.contract import VIEWS
from recorder.store.duckdb.connection import quoted
from recorder.store.schema import (
    HEAD,
    LOG,
    READ_REVISION,
    VERSION_TABLE,
    dead_letters,
    events,
    exchanges,
    prices,
    rebuilds,
    require_head,
    tables_of,
    tombstones,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROW_GROUP_ROWS = 10_240
"""Rows that a reader of one session reads at least, and that a writer has in memory at once: 5 MB
of usual events.
"""

_OPTIONS = {
    "parquet_compression": "'zstd'",
    "parquet_row_group_size": ROW_GROUP_ROWS,
    # of one that is not merged any more: all of it is in memory when it is written
    "target_file_size": "'64MB'",
    "data_inlining_row_limit": 0,
}
MONTH = "month"  # 'YYYY-MM'

_TYPES: Mapping[type[TypeEngine[Any]], str] = {
    Text: "VARCHAR",
    BigInteger: "BIGINT",
    LargeBinary: "BLOB",
    REAL: "DOUBLE",
    Double: "DOUBLE",
}


class LakeTable(NamedTuple):
    """A table of an archive: its columns in order, with their types, and those that its rows are
    sorted by.
    """

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]


def month_of(session_id: str) -> str:
    """Return the month of a session, 'YYYY-MM' in UTC: that of the milliseconds at the beginning of
    its UUIDv7.

    An id of another kind has some month too. It is always the same.
    """
    ms = UUID(session_id).int >> 80
    return datetime.fromtimestamp(ms % _MONTHS_MS / 1000, UTC).strftime("%Y-%m")


def months_of(session_ids: Iterable[str]) -> dict[str, list[str]]:
    """Return sessions by month, in order of ids."""
    months: dict[str, list[str]] = {}
    for session_id in sorted(session_ids):
        months.setdefault(month_of(session_id), []).append(session_id)
    return months


_MONTHS_MS = 253_402_300_800_000  # the year 10000, which `datetime` does not reach


def _column(column: Column[Any]) -> str:
    name = next(name for kind, name in _TYPES.items() if isinstance(column.type, kind))
    return name if column.nullable else f"{name} NOT NULL"


OF_CHAIN = {"last_hash": "BLOB", "root_kind": "VARCHAR"}
"""The columns of an exchange that a log does not have."""


def _table(table: Table) -> LakeTable:
    columns = {column.name: _column(column) for column in table.c if column is not events.c.hash}
    if table is exchanges:
        columns |= OF_CHAIN
    if "session_id" in columns and table is not rebuilds:
        columns[MONTH] = "VARCHAR NOT NULL"
    return LakeTable(table.name, columns, [column.name for column in table.primary_key])


OF_SESSIONS: Mapping[str, Table] = {
    table.name: table for table in (*LOG, *tables_of.values(), dead_letters)
}
"""The tables of a log with the rows of sessions."""

COPIED = [_table(table) for table in OF_SESSIONS.values()]
"""The same in an archive. All have a month."""

PACKED = {table.name: table for table in COPIED if table.name != tombstones.name}
"""The tables whose rows go with a session. It has a tombstone when it is purged."""

ARCHIVED = LakeTable(
    "archived",
    {"session_id": "VARCHAR NOT NULL", "archived_ns": "BIGINT NOT NULL", MONTH: "VARCHAR NOT NULL"},
    ["session_id"],
)
VERSION = LakeTable(VERSION_TABLE, {"version_num": "VARCHAR NOT NULL"}, ["version_num"])

PRICES = _table(prices)

TABLES = (*COPIED, ARCHIVED, _table(rebuilds), PRICES, VERSION)


def of_sessions(month: str, session_ids: Collection[str]) -> str:
    """Return the condition on the rows of some sessions of a month."""
    return f"{MONTH} = {quoted(month)} AND session_id IN {id_list(session_ids)}"


def id_list(session_ids: Iterable[str]) -> str:
    """Return ids as a list of SQL.

    As values by parameter they would load pandas, wherever that is installed.
    """
    return f"({', '.join(map(quoted, sorted(session_ids)))})"


def revision(connection: DuckDBPyConnection, name: str = LAKE) -> str | None:
    """Return the revision of the schema of an archive, `None` if it has no tables yet."""
    if VERSION_TABLE not in _tables(connection, name):
        return None
    read = READ_REVISION.replace(VERSION_TABLE, f"{name}.{VERSION_TABLE}")
    return next((str(number) for (number,) in connection.execute(read).fetchall()), None)


def require_revision(url: URL, connection: DuckDBPyConnection, name: str = LAKE) -> None:
    """Raise `StoreError` unless an archive has the schema of this program.

    Raise the errors of DuckDB.
    """
    known = revision(connection, name)
    if known is None or known < HEAD:
        place = database_name(url)
        raise StoreError(
            f"The archive {place} has an older schema: run `recorder db upgrade --db {place}`."
        )
    require_head(database_name(url), known)


def create(connection: DuckDBPyConnection) -> None:
    """Create the tables and views of an archive, in one transaction; nothing if they are there.

    Raise the errors of DuckDB.
    """
    if revision(connection) is None:
        for option, value in _OPTIONS.items():
            connection.execute(f"CALL {LAKE}.set_option('{option}', {value})")
        extend(connection)


def upgrade(url: URL) -> None:
    """Bring an archive to the schema of this program. Raise `NotFoundError` if there is none."""
    require(url)
    with lake(url, "db upgrade", writes=True) as connection, translated(url):
        extend(connection)


def extend(connection: DuckDBPyConnection) -> None:
    """Add the tables and columns that an older archive does not have, and make the views anew.

    Rows stay as they were: of a new column they have nothing. Raise the errors of DuckDB, and
    `StoreError` if the archive was made by a newer recorder.
    """
    known = revision(connection)
    if known is not None and known > HEAD:
        raise StoreError(
            f"The archive was made by a newer recorder (its schema is {known}): upgrade recorder."
        )
    with transaction(connection):
        _add_columns(connection)
        for view in VIEWS:  # of the archive, so that whoever attaches it in DuckDB has them too
            connection.execute(
                view.statement("duckdb").replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1)
            )
        connection.execute(f"DELETE FROM {VERSION_TABLE}")
        connection.execute(f"INSERT INTO {VERSION_TABLE} VALUES ('{HEAD}')")


def _add_columns(connection: DuckDBPyConnection) -> None:
    there = _tables(connection)
    for table in TABLES:
        if table.name not in there:
            columns = ", ".join(f'"{name}" {type}' for name, type in table.columns.items())
            connection.execute(f"CREATE TABLE {table.name} ({columns})")
            if MONTH in table.columns:
                connection.execute(f"ALTER TABLE {table.name} SET PARTITIONED BY ({MONTH})")
            key = ", ".join(f'"{name}"' for name in table.key)
            connection.execute(f"ALTER TABLE {table.name} SET SORTED BY ({key})")
        else:
            for name in table.columns.keys() - there[table.name]:
                type = table.columns[name].removesuffix(" NOT NULL")
                connection.execute(f'ALTER TABLE {table.name} ADD COLUMN "{name}" {type}')


def _tables(connection: DuckDBPyConnection, name: str = LAKE) -> Mapping[str, set[str]]:
    """Return the columns of each table that an archive has."""
    sql = f"SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = '{name}'"
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(sql).fetchall():
        found.setdefault(table, set()).add(column)
    return found
