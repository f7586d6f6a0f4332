"""Rows of the log for tests: valid ones, chained as the recorder chains them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import URL

from recorder.model.chain import link, root
from recorder.model.events import Event, Exchange, Kind, Session
from recorder.model.ids import uuid7
from recorder.projections import PROJECTIONS
from recorder.store.writer import Store
from tests.support.superuser import connected

START_NS = 1_790_000_000_000_000_000


def make_id(number: int, at_ns: int = START_NS) -> str:
    """The same number gives the same id; higher numbers and later times give higher ids."""
    return uuid7(at_ns + number * 1_000_000, number.to_bytes(10, "big"))


def make_session(number: int = 1, **fields: Any) -> Session:
    given = {"created_ns": START_NS + number, "name": f"run-{number}", "source": "prefix", "labels": "{}"}
    return Session(**{"session_id": make_id(number), "origin": "live", **given, **fields})


def make_exchange(session: Session, number: int = 1, **fields: Any) -> Exchange:
    given = {"provider": "openai", "api": "openai-responses", "method": "POST", "target": "/v1/responses"}
    ids = {"session_id": session.session_id, "exchange_id": make_id(number), "recorder_id": "recorder-1"}
    return Exchange(**{**ids, "started_ns": START_NS + number * 1_000, **given, **fields})


def make_events(exchange: Exchange, raws: Sequence[bytes], kinds: Sequence[Kind] = ()) -> list[Event]:
    """Events from position 0 on; frames, unless `kinds` says otherwise."""
    chained = root(exchange.session_id, exchange.exchange_id)
    made = []
    for pos, raw in enumerate(raws):
        kind = kinds[pos] if pos < len(kinds) else "frame"
        fields: tuple[Any, ...] = (pos, kind, pos * 1_000, "delta", pos, "msg_1", 0, raw, None, None)
        chained = link(chained, *fields)
        made.append(Event(*(exchange.session_id, exchange.exchange_id, *fields, chained)))
    return made


def make_end(status: str, body_bytes: int = 0) -> bytes:
    return msgspec.json.encode({"status": status, "body_bytes": body_bytes, "lossless": True})


def begin(store: Store, number: int = 1) -> Exchange:
    """A session with one exchange in the store, both of that number."""
    session = make_session(number)
    exchange = make_exchange(session, number)
    with store.transaction():
        store.add_session(session)
        store.add_exchange(exchange)
    return exchange


PROJECTED = (*(each.table for each in PROJECTIONS), "dead_letters", "rebuilds")


def projections(database: Path | URL) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all projections, in an order of their own."""
    with connected(database) as connection:
        return {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in PROJECTED}


def add(store: Store, events: Sequence[Event]) -> None:
    with store.transaction():
        store.append(events)
