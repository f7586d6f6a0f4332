"""Connections to an archive: DuckDB, with the catalog and its data path attached as a lake.

Rules of this file:

* The module `sqlite3` never opens a catalog: each of the two has a library of SQLite of its own,
  and the locks of a file belong to the process.
* A catalog is created by who writes, with a data path, and by nobody who reads. A database of
  something else stays as it is.
* The data path is in the catalog. An archive on S3 takes the user's key from the environment, and
  no other does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sqlalchemy import URL

from recorder.archive.place import database_name, database_of, is_missing, no_archive
from recorder.errors import RecorderError, StoreBusyError, StoreError, UsageError
from recorder.model.text import safe_text
from recorder.projections.views.contract import VIEWS
from recorder.store.duckdb.connection import DuckdbOpening, connected, first_line, quoted
from recorder.store.engine import DuckdbSource, address_of, querying_of, writing_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LAKE = "lake"  # the name of an archive in a connection
PACK = "pack"
EXTRA = "archive"
LOCK_S = 3600.0  # another archiver holds the lock for a batch: a minute, on a slow disk some more

_CATALOG = "catalog_of_lake"  # the catalog as a database of tables, before it is attached as a lake
_OWN_VIEWS = ", ".join(quoted(view.name) for view in VIEWS)
_BUSY = ("database is locked", "Failed to commit DuckLake transaction", "Transaction conflict")


@contextmanager
def catalog_lock(url: URL) -> Iterator[None]:
    """Hold the lock of who writes to an archive, among all processes.

    Raise `StoreBusyError` if it stays taken.
    """
    catalog = database_of(url)
    refusal = (
        f"Another recorder writes to the archive {database_name(url)}: wait until it has ended."
    )
    with writing_of(catalog).task_lock(catalog, "archive", LOCK_S, refusal):
        yield


@contextmanager
def lake(
    url: URL,
    command: str,
    *,
    data: str | None = None,
    writes: bool = False,
    pack: URL | None = None,
) -> Iterator[DuckDBPyConnection]:
    """Open a connection whose tables are those of an archive: it is attached as `lake`, and used.

    Without `writes` it cannot change anything, and raises `NotFoundError` if there is no archive.
    With `writes` and `data`, a folder or `s3://BUCKET/PREFIX`, the catalog is created if there is
    none: its tables are made by `recorder.archive.schema.create`. `command` is for the error if an
    extra is not installed. `pack` is a file of rows that are to be added, attached as `pack`.
    """
    if not writes and is_missing(url):
        raise no_archive(url)

    def attach(opening: DuckdbOpening) -> None:
        if pack is not None:
            opening.attach_log(pack, PACK)
        opening.folders.append(attach_lake(opening, url, data=data, writes=writes))

    with connected(command, EXTRA, attach) as connection:
        connection.execute(f"USE {LAKE}")
        yield connection


def attach_lake(
    opening: DuckdbOpening,
    url: URL,
    *,
    name: str = LAKE,
    data: str | None = None,
    writes: bool = False,
) -> str:
    """Attach an archive to a connection that may have others, as the database `name`.

    The rest is as for `lake`.

    Return the folder of its files; for a writer on S3, the bucket, in which it looks for the files
    of other archives.
    """
    connection, catalog = opening.connection, database_of(url)
    source = querying_of(catalog).duckdb_source(catalog)
    opening.load(*source.extensions, "ducklake")
    with translated(url):
        found = None if is_missing(url) else _data_path(opening, url, source)
        path = _chosen(url, found, data, writes)
        if path.startswith("s3://"):
            opening.load("httpfs")
            connection.execute(_secret(os.environ))
        # rows in the catalog would be outside of the data path
        options = "DATA_INLINING_ROW_LIMIT 0"
        options += ", READ_ONLY" if not writes else ""
        options += f", DATA_PATH {quoted(path)}" if found is None else ""
        connection.execute(
            f"ATTACH {quoted(f'ducklake:{source.type}:{source.target}')} AS {name} ({options})"
        )
        _require_only_tables(connection, url, name)
        folder = data_path(connection, name)
    if writes and folder.startswith("s3://"):
        bucket = folder.removeprefix("s3://").partition("/")[0]
        return f"s3://{bucket}/"
    return folder


def _require_only_tables(connection: DuckDBPyConnection, url: URL, name: str) -> None:
    """Raise `StoreError` if a catalog would run SQL of somebody else when its tables are read.

    Views of recorder's own names are let be: recorder reads none that is in an archive, and makes
    them for itself.
    """
    found = [
        *_named(
            connection, "view", f"database_name = '{name}' AND view_name NOT IN ({_OWN_VIEWS})"
        ),
        *_named(
            connection,
            "view",
            f"database_name = '__ducklake_metadata_{name}' AND view_name LIKE 'ducklake%'",
        ),
        *_named(connection, "function", f"database_name = '{name}'"),
    ]
    if found:
        kinds = ", ".join(found)
        raise StoreError(
            f"The archive {database_name(url)} has views or macros which are not of recorder ({kinds}): it is not read."
        )


def _named(connection: DuckDBPyConnection, kind: str, condition: str) -> list[str]:
    rows = connection.execute(
        f"SELECT DISTINCT {kind}_name FROM duckdb_{kind}s() WHERE NOT internal AND {condition} ORDER BY 1"
    )
    return [safe_text(str(found)) for (found,) in rows.fetchall()]


def data_path(connection: DuckDBPyConnection, name: str = LAKE) -> str:
    """Return the folder of the files of an archive that is open, or its place on S3, with a slash
    at the end.
    """
    sql = f"SELECT value FROM __ducklake_metadata_{name}.ducklake_metadata WHERE key = 'data_path'"
    [(path,)] = connection.execute(sql).fetchall()
    return str(path)


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Turn the errors of DuckDB inside into those of recorder.

    A lock, or a conflict of two writers, is busy.
    """
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise  # which the connection explains
    except duckdb.Error as error:
        said = first_line(error)
        if any(words in str(error) for words in _BUSY):
            raise StoreBusyError(
                f"Another process writes to the archive {database_name(url)}: {said}."
            ) from error
        raise StoreError(
            f"The archive {database_name(url)} cannot be read or written: {said}."
        ) from error


