"""Connections to a file for SQL that is not recorder's own: a `recorder.store.engine.Querying`."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import URL

from recorder.store.engine import DuckdbSource
from recorder.store.sqlite import address
from recorder.store.sqlite.query import SqliteQuery


def query(url: URL) -> AbstractContextManager[SqliteQuery]:
    return SqliteQuery.open(url)


def duckdb_source(url: URL) -> DuckdbSource:
    return DuckdbSource(("sqlite-scanner",), "sqlite", str(address.path(url)))
