"""SQL as SQLite has it: `recorder.store.engine.SqlForms`."""

from __future__ import annotations

from sqlalchemy import Dialect
from sqlalchemy.dialects import sqlite

from recorder.store.engine import PlacesSql

places = PlacesSql(
    "json_each(:places) AS k", ":session_id", "json_extract(k.value, '$.x')", "json_extract(k.value, '$.pos')"
)
contains_sql = "instr({whole}, {part}) > 0"
clock_ns_sql = "NULL"
silence_ns_sql = "NULL"
identity_sql: str | None = None
scratch_schemas = ("main", "log")


def dialect(paramstyle: str) -> Dialect:
    return sqlite.dialect(paramstyle=paramstyle or "named")
