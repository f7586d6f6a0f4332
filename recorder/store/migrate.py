"""Whose database it is, which schema it has, and how it gets the newest.

Rules of this file:

* A database that is not recorder's, or is newer than this program, is refused before anything is written to it.
* An upgrade is one transaction under the write lock: all of it or nothing, whoever else opens the file meanwhile.
* The application id enters the file with the first schema, before WAL mode does. So it always stands in the file's
  header, and a look at the header settles whose file it is.
* Alembic takes longer to import than everything else here together: it is imported only when there is work for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection

from recorder.errors import StoreError
from recorder.store.location import database_name, database_path, is_file, lock_path
from recorder.store.sqlite.connection import (
    BUSY_TIMEOUT_S,
    MIGRATION,
    application_id,
    create_file,
    file_uri,
    roll_back,
    translated,
    write_lock,
    writer_engine,
)

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0009"  # the newest revision in `migrations/versions`
VERSION_TABLE = "recorder_version"
APPLICATION_ID = 0x53534572  # "SSEr"; a migration sets it

READ_REVISION = f"SELECT version_num FROM {VERSION_TABLE}"
TABLES_ON_SERVER = "SELECT tablename FROM pg_tables WHERE schemaname = 'recorder'"


def migrations() -> Path:
    """The migration scripts: inside the package in an installed wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def upgrade(url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
    """Bring the database to the newest schema; create it if there is none, but on a server that is its owner's task."""
    if not is_file(url):
        _upgrade_on_server(url, busy_timeout_s)
        return
    path = _claim(url)
    with write_lock(path, busy_timeout_s):
        revision = current(path, busy_timeout_s)
        if revision == HEAD:
            return
        if not _is_known(revision):
            raise newer(path, revision)
        with _connected(path, busy_timeout_s) as connection:
            _run(connection)


def current(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> str | None:
    """The revision of the schema in a database file; `None` if the file is empty. Raises if it is not recorder's."""
    if is_empty(path):
        return None
    uri = f"{file_uri(path)}?mode=rw"  # `ro` would leave side files behind
    with translated(path), closing(sqlite3.connect(uri, uri=True, timeout=busy_timeout_s)) as connection:
        row = connection.execute(READ_REVISION).fetchone()
        return row[0] if row else None


def is_empty(path: Path) -> bool:
    """Whether a file is still to become a database. Raises `StoreError` if it is a file of another program."""
    roll_back(path)
    if path.stat().st_size == 0:
        return True
    if application_id(path) != APPLICATION_ID:
        raise StoreError(f"{path} belongs to another program, not to recorder; give another path.")
    return False


def require_head(name: object, revision: str | None) -> None:
    """Raise `StoreError` unless the schema is the one that this program reads."""
    if revision == HEAD:
        return
    if not _is_known(revision):
        raise newer(name, revision)
    raise StoreError(f"The database {name} has an older schema: run `recorder db upgrade`.")


def newer(name: object, revision: str | None) -> StoreError:
    return StoreError(
        f"The database {name} was made by a newer recorder (its schema is {revision}, this one knows {HEAD}): "
        "upgrade recorder, or give another path."
    )


@contextmanager
def opened(url: URL) -> Iterator[Connection]:
    """A connection in a transaction of its own, for Alembic's command line: the same lock, the same refusals."""
    if not is_file(url):
        with _on_server(url, BUSY_TIMEOUT_S) as connection:
            yield connection
        return
    path = _claim(url)
    with write_lock(path, BUSY_TIMEOUT_S):
        is_empty(path)
        with _connected(path, BUSY_TIMEOUT_S) as connection:
            yield connection


def _claim(url: URL) -> Path:
    """The file to write to, made if there is none. Beside a file of another program not even a lock file is left."""
    path = database_path(url)
    create_file(path)
    if not lock_path(path).exists():
        is_empty(path)
    return path


@contextmanager
def _connected(path: Path, busy_timeout_s: float) -> Iterator[Connection]:
    engine = writer_engine(path, MIGRATION, busy_timeout_s)
    with translated(path), engine.begin() as connection:
        yield connection


def _upgrade_on_server(url: URL, busy_timeout_s: float) -> None:
    """Where there is nothing to do, nobody waits for anybody: recorders start again all at once with their server."""
    from recorder.store.postgres import connection as postgres

    with postgres.translated(url), postgres.writer_engine(url, busy_timeout_s).connect() as connection:
        if revision_on_server(connection) == HEAD:
            return
    with _on_server(url, busy_timeout_s) as connection:
        revision = revision_on_server(connection)
        if not _is_known(revision):
            raise newer(database_name(url), revision)
        if revision != HEAD:
            _run(connection)


@contextmanager
def _on_server(url: URL, busy_timeout_s: float) -> Iterator[Connection]:
    """A transaction in which nobody else makes or changes the schema."""
    from recorder.store.postgres import connection as postgres
    from recorder.store.postgres.ddl import SCHEMA

    with postgres.translated(url), postgres.writer_engine(url, busy_timeout_s).begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({APPLICATION_ID})")
        tables = _tables_on_server(connection)
        if tables and VERSION_TABLE not in tables:
            raise StoreError(
                f"The schema {SCHEMA} of {database_name(url)} belongs to another program, not to recorder; "
                "give another database."
            )
        if not tables:
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        yield connection


def _tables_on_server(connection: Connection) -> set[str]:
    return set(connection.exec_driver_sql(TABLES_ON_SERVER).scalars())


def revision_on_server(connection: Connection) -> str | None:
    """The revision of the schema; `None` if there is none."""
    if VERSION_TABLE not in _tables_on_server(connection):
        return None
    revision: str | None = connection.exec_driver_sql(READ_REVISION).scalar()
    return revision


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    return config


def _is_known(revision: str | None) -> bool:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_config())
    return revision is None or revision in {script.revision for script in scripts.walk_revisions()}


def _run(connection: Connection) -> None:
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
