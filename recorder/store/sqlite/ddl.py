"""The schema on SQLite besides tables: the full-text index, and triggers.

Rules of this file:

* A full-text index is an FTS5 table without a content of its own, over the rowids of a projection. It has a row if its
  table of sizes has one: FTS5 itself would take a row twice, and forget words that it never had.
* The triggers prove the rules of the writer: rows are added to the log, in order, and nothing else. A tombstone is the
  permit to delete its session, and nothing of that session is taken any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import CompoundSelect, Select, Table, literal_column, select, table, union_all

from recorder.model.shared_body import SHARED
from recorder.store.schema import tables_of
from recorder.store.search import INDEXES, OF_EXCHANGE, OF_SESSION, Indexed, SearchIndex, SearchStatements

WRITTEN = ("type", "raw")  # the columns of a row that may differ from its event

SEARCH_TABLES = [
    f"CREATE VIRTUAL TABLE {name} USING fts5({columns}, content='{projection.table}', "
    "content_rowid='rowid', tokenize='unicode61 remove_diacritics 2')"
    for name, projection, columns in INDEXES
]


def _sessions(words: str) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(*(_sessions_of(index, words) for index in INDEXES))


def _sessions_of(index: Indexed, words: str) -> Select[*tuple[Any, ...]]:
    matches = literal_column(index.name).op("MATCH")(_quoted(words))
    found: Any = select(literal_column("rowid")).select_from(table(index.name)).where(matches)
    rows = tables_of[index.projection.name]
    return select(rows.c.session_id).where(literal_column(f"{rows.name}.rowid").in_(found))


def _quoted(words: str) -> str:
    """Return the text of a search. Words are quoted, so no operator counts; a star at the end is not."""
    return " ".join(map(_quoted_word, words.replace("\0", " ").split())) or '""'


def _quoted_word(word: str) -> str:
    quoted = word.replace('"', '""')
    return f'"{quoted.removesuffix("*")}"*' if len(quoted) > 1 and quoted.endswith("*") else f'"{quoted}"'


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


def triggers(log: Sequence[Table], events: Table, tombstones: Table) -> list[str]:
    """Return the statements that create the triggers."""
    return [
        *(_no_change(table, verb, tombstones) for table in log for verb in ("UPDATE", "DELETE")),
        *(_insert_guard(table, tombstones) for table in log if table is not events),
        _events_guard(events, tombstones),
    ]


def _no_change(table: Table, verb: str, tombstones: Table) -> str:
    is_permitted = f"WHEN NOT {_purged('OLD')} " if verb == "DELETE" and table is not tombstones else ""
    return (
        f"CREATE TRIGGER {table.name}_no_{verb.lower()} BEFORE {verb} ON {table.name} {is_permitted}BEGIN "
        "SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted'); END"
    )


def _purged(row: str) -> str:
    return f"EXISTS (SELECT 1 FROM tombstones WHERE session_id = {row}.session_id)"


def _where_key(columns: list[str]) -> str:
    return " AND ".join(f"{column} = NEW.{column}" for column in columns)


def _refuse(table: Table, tombstones: Table) -> str:
    """Return the body of a guard: a row whose key is taken, or that brings a rowid, is skipped if it is identical, else
    refused. The row of a request body may have been written in another way (`recorder.store.bodies.rows`): then its
    hash says whether it is.

    A `BEFORE INSERT` guard must do it. `INSERT OR REPLACE` deletes, without a word to the delete trigger, whatever
    row has the key or the rowid of the new one.
    """
    key = _where_key([column.name for column in table.primary_key])
    purged = (
        "SELECT RAISE(ABORT, 'the session was purged: nothing of it is taken any more') "
        "FROM tombstones WHERE session_id = NEW.session_id; "
    )
    return (
        f"{'' if table is tombstones else purged}"
        f"SELECT RAISE(IGNORE) FROM {table.name} WHERE {key} AND {_same(table)}; "
        "SELECT RAISE(ABORT, 'the log is append-only: other content stands at that key') "
        f"FROM {table.name} WHERE {key}; "
        "SELECT RAISE(ABORT, 'the log numbers its own rows: a rowid cannot be chosen') WHERE NEW.rowid >= 0;"
    )


def _same(table: Table) -> str:
    columns = [column.name for column in table.c if not column.primary_key]
    plain = [f"{name} IS NEW.{name}" for name in columns if name not in WRITTEN]
    written = [f"{name} IS NEW.{name}" for name in columns if name in WRITTEN]
    shared = [f"({' AND '.join(written)} OR kind = 'request' AND '{SHARED}' IN (type, NEW.type))"] if written else []
    return " AND ".join([*plain, *shared])


def _insert_guard(table: Table, tombstones: Table) -> str:
    key = _where_key([column.name for column in table.primary_key])
    is_known = f"EXISTS (SELECT 1 FROM {table.name} WHERE {key})"
    is_late = "" if table is tombstones else f" OR {_purged('NEW')}"
    return (
        f"CREATE TRIGGER {table.name}_insert BEFORE INSERT ON {table.name} "
        f"WHEN NEW.rowid >= 0 OR {is_known}{is_late} BEGIN {_refuse(table, tombstones)} END"
    )


def _events_guard(events: Table, tombstones: Table) -> str:
    """Return the guard of `events`: the usual row passes after two seeks, in the primary key and in `events_end`.

    That is a fifth of the cost of an insert. Only a row that fails there is looked at closely. Of a session that was
    purged no exchange has any events, so whatever comes late begins at 0.
    """
    exchange = _where_key(["session_id", "exchange_id"])
    next_pos = f"coalesce((SELECT max(pos) + 1 FROM events WHERE {exchange}), 0)"
    ended = f"EXISTS (SELECT 1 FROM events WHERE {exchange} AND kind = 'end')"
    return (
        "CREATE TRIGGER events_insert BEFORE INSERT ON events "
        f"WHEN NEW.rowid >= 0 OR NEW.pos <> {next_pos} OR NEW.kind <> 'note' AND {ended} "
        f"OR NEW.pos = 0 AND {_purged('NEW')} BEGIN {_refuse(events, tombstones)} "
        f"SELECT RAISE(ABORT, 'the log has no holes: a position would be skipped') WHERE NEW.pos <> {next_pos}; "
        "SELECT RAISE(ABORT, 'the exchange has ended: only a note may follow'); END"
    )