@contextmanager
def transaction(connection: DuckDBPyConnection) -> Iterator[None]:
    """Commit what is done inside at its end, or nothing."""
    import duckdb

    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(duckdb.Error):
            connection.execute("ROLLBACK")
        raise


def _data_path(opening: DuckdbOpening, url: URL, source: DuckdbSource) -> str | None:
    """Return the data path that a catalog names, or None if its database has no catalog."""
    opening.attach(source, _CATALOG, "READ_ONLY")
    connection = opening.connection
    try:
        of_catalog = f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{_CATALOG}'"
        tables = {name for (name,) in connection.execute(of_catalog).fetchall()}
        if "ducklake_metadata" not in tables:
            if tables and source.type == "sqlite":
                raise StoreError(
                    f"{database_name(url)} belongs to another program, or is a log: give another path."
                )
            return None
        sql = f"SELECT value FROM {_CATALOG}.ducklake_metadata WHERE key = 'data_path'"
        return next((str(path) for (path,) in connection.execute(sql).fetchall()), None)
    finally:
        connection.execute(f"DETACH {_CATALOG}")


def _chosen(url: URL, found: str | None, data: str | None, writes: bool) -> str:
    """Return the data path to use: that of the catalog, else the one that a user gave for a new
    catalog.
    """
    given = None if data is None else _absolute(data)
    if found is not None:
        if given is not None and given.rstrip("/") != found.rstrip("/"):
            raise UsageError(
                f"The archive {database_name(url)} has its data in {found}: leave --data out."
            )
        return found
    if not writes:
        raise no_archive(url)
    if given is None:
        raise UsageError(
            f"There is no archive {database_name(url)} yet: name its folder, or s3://…, with --data."
        )
    catalog = database_of(url)
    try:
        if not given.startswith("s3://"):
            Path(given).mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in address_of(catalog).files(catalog)[:1]:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise RecorderError(f"{error.filename} cannot be made: {error.strerror}.") from error
    return given


def _absolute(data: str) -> str:
    scheme, colon, _ = data.partition("://")
    if not colon:
        return str(Path(data).expanduser().absolute())
    if scheme != "s3":
        raise UsageError(
            f"The data of an archive are in a folder, or in s3://BUCKET/PREFIX: {data} is neither."
        )
    return data


def _secret(environment: os._Environ[str]) -> str:
    """Return the statement that gives DuckDB the user's key for S3, as the programs of AWS find it."""
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    values = {
        "KEY_ID": environment.get("AWS_ACCESS_KEY_ID"),
        "SECRET": environment.get("AWS_SECRET_ACCESS_KEY"),
        "SESSION_TOKEN": environment.get("AWS_SESSION_TOKEN"),
        "REGION": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
    }
    options = [f"{name} {quoted(value)}" for name, value in values.items() if value]
    if endpoint:
        place = urlsplit(endpoint)
        options += [
            f"ENDPOINT {quoted(place.netloc)}",
            "URL_STYLE 'path'",
            f"USE_SSL {place.scheme == 'https'}",
        ]
    return f"CREATE OR REPLACE SECRET ({', '.join(['TYPE s3', *options])})"
