"""The response that an earlier exchange received: its events, which a resumed stream continues, and
its session.

A client that lost its stream requests the rest
(`GET /responses/{id}?stream=true&starting_after=N`). The numbers continue, so the earlier events up
to N and the exchange's own events are the whole response, each number once. Where events have ids
(`last_event_id`), so are those up to that event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from sqlalchemy import Text, bindparam, select
from sqlalchemy import text as sql

from recorder.model.events import Event, Exchange
from recorder.projections.rows import TABLES
from recorder.store.schema import events
from recorder.store.sql import FORMS, IS_OF_BODY, OfEngine, Statement, has_ended
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import request_object, text
from recorder.wire.framing.sse import parse

FIRST_EVENTS = 8  # a response says its id in one of the first events after its head


def _begins(engine: str, row: str) -> str:
    """Return the condition that an event is one of the first of a response body and contains an id;
    a long request may precede it.
    """
    head = f"""(SELECT min(head.pos) FROM events AS head
        WHERE head.session_id = {row}.session_id AND head.exchange_id = {row}.exchange_id AND head.kind = 'response')"""
    contains = FORMS[engine].contains.format(whole=f"{row}.raw", part=":quoted_id")
    return f"{row}.{IS_OF_BODY} AND {row}.pos > {head} AND {row}.pos <= {head} + {FIRST_EVENTS} AND {contains}"


def _earlier(engine: str) -> str:
    """Return the condition on the events of exchanges that have a response.

    First the exchanges, then their events: of all others in the session not one event is read but
    for the first few.
    """
    says_id = f"""EXISTS (SELECT 1 FROM events AS f
        WHERE f.session_id = x.session_id AND f.exchange_id = x.exchange_id AND {_begins(engine, "f")})"""
    return f"""session_id = :session_id AND kind IN ('frame', 'part', 'body')
    AND (sequence_number IS NULL OR sequence_number <= :until)
    AND exchange_id IN (SELECT x.exchange_id FROM exchanges AS x
        WHERE x.session_id = :session_id AND x.started_ns < :started_ns
        AND (x.resumes_response_id = :response_id OR {says_id}))"""


EARLIER_EVENTS = (
    select(events).where(OfEngine(_earlier)).order_by(events.c.exchange_id, events.c.pos)
)


def earlier(exchange: Exchange) -> dict[str, Any] | None:
    """Return the parameters of `EARLIER_EVENTS`; None if the exchange resumes nothing, or a
    response from its start.
    """
    if exchange.resumes_response_id is None or exchange.resumes_after is None:
        return None
    return {
        "session_id": exchange.session_id,
        "started_ns": exchange.started_ns,
        "response_id": exchange.resumes_response_id,
        "quoted_id": msgspec.json.encode(exchange.resumes_response_id),
        "until": exchange.resumes_after,
    }


def before(exchange: Exchange, found: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of the same response from before an exchange, each once as far as its number
    or its id says it.

    Those of a hosted session have ids, by which its decoder knows them; a list of them is one
    document.
    """
    dialect = by_name(exchange.api)
    if dialect.response_routes is not None and dialect.response_routes.event_id is not None:
        parameters = dict(parse_qsl(exchange.target.partition("?")[2]))
        mark = partial(_id_of_event, dialect.response_routes.event_id)
        yield from each_once(found, mark, parameters.get(dialect.response_routes.after))
        return
    if dialect.hosted is None:
        yield from each_once(found, _number)
        return
    for (kind, _), same in groupby(found, lambda event: (event.kind, event.exchange_id)):
        if kind == "body":
            pieces = list(same)
            yield msgspec.structs.replace(pieces[0], raw=b"".join([piece.raw for piece in pieces]))
        else:
            yield from same


def each_once(
    found: Iterable[Event], mark: Callable[[Sequence[Event]], object], last: object = None
) -> Iterator[Event]:
    """Yield the events of several exchanges, one after another, without those whose mark was there
    already.

    The one that is marked `last` ends it. Of an event in parts, only the last part has a mark, or
    all of them together.
    """
    seen: set[object] = set()
    parts: list[Event] = []
    for event in found:
        if parts and (event.kind != "part" or event.exchange_id != parts[0].exchange_id):
            parts = []
        if event.kind == "part":
            parts.append(event)
        found_mark = mark(parts or [event])
        if found_mark is None:
            continue
        if found_mark not in seen:
            yield from parts or (event,)
        if found_mark == last:
            return
        seen.add(found_mark)
        parts = []


def _number(parts: Sequence[Event]) -> int | None:
    return parts[-1].sequence_number


def _id_of_event(member: str, parts: Sequence[Event]) -> str | None:
    payload = parse(b"".join([part.raw for part in parts])).data
    return text(request_object(payload or b""), member)


# What an exchange resumes stands in the log, whose partitions take a server longer to plan for than
# to look into. So it is asked first whether a session has an exchange that may resume something;
# one that could not be folded may.
MAY_RESUME = Statement(f"""SELECT exchange_id FROM {TABLES["exchanges"]}
WHERE session_id = :session_id AND is_retrieval = 1
UNION ALL SELECT exchange_id FROM dead_letters WHERE session_id = :session_id LIMIT 1""")
RESUMING = Statement(f"""SELECT exchange_id FROM exchanges
WHERE session_id = :session_id AND exchange_id <> :exchange_id
    AND resumes_response_id = :response_id AND resumes_after IS NOT NULL AND {has_ended("exchanges")}""")
"""The exchanges that resume a response, and so may have been folded before it."""

RECENT_EXCHANGES = 1_000  # how far back a response id is looked for: a bound instead of an index

_RECENT = f"(SELECT session_id, exchange_id FROM exchanges ORDER BY exchange_id DESC LIMIT {RECENT_EXCHANGES}) AS r"
_LAST = "ORDER BY r.exchange_id DESC LIMIT 1"


def _of_response(engine: str) -> str:
    in_head = FORMS[engine].contains.format(whole="e.raw", part=":quoted_id")
    return f"""SELECT r.session_id FROM {_RECENT}
JOIN events AS e ON e.session_id = r.session_id AND e.exchange_id = r.exchange_id
WHERE ({_begins(engine, "e")} OR (e.kind = 'response' AND {in_head})) {_LAST}"""


SESSION_OF_RESPONSE = Statement(_of_response)
# Of a response whose id rotates (GitHub Copilot), clients go on with the last one; that stands far
# from its beginning.
SESSION_OF_LAST_RESPONSE = Statement(f"""SELECT r.session_id FROM {_RECENT}
JOIN {TABLES["exchanges"]} AS p ON p.session_id = r.session_id AND p.exchange_id = r.exchange_id
WHERE p.last_response_id = :response_id {_LAST}""")
SESSIONS_OF_LINKS = sql(f"""SELECT DISTINCT r.session_id FROM {_RECENT}
JOIN sessions AS s ON s.session_id = r.session_id
JOIN {TABLES["items"]} AS i ON i.session_id = r.session_id AND i.exchange_id = r.exchange_id
WHERE s.source = :source AND (i.item_id IN :links OR i.call_id IN :links)
""").bindparams(bindparam("links", type_=Text, expanding=True))
