"""A database as any other program sees it that has all rights: in a file, or as the superuser of a server."""

from __future__ import annotations

import sqlite3
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import URL

from recorder.store.engine import engine_of
from recorder.store.location import database_path, database_url
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.search import INDEXES
from tests.support.corpus import ROOT
from tests.support.postgres import conninfo

SEARCH = INDEXES[0].name  # of the words of models


def engine(database: Path | URL) -> str:
    return engine_of(database_url(database)).name


@contextmanager
def connected(database: Path | URL) -> Iterator[Any]:
    """A connection of the driver; what it changes is committed at the end."""
    url = database_url(database)
    if engine_of(url).is_local:
        with closing(sqlite3.connect(database_path(url))) as connection, connection:
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


def free(database: Path | URL) -> None:
    """Take the guards of a log away. On a server there are none: the superuser may do everything."""
    if engine(database) == "sqlite":
        for (name,) in asked(database, "SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            asked(database, f"DROP TRIGGER {name}")


def matching(database: Path | URL, word: str) -> list[str]:
    """The kinds of the items in which full-text search finds a word, in order; and of the texts of others, behind."""
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
    """Raise if a full-text index and its rows are not the same; an index on a server has each row once, by its key."""
    for index in INDEXES:
        if engine(database) == "sqlite":
            asked(database, f"INSERT INTO {index.name} ({index.name}, rank) VALUES ('integrity-check', 1)")
        counts = f"SELECT (SELECT count(*) FROM {index.name}), (SELECT count(*) FROM {index.projection.table})"
        [(indexed, rows)] = asked(database, counts)
        assert indexed == rows, index.name


def tables(database: Path | URL) -> list[str]:
    """Those that have rows of sessions; of a partitioned one only the whole."""
    sql = {
        "sqlite": "SELECT m.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c "
        "WHERE m.type = 'table' AND c.name = 'session_id' ORDER BY 1",
        "postgresql": "SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid "
        f"WHERE c.relnamespace = '{SCHEMA}'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
        "AND a.attname = 'session_id' ORDER BY 1",
    }[engine(database)]
    return [name for (name,) in asked(database, sql)]


def alembic(database: Path | URL, verb: str, revision: str) -> None:
    """Bring a database to a revision of the schema, as whoever administers it would."""
    url = database_url(database)
    where = database_path(url) if engine_of(url).is_local else conninfo(url)
    options = Namespace(x=[f"db={where}"])
    run = {"upgrade": command.upgrade, "downgrade": command.downgrade}[verb]
    run(Config(ROOT / "alembic.ini", cmd_opts=options), revision)


def dumped(database: Path | URL) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all these tables."""
    return {name: sorted(asked(database, f"SELECT * FROM {name}"), key=repr) for name in tables(database)}
