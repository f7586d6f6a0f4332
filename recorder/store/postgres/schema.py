"""The schema of a log on a server, as it is declared and as the server has it, and the upgrade to
the newest: a `recorder.store.engine.Schema`.

Rules of this file:

* A comparison only reads, and makes nothing to compare with. A server keeps no text of a view, and
  writes it again for whoever asks: so the plans of a view and of its declared text are compared,
  which are the same if they give the same.
* Indexes and constraints are the server's own affair: a query gives the same rows without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from math import inf
from typing import Any

import psycopg
from sqlalchemy import URL, Connection
from sqlalchemy.schema import CreateColumn, CreateTable

from recorder.errors import StoreError
from recorder.projections.views.contract import VIEWS
from recorder.projections.views.parts import View
from recorder.store.engine import (
    BUSY_TIMEOUT_S,
    NEW_LOG_TIMEOUT_S,
    START_TIMEOUT_S,
    Objects,
    ReadSchema,
)
from recorder.store.location import database_name
from recorder.store.maintain.migrate import require_known, run
from recorder.store.postgres import rights
from recorder.store.postgres.connection import (
    ENGINE,
    open_reader,
    require_tables,
    translated,
    writer_engine,
)
from recorder.store.postgres.ddl import (
    BY_SESSION,
    INDEX,
    MAY_ADD,
    MAY_DELETE,
    PARTITIONED,
    PARTITIONS,
    READ_TABLES,
    RECREATION,
    SCHEMA,
    STATEMENTS,
)
from recorder.store.postgres.patience import Patience
from recorder.store.schema import (
    APPLICATION_ID,
    HEAD,
    READ_REVISION,
    REBUILD_FROM_THE_BEGINNING,
    VERSION_TABLE,
    metadata,
    require_head,
    table_statements,
    tables_of,
)
from recorder.store.search import SearchIndex
from recorder.store.sql import dialect

grants: Sequence[str] = rights.GRANTS
partitions: Mapping[str, Sequence[str]] = PARTITIONS
may_add_sql: str | None = MAY_ADD
may_delete_sql: str | None = MAY_DELETE
search: SearchIndex = INDEX


def bridge(connection: Connection) -> None:
    """Add the columns that projections have got since; they are to be rebuilt.

    The other tables are the same.
    """
    types = dialect(ENGINE)
    for table in tables_of.values():
        connection.execute(CreateTable(table, if_not_exists=True))
        connection.exec_driver_sql(f"TRUNCATE {table.name}")
        for column in table.columns:
            added = CreateColumn(column).compile(dialect=types)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN IF NOT EXISTS {added}")
    for statement in (*REBUILD_FROM_THE_BEGINNING, *recreation()):
        connection.exec_driver_sql(statement)


def recreation() -> Sequence[str]:
    return [*RECREATION, rights.INVOKER]


_IN_SCHEMA = f"c.relnamespace = CAST('{SCHEMA}' AS regnamespace)"
_OBJECTS = f"""
SELECT 'column', c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute AS a
    JOIN pg_class AS c ON c.oid = a.attrelid
    WHERE {_IN_SCHEMA} AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'function', p.proname, p.prosrc FROM pg_proc AS p
    WHERE p.pronamespace = CAST('{SCHEMA}' AS regnamespace)
UNION ALL SELECT 'trigger', c.relname || '.' || t.tgname, t.tgenabled::text FROM pg_trigger AS t
    JOIN pg_class AS c ON c.oid = t.tgrelid WHERE {_IN_SCHEMA} AND NOT t.tgisinternal AND t.tgparentid = 0
UNION ALL SELECT 'rule', c.relname || '.' || r.rulename, r.ev_enabled::text FROM pg_rewrite AS r
    JOIN pg_class AS c ON c.oid = r.ev_class
    WHERE {_IN_SCHEMA} AND r.rulename <> '_RETURN'
