"""The tables and views of a log under their own names in a connection of DuckDB, which then computes the views itself.

Ids are text as in a file, also of a log on a server, whose type for them compares otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import Column, Uuid

from recorder.projections.views import VIEWS
from recorder.store.duckdb.connection import LOG, quoted
from recorder.store.schema import metadata

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NARROWED = {"HUGEINT": "BIGINT", "INTEGER": "BIGINT"}  # a sum is a bigint elsewhere, and so is a flag


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
