"""The rows of a session in all tables at one moment, without its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import msgspec
from sqlalchemy import Table

from recorder.model.events import Exchange, Session
from recorder.store.maintain.purge.tombstone import ARCHIVED, Tombstone
from recorder.store.schema import LOG, dead_letters, events, exchanges, sessions, tables_of, tombstones
from recorder.store.sql import Statement

Ask = Callable[[Statement, Mapping[str, Any]], list[Any]]
"""The rows of a statement with values by name."""

_PROJECTED = (*tables_of.values(), dead_letters)
SESSION_IDS = Statement(
    " UNION ".join(
        f"SELECT DISTINCT session_id FROM {table.name}" for table in (*LOG, *_PROJECTED) if table is not events
    )
)
# `DISTINCT` would read every key of the largest table there is: this seeks from one session to the next.
SESSION_IDS_OF_EVENTS = Statement("""WITH RECURSIVE found(session_id) AS (
    SELECT (SELECT session_id FROM events ORDER BY session_id LIMIT 1)
    UNION ALL
    SELECT (SELECT session_id FROM events WHERE session_id > found.session_id ORDER BY session_id LIMIT 1) FROM found
    WHERE found.session_id IS NOT NULL
) SELECT session_id FROM found WHERE session_id IS NOT NULL""")

_HERE = (f"EXISTS (SELECT 1 FROM {table.name} WHERE session_id = :id)" for table in (*LOG, *_PROJECTED))
HAS = Statement(f"SELECT {' OR '.join(_HERE)}")


def all_of(table: Table) -> str:
    return f"SELECT {', '.join(column.name for column in table.c)} FROM {table.name} WHERE session_id = :id"


def differing_keys(table: Table, schemas: Sequence[str], key: str, condition: str = "") -> str:
    """Return the select of the keys of rows that a table has in one schema and not in the other."""
    columns = ", ".join(f'"{column.name}"' for column in table.c)
    sides = [f"SELECT {columns} FROM {schema}.{table.name} {condition}" for schema in schemas]
    return " UNION ".join(f"SELECT {key} FROM ({one} EXCEPT {other}) AS rest" for one, other in permutations(sides))


def _exchange_ids(tables: Iterable[Table]) -> str:
    return " UNION ".join(f"SELECT exchange_id FROM {table.name} WHERE session_id = :id" for table in tables)


_SESSION, _EXCHANGES = Statement(all_of(sessions)), Statement(all_of(exchanges))
_TOMBSTONE = Statement(all_of(tombstones))
_COUNTS = Statement("SELECT exchange_id, count(*) FROM events WHERE session_id = :id GROUP BY exchange_id")
_PROJECTED_IDS = Statement(_exchange_ids(_PROJECTED))
_ENDED = Statement(_exchange_ids((tables_of["exchanges"], dead_letters)))


class SessionRows(msgspec.Struct):
    """The rows of one session."""

    session: Session | None
    tombstone: Tombstone | None
    exchanges: Mapping[str, Exchange]
    counts: Mapping[str, int]  # of events, by exchange
    projected: set[str]  # exchanges of which there are projections
    ended: set[str]  # exchanges that have ended, as the projections say

    @property
    def is_purged(self) -> bool:
        return self.tombstone is not None

    @property
    def archive(self) -> str | None:
        """The name of the archive that the session went to; empty if that is not known."""
        if self.tombstone is None or self.tombstone.reason != ARCHIVED:
            return None
        return self.tombstone.archive or ""


def session_rows(ask: Ask, session_id: str) -> SessionRows:
    """Read the rows of a session. In one transaction: else a row that is recorded meanwhile would seem to belong to
    nothing.
    """
    key = {"id": session_id}
    begun = [Exchange(*row) for row in ask(_EXCHANGES, key)]
    return SessionRows(
        session=next((Session(*row) for row in ask(_SESSION, key)), None),
        tombstone=next((Tombstone(*row) for row in ask(_TOMBSTONE, key)), None),
        exchanges={exchange.exchange_id: exchange for exchange in begun},
        counts=dict(ask(_COUNTS, key)),
        projected={exchange_id for (exchange_id,) in ask(_PROJECTED_IDS, key)},
        ended={exchange_id for (exchange_id,) in ask(_ENDED, key)},
    )
