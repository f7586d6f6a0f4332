"""SQL as PostgreSQL has it: `recorder.store.engine.SqlForms`."""

from __future__ import annotations

from sqlalchemy import Dialect
from sqlalchemy.dialects import registry

from recorder.store.engine import PlacesSql
from recorder.store.postgres.ddl import SCHEMA

places = PlacesSql(
    "json_to_recordset(CAST(:places AS json)) AS k (x uuid, pos bigint)",
    "CAST(:session_id AS uuid)",
    "k.x",
    "k.pos",
)
contains_sql = "position({part} IN {whole}) > 0"
clock_ns_sql = "CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS BIGINT)"
silence_ns_sql = (
    f"{clock_ns_sql} - greatest({{heard}}, CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000000 AS BIGINT))"
)
identity_sql: str | None = "SELECT CAST(pg_postmaster_start_time() AS text), current_database()"
scratch_schemas = ("pg_temp", SCHEMA)


def dialect(paramstyle: str) -> Dialect:
    loaded: Dialect = registry.load("postgresql.psycopg")(paramstyle=paramstyle or "pyformat")
    return loaded