UNION ALL {rights.OBJECTS}
UNION ALL SELECT 'view', c.relname, '' FROM pg_class AS c WHERE {_IN_SCHEMA} AND c.relkind = 'v'
"""
_PLAN = "EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM {0}"

_AS_WRITTEN = {"geqo": "off", "join_collapse_limit": "1", "from_collapse_limit": "1"}
"""Settings with which a server joins tables in the order in which they are written: it looks for no
better one.
"""

_NAME = re.compile(r"\b(?P<base>[a-z]\w*?)(?:_\d+)*\b")
_FUNCTION = re.compile(
    r"CREATE (?:OR REPLACE )?FUNCTION (?:\w+\.)?(\w+)\(.*?\$\$(.*?)\$\$", re.DOTALL
)


def schema_statements() -> Sequence[str]:
    types = dialect(ENGINE)
    for name in PARTITIONED:
        metadata.tables[name].dialect_options["postgresql"]["partition_by"] = BY_SESSION
    for table in metadata.tables.values():
        for index in table.indexes:
            index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
    return [*table_statements(metadata.sorted_tables, types), *STATEMENTS]


@contextmanager
def schema_reader(url: URL) -> Iterator[ReadSchema]:
    with (
        open_log(url, _AS_WRITTEN, answer_timeout_s=START_TIMEOUT_S) as connection,
        translated(url),
    ):
        yield lambda sql: connection.execute(sql.encode()).fetchall()


def schema_objects(read: ReadSchema) -> tuple[Objects, Objects]:
    found = {(kind, name): text for kind, name, text in read(_OBJECTS)}
    for key, text in found.items():
        if key[0] == "policy":
            found[key] = rights.same_form(text)
    declared = _columns() | _functions(found) | rights.declared(found)
    for view in VIEWS:
        key = "view", view.name
        declared[key] = "" if key not in found else _difference(read, view)
    return declared, found


def _columns() -> dict[tuple[str, str], str]:
    types = dialect(ENGINE)
    columns = {}
    for table in metadata.tables.values():
        for column in table.columns:
            columns["column", f"{table.name}.{column.name}"] = column.type.compile(
                dialect=types
            ).lower()
    return columns


def _functions(found: Objects) -> dict[tuple[str, str], str]:
    """Return the functions that are declared.

    What makes partitions has a text for months and one for days.
    """
    statements = [*STATEMENTS, *chain.from_iterable(PARTITIONS.values())]
    bodies: dict[str, list[str]] = {}
    for match in map(_FUNCTION.match, map(str.lstrip, statements)):
        if match is not None:
            bodies.setdefault(match[1], []).append(match[2])
    declared = {}
    for name, texts in bodies.items():
        there = found.get(("function", name))
        declared["function", name] = there if there in texts else texts[0]
    return declared


def _difference(read: ReadSchema, view: View) -> str:
    """Return the plan of the declared text, or nothing if that is the plan of the view.

    Who may not read the tables behind a view has nothing to compare.
    """
    select = view.statement(ENGINE).partition(" AS\n")[2]
    declared = ""
    # the server may have looked at its tables between the two, and plans in another way
    for _ in range(2):
        try:
            declared = _plan(read, f"({select}) AS {view.name}")
            if declared == _plan(read, f"{SCHEMA}.{view.name}"):
                return ""
        except psycopg.errors.InsufficientPrivilege:
            return ""
    return declared


def _plan(read: ReadSchema, source: str) -> str:
    """Return the plan of a source, or why it has none: a view may read what is missing.

    A table that is read several times has its name with numbers, which a view gets in another order
    than its text: each is numbered by where it stands first.
    """
    names: dict[str, dict[str, str]] = {}

    def number(name: re.Match[str]) -> str:
        known = names.setdefault(name["base"], {})
        return known.setdefault(name[0], f"{name['base']}#{len(known)}")

    try:
        plan = "\n".join(line for (line,) in read(_PLAN.format(source)))
        return _NAME.sub(number, plan)
    except psycopg.errors.InsufficientPrivilege:
        raise
    except psycopg.errors.SyntaxErrorOrAccessRuleViolation as error:
        return str(error)


def upgrade(
    url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf
) -> None:
    """Bring the schema to the newest revision; create it if there is none.

    If there is nothing to do, no process waits for another: recorders start again all at once with
    their server.
    """
    with (
        translated(url),
        writer_engine(url, busy_timeout_s, Patience(answer_timeout_s)).connect() as connection,
    ):
        found = _revision(connection)
    if found == HEAD:
        return
    answer_timeout_s = inf  # a statement may take minutes in a log that has rows
    if found is None:
        answer_timeout_s = busy_timeout_s = max(busy_timeout_s, NEW_LOG_TIMEOUT_S)
    with migration(url, busy_timeout_s, answer_timeout_s) as connection:
        revision = _revision(connection)
        require_known(database_name(url), revision)
        if revision != HEAD:
            run(connection)


@contextmanager
def migration(
    url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf
) -> Iterator[Connection]:
    """Open a transaction that excludes other changes of the schema."""
    with (
        translated(url),
        writer_engine(url, busy_timeout_s, Patience(answer_timeout_s)).begin() as connection,
    ):
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({APPLICATION_ID})")
        tables = _tables(connection)
        if tables and VERSION_TABLE not in tables:
            raise StoreError(
                f"The schema {SCHEMA} of {database_name(url)} belongs to another program, not to recorder; "
                "give another database."
            )
        if not tables:
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        yield connection


@contextmanager
def open_log(url: URL, settings: Mapping[str, str], **options: Any) -> Iterator[psycopg.Connection]:
    """Open a log for reading, as `open_reader` does.

    Raise `NotFoundError` if nothing was recorded there, `StoreError` unless it has the schema of
    this program.
    """
    with open_reader(url, settings, **options) as connection:
        with translated(url):
            require_tables(url, connection.execute(READ_TABLES.encode()).fetchall())
            sql = READ_REVISION.replace(VERSION_TABLE, f"{SCHEMA}.{VERSION_TABLE}")
            row = connection.execute(sql.encode()).fetchone()
        require_head(database_name(url), row[0] if row else None)
        yield connection


def _tables(connection: Connection) -> set[str]:
    return set(connection.exec_driver_sql(READ_TABLES).scalars())


def _revision(connection: Connection) -> str | None:
    if VERSION_TABLE not in _tables(connection):
        return None
    revision: str | None = connection.exec_driver_sql(READ_REVISION).scalar()
    return revision
