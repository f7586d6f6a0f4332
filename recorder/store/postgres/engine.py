"""The entry of PostgreSQL in the engine table: a log in a schema of a database on a server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from platformdirs import user_data_path
from sqlalchemy import URL, Connection, Dialect, Table
from sqlalchemy.dialects import registry

from recorder.errors import UsageError
from recorder.store.engine import BUSY_TIMEOUT_S, DuckdbSource, Engine, Fetch, PlacesSql, Progress
from recorder.store.postgres.ddl import (
    GRANTS,
    INDEX,
    MAY_ADD,
    MAY_DELETE,
    READ_TABLES,
    RECREATION,
    SCHEMA,
)
from recorder.store.postgres.partitions import STATEMENTS as PARTITIONS

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from recorder.store.maintain.declared import Objects, ReadSchema
    from recorder.store.maintain.health import Check, CheckResult
    from recorder.store.postgres.log_probe import PostgresLogProbe
    from recorder.store.postgres.query import PostgresQuery
    from recorder.store.postgres.verify import PostgresVerifyConnection
    from recorder.store.postgres.writer import PostgresWriter
    from recorder.store.search import SearchIndex

_TEMPORARY = ("08", "28", "3D", "40", "53", "55", "57", "58", "XX", "25006", "25P03", "25P04", "42501")
"""SQLSTATE classes and codes of the server's condition, which passes or is mended without us: no connection, no login,
no database, a rollback, no resources, a lock, an operator, the system, damage; a standby, a transaction that was idle
or open for too long, a missing right."""


class PostgresEngine(Engine):
    """A server, which other machines record into too. Its URL names the driver; journals are in the data directory."""

    name = "postgresql"
    is_local = False
    identity_sql = "SELECT CAST(pg_postmaster_start_time() AS text), current_database()"
    grants = GRANTS
    partitions = PARTITIONS
    places = PlacesSql(
        "json_to_recordset(CAST(:places AS json)) AS k (x uuid, pos bigint)",
        "CAST(:session_id AS uuid)",
        "k.x",
        "k.pos",
    )
    contains_sql = "position({part} IN {whole}) > 0"
    clock_ns_sql = "CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS BIGINT)"
    silence_ns_sql = (
        f"{clock_ns_sql} - "
        "greatest({heard}, CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000000 AS BIGINT))"
    )
    scratch_schemas = ("pg_temp", SCHEMA)
    may_add_sql = MAY_ADD
    may_delete_sql = MAY_DELETE
    purged_from = "tables"
    purge_notice = (
        "Nobody reads it any more. Its bytes go when the server uses their room again; its WAL and backups have them."
    )

    def normalize(self, url: URL) -> URL:
        if not url.database:
            raise UsageError("The URL names no database: give postgresql://USER@HOST/DATABASE.")
        return url.set(drivername="postgresql+psycopg")

    def display_name(self, url: URL) -> str:
        host = url.query.get("host", url.host or "")
        port = f":{url.port}" if url.port else ""
        return f"postgresql://{host if isinstance(host, str) else ','.join(host)}{port}/{url.database}"

    def path(self, url: URL) -> NoReturn:
        raise UsageError(f"{self.display_name(url)} is no file: this works with a database of SQLite only.")

    def journal_root(self, url: URL) -> Path:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.display_name(url).removeprefix("postgresql://")).strip("-")
        return user_data_path("recorder", appauthor=False) / "journals" / name

    def verified_path(self, url: URL) -> Path:
        return Path(f"{self.journal_root(url)}.verified")

    def translated(self, url: URL) -> AbstractContextManager[None]:
        from recorder.store.postgres.connection import translated

        return translated(url)

    def _is_of_statement(self, error: BaseException) -> bool:
        import psycopg

        code = getattr(error, "sqlstate", None)
        if code is None:  # libpq has none for a connection that breaks, psycopg none for what it refuses itself
            return isinstance(error, psycopg.ProgrammingError | psycopg.DataError | psycopg.NotSupportedError)
        return not str(code).startswith(_TEMPORARY)

    def upgrade(self, url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> None:
        from recorder.store.postgres.migrate import upgrade

        upgrade(url, busy_timeout_s, answer_timeout_s)

    def migration(self, url: URL) -> AbstractContextManager[Connection]:
        from recorder.store.postgres.migrate import migration

        return migration(url, BUSY_TIMEOUT_S)

    def writer(self, url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> PostgresWriter:
        from recorder.store.postgres.writer import PostgresWriter

        return PostgresWriter(url, busy_timeout_s, answer_timeout_s)

    def reader(self, url: URL) -> AsyncEngine:
        from recorder.store.postgres.reader import reader_engine

        return reader_engine(url)

    async def revision(self, url: URL, fetch: Fetch) -> str | None:
        from recorder.store.maintain.migrate import READ_REVISION
        from recorder.store.postgres.migrate import require_tables

        require_tables(url, await fetch(READ_TABLES))
        return next((row[0] for row in await fetch(READ_REVISION)), None)

    def verify_connection(self, url: URL) -> AbstractContextManager[PostgresVerifyConnection]:
        from recorder.store.postgres.verify import verify_connection

        return verify_connection(url)

    def scratch_connection(self, url: URL, tables: Sequence[Table]) -> AbstractContextManager[PostgresVerifyConnection]:
        from recorder.store.postgres.verify import scratch_connection

        return scratch_connection(url, tables)

    def query(self, url: URL) -> AbstractContextManager[PostgresQuery]:
        from recorder.store.postgres.query import PostgresQuery

        return PostgresQuery.open(url)

    def duckdb_source(self, url: URL) -> DuckdbSource:
        from recorder.store.postgres.connection import conninfo

        return DuckdbSource(("postgres-scanner",), "postgres", conninfo(url), SCHEMA)

    def task_lock(self, url: URL, task: str) -> AbstractContextManager[None]:
        from recorder.store.postgres.connection import task_lock

        return task_lock(url, task)

    def dialect(self, paramstyle: str) -> Dialect:
        loaded: Dialect = registry.load("postgresql.psycopg")(paramstyle=paramstyle or "pyformat")
        return loaded

    def search(self) -> SearchIndex:
        return INDEX

    def schema_reader(self, url: URL) -> AbstractContextManager[ReadSchema]:
        from recorder.store.postgres.declared import schema_reader

        return schema_reader(url)

    def schema_objects(self, read: ReadSchema) -> tuple[Objects, Objects]:
        from recorder.store.postgres.declared import schema_objects

        return schema_objects(read)

    def schema_statements(self) -> Sequence[str]:
        from recorder.store.postgres.declared import statements

        return statements()

    def bridge(self, connection: Connection) -> None:
        for statement in RECREATION:  # the tables are the same
            connection.exec_driver_sql(statement)

    def recreation(self) -> Sequence[str]:
        return RECREATION

    def sweep(self, url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
        from recorder.store.postgres.writer import sweep

        return not vacuum or sweep(url, busy_timeout_s)

    def sweep_catalog(self, url: URL) -> None:
        from recorder.store.postgres.writer import sweep_catalog

        sweep_catalog(url)

    def log_probe(self, url: URL) -> PostgresLogProbe:
        from recorder.store.postgres.log_probe import PostgresLogProbe

        return PostgresLogProbe(url)

    def checks(self, url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
        from recorder.store.postgres.health import log

        return log(url, more)

    def back_up(self, url: URL, target: Path, progress: Progress, *, force: bool) -> NoReturn:
        raise UsageError(f"{self.display_name(url)} is on a server: copy it with `pg_dump --schema recorder`.")


ENGINE = PostgresEngine()
