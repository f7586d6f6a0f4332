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
from recorder.store.schema import table_statements
from recorder.store.search import SearchIndex
from recorder.store.sql import dialect
from recorder.store.sqlite import address, migrate
from recorder.store.sqlite.connection import ENGINE, translated
from recorder.store.sqlite.ddl import INDEX
from recorder.store.sqlite.ddl import recreation as recreation
from recorder.store.sqlite.ddl import schema_statements as schema_statements
from recorder.store.sqlite.migrate import open_log
from recorder.store.sqlite.tables import compact

grants: Sequence[str] = ()
partitions: Mapping[str, Sequence[str]] = {}
may_add_sql: str | None = None
may_delete_sql: str | None = None
search: SearchIndex = INDEX


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


# -- a file with the last schema before the first release

_OUT_OF_THE_WAY = (
    *(f"DROP INDEX {name}" for name in ("exchanges_exchange_id", "exchanges_resumes", "events_end")),
    *(f"ALTER TABLE {name} RENAME TO old_{name}" for name in ("exchanges", "events")),
)
_MOVED = (
    "INSERT INTO stored_exchanges SELECT NULL, * FROM old_exchanges ORDER BY session_id, exchange_id",
    "INSERT INTO event_types SELECT NULL, type FROM old_events WHERE type IS NOT NULL GROUP BY type",
    """
INSERT INTO event_items SELECT DISTINCT NULL, x.number, e.item_id
FROM old_events AS e JOIN stored_exchanges AS x USING (session_id, exchange_id) WHERE e.item_id IS NOT NULL
""",
    """
INSERT INTO stored_events
SELECT x.number, e.pos, e.kind, e.t_ns, t.number, e.sequence_number, i.number, e.output_index, e.raw, e.data_start,
    e.data_length, e.hash
FROM stored_exchanges AS x
CROSS JOIN old_events AS e ON e.session_id = x.session_id AND e.exchange_id = x.exchange_id
LEFT JOIN event_types AS t ON t.type = e.type
LEFT JOIN event_items AS i ON i.exchange = x.number AND i.item_id = e.item_id
ORDER BY x.number, e.pos
""",
    "DROP TABLE old_events",
    "DROP TABLE old_exchanges",
)


def bridge(connection: Connection) -> None:
    """Move the exchanges and events of a file into the compact tables, by SQLite alone, in the transaction of the
    upgrade: every column of every row is as before.
    """
    for kind, name in connection.exec_driver_sql(
        "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')"
    ).all():
        connection.exec_driver_sql(f"DROP {kind} {name}")
    tables = table_statements(compact.sorted_tables, dialect(ENGINE))
    for statement in (*_OUT_OF_THE_WAY, *tables, *_MOVED, *recreation()):
        connection.exec_driver_sql(statement)
