"""The log in a file: compact tables, and the views `exchanges` and `events` over them.

Rules of this file:

* An event of a real stream has 330 bytes, of which 29 name its type and 53 its item. The row has
  numbers for both, and one for its exchange in place of two ids of 36 characters, which stood in
  the row and again in the index.
* An exchange has a number in its file alone: another file, and a server, give it another or none.
  Only this folder knows the numbers; everybody else reads the views.
* A number may be given again when its exchange was purged, so nobody remembers one beyond a
  transaction.
* The key of an event is its exchange and its position, in an index of its own: rows of streams that
  are recorded at once are added at the end of the file one after another, and no page is split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, ForeignKeyConstraint, Index, MetaData, Table, UniqueConstraint, text

from recorder.store.schema import INTEGER, TEXT, events, exchanges, metadata, sessions

compact = MetaData()

stored_exchanges = Table(
    "stored_exchanges",
    compact,
    Column("number", INTEGER, primary_key=True),
    *(Column(column.name, column.type, nullable=column.nullable) for column in exchanges.columns),
    UniqueConstraint("session_id", "exchange_id"),
    ForeignKeyConstraint(["session_id"], [sessions.c.session_id]),
    Index("exchanges_exchange_id", "exchange_id"),
    Index(
        "exchanges_resumes",
        *("session_id", "resumes_response_id"),
        sqlite_where=text("resumes_response_id IS NOT NULL"),
    ),
    sqlite_strict=True,
)


def _of_event() -> Iterator[Column[Any]]:
    """Yield the columns of an event after its key: numbers stand for the type and the item."""
    for column in events.columns:
        if column.name == "type":
            yield Column("type", INTEGER)
        elif column.name == "item_id":
            yield Column("item", INTEGER)
        elif not column.primary_key:
            yield Column(column.name, column.type, nullable=column.nullable)


stored_events = Table(
    "stored_events",
    compact,
    Column("exchange", INTEGER, primary_key=True),
    Column("pos", INTEGER, primary_key=True),
    *_of_event(),
    ForeignKeyConstraint(["exchange"], [stored_exchanges.c.number]),
    # One entry for each exchange that is over: how it ended, without a look at its other events.
    Index("events_end", "exchange", sqlite_where=text("kind = 'end'")),
    sqlite_strict=True,
)

event_types = Table(
    "event_types",
    compact,
    Column("number", INTEGER, primary_key=True),
    Column("type", TEXT, nullable=False),
    UniqueConstraint("type"),
    sqlite_strict=True,
)

event_items = Table(
    "event_items",
    compact,
    Column("number", INTEGER, primary_key=True),
    Column("exchange", INTEGER, nullable=False),
    Column("item_id", TEXT, nullable=False),
    UniqueConstraint("exchange", "item_id"),
    ForeignKeyConstraint(["exchange"], [stored_exchanges.c.number]),
    sqlite_strict=True,
)

STORED = {exchanges.name: stored_exchanges, events.name: stored_events}
"""The tables behind the views, by the names of the views."""

TABLES = [
    *(table for table in metadata.sorted_tables if table.name not in STORED),
    *compact.sorted_tables,
]
"""All tables of a file but those of the full-text index."""


# Not by joins: SQLite leaves one out that a query does not need, but not in a sum, which would look
# up two names a row.
_NAMES = {
    "type": "(SELECT t.type FROM event_types AS t WHERE t.number = e.type) AS type",
    "item_id": "(SELECT i.item_id FROM event_items AS i WHERE i.number = e.item) AS item_id",
}
_SOURCES = {"session_id": "x.session_id", "exchange_id": "x.exchange_id", **_NAMES}
_EVENT = ", ".join(_SOURCES.get(column.name, f"e.{column.name}") for column in events.columns)

LOG_VIEWS = (
    f"CREATE VIEW exchanges AS SELECT {', '.join(column.name for column in exchanges.columns)} FROM stored_exchanges",
    f"""CREATE VIEW events AS
SELECT {_EVENT}
FROM stored_exchanges AS x
JOIN stored_events AS e ON e.exchange = x.number""",
)
