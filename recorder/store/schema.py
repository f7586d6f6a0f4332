"""The log and its projections as tables: columns, keys, views and guards. No engine, no connection.

Rules of this file:

* The columns of a table of the log are the fields of its struct in `recorder.model.events`, in order; those of a
  projection are the fields of its row.
* `session_id` comes first in every key: a session is the unit of distribution, and nothing is unique across sessions.
* Types are uuid, text, bigint, double precision and bytea on PostgreSQL, TEXT, INTEGER, REAL and BLOB in STRICT tables
  on SQLite.
* In a file `exchanges` and `events` are views over compact tables (`recorder.store.sqlite.tables`). Whoever reads them
  need not know.
* The guards only prove what the writer already does (`INSERT … ON CONFLICT DO NOTHING`, positions in order): on an
  engine without triggers the log is the same. Projections have none: they are written again when they are in doubt.
* A tombstone is the permit to delete its session, and nothing of that session is taken any more.

`migrations/` has the tables as they were when a revision was written, and never imports this; a test holds the two
against each other.
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
    Dialect,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeEngine

from recorder.errors import StoreError
from recorder.model.events import Event, Exchange, Session
from recorder.model.facts import Usage
from recorder.model.prices import KEY as PRICE_KEY
from recorder.model.prices import PriceRow
from recorder.program import load
from recorder.projections.rows import DAY, PROJECTIONS, TABLES

HEAD = "1"  # the newest revision in `migrations/versions`
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
    return [_column(field.name, field.type, field.name in key) for field in msgspec.structs.fields(row)]


def _column(name: str, type: Any, is_key: bool) -> Column[Any]:
    types = set(get_args(type)) or {type}
    kind = next((column for python, column in _TYPES.items() if python in types), ID if name in _IDS else TEXT)
    return Column(name, kind, primary_key=is_key, nullable=NoneType in types)


sessions = Table(
    "sessions",
    metadata,
    *_columns(Session, ["session_id"]),
    Index("sessions_name", "name"),
    sqlite_strict=True,
)
# A file goes through all sessions by it, with the newest first: of those asked for in an order, with a limit, it works
# out the other columns only of a session that is among the first so far. A server does so when it has sorted them.
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

# Without a key to `exchanges`, which would take more than the insert itself: the writer looks, once for a batch.
events = Table("events", metadata, *_columns(Event, ["session_id", "exchange_id", "pos"]))

# One entry for each exchange that is over: how it ended, without a look at its other events.
Index("events_end", events.c.session_id, events.c.exchange_id, sqlite_where=text("kind = 'end'"))

tombstones = Table(
    "tombstones",
    metadata,
    Column("session_id", ID, primary_key=True),
    Column("purged_ns", INTEGER, nullable=False),
    Column("reason", TEXT, nullable=False),
    Column("counts", TEXT, nullable=False),  # a JSON object: `recorder.store.maintain.purge.tombstone.Counts`
    Column("last_hash", BYTES),
    sqlite_strict=True,
)

# How far each journal is in the log. The rows of `prices` and `export_cursors` change too, and of no other table.
# `seen_ns` is by the clock of the server, and not there in a file: locks tell whether a recorder lives whose journal is
# on this machine.
ingest_offsets = Table(
    "ingest_offsets",
    metadata,
    Column("recorder_id", TEXT, primary_key=True),
    Column("segment", INTEGER, nullable=False),
    Column("offset", INTEGER, nullable=False),
    Column("seen_ns", INTEGER),
    Column("host", TEXT),
    sqlite_strict=True,
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
    projection.name: Table(projection.table, metadata, *_columns(projection.row, projection.key), sqlite_strict=True)
    for projection in PROJECTIONS
}

# Exchanges without projections, because their fold raised.
dead_letters = Table(
    "dead_letters",
    metadata,
    Column("session_id", ID, primary_key=True),
    Column("exchange_id", ID, primary_key=True),
    Column("reason", TEXT, nullable=False),
    sqlite_strict=True,
)

# A row means that a rebuild is due or under way, and up to which exchange it has come; '' is the beginning.
rebuilds = Table(
    "rebuilds",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("session_id", TEXT, nullable=False),
    Column("exchange_id", TEXT, nullable=False),
    sqlite_strict=True,
)

# Also true if a recorder of an older version has just written an exchange without newer projections.
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

# What providers charge, and since when: no event says it, so no rebuild makes it and no purge deletes it.
prices = Table("prices", metadata, *_columns(PriceRow, PRICE_KEY), sqlite_strict=True)

# When a target of exports took the spans and the metrics of an exchange: a row for each exchange, because they end, and
# are imported, in any order. The target is a URL without secrets; spans are sent in several forms, metrics in one, so
# any row of the target may have them. `tool_items` is a JSON array: the calls of the response, by their item, whose
# spans it took, with whichever exchange brought the result.
export_cursors = Table(
    "export_cursors",
    metadata,
    Column("session_id", ID, primary_key=True),
    Column("exchange_id", ID, primary_key=True),
    Column("target", TEXT, primary_key=True),
    Column("form", TEXT, primary_key=True),
    Column("traces_ns", INTEGER),
    Column("metrics_ns", INTEGER),
    Column("tool_items", TEXT),
    sqlite_strict=True,
)

# The archives that are read together with this log (`recorder.archive.registry`). A URL has no password.
archives = Table(
    "archives",
    metadata,
    Column("url", TEXT, primary_key=True),
    Column("attached_ns", INTEGER, nullable=False),
    sqlite_strict=True,
)

# Exchanges that retrieve a response again are few.
Index(
    "exchanges_resumes",
    exchanges.c.session_id,
    exchanges.c.resumes_response_id,
    sqlite_where=text("resumes_response_id IS NOT NULL"),
)
# … and those that do are found by their session, so that sums need not look at the others.
Index(
    f"{TABLES['exchanges']}_retrieval",
    tables_of["exchanges"].c.session_id,
    sqlite_where=text("is_retrieval = 1"),
)
# All that sums of tokens read, in the order of their most usual keys: a file has the rows of a table as they came, with
# the report of the provider in each, and sorts whatever is not in order. A server does without.
_usage = tables_of["usage"].c
Index(
    f"{TABLES['usage']}_sums",
    text(DAY),
    *(_usage[name] for name in ("model", "client", "outcome", "session_id", "exchange_id", "started_ns", "reported")),
    *(_usage[name] for name in Usage.__struct_fields__),
    info=IN_A_FILE,
)
Index(f"{TABLES['exchanges']}_response", tables_of["exchanges"].c.session_id, tables_of["exchanges"].c.response_id)
# What a request continues, and what continues it. Few requests have such a link.
_requests = tables_of["requests"]
Index(f"{_requests.name}_response", _requests.c.session_id, _requests.c.response_id, _requests.c.exchange_id)
for _link in ("previous_response_id", "conversation_id"):
    Index(
        f"{_requests.name}_{_link.removesuffix('_id')}",
        *(_requests.c.session_id, _requests.c[_link], _requests.c.exchange_id),
        sqlite_where=text(f"{_link} IS NOT NULL"),
    )
# Of a response whose id rotates, any may be named: such responses are few.
Index(
    f"{_requests.name}_rotated",
    *(_requests.c.session_id, _requests.c.exchange_id),
    sqlite_where=text("other_ids IS NOT NULL"),
)
# The indexes that do not begin with a session: they find the session that a request belongs to.
Index(f"{TABLES['history']}_digest", tables_of["history"].c.digest)
Index(f"{TABLES['history']}_request", tables_of["history"].c.request_digest)
Index(f"{TABLES['results']}_call", *(tables_of["results"].c[name] for name in ("session_id", "call_key", "started_ns")))
Index(f"{TABLES['results']}_exchange", tables_of["results"].c.session_id, tables_of["results"].c.exchange_id)
Index(
    f"{TABLES['user_texts']}_exchange",
    *(tables_of["user_texts"].c[name] for name in ("session_id", "exchange_id")),
)
# What an exchange has of each kind is counted without a look at the texts.
Index(f"{TABLES['items']}_kind", *(tables_of["items"].c[name] for name in ("session_id", "exchange_id", "kind")))


def require_head(name: object, revision: str | None) -> None:
    """Raise `StoreError` unless the schema is the one that this program reads."""
    if revision != HEAD:
        load("recorder.store.maintain.migrate:require_known")(name, revision)
        raise StoreError(f"The database {name} has an older schema: run `recorder db upgrade`.")


def table_statements(tables: Iterable[Table], dialect: Dialect) -> Iterator[str]:
    """Yield the statements that create tables, and those of their indexes that the engine of a dialect has."""
    for table in tables:
        yield str(CreateTable(table).compile(dialect=dialect))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.info.get("engine", dialect.name) == dialect.name:
                yield str(CreateIndex(index).compile(dialect=dialect))
