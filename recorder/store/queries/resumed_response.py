"""The response that an earlier exchange received: its events, which a resumed stream continues, and its session.

A client that lost its stream requests the rest (`GET /responses/{id}?stream=true&starting_after=N`). The numbers
continue, so the earlier events up to N and the exchange's own events are the whole response, each number once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, LargeBinary, and_, bindparam, func, or_, select

from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.store.schema import dead_letters, events, exchanges, sessions, tables_of
from recorder.store.sql import HAS_ENDED, Contains, Statement, constant, of_same_exchange, of_session

FIRST_EVENTS = 8  # a response says its id in one of the first events after its head


def begins(table: Any) -> ColumnElement[bool]:
    """Return the condition that a row of `events` is one of the first of a response body; a long request may precede
    it.
    """
    head = events.alias("head")
    head_pos = (
        select(func.min(head.c.pos))
        .where(of_same_exchange(head, table))
        .where(head.c.kind == constant("response"))
        .correlate(table)
        .scalar_subquery()
    )
    kinds = [constant(kind) for kind in sorted(BODY_KINDS)]
    return and_(table.c.kind.in_(kinds), table.c.pos > head_pos, table.c.pos <= head_pos + constant(FIRST_EVENTS))


_first = events.alias("first")
_says_id = (
    select(_first.c.pos)
    .where(of_same_exchange(_first, exchanges))
    .where(begins(_first), Contains(_first.c.raw, bindparam("quoted_id", type_=LargeBinary)))
    .correlate(exchanges)
    .exists()
)

# First the exchanges, then their events: of all others in the session not one event is read but for the first few.
_having_it = (
    select(exchanges.c.exchange_id)
    .where(of_session(exchanges), exchanges.c.started_ns < bindparam("started_ns"))
    .where(or_(exchanges.c.resumes_response_id == bindparam("response_id"), _says_id))
)
EARLIER_EVENTS = (
    select(events)
    .where(of_session(events), events.c.exchange_id.in_(_having_it))
    .where(events.c.kind.in_([constant("frame"), constant("part")]))
    .where(or_(events.c.sequence_number.is_(None), events.c.sequence_number <= bindparam("until")))
    .order_by(events.c.exchange_id, events.c.pos)
)


def earlier(exchange: Exchange) -> dict[str, Any] | None:
    """Return the parameters of `EARLIER_EVENTS`; None if the exchange resumes nothing, or a response from its start."""
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
    """Yield the events of several exchanges, one after another, without numbers that were there already.

    Of an event in parts, only the last part has the number.
    """
    seen: set[int] = set()
    parts: list[Event] = []
    for event in found:
        if parts and (event.kind != "part" or event.exchange_id != parts[0].exchange_id):
            parts = []
        if event.kind == "part":
            parts.append(event)
        number = event.sequence_number
        if number is not None:
            if number not in seen:
                yield from parts or (event,)
            seen.add(number)
            parts = []


# What an exchange resumes stands in the log, whose partitions take a server longer to plan for than to look into. So it
# is asked first whether a session has an exchange that may resume something; one that could not be folded may.
_retrieved, _failed = (
    select(table.c.exchange_id).where(of_session(table)) for table in (tables_of["exchanges"], dead_letters)
)
MAY_RESUME = _retrieved.where(tables_of["exchanges"].c.is_retrieval == constant(1)).union_all(_failed)
RESUMING = (
    select(exchanges.c.exchange_id)
    .where(of_session(exchanges), exchanges.c.exchange_id != bindparam("exchange_id"))
    .where(exchanges.c.resumes_response_id == bindparam("response_id"), exchanges.c.resumes_after.is_not(None))
    .where(HAS_ENDED)
)
"""The exchanges that resume a response, and so may have been folded before it."""

RECENT_EXCHANGES = 1_000  # how far back a response id is looked for: a bound instead of an index

_recent = (
    select(exchanges.c.session_id, exchanges.c.exchange_id)
    .order_by(exchanges.c.exchange_id.desc())
    .limit(constant(RECENT_EXCHANGES))
    .offset(constant(0))
    .subquery()
)
SESSION_OF_RESPONSE = Statement(
    select(_recent.c.session_id)
    .join(events, of_same_exchange(events, _recent))
    .where(begins(events))
    .where(Contains(events.c.raw, bindparam("quoted_id", type_=LargeBinary)))
    .order_by(_recent.c.exchange_id.desc()),
    "LIMIT 1",
)

# Of a response whose id rotates (GitHub Copilot), clients go on with the last one; that stands far from its beginning.
_exchanges = tables_of["exchanges"]
SESSION_OF_LAST_RESPONSE = Statement(
    select(_recent.c.session_id)
    .join(_exchanges, of_same_exchange(_exchanges, _recent))
    .where(_exchanges.c.last_response_id == bindparam("response_id"))
    .order_by(_recent.c.exchange_id.desc()),
    "LIMIT 1",
)

_items = tables_of["items"]
SESSIONS_OF_LINKS = (
    select(_recent.c.session_id)
    .distinct()
    .join(sessions, sessions.c.session_id == _recent.c.session_id)
    .join(_items, of_same_exchange(_items, _recent))
    .where(sessions.c.source == bindparam("source"))
    .where(
        or_(
            _items.c.item_id.in_(bindparam("links", expanding=True)),
            _items.c.call_id.in_(bindparam("links", expanding=True)),
        )
    )
)
