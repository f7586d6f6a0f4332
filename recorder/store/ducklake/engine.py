"""The entry of DuckLake in the engine table: an archive, read as a log is, and written by the archiver only."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from sqlalchemy import URL, Connection, Dialect, Table, make_url
from sqlalchemy.exc import ArgumentError

from recorder.errors import UsageError
from recorder.store.engine import (
    BUSY_TIMEOUT_S,
    DuckdbSource,
    Engine,
    Fetch,
    PlacesSql,
    Prices,
    Progress,
    engine_of,
    is_no_log,
)

if TYPE_CHECKING:
    from recorder.store.duckdb.query import DuckdbQuery
    from recorder.store.ducklake.reader import LakePool
    from recorder.store.ducklake.verify import LakeScratchConnection, LakeVerifyConnection
    from recorder.store.maintain.declared import Objects, ReadSchema
    from recorder.store.maintain.health import Check, CheckResult
    from recorder.store.search import SearchIndex

_FORMS = "ducklake:PATH, ducklake:sqlite:PATH, or ducklake:postgresql://USER@HOST/DATABASE"
_OF_LIBPQ = {
    "user": "username",
    "password": "password",
    "dbname": "database",
}  # names of a connection string, as the parts of a URL


class DucklakeEngine(Engine):
    """A catalog in SQLite or PostgreSQL, and files of Parquet. Its URL is that of the catalog behind `ducklake+`."""

    name = "ducklake"
    is_local = True
    is_archive = True
    purged_from = "data path"
    places = PlacesSql(
        "json_each(:places) AS k",
        ":session_id",
        "json_extract_string(k.value, '$.x')",
        "CAST(k.value ->> 'pos' AS BIGINT)",
    )
    contains_sql = "contains({whole}, {part})"
    scratch_schemas = ("main", "log")

    def parse(self, text: str) -> URL:
        kind, colon, rest = text.partition(":")
        if colon and kind in ("postgres", "postgresql") and not rest.startswith("//"):
            return _of_libpq(rest)
        if colon and rest.startswith("//"):
            try:
                url = make_url(f"{'postgresql' if kind == 'postgres' else kind}:{rest}")
            except ArgumentError as error:
                raise UsageError(f"That is no archive: give {_FORMS}.") from error
            return url.set(drivername=f"{self.name}+{url.drivername}")
        return URL.create(f"{self.name}+sqlite", database=rest if kind == "sqlite" and colon else text)

    def normalize(self, url: URL) -> URL:
        kind = url.drivername.partition("+")[2] or "sqlite"
        if kind.partition("+")[0] in ("", self.name):
            raise UsageError(f"An archive has its catalog in SQLite or PostgreSQL: give {_FORMS}.")
        catalog = url.set(drivername=kind)
        catalog = engine_of(catalog).normalize(catalog)
        return catalog.set(drivername=f"{self.name}+{catalog.get_backend_name()}")

    def display_name(self, url: URL) -> str:
        catalog = _catalog(url)
        return f"{self.name}:{engine_of(catalog).display_name(catalog)}"

    def path(self, url: URL) -> NoReturn:
        raise UsageError(f"{self.display_name(url)} is an archive: this works with a database of SQLite only.")

    def journal_root(self, url: URL) -> Path:
        catalog = _catalog(url)
        return engine_of(catalog).journal_root(catalog)

    def verified_path(self, url: URL) -> Path:
        catalog = _catalog(url)
        return engine_of(catalog).verified_path(catalog)

    def files(self, url: URL) -> Sequence[Path]:
        catalog = _catalog(url)
        return engine_of(catalog).files(catalog)

    def is_missing(self, url: URL) -> bool:
        catalog = _catalog(url)
        return engine_of(catalog).is_missing(catalog)

    def require(self, url: URL) -> None:
        from recorder.store.ducklake.connection import no_archive

        if self.is_missing(url):
            raise no_archive(url)
        catalog = _catalog(url)
        engine_of(catalog).require(catalog)

    def is_same(self, url: URL, other: URL) -> bool:
        engine = engine_of(_catalog(url))
        return engine is engine_of(_catalog(other)) and engine.is_same(_catalog(url), _catalog(other))

    def translated(self, url: URL) -> AbstractContextManager[None]:
        from recorder.store.ducklake.connection import translated

        return translated(url)

    def _is_of_statement(self, error: BaseException) -> bool:
        return False

    def upgrade(self, url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> None:
        from recorder.store.ducklake.connection import lake
        from recorder.store.ducklake.schema import upgrade

        self.require(url)
        with lake(url, "db upgrade", writes=True) as connection, self.translated(url):
            upgrade(connection)

    def migration(self, url: URL) -> NoReturn:
        raise is_no_log(url)

    def writer(self, url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> NoReturn:
        raise is_no_log(url)

    def reader(self, url: URL, prices: Prices = ()) -> LakePool:
        from recorder.store.ducklake.reader import LakePool

        return LakePool(url, prices)

    async def revision(self, url: URL, fetch: Fetch) -> str | None:
        from recorder.store.ducklake.schema import require_known_archive
        from recorder.store.maintain.migrate import READ_REVISION, VERSION_TABLE

        tables = {row[0] for row in await fetch("SELECT table_name FROM duckdb_tables()")}
        found = await fetch(READ_REVISION) if VERSION_TABLE in tables else ()
        revision = next((str(row[0]) for row in found), None)
        require_known_archive(url, revision)
        return revision

    def verify_connection(self, url: URL) -> AbstractContextManager[LakeVerifyConnection]:
        from recorder.store.ducklake.verify import verify_connection

        return verify_connection(url)

    def scratch_connection(self, url: URL, tables: Sequence[Table]) -> AbstractContextManager[LakeScratchConnection]:
        from recorder.store.ducklake.verify import scratch_connection

        return scratch_connection(url, tables)

    def query(self, url: URL) -> AbstractContextManager[DuckdbQuery]:
        from recorder.store.ducklake.query import open_archive

        return open_archive(url)

    def duckdb_source(self, url: URL) -> DuckdbSource:
        raise is_no_log(url)

    def dialect(self, paramstyle: str) -> Dialect:
        from recorder.store.ducklake.dialect import LakeDialect

        return LakeDialect(paramstyle=paramstyle) if paramstyle else LakeDialect()

    def search(self) -> SearchIndex:
        from recorder.store.ducklake.dialect import INDEX

        return INDEX

    def schema_reader(self, url: URL) -> NoReturn:
        raise is_no_log(url)

    def schema_objects(self, read: ReadSchema) -> tuple[Objects, Objects]:
        """Return nothing: one that is refused with a view that is not of recorder has nothing else to compare."""
        return {}, {}

    def bridge(self, connection: Connection) -> None:
        raise is_no_log(URL.create("ducklake"))

    def recreation(self) -> Sequence[str]:
        return ()

    def schema_statements(self) -> Sequence[str]:
        return ()

    def sweep(self, url: URL, *, vacuum: bool, busy_timeout_s: float) -> NoReturn:
        raise is_no_log(url)

    def log_probe(self, url: URL) -> NoReturn:
        raise is_no_log(url)

    def checks(self, url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
        from recorder.store.ducklake.health import archive

        return archive(url, more)

    def back_up(self, url: URL, target: Path, progress: Progress, *, force: bool) -> NoReturn:
        raise UsageError(
            f"{self.display_name(url)} is an archive: copy its catalog as any database, and the files of its data path."
        )


def _catalog(url: URL) -> URL:
    return url.set(drivername=url.drivername.partition("+")[2])


def _of_libpq(text: str) -> URL:
    """Return the URL for a connection string of libpq, as DuckLake takes it."""
    try:
        values = dict(part.split("=", 1) for part in shlex.split(text))
    except ValueError as error:
        raise UsageError(f"That is no archive: give {_FORMS}.") from error
    host = (
        {} if values.get("host", "/").startswith("/") else {"host": values.pop("host")}
    )  # else a folder with a socket
    port = int(values.pop("port")) if host and values.get("port", "").isdecimal() else None
    parts = {_OF_LIBPQ[name]: values.pop(name) for name in _OF_LIBPQ if name in values}
    return URL.create("ducklake+postgresql", **parts, **host, port=port, query=values)


ENGINE = DucklakeEngine()
