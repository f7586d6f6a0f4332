"""A database as any other program sees it that has all rights: in a file, or as the superuser of a
server.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from recorder.store.engine import address_of, engine_name
from recorder.store.location import database_path, database_url
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.schema import exchanges
from recorder.store.search import INDEXES
from tests.support.postgres import conninfo

SEARCH = INDEXES[0].name  # of the words of models


def engine(database: Path | URL) -> str:
    return engine_name(database_url(database))


_NUMBER = "(SELECT number FROM stored_exchanges WHERE session_id = {0}.session_id AND exchange_id = {0}.exchange_id)"
_OLD, _NEW = _NUMBER.format("OLD"), _NUMBER.format("NEW")
_NAMES = f"""
INSERT OR IGNORE INTO event_types (type) SELECT NEW.type WHERE NEW.type IS NOT NULL;
INSERT OR IGNORE INTO event_items (exchange, item_id) SELECT {_NEW}, NEW.item_id WHERE NEW.item_id IS NOT NULL
"""
_TYPE = "(SELECT number FROM event_types WHERE type = NEW.type)"
_ITEM = f"(SELECT number FROM event_items WHERE exchange = {_NEW} AND item_id = NEW.item_id)"
_EXCHANGE = ", ".join(exchanges.columns.keys())
_EXCHANGE_VALUES = ", ".join(f"NEW.{column.name}" for column in exchanges.columns)
_THROUGH = {
    (
        "INSERT",
        "events",
    ): f"""{_NAMES}; INSERT INTO stored_events VALUES ({_NEW}, NEW.pos, NEW.kind, NEW.t_ns, {_TYPE},
        NEW.sequence_number, {_ITEM}, NEW.output_index, NEW.raw, NEW.data_start, NEW.data_length, NEW.hash)""",
    (
        "UPDATE",
        "events",
    ): f"""{_NAMES}; UPDATE stored_events SET exchange = {_NEW}, pos = NEW.pos, kind = NEW.kind,
        t_ns = NEW.t_ns, type = {_TYPE}, sequence_number = NEW.sequence_number, item = {_ITEM},
        output_index = NEW.output_index, raw = NEW.raw, data_start = NEW.data_start, data_length = NEW.data_length,
        hash = NEW.hash WHERE exchange = {_OLD} AND pos = OLD.pos""",
    ("DELETE", "events"): f"DELETE FROM stored_events WHERE exchange = {_OLD} AND pos = OLD.pos",
    (
        "INSERT",
        "exchanges",
    ): f"INSERT INTO stored_exchanges ({_EXCHANGE}) VALUES ({_EXCHANGE_VALUES})",
    (
        "UPDATE",
        "exchanges",
    ): f"UPDATE stored_exchanges SET ({_EXCHANGE}) = ({_EXCHANGE_VALUES}) WHERE number = {_OLD}",
    ("DELETE", "exchanges"): f"DELETE FROM stored_exchanges WHERE number = {_OLD}",
}


def writable(connection: sqlite3.Connection) -> None:
    """Have the views `exchanges` and `events` of a file take changes, which go to the tables behind
    them, with whatever guards they have. Only on this connection.
    """
    for (verb, view), body in _THROUGH.items():
        name = f"through_{view}_{verb.lower()}"
        connection.execute(
            f"CREATE TEMP TRIGGER {name} INSTEAD OF {verb} ON {view} BEGIN {body}; END"
        )


def with_rowids(connection: sqlite3.Connection) -> None:
    """Give both views the rowids of their tables, on this connection."""
    for view, key in (
        ("events", "t.exchange = {0} AND t.pos = v.pos"),
        ("exchanges", "t.number = {0}"),
    ):
        condition = key.format(_NUMBER.format("v"))
        rows = f"SELECT v.*, t.rowid AS rowid FROM main.{view} AS v JOIN stored_{view} AS t ON {condition}"
        connection.execute(f"CREATE TEMP VIEW {view} AS {rows}")


@contextmanager
def connected(database: Path | URL) -> Iterator[Any]:
    """A connection of the driver; what it changes is committed at the end."""
    url = database_url(database)
    if address_of(url).is_local:
        with closing(sqlite3.connect(database_path(url))) as connection, connection:
            if connection.execute(
                "SELECT 1 FROM sqlite_master WHERE name = 'stored_events'"
            ).fetchone():
                writable(connection)
            yield connection
        return
    import psycopg

    from recorder.store.postgres.connection import adapt

    with psycopg.connect(conninfo(url), options=f"-c search_path={SCHEMA}") as server:
        adapt(server)
        yield server


def execute(connection: Any, sql: str, *values: object) -> Any:
    """The cursor of a statement with values in order, for each of which it has a `?`."""
    if not isinstance(connection, sqlite3.Connection):
        sql = sql.replace("%", "%%").replace("?", "%s")
    return connection.execute(sql, values)


def asked(database: Path | URL, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """The rows of a statement with values in order, for each of which it has a `?`."""
    with connected(database) as connection:
        cursor = execute(connection, sql, *values)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def login(database: URL, name: str, role: str) -> URL:
    """The URL of a log on a server for a user who has nothing but a role of it."""
    made = f"CREATE ROLE {name} LOGIN IN ROLE {role}"
    asked(database, f"DO $$ BEGIN {made}; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    return database.set(username=name)


def unguard(connection: sqlite3.Connection) -> None:
    """Drop all triggers of a file."""
    for (name,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall():
        connection.execute(f"DROP TRIGGER main.{name}")


def free(database: Path | URL) -> None:
    """Take the guards of a log away.

    On a server there are none: the superuser may do everything.
    """
    if engine(database) == "sqlite":
        with connected(database) as connection:
            unguard(connection)


def matching(database: Path | URL, word: str) -> list[str]:
    """The kinds of the items in which full-text search finds a word, in order; and of the texts of
    others, behind.
    """
    kinds = {"items": "i.kind", "results": "'result'", "user_texts": "'user'"}
    found: list[str] = []
    for index in INDEXES:
        key = index.projection.key
        condition = {
            "sqlite": f"JOIN {index.name} ON {index.name}.rowid = i.rowid WHERE {index.name} MATCH ?",
            "postgresql": f"JOIN {index.name} AS s USING ({', '.join(key)}) "
            "WHERE s.words @@ plainto_tsquery('simple', ?)",
        }[engine(database)]
        order = ", ".join(f"i.{name}" for name in key)
        sql = f"SELECT {kinds[index.projection.name]} FROM {index.projection.table} AS i {condition} ORDER BY {order}"
        found += [kind for (kind,) in asked(database, sql, word)]
    return found


def check_search(database: Path | URL) -> None:
    """Raise if a full-text index and its rows are not the same; an index on a server has each row
    once, by its key.
    """
    for index in INDEXES:
        if engine(database) == "sqlite":
            asked(
                database,
                f"INSERT INTO {index.name} ({index.name}, rank) VALUES ('integrity-check', 1)",
            )
        counts = f"SELECT (SELECT count(*) FROM {index.name}), (SELECT count(*) FROM {index.projection.table})"
        [(indexed, rows)] = asked(database, counts)
        assert indexed == rows, index.name


def tables(database: Path | URL) -> list[str]:
    """Those that have rows of sessions; of a partitioned one only the whole."""
    sql = {
        "sqlite": "SELECT m.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c "
        "WHERE (m.type = 'table' OR m.name IN ('events', 'exchanges')) AND m.name NOT LIKE 'stored%' "
        "AND c.name = 'session_id' ORDER BY 1",
        "postgresql": "SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid "
        f"WHERE c.relnamespace = '{SCHEMA}'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
        "AND a.attname = 'session_id' ORDER BY 1",
    }[engine(database)]
    return [name for (name,) in asked(database, sql)]


def dumped(database: Path | URL) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all these tables."""
    return {
        name: sorted(asked(database, f"SELECT * FROM {name}"), key=repr)
        for name in tables(database)
    }
