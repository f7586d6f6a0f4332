"""The schema of a log on a server: a `recorder.store.engine.Schema`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf

from sqlalchemy import URL, Connection

from recorder.store.engine import BUSY_TIMEOUT_S
from recorder.store.postgres import migrate
from recorder.store.postgres.ddl import GRANTS, INDEX, MAY_ADD, MAY_DELETE, RECREATION
from recorder.store.postgres.declared import schema_objects as schema_objects
from recorder.store.postgres.declared import schema_reader as schema_reader
from recorder.store.postgres.declared import statements
from recorder.store.postgres.partitions import STATEMENTS
from recorder.store.search import SearchIndex

grants: Sequence[str] = GRANTS
partitions: Mapping[str, Sequence[str]] = STATEMENTS
may_add_sql: str | None = MAY_ADD
may_delete_sql: str | None = MAY_DELETE


def search() -> SearchIndex:
    return INDEX


def schema_statements() -> Sequence[str]:
    return statements()


def bridge(connection: Connection) -> None:
    for statement in RECREATION:  # the tables are the same
        connection.exec_driver_sql(statement)


def recreation() -> Sequence[str]:
    return RECREATION


def upgrade(url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> None:
    migrate.upgrade(url, busy_timeout_s, answer_timeout_s)


def migration(url: URL) -> AbstractContextManager[Connection]:
    return migrate.migration(url, BUSY_TIMEOUT_S)
