"""What the log holds, read with nothing but `sqlite3`: evidence that does not come from the reader under test."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from recorder.events import BODY_KINDS, Event, Exchange, link, root

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
        return b"".join(event.raw for event in self.events if event.kind == "request" and event.type == "body")

    @property
    def end(self) -> dict[str, Any]:
        """How it ended; empty while it has not."""
        ends = [event.raw for event in self.events if event.kind == "end"]
        return dict(json.loads(ends[0])) if ends else {}


def entries(db: Path) -> list[Entry]:
    """Every exchange in order of its start."""
    with closing(sqlite3.connect(f"{db.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        heads = connection.execute(_ENTRIES).fetchall()
        rows = [Event(*row) for row in connection.execute(_EVENTS)]
    events: dict[str, list[Event]] = {}
    for row in rows:
        events.setdefault(row.exchange_id, []).append(row)
    made = [(name, Exchange(*columns)) for name, *columns in heads]
    return [Entry(name, exchange, events.get(exchange.exchange_id, [])) for name, exchange in made]


def all_ended(db: Path, count: int) -> bool:
    """Whether so many exchanges are in the log, and over."""
    return len(found := entries(db)) == count and all(entry.end for entry in found)


def assert_chained(found: Iterable[Entry]) -> None:
    """Positions without a hole, hashes that hold each other, one `end`, and that one last."""
    for _, exchange, events in found:
        hash = root(exchange.session_id, exchange.exchange_id)
        for pos, event in enumerate(events):
            assert event.pos == pos, f"{exchange.exchange_id} has a hole before {event.pos}"
            hash = link(
                *(hash, pos, event.kind, event.t_ns, event.type, event.sequence_number, event.item_id),
                *(event.output_index, event.raw, event.data_start, event.data_length),
            )
            assert event.hash == hash, f"{exchange.exchange_id} is broken at {pos}"
        ends = [event.pos for event in events if event.kind == "end"]
        assert ends in ([], [len(events) - 1]), f"{exchange.exchange_id} goes on after its end"
