"""The schema of a log in a file: a `recorder.store.engine.Schema`. It has the full-text indexes,
views and triggers besides the tables, as they are declared and as a file has them, whose file it
is, and the upgrade to the newest.

Rules of this file:

* A full-text index is an FTS5 table without a content of its own, over the rowids of a projection.
  It has a row if its table of sizes has one: FTS5 itself would take a row twice, and forget words
  that it never had.
* The triggers prove the rules of the writer: rows are added to the log, in order, and nothing else.
  A tombstone is the permit to delete its session, and nothing of that session is taken any more.
* The application id enters the file with the first schema, before WAL mode does. So it is always in
  the file's header, and the header alone shows which program the file belongs to.
* Beside a file of another program nothing is left, not even a lock file.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, Table

from recorder.errors import StoreBusyError
from recorder.model.events import SHARED
from recorder.projections.views.contract import VIEWS
from recorder.store.engine import BUSY_TIMEOUT_S, NEW_LOG_TIMEOUT_S, Objects, ReadSchema
from recorder.store.maintain.migrate import require_known, run
from recorder.store.schema import (
    ABSENT,
    ENDED,
    HEAD,
    HOLE,
    OTHER,
    PURGED,
    READ_REVISION,
    REBUILD_FROM_THE_BEGINNING,
    require_head,
    sessions,
    table_statements,
    tables_of,
    tombstones,
)
from recorder.store.search import (
    INDEXES,
    OF_EXCHANGE,
    OF_SESSION,
    Indexed,
    SearchIndex,
    SearchStatements,
)
from recorder.store.sql import dialect
from recorder.store.sqlite import address
from recorder.store.sqlite.address import lock_path
from recorder.store.sqlite.connection import (
    ENGINE,
    MIGRATION,
    create_file,
    file_uri,
    is_empty,
    journal_path,
    open_reader,
    translated,
    write_lock,
    writer_engine,
)
from recorder.store.sqlite.tables import (
    LOG_VIEWS,
    TABLES,
    compact,
    event_items,
    event_types,
    stored_events,
    stored_exchanges,
)

WRITTEN = ("type", "raw")  # the columns of a row that may differ from its event

SEARCH_TABLES = [
    f"CREATE VIRTUAL TABLE {name} USING fts5({columns}, content='{projection.table}', "
    "content_rowid='rowid', tokenize='unicode61 remove_diacritics 2')"
    for name, projection, columns in INDEXES
]


def _sessions(words: str) -> tuple[str, dict[str, str]]:
    parts = [
        f"""SELECT session_id FROM {index.projection.table}
        WHERE {index.projection.table}.rowid IN (SELECT rowid FROM {index.name} WHERE {index.name} MATCH :words)"""
        for index in INDEXES
    ]
    return " UNION ALL ".join(parts), {"words": _quoted(words)}


def _quoted(words: str) -> str:
    """Return the text of a search.

    Words are quoted, so no operator counts; a star at the end is not.
    """
    return " ".join(map(_quoted_word, words.replace("\0", " ").split())) or '""'


def _quoted_word(word: str) -> str:
    quoted = word.replace('"', '""')
    return (
        f'"{quoted.removesuffix("*")}"*'
        if len(quoted) > 1 and quoted.endswith("*")
        else f'"{quoted}"'
    )


def _statements(index: Indexed) -> SearchStatements:
    name, columns = index.name, index.columns
    is_in = f"EXISTS (SELECT 1 FROM {name}_docsize AS d WHERE d.id = t.rowid)"
    remove = (  # the index is given the words to forget
        f"INSERT INTO {name} ({name}, rowid, {columns}) "
        f"SELECT 'delete', t.rowid, {columns} FROM {index.projection.table} AS t WHERE {is_in}"
    )
    return SearchStatements(
        add=f"INSERT INTO {name} (rowid, {columns}) SELECT t.rowid, {columns} FROM {index.projection.table} AS t "
        f"WHERE {OF_EXCHANGE} AND NOT {is_in}",
        remove=f"{remove} AND {OF_EXCHANGE}",
        remove_session=f"{remove} AND {OF_SESSION}",
        rebuild=[f"INSERT INTO {name} ({name}) VALUES ('rebuild')"],
    )


INDEX = SearchIndex([_statements(index) for index in INDEXES], _sessions)


CHANGED = "the log is append-only: its rows are never changed and never deleted"
NUMBERED = "the log numbers its own rows: a rowid cannot be chosen"

_OF_PURGED = "EXISTS (SELECT 1 FROM tombstones WHERE session_id = {})".format
_SESSION_OF = "(SELECT session_id FROM stored_exchanges WHERE number = {}.exchange)".format


class Guarded(NamedTuple):
    """A table of the log: what a row is known by, and when one may be deleted."""

    table: Table
    key: Sequence[str]
    deletable: str | None = None  # a condition of the row `OLD`; `None`: never


_GUARDED = (
    Guarded(sessions, ["session_id"], _OF_PURGED("OLD.session_id")),
    Guarded(stored_exchanges, ["session_id", "exchange_id"], _OF_PURGED("OLD.session_id")),
    Guarded(stored_events, ["exchange", "pos"], _OF_PURGED(_SESSION_OF("OLD"))),
    # A type is not of one session. It goes after a purge when no event has it, which takes a look
    # at all of them.
    Guarded(
        event_types, ["type"], "NOT EXISTS (SELECT 1 FROM stored_events WHERE type = OLD.number)"
    ),
    Guarded(event_items, ["exchange", "item_id"], _OF_PURGED(_SESSION_OF("OLD"))),
    Guarded(tombstones, ["session_id"]),
)


def schema_statements() -> list[str]:
    """Return the statements that create the declared schema in an empty file."""
    tables = table_statements(TABLES, dialect(ENGINE))
    return [*tables, *SEARCH_TABLES, *views(), *triggers()]


def recreation() -> list[str]:
    """Return the statements that make views and guards again, whatever a file has in their place."""
    created = [*views(), *triggers()]
    return [
        f"DROP {statement.split()[1]} IF EXISTS {statement.split()[2]}" for statement in created
    ] + created


def views() -> list[str]:
    """Return the statements that create the views: those of the log first, which the others read."""
    return [*LOG_VIEWS, *(view.statement(ENGINE) for view in VIEWS)]


def triggers() -> list[str]:
    """Return the statements that create the triggers."""
    created = []
    for guarded in _GUARDED:
        created += [_no_update(guarded), _no_delete(guarded)]
        created.append(
            _events_guard(guarded) if guarded.table is stored_events else _insert_guard(guarded)
        )
    return created


def _no_update(guarded: Guarded) -> str:
    name = guarded.table.name
    return f"CREATE TRIGGER {name}_no_update BEFORE UPDATE ON {name} BEGIN {_abort(CHANGED)} END"


def _no_delete(guarded: Guarded) -> str:
    name = guarded.table.name
    unless = "" if guarded.deletable is None else f"WHEN NOT {guarded.deletable} "
    return f"CREATE TRIGGER {name}_no_delete BEFORE DELETE ON {name} {unless}BEGIN {_abort(CHANGED)} END"


def _abort(reason: str, rest: str = "") -> str:
    return f"SELECT RAISE(ABORT, '{reason}'){rest};"


def _at_key(guarded: Guarded) -> str:
    """Return the rest of a select of the row that has the key of a new one."""
    key = " AND ".join(f"{column} = NEW.{column}" for column in guarded.key)
    return f" FROM {guarded.table.name} WHERE {key}"


def _refuse(guarded: Guarded) -> str:
    """Return the body of a guard: a row whose key is taken, or that brings a rowid, is skipped if
    it is identical, else refused. The row of a request body may have been written in another way
    (`recorder.store.bodies.rows`): then its hash says whether it is.

    A `BEFORE INSERT` guard must do it. `INSERT OR REPLACE` deletes, without a word to the delete
    trigger, whatever row has the key or the rowid of the new one.
    """
    at_key = _at_key(guarded)
    same = " AND ".join(f"({condition})" for condition in _same(guarded))
    skip_same = f"SELECT RAISE(IGNORE){at_key} AND {same};"
    return f"{skip_same} {_abort(OTHER, at_key)} {_abort(NUMBERED, ' WHERE NEW.rowid >= 0')}"


def _same(guarded: Guarded) -> Sequence[str]:
    """Return the conditions under which the row at the key of a new one is the same."""
    columns = [
        column.name
        for column in guarded.table.columns
        if column.name not in ("number", *guarded.key)
    ]
    if guarded.table is not stored_events:
        return [f"{name} IS NEW.{name}" for name in columns] or ["TRUE"]
    is_shared = f"kind = 'request' AND (SELECT number FROM event_types WHERE type = '{SHARED}') IN (type, NEW.type)"
    written = " AND ".join(f"{name} IS NEW.{name}" for name in WRITTEN)
    plain = [f"{name} IS NEW.{name}" for name in columns if name not in WRITTEN]
    return [*plain, f"{written} OR {is_shared}"]


def _insert_guard(guarded: Guarded) -> str:
    name = guarded.table.name
    has_session = "session_id" in guarded.key and guarded.table is not tombstones
    is_late = f" OR {_OF_PURGED('NEW.session_id')}" if has_session else ""
    purged = (
        _abort(PURGED, " FROM tombstones WHERE session_id = NEW.session_id") + " "
        if has_session
        else ""
    )
    return (
        f"CREATE TRIGGER {name}_insert BEFORE INSERT ON {name} "
        f"WHEN NEW.rowid >= 0 OR EXISTS (SELECT 1{_at_key(guarded)}){is_late} BEGIN {purged}{_refuse(guarded)} END"
    )


def _events_guard(guarded: Guarded) -> str:
    """Return the guard of events: the usual row passes after two seeks, in the primary key and in
    `events_end`.

    That is a fifth of the cost of an insert. Only a row that fails there is looked at closely. Of a
    session that was purged no exchange has a number: the first event of one is refused, and so are
    those that would follow it.
    """
    name = guarded.table.name
    next_pos = f"coalesce((SELECT max(pos) + 1 FROM {name} WHERE exchange = NEW.exchange), 0)"
    ended = f"EXISTS (SELECT 1 FROM {name} WHERE exchange = NEW.exchange AND kind = 'end')"
    absent = (
        "NEW.pos = 0 AND NOT EXISTS (SELECT 1 FROM stored_exchanges WHERE number = NEW.exchange)"
    )
    return (
        f"CREATE TRIGGER {name}_insert BEFORE INSERT ON {name} "
        f"WHEN NEW.rowid >= 0 OR NEW.pos <> {next_pos} OR NEW.kind <> 'note' AND {ended} OR {absent} "
        f"BEGIN {_abort(ABSENT, f' WHERE {absent}')} {_refuse(guarded)} "
        f"{_abort(HOLE, f' WHERE NEW.pos <> {next_pos}')} "
        f"{_abort(ENDED)} END"
    )


grants: Sequence[str] = ()
partitions: Mapping[str, Sequence[str]] = {}
may_add_sql: str | None = None
may_delete_sql: str | None = None
search: SearchIndex = INDEX


_OBJECTS = """SELECT type, name, tbl_name, sql FROM sqlite_master
WHERE sql IS NOT NULL AND NOT (type = 'table' AND name GLOB 'sqlite_*')"""
"""Without the tables of SQLite itself. Nothing else is left out by its name: a trigger may have one
that looks so.
"""


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
    for kind, name, of, sql in rows:
        is_unique = re.match(r"create\s+unique\b", sql, re.IGNORECASE) is not None
        objects["unique index" if is_unique else kind, name] = f"{of}: {_normal(kind, sql)}"
    return objects


def _normal(kind: str, sql: str) -> str:
    """Return a text without what a migration writes in another way: spaces, and where a column that
    was added stands, which is after the keys of its table.
    """
    text = re.sub(r"\s*([(),;])\s*", r"\1", re.sub(r"\s+", " ", sql)).strip()
    return ",".join(sorted(filter(None, re.split(r" ?[(),] ?", text)))) if kind == "table" else text


# -- a file of before the first release

_OUT_OF_THE_WAY = (
    *(
        f"DROP INDEX {name}"
        for name in ("exchanges_exchange_id", "exchanges_resumes", "events_end")
    ),
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
    """Move the exchanges and events of a file into the compact tables, unless they are there, by
    SQLite alone, in the transaction of the upgrade: every column of every row is as before.
    Projections have got columns since: their tables are made again, and to be rebuilt.
    """
    types = dialect(ENGINE)
    is_compact = connection.dialect.has_table(connection, stored_events.name)
    for kind, name in connection.exec_driver_sql(
        "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')"
    ).all():
        connection.exec_driver_sql(f"DROP {kind} {name}")
    statements: list[str] = []
    if not is_compact:
        statements += [*_OUT_OF_THE_WAY, *table_statements(compact.sorted_tables, types), *_MOVED]
    for name in (*(index.name for index in INDEXES), *(table.name for table in tables_of.values())):
        statements.append(f"DROP TABLE IF EXISTS {name}")
    statements += [
        *table_statements(tables_of.values(), types),
        *SEARCH_TABLES,
        *REBUILD_FROM_THE_BEGINNING,
        *recreation(),
    ]
    for statement in statements:
        connection.exec_driver_sql(statement)


def upgrade(
    url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf
) -> None:
    path = address.path(url)
    _claim(path)
    # as SQLite leaves it until the first commit
    is_new = path.stat().st_size == 0 or journal_path(path).exists()
    with write_lock(path, max(busy_timeout_s, NEW_LOG_TIMEOUT_S) if is_new else busy_timeout_s):
        revision = current(path, busy_timeout_s)
        if revision == HEAD:
            return
        require_known(path, revision)
        with _connected(path, busy_timeout_s) as connection:
            run(connection)


@contextmanager
def migration(url: URL) -> Iterator[Connection]:
    path = address.path(url)
    _claim(path)
    with write_lock(path, BUSY_TIMEOUT_S):
        is_empty(path)
        with _connected(path, BUSY_TIMEOUT_S) as connection:
            yield connection


def current(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> str | None:
    """Return the revision of the schema, `None` if the file is empty.

    Raise `StoreError` if it is not recorder's.
    """
    if is_empty(path):
        return None
    uri = f"{file_uri(path)}?mode=rw"  # `ro` would leave side files
    with (
        translated(path),
        closing(sqlite3.connect(uri, uri=True, timeout=busy_timeout_s)) as connection,
    ):
        row = connection.execute(READ_REVISION).fetchone()
        return row[0] if row else None


@contextmanager
def open_log(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a log for reading.

    Raise `StoreError` unless it is recorder's and has the schema of this program.
    """
    if is_empty(path):
        require_head(path, None)
    with open_reader(path) as connection:
        with translated(path):
            row = connection.execute(READ_REVISION).fetchone()
        require_head(path, row[0] if row else None)
        yield connection


def _claim(path: Path) -> None:
    """Make sure that there is a file to write to, and that it is not of another program."""
    create_file(path)
    if lock_path(path).exists():
        return
    try:
        is_empty(path)
    except StoreBusyError:
        # Another recorder began with this file in this moment: whoever waits for its lock has it
        # when that is done.
        if not lock_path(path).exists():
            raise


@contextmanager
def _connected(path: Path, busy_timeout_s: float) -> Iterator[Connection]:
    with translated(path), writer_engine(path, MIGRATION, busy_timeout_s).begin() as connection:
        yield connection
