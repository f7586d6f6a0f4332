"""The objects of the schema in a database file: as they are declared, and as the file has them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from recorder.store.engine import Objects, ReadSchema
from recorder.store.sqlite.connection import translated
from recorder.store.sqlite.ddl import statements
from recorder.store.sqlite.migrate import open_log

_OBJECTS = """SELECT type, name, tbl_name, sql FROM sqlite_master
WHERE sql IS NOT NULL AND NOT (type = 'table' AND name GLOB 'sqlite_*')"""
"""Without the tables of SQLite itself. Nothing else is left out by its name: a trigger may have one that looks so."""


@contextmanager
def schema_reader(path: Path) -> Iterator[ReadSchema]:
    """Open a log. Raise `StoreError` if it is not one that can be read here."""
    with open_log(path) as connection, translated(path):
        yield lambda sql: connection.execute(sql).fetchall()


def schema_objects(read: ReadSchema) -> tuple[Objects, Objects]:
    """Return what is declared, and what a file has."""
    return declared(), _named(read(_OBJECTS))


@cache
def declared() -> Objects:
    """Return what is declared, as a file has it: a full-text index has tables of its own."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in statements():
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
