"""Connections to a server for SQL that is not recorder's own: a `recorder.store.engine.Querying`."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import URL

from recorder.store.engine import DuckdbSource
from recorder.store.postgres.connection import conninfo
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.postgres.query import PostgresQuery


def query(url: URL) -> AbstractContextManager[PostgresQuery]:
    return PostgresQuery.open(url)


def duckdb_source(url: URL) -> DuckdbSource:
    return DuckdbSource(("postgres-scanner",), "postgres", conninfo(url), SCHEMA)
