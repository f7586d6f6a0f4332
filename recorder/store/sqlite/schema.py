"""The schema of a log in a file: a `recorder.store.engine.Schema`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf

from sqlalchemy import URL, Connection

from recorder.store.engine import BUSY_TIMEOUT_S, ReadSchema
from recorder.store.search import SearchIndex
from recorder.store.sqlite import address, declared, migrate
from recorder.store.sqlite.ddl import INDEX, statements
from recorder.store.sqlite.ddl import recreation as recreation
from recorder.store.sqlite.declared import schema_objects as schema_objects
from recorder.store.sqlite.unreleased import bridge as bridge

grants: Sequence[str] = ()
partitions: Mapping[str, Sequence[str]] = {}
may_add_sql: str | None = None
may_delete_sql: str | None = None


def search() -> SearchIndex:
    return INDEX


def schema_reader(url: URL) -> AbstractContextManager[ReadSchema]:
    return declared.schema_reader(address.path(url))


def schema_statements() -> Sequence[str]:
    return statements()


def upgrade(url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> None:
    migrate.upgrade(address.path(url), busy_timeout_s)


def migration(url: URL) -> AbstractContextManager[Connection]:
    return migrate.migration(address.path(url))
