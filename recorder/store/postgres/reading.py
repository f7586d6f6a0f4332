"""Connections that only read a log on a server: a `recorder.store.protocols.Reading`."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import URL

from recorder.store.engine import DuckdbSource, Fetch, ReadPool
from recorder.store.maintain.migrate import READ_REVISION
from recorder.store.postgres.connection import conninfo
from recorder.store.postgres.ddl import READ_TABLES, SCHEMA
from recorder.store.postgres.migrate import require_tables
from recorder.store.postgres.query import PostgresQuery
from recorder.store.postgres.reader import reader_engine


def reader(url: URL) -> ReadPool:
    return reader_engine(url)


async def revision(url: URL, fetch: Fetch) -> str | None:
    require_tables(url, await fetch(READ_TABLES))
    for (number,) in await fetch(READ_REVISION):
        return str(number)
    return None


def query(url: URL) -> AbstractContextManager[PostgresQuery]:
    return PostgresQuery.open(url)


def duckdb_source(url: URL) -> DuckdbSource:
    return DuckdbSource(("postgres-scanner",), "postgres", conninfo(url), SCHEMA)
