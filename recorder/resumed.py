"""The events of a response that an earlier exchange received: what a resumed stream goes on from.

A client that was cut off asks for the rest (`GET /responses/{id}?stream=true&starting_after=N`). The numbers go on, so
the earlier events up to N and the exchange's own are the whole response, each number once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from sqlalchemy import ColumnClause, and_, bindparam, func, literal_column, or_, select

from recorder.events import BODY_KINDS, Event, Exchange
from recorder.schema import events, exchanges

FIRST_EVENTS = 8  # a response says its id in one of the first events of its exchange


def constant(value: str | int) -> ColumnClause[Any]:
    """A word or number of this program as a part of the statement: who runs it need not give it."""
    return literal_column(f"'{value}'" if isinstance(value, str) else str(value))


_first = events.alias("first")
_says_id = (
    select(_first.c.pos)
    .where(_first.c.session_id == exchanges.c.session_id, _first.c.exchange_id == exchanges.c.exchange_id)
    .where(_first.c.pos <= constant(FIRST_EVENTS))
    .where(_first.c.kind.in_([constant(kind) for kind in sorted(BODY_KINDS)]))
    .where(func.instr(_first.c.raw, bindparam("quoted_id")) > constant(0))
    .correlate(exchanges)
    .exists()
)

EARLIER_EVENTS = (
    select(events)
    .join(
        exchanges,
        and_(events.c.session_id == exchanges.c.session_id, events.c.exchange_id == exchanges.c.exchange_id),
    )
    .where(exchanges.c.session_id == bindparam("session_id"), exchanges.c.started_ns < bindparam("started_ns"))
    .where(or_(exchanges.c.resumes_response_id == bindparam("response_id"), _says_id))
    .where(events.c.kind == constant("frame"), events.c.sequence_number <= bindparam("until"))
    .order_by(events.c.sequence_number, exchanges.c.started_ns, exchanges.c.exchange_id)
)


def earlier(exchange: Exchange) -> dict[str, Any] | None:
    """What `EARLIER_EVENTS` is asked with; `None` if the exchange resumes nothing, or all of it from the start."""
    if exchange.resumes_response_id is None or exchange.resumes_after is None:
        return None
    return {
        "session_id": exchange.session_id,
        "started_ns": exchange.started_ns,
        "response_id": exchange.resumes_response_id,
        "quoted_id": msgspec.json.encode(exchange.resumes_response_id),
        "until": exchange.resumes_after,
    }


def each_number_once(found: Iterable[Event]) -> Iterator[Event]:
    """Of events in order of their numbers, the first of each."""
    last = None
    for event in found:
        if event.sequence_number != last:
            yield event
        last = event.sequence_number
