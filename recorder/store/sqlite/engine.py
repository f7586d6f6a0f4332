"""The entry of SQLite in the engine table: a log in a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, Dialect, Table

from recorder.errors import StoreError, UsageError
from recorder.store.engine import BUSY_TIMEOUT_S, Backup, DuckdbSource, Engine, Fetch, PlacesSql, Progress

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from recorder.store.maintain.declared import Objects, ReadSchema
    from recorder.store.maintain.health import Check, CheckResult
    from recorder.store.search import SearchIndex
    from recorder.store.sqlite.log_probe import SqliteLogProbe
    from recorder.store.sqlite.query import SqliteQuery
    from recorder.store.sqlite.verify import SqliteVerifyConnection
    from recorder.store.sqlite.writer import SqliteWriter

_OF_STATEMENT = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE)


class SqliteEngine(Engine):
    """A file, with a lock file and journals beside it. Its URL has the absolute path and nothing else."""

    name = "sqlite"
    is_local = True
    purged_from = "file or its WAL"
    places = PlacesSql(
        "json_each(:places) AS k", ":session_id", "json_extract(k.value, '$.x')", "json_extract(k.value, '$.pos')"
    )
    contains_sql = "instr({whole}, {part}) > 0"
    scratch_schemas = ("main", "log")

    def normalize(self, url: URL) -> URL:
        if url.query:
            raise UsageError("The URL of a database file takes no options: recorder sets them itself.")
        if (url.database or "") in ("", ".", ":memory:"):
            raise UsageError("The log needs a database file: give a path, or sqlite:///PATH.")
        return URL.create("sqlite", database=str(Path(url.database or "").expanduser().absolute()))

    def display_name(self, url: URL) -> str:
        return url.database or ""

    def path(self, url: URL) -> Path:
        return Path(url.database or "")

    def journal_root(self, url: URL) -> Path:
        return Path(f"{url.database}.journal")

    def verified_path(self, url: URL) -> Path:
        return Path(f"{url.database}.verified")

    def files(self, url: URL) -> Sequence[Path]:
        from recorder.store.sqlite.connection import lock_path

        path = self.path(url)
        return (path, *(Path(f"{path}{end}") for end in ("-wal", "-shm")), lock_path(path))

    def is_missing(self, url: URL) -> bool:
        return not self.path(url).exists()

    def require(self, url: URL) -> None:
        if self.path(url).is_dir():
            raise StoreError(f"{url.database} is a directory: the database needs the path of a file.")
        super().require(url)

    def is_same(self, url: URL, other: URL) -> bool:
        paths = self.path(url), self.path(other)
        return paths[0] == paths[1] or (all(path.exists() for path in paths) and paths[0].samefile(paths[1]))

    def translated(self, url: URL) -> AbstractContextManager[None]:
        from recorder.store.sqlite.connection import translated

        return translated(self.path(url))

    def _is_of_statement(self, error: BaseException) -> bool:
        if not isinstance(error, sqlite3.Error):
            return False
        code = getattr(error, "sqlite_errorcode", None)  # what the driver itself refuses has none
        return code is None or code & 0xFF in _OF_STATEMENT

    def upgrade(self, url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> None:
        from recorder.store.sqlite.migrate import upgrade

        upgrade(self.path(url), busy_timeout_s)

    def migration(self, url: URL) -> AbstractContextManager[Connection]:
        from recorder.store.sqlite.migrate import migration

        return migration(self.path(url))

    def writer(self, url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> SqliteWriter:
        from recorder.store.sqlite.writer import SqliteWriter

        return SqliteWriter(self.path(url), busy_timeout_s)

    def reader(self, url: URL) -> AsyncEngine:
        from recorder.store.sqlite.reader import reader_engine

        return reader_engine(self.path(url))

    async def revision(self, url: URL, fetch: Fetch) -> str | None:
        from recorder.store.maintain.migrate import READ_REVISION
        from recorder.store.sqlite.migrate import is_empty

        return None if is_empty(self.path(url)) else next((row[0] for row in await fetch(READ_REVISION)), None)

    def verify_connection(self, url: URL) -> AbstractContextManager[SqliteVerifyConnection]:
        from recorder.store.sqlite.verify import verify_connection

        self.require(url)
        return verify_connection(self.path(url))

    def scratch_connection(self, url: URL, tables: Sequence[Table]) -> AbstractContextManager[SqliteVerifyConnection]:
        from recorder.store.sqlite.verify import scratch_connection

        return scratch_connection(self.path(url), tables)

    def query(self, url: URL) -> AbstractContextManager[SqliteQuery]:
        from recorder.store.sqlite.query import SqliteQuery

        return SqliteQuery.open(url)

    def duckdb_source(self, url: URL) -> DuckdbSource:
        return DuckdbSource(("sqlite-scanner",), "sqlite", str(self.path(url)))

    def task_lock(self, url: URL, task: str) -> AbstractContextManager[None]:
        from recorder.store.sqlite.connection import task_lock

        return task_lock(self.path(url), task)

    def dialect(self, paramstyle: str) -> Dialect:
        from sqlalchemy.dialects import sqlite

        return sqlite.dialect(paramstyle=paramstyle or "named")

    def search(self) -> SearchIndex:
        from recorder.store.sqlite.ddl import INDEX

        return INDEX

    def schema_reader(self, url: URL) -> AbstractContextManager[ReadSchema]:
        from recorder.store.sqlite.declared import schema_reader

        return schema_reader(self.path(url))

    def schema_objects(self, read: ReadSchema) -> tuple[Objects, Objects]:
        from recorder.store.sqlite.declared import schema_objects

        return schema_objects(read)

    def schema_statements(self) -> Sequence[str]:
        from recorder.store.sqlite.ddl import statements

        return statements()

    def bridge(self, connection: Connection) -> None:
        from recorder.store.sqlite.unreleased import bridge

        bridge(connection)

    def recreation(self) -> Sequence[str]:
        from recorder.store.sqlite.ddl import recreation

        return recreation()

    def sweep(self, url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
        from recorder.store.sqlite.writer import sweep

        return sweep(self.path(url), vacuum, busy_timeout_s)

    def sweep_catalog(self, url: URL) -> None:
        from recorder.store.sqlite.writer import sweep_catalog

        sweep_catalog(self.path(url))

    def log_probe(self, url: URL) -> SqliteLogProbe:
        from recorder.store.sqlite.log_probe import SqliteLogProbe

        return SqliteLogProbe(self.path(url))

    def checks(self, url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
        from recorder.store.sqlite.health import log

        return log(self.path(url), more)

    def library_checks(self) -> Iterator[CheckResult]:
        from recorder.store.sqlite.health import library

        return library()

    def file_checks(self, url: URL) -> Iterator[CheckResult]:
        from recorder.store.sqlite.health import wal

        return wal(self.path(url))

    def back_up(self, url: URL, target: Path, progress: Progress, *, force: bool) -> Backup:
        from recorder.store.sqlite.backup import back_up

        self.require(url)
        return back_up(self.path(url), target, progress, force=force)


ENGINE = SqliteEngine()
