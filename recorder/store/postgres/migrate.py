"""The ownership and the revision of the schema `recorder` on a server, and the upgrade to the newest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

import psycopg
from sqlalchemy import URL, Connection

from recorder.errors import StoreError
from recorder.store.engine import BUSY_TIMEOUT_S, NEW_LOG_TIMEOUT_S, nothing_in
from recorder.store.location import database_name
from recorder.store.maintain.migrate import require_known, run
from recorder.store.postgres.connection import open_reader, translated, writer_engine
from recorder.store.postgres.ddl import READ_TABLES, SCHEMA
from recorder.store.postgres.patience import Patience
from recorder.store.schema import APPLICATION_ID, HEAD, READ_REVISION, VERSION_TABLE, require_head


def upgrade(url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> None:
    """Bring the schema to the newest revision; create it if there is none.

    If there is nothing to do, no process waits for another: recorders start again all at once with their server.
    """
    with translated(url), writer_engine(url, busy_timeout_s, Patience(answer_timeout_s)).connect() as connection:
        found = _revision(connection)
    if found == HEAD:
        return
    answer_timeout_s = inf  # a statement may take minutes in a log that has rows
    if found is None:
        answer_timeout_s = busy_timeout_s = max(busy_timeout_s, NEW_LOG_TIMEOUT_S)
    with migration(url, busy_timeout_s, answer_timeout_s) as connection:
        revision = _revision(connection)
        require_known(database_name(url), revision)
        if revision != HEAD:
            run(connection)


@contextmanager
def migration(url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> Iterator[Connection]:
    """Open a transaction that excludes other changes of the schema."""
    with translated(url), writer_engine(url, busy_timeout_s, Patience(answer_timeout_s)).begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({APPLICATION_ID})")
        tables = _tables(connection)
        if tables and VERSION_TABLE not in tables:
            raise StoreError(
                f"The schema {SCHEMA} of {database_name(url)} belongs to another program, not to recorder; "
                "give another database."
            )
        if not tables:
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        yield connection


def require_tables(url: URL, rows: Sequence[Sequence[Any]]) -> None:
    """Raise `NotFoundError` unless the rows of `READ_TABLES` name the tables of a log."""
    if VERSION_TABLE not in {row[0] for row in rows}:
        raise nothing_in(url)


@contextmanager
def open_log(url: URL, settings: Mapping[str, str], **options: Any) -> Iterator[psycopg.Connection]:
    """Open a log for reading, as `open_reader` does. Raise `NotFoundError` if nothing was recorded there, `StoreError`
    unless it has the schema of this program.
    """
    with open_reader(url, settings, **options) as connection:
        with translated(url):
            require_tables(url, connection.execute(READ_TABLES.encode()).fetchall())
            sql = READ_REVISION.replace(VERSION_TABLE, f"{SCHEMA}.{VERSION_TABLE}")
            row = connection.execute(sql.encode()).fetchone()
        require_head(database_name(url), row[0] if row else None)
        yield connection


def _tables(connection: Connection) -> set[str]:
    return set(connection.exec_driver_sql(READ_TABLES).scalars())


def _revision(connection: Connection) -> str | None:
    if VERSION_TABLE not in _tables(connection):
        return None
    revision: str | None = connection.exec_driver_sql(READ_REVISION).scalar()
    return revision
