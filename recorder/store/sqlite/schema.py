"""The schema of a log in a file, as it is declared and as the file has it: a `recorder.store.engine.Schema`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache
from math import inf
from typing import Any

from sqlalchemy import URL, Connection

from recorder.store.engine import BUSY_TIMEOUT_S, Objects, ReadSchema
from recorder.store.search import SearchIndex
from recorder.store.sqlite import address, migrate
from recorder.store.sqlite.connection import translated
from recorder.store.sqlite.ddl import INDEX
from recorder.store.sqlite.ddl import recreation as recreation
from recorder.store.sqlite.ddl import schema_statements as schema_statements
from recorder.store.sqlite.migrate import open_log
from recorder.store.sqlite.unreleased import bridge as bridge

grants: Sequence[str] = ()
partitions: Mapping[str, Sequence[str]] = {}
may_add_sql: str | None = None
may_delete_sql: str | None = None


def search() -> SearchIndex:
    return INDEX


def upgrade(url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> None:
    migrate.upgrade(address.path(url), busy_timeout_s)


def migration(url: URL) -> AbstractContextManager[Connection]:
    return migrate.migration(address.path(url))


_OBJECTS = """SELECT type, name, tbl_name, sql FROM sqlite_master
WHERE sql IS NOT NULL AND NOT (type = 'table' AND name GLOB 'sqlite_*')"""
"""Without the tables of SQLite itself. Nothing else is left out by its name: a trigger may have one that looks so."""


@contextmanager
def schema_reader(url: URL) -> Iterator[ReadSchema]:
    path = address.path(url)
    with open_log(path) as connection, translated(path):
        yield lambda sql: connection.execute(sql).fetchall()


def schema_objects(read: ReadSchema) -> tuple[Objects, Objects]:
    return declared(), _named(read(_OBJECTS))


@cache
def declared() -> Objects:
    """Return what is declared, as a file has it: a full-text index has tables of its own."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in schema_statements():
            connection.execute(statement)
        return _named(connection.execute(_OBJECTS))


def _named(rows: Iterable[Sequence[Any]]) -> Objects:
    objects: dict[tuple[str, str], str] = {}
    for kind, name, table, sql in rows:
        is_unique = re.match(r"create\s+unique\b", sql, re.IGNORECASE) is not None
        objects["unique index" if is_unique else kind, name] = f"{table}: {_normal(kind, sql)}"
    return objects


def _normal(kind: str, sql: str) -> str:
    """Return a text without what a migration writes in another way: spaces, and where a column that was added stands,
    which is after the keys of its table.
    """
    text = re.sub(r"\s*([(),;])\s*", r"\1", re.sub(r"\s+", " ", sql)).strip()
    return ",".join(sorted(filter(None, re.split(r" ?[(),] ?", text)))) if kind == "table" else text
