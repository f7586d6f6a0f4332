"""The log and its projections as tables: columns, keys, views and guards. No engine, no connection.

Rules of this file:

* The columns of a table of the log are the fields of its struct in `recorder.model.events`, in
  order; those of a projection are the fields of its row.
* `session_id` comes first in every key: a session is the unit of distribution, and nothing is
  unique across sessions.
* Types are uuid, text, bigint, double precision and bytea on PostgreSQL, TEXT, INTEGER, REAL and
  BLOB in STRICT tables on SQLite.
* In a file `exchanges` and `events` are views over compact tables (`recorder.store.sqlite.tables`).
  Whoever reads them need not know.
* The guards only prove what the writer already does (`INSERT … ON CONFLICT DO NOTHING`, positions
  in order): on an engine without triggers the log is the same. Projections have none: they are
  written again when they are in doubt.
* A tombstone is the permit to delete its session, and nothing of that session is taken any more.

`migrations/` has the tables as they were when a revision was written, and never imports this; a
test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, get_args

import msgspec
from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    ColumnClause,
    Dialect,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    TableClause,
    Text,
    Uuid,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeEngine

from recorder.errors import StoreError
from recorder.model.events import Event, Exchange, Session
from recorder.model.facts import Usage
from recorder.model.ids import BEFORE_ALL
from recorder.model.prices import KEY as PRICE_KEY
from recorder.model.prices import PriceRow
from recorder.program import load
from recorder.projections.rows import DAY, PROJECTIONS, TABLES

HEAD = "4"  # the newest revision in `migrations/versions`
VERSION_TABLE = "recorder_version"
READ_REVISION = f"SELECT version_num FROM {VERSION_TABLE}"
APPLICATION_ID = 0x53534572  # "SSEr", in the header of a file; a migration sets it

ID = Text().with_variant(Uuid(as_uuid=False), "postgresql")
TEXT = Text()
INTEGER = BigInteger().with_variant(Integer(), "sqlite")
BYTES = LargeBinary()
DOUBLE: TypeEngine[Any] = REAL().with_variant(Double(), "postgresql")

metadata = MetaData()
IN_A_FILE = {"engine": "sqlite"}
"""The `info` of an index that a file has and a server does without."""

_IDS = ("session_id", "exchange_id", "previous_exchange_id")
_TYPES: Mapping[Any, TypeEngine[Any]] = {int: INTEGER, bool: INTEGER, float: DOUBLE, bytes: BYTES}


def _columns(row: type[msgspec.Struct], key: Collection[str]) -> list[Column[Any]]:
    """Return the columns for the fields of a struct. A `Literal` is text, a flag 0 or 1."""
    return [
        _column(field.name, field.type, field.name in key) for field in msgspec.structs.fields(row)
    ]


def _column(name: str, type: Any, is_key: bool) -> Column[Any]:
    types = set(get_args(type)) or {type}
    kind = next(
        (column for python, column in _TYPES.items() if python in types),
        ID if name in _IDS else TEXT,
    )
    return Column(name, kind, primary_key=is_key, nullable=NoneType in types)


def _table(name: str, key: Collection[str], **types: Any) -> Table:
    columns = [_column(column, type, column in key) for column, type in types.items()]
    return Table(name, metadata, *columns, sqlite_strict=True)


sessions = Table(
    "sessions",
    metadata,
    *_columns(Session, ["session_id"]),
    Index("sessions_name", "name"),
    sqlite_strict=True,
)
# A file goes through all sessions by it, with the newest first: of those asked for in an order,
# with a limit, it works out the other columns only of a session that is among the first so far. A
# server does so when it has sorted them.
Index(
    "sessions_newest",
    sessions.c.session_id.desc(),
    *(sessions.c[name] for name in ("name", "created_ns", "origin", "source")),
    info=IN_A_FILE,
)

exchanges = Table(
    "exchanges",
    metadata,
    *_columns(Exchange, ["session_id", "exchange_id"]),
    ForeignKeyConstraint(["session_id"], ["sessions.session_id"]),
    Index("exchanges_exchange_id", "exchange_id"),
)

# Without a key to `exchanges`, which would take more than the insert itself: the writer looks, once
# for a batch.
events = Table("events", metadata, *_columns(Event, ["session_id", "exchange_id", "pos"]))

# One entry for each exchange that is over: how it ended, without a look at its other events.
Index("events_end", events.c.session_id, events.c.exchange_id, sqlite_where=text("kind = 'end'"))

tombstones = _table(
    "tombstones",
    ["session_id"],
    session_id=str,
    purged_ns=int,
    reason=str,
    counts=str,  # a JSON object: `recorder.store.maintain.purge.tombstone.Counts`
    last_hash=bytes | None,
)

# How far each journal is in the log. The rows of `prices` and `export_cursors` change too, and of
# no other table. `seen_ns` is by the clock of the server, and not there in a file: locks tell
# whether a recorder lives whose journal is on this machine.
ingest_offsets = _table(
    "ingest_offsets",
    ["recorder_id"],
    recorder_id=str,
    segment=int,
    offset=int,
    seen_ns=int | None,
    host=str | None,
)

LOG = (sessions, exchanges, events, tombstones)

# Why a row is refused: by the triggers of a file, and by the writer on a server.
OTHER = "the log is append-only: other content stands at that key"
ABSENT = "its exchange is not there"
PURGED = "the session was purged: nothing of it is taken any more"
HOLE = "the log has no holes: a position would be skipped"
ENDED = "the exchange has ended: only a note may follow"


# The tables of the projections, by the projection's name.
tables_of = {
    projection.name: Table(
        projection.table, metadata, *_columns(projection.row, projection.key), sqlite_strict=True
    )
    for projection in PROJECTIONS
}


def view_of(name: str, columns: str) -> TableClause:
    """Return a view of `recorder.projections.views`, of which these columns are read."""
    types = {each: ID for each in columns.split() if each.endswith(("session_id", "exchange_id"))}
    return TableClause(name, *(ColumnClause(each, types.get(each)) for each in columns.split()))


# Exchanges without projections, because their fold raised.
dead_letters = _table(
    "dead_letters", ["session_id", "exchange_id"], session_id=str, exchange_id=str, reason=str
)

# A row means that a rebuild is due or under way, and up to which exchange it has come; '' is the
# beginning.
rebuilds = Table(
    "rebuilds",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("session_id", TEXT, nullable=False),
    Column("exchange_id", TEXT, nullable=False),
    sqlite_strict=True,
)

REBUILD = "projections"  # the one rebuild there is: of all of them at once
REBUILD_FROM_THE_BEGINNING = (
    "DELETE FROM dead_letters",  # of projections that are not there any more
    "DELETE FROM rebuilds",
    f"INSERT INTO rebuilds (name, session_id, exchange_id) VALUES ('{REBUILD}', '{BEFORE_ALL}', '{BEFORE_ALL}')",
)

# Also true if a recorder of an older version has just written an exchange without newer
# projections.
REBUILD_IS_DUE = f"""SELECT EXISTS (SELECT 1 FROM rebuilds) OR EXISTS (
    SELECT 1 FROM (
        SELECT x.session_id, x.exchange_id FROM exchanges AS x WHERE EXISTS (
            SELECT 1 FROM events AS n
            WHERE n.session_id = x.session_id AND n.exchange_id = x.exchange_id AND n.kind = 'end'
        ) ORDER BY x.session_id DESC, x.exchange_id DESC LIMIT 1000
    ) AS e
    WHERE NOT EXISTS (
        SELECT 1 FROM {TABLES["exchanges"]} AS p WHERE p.session_id = e.session_id AND p.exchange_id = e.exchange_id
    ) AND NOT EXISTS (
        SELECT 1 FROM dead_letters AS d WHERE d.session_id = e.session_id AND d.exchange_id = e.exchange_id
    )
)"""
STALE = "The projections are not up to date: run `recorder db rebuild`."

# What providers charge, and since when: no event says it, so no rebuild makes it and no purge
# deletes it.
prices = Table("prices", metadata, *_columns(PriceRow, PRICE_KEY), sqlite_strict=True)

# When a target of exports took the spans and the metrics of an exchange: a row for each exchange,
# because they end, and are imported, in any order. The target is a URL without secrets; spans are
# sent in several forms, metrics in one, so any row of the target may have them. `tool_items` is a
# JSON array: the calls of the response, by their item, whose spans it took, with whichever exchange
# brought the result.
export_cursors = _table(
    "export_cursors",
    ["session_id", "exchange_id", "target", "form"],
    session_id=str,
    exchange_id=str,
    target=str,
    form=str,
    traces_ns=int | None,
    metrics_ns=int | None,
    tool_items=str | None,
)

# The archives that are read together with this log (`recorder.archive.registry`). A URL has no
# password.
archives = _table("archives", ["url"], url=str, attached_ns=int)

# Exchanges that retrieve a response again are few.
_few = text("resumes_response_id IS NOT NULL")
Index(
    "exchanges_resumes", exchanges.c.session_id, exchanges.c.resumes_response_id, sqlite_where=_few
)


def _index(
    projection: str, name: str, *columns: Any, where: str | None = None, **options: Any
) -> None:
    """Declare an index by columns of a projection, over its rows, or over those that a condition is
    true of.
    """
    table = tables_of[projection]
    by = (table.c.get(column, text(column)) for column in columns)
    Index(
        f"{table.name}_{name}", *by, sqlite_where=None if where is None else text(where), **options
    )


# … and those that do are found by their session, so that sums need not look at the others.
_index("exchanges", "retrieval", "session_id", where="is_retrieval = 1")
# All that sums of tokens read, in the order of their most usual keys: a file has the rows of a
# table as they came, with the report of the provider in each, and sorts whatever is not in order. A
# server does without.
_OF_USAGE = ("model", "client", "outcome", "session_id", "exchange_id", "started_ns", "reported")
_index("usage", "sums", DAY, *_OF_USAGE, *Usage.__struct_fields__, info=IN_A_FILE)
_index("exchanges", "response", "session_id", "response_id")
# What a request continues, and what continues it. Few requests have such a link.
_index("requests", "response", "session_id", "response_id", "exchange_id")
for _link in ("previous_response_id", "conversation_id"):
    _name = _link.removesuffix("_id")
    _index("requests", _name, "session_id", _link, "exchange_id", where=f"{_link} IS NOT NULL")
# Of a response whose id rotates, any may be named: such responses are few.
_index("requests", "rotated", "session_id", "exchange_id", where="other_ids IS NOT NULL")
# The indexes that do not begin with a session: they find the session that a request belongs to.
_index("history", "digest", "digest")
_index("history", "request", "request_digest")
_index("results", "call", "session_id", "call_key", "started_ns")
_index("results", "exchange", "session_id", "exchange_id")
_index("user_texts", "exchange", "session_id", "exchange_id")
# What an exchange has of each kind is counted without a look at the texts.
_index("items", "kind", "session_id", "exchange_id", "kind")


def require_head(name: object, revision: str | None) -> None:
    """Raise `StoreError` unless the schema is the one that this program reads."""
    if revision != HEAD:
        load("recorder.store.maintain.migrate:require_known")(name, revision)
        raise StoreError(
            f"The database {name} has an older schema: run `recorder db upgrade --db {name}`."
        )


def table_statements(tables: Iterable[Table], dialect: Dialect) -> Iterator[str]:
    """Yield the statements that create tables, and those of their indexes that the engine of a
    dialect has.
    """
    for table in tables:
        yield str(CreateTable(table).compile(dialect=dialect))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.info.get("engine", dialect.name) == dialect.name:
                yield str(CreateIndex(index).compile(dialect=dialect))
