"""What the log holds, read from outside (`tests.support.logbook`), by nothing of the reader under
test.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import URL

from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.store.engine import address_of
from recorder.store.location import database_path
from tests.support.postgres import conninfo

_ENTRIES = """
    SELECT s.name, e.* FROM exchanges e JOIN sessions s USING (session_id) ORDER BY e.started_ns, e.exchange_id
"""
_EVENTS = "SELECT * FROM events ORDER BY session_id, exchange_id, pos"


class Entry(NamedTuple):
    """One exchange, whole."""

    session: str  # the name
    exchange: Exchange
    events: list[Event]

    @property
    def body(self) -> bytes:
        """The decoded response body."""
        return b"".join(event.raw for event in self.events if event.kind in BODY_KINDS)

    @property
    def request_body(self) -> bytes:
        return b"".join(
            event.raw for event in self.events if event.kind == "request" and event.type == "body"
        )

    @property
    def end(self) -> dict[str, Any]:
        """How it ended; empty while it has not."""
        ends = [event.raw for event in self.events if event.kind == "end"]
        return dict(json.loads(ends[0])) if ends else {}


def entries(db: Path | URL) -> list[Entry]:
    """Every exchange in order of its start."""
    with asking(db) as ask:
        heads = ask(_ENTRIES)
        rows = _whole([Event(*row) for row in ask(_EVENTS)])
    events: dict[str, list[Event]] = {}
    for row in rows:
        events.setdefault(row.exchange_id, []).append(row)
    made = [(name, Exchange(*columns)) for name, *columns in heads]
    return [Entry(name, exchange, events.get(exchange.exchange_id, [])) for name, exchange in made]


def _whole(rows: list[Event]) -> list[Event]:
    """Request bodies whose rows are recipes, put together as docs/log.md says."""
    recipes = {
        _place(row): msgspec.msgpack.decode(zlib.decompress(row.raw))
        for row in rows
        if _is_recipe(row)
    }
    literals = {_place(row): row.raw for row in rows} | {
        place: recipe[3] for place, recipe in recipes.items()
    }

    def body(place: tuple[str, int]) -> bytes:
        _, sources, runs, literal = recipes[place]
        held = [literal, *(literals[str(UUID(bytes=exchange)), pos] for exchange, pos in sources)]
        return b"".join(held[source][start : start + length] for source, start, length in runs)

    wholes = {place: body(place) for place in recipes}
    return [
        msgspec.structs.replace(row, type="body", raw=wholes[_place(row)])
        if _is_recipe(row)
        else row
        for row in rows
    ]


def _place(row: Event) -> tuple[str, int]:
    return row.exchange_id, row.pos


def _is_recipe(row: Event) -> bool:
    return row.kind == "request" and row.type == "shared"


def all_ended(db: Path | URL, count: int) -> bool:
    """Whether so many exchanges are in the log, and over."""
    return len(found := entries(db)) == count and all(entry.end for entry in found)


def assert_chained(found: Iterable[Entry]) -> None:
    """Positions without a hole, hashes as docs/log.md has them, one `end`, and nothing but notes
    behind it.
    """
    for _, exchange, events in found:
        hash = sha256(_array(*msgspec.structs.astuple(exchange))).digest()
        for pos, event in enumerate(events):
            assert event.pos == pos, f"{exchange.exchange_id} has a hole before {event.pos}"
            fields = _array(
                *(pos, event.kind, event.t_ns, event.type, event.sequence_number, event.item_id),
                *(event.output_index, event.data_start, event.data_length),
            )
            hash = sha256(hash + fields + event.raw).digest()
            assert event.hash == hash, f"{exchange.exchange_id} is broken at {pos}"
        kinds = [event.kind for event in events]
        behind = kinds[kinds.index("end") + 1 :] if "end" in kinds else []
        assert set(behind) <= {"note"}, f"{exchange.exchange_id} goes on after its end"


def _array(*values: object) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


# -- A database as any program sees it, through nothing of recorder but how it writes an id: a file,
# or one on a server


Ask = Callable[..., list[tuple[Any, ...]]]


@contextmanager
def asking(db: Path | URL) -> Iterator[Ask]:
    """Questions to one state of it. Values stand for `?`."""
    if isinstance(db, URL) and not address_of(db).is_local:
        with _on_a_server(db) as ask:
            yield ask
        return
    path = database_path(db) if isinstance(db, URL) else db
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        yield lambda sql, *values: connection.execute(sql, values).fetchall()


@contextmanager
def _on_a_server(url: URL) -> Iterator[Ask]:
    import psycopg

    from recorder.store.postgres.connection import adapt

    with psycopg.connect(conninfo(url), options="-c search_path=recorder") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        adapt(connection)
        yield lambda sql, *values: connection.execute(
            sql.replace("?", "%s").encode(), values
        ).fetchall()
