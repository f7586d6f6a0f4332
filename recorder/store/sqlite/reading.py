"""Connections that only read a log in a file: a `recorder.store.protocols.Reading`."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import URL

from recorder.store.engine import DuckdbSource, Fetch, ReadPool
from recorder.store.maintain.migrate import READ_REVISION
from recorder.store.sqlite import address
from recorder.store.sqlite.migrate import is_empty
from recorder.store.sqlite.query import SqliteQuery
from recorder.store.sqlite.reader import reader_engine


def reader(url: URL) -> ReadPool:
    return reader_engine(address.path(url))


async def revision(url: URL, fetch: Fetch) -> str | None:
    if is_empty(address.path(url)):
        return None
    for (number,) in await fetch(READ_REVISION):
        return str(number)
    return None


def query(url: URL) -> AbstractContextManager[SqliteQuery]:
    return SqliteQuery.open(url)


def duckdb_source(url: URL) -> DuckdbSource:
    return DuckdbSource(("sqlite-scanner",), "sqlite", str(address.path(url)))
