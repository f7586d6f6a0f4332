"""The tables and views of a log under their own names in a connection of DuckDB, which then computes the views itself.

Ids are text as in a file, also of a log on a server, whose type for them compares otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import URL, Column, Uuid

from recorder.projections.views import VIEWS
from recorder.store.duckdb.connection import LOG, attached, quoted
from recorder.store.duckdb.query import DuckdbQuery
from recorder.store.query import open_query
from recorder.store.schema import metadata

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NARROWED = {"HUGEINT": "BIGINT", "INTEGER": "BIGINT"}  # a sum is a bigint elsewhere, and so is a flag


@contextmanager
def query_log(url: URL) -> Iterator[DuckdbQuery]:
    """Open a log for questions that DuckDB answers. Raise as `open_query`, and if the extra is not installed.

    The log's own engine is opened first, and closed: it says if the log can be read here, and if it is up to date.
    """
    with open_query(url) as query:
        is_stale = query.is_stale()
    with attached(url, "query --engine duckdb", "analytics") as connection:
        create_views(connection)
        connection.execute("SET integer_division = true")  # as in the other engines
        yield DuckdbQuery(connection, is_stale=f"SELECT {is_stale}")


def create_views(connection: DuckDBPyConnection, session_id: str | None = None) -> None:
    """Create the tables and views of the attached log, of all sessions or of one: its sums are of that alone."""
    for table in metadata.tables.values():
        columns = ", ".join(map(_column, table.columns))
        is_part = session_id is not None and "session_id" in table.c
        where = f" WHERE session_id = {quoted(session_id or '')}" if is_part else ""
        connection.execute(f"CREATE VIEW {table.name} AS SELECT {columns} FROM {LOG}.{table.name}{where}")
    for view in VIEWS:
        connection.execute(view.statement("duckdb"))


def column_types(connection: DuckDBPyConnection, table: str) -> Mapping[str, str]:
    """Return the columns of a view, and the types that they have in a file: text, bigint, double precision or blob."""
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    return {name: _NARROWED.get(kind, kind) for name, kind, *_ in described}


def _column(column: Column[object]) -> str:
    """Return a column of a table, an id as text."""
    types = (column.type, *column.type._variant_mapping.values())
    if any(isinstance(each, Uuid) for each in types):
        return f'CAST("{column.name}" AS VARCHAR) AS "{column.name}"'
    return f'"{column.name}"'
