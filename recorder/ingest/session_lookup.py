"""The session of the log that a request belongs to, by its names or by its history, and its earlier record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Protocol, TypeVar

import msgspec
from sqlalchemy import bindparam, select

from recorder.ingest.message_capture import is_of_client
from recorder.ingest.pending import Batch, OpenExchange
from recorder.model.events import PROBE, Event
from recorder.model.ids import uuid7
from recorder.model.payloads import RequestHead, RequestRecord
from recorder.store.bodies.rows import whole_events
from recorder.store.schema import events, exchanges, tables_of
from recorder.store.sql import Statement, constant
from recorder.store.writer import Store
from recorder.wire.grouping.history import LOOK_BACK_ANSWERS, Chain, broken_off, unanswered
from recorder.wire.grouping.session import Grouping
from recorder.wire.request_body import LoggedRequest

Request = LoggedRequest | None
T = TypeVar("T")


class InTransaction(Protocol):
    """A caller of work on the store: in a transaction, and again until the store takes it."""

    def __call__(self, work: Callable[[], T], /) -> T: ...


PROBES_NS = 86_400 * 10**9
"""The longest that a session of probes goes on: `recorder purge` takes old ones, and an endless one never is old."""

GIVEN = ("path", "header")  # the rules that find a name that the user gave

_REQUEST = Statement(
    select(events)
    .where(events.c.session_id == bindparam("session_id"), events.c.exchange_id == bindparam("exchange_id"))
    .where(events.c.kind == constant("request"))
    .order_by(events.c.pos)
)
SENT_ROWS = 64  # read at a time: an hour of a spoken conversation is some hundred megabytes
_SENT = Statement(
    select(events)
    .where(events.c.session_id == bindparam("session_id"), events.c.exchange_id == bindparam("exchange_id"))
    .where(events.c.kind.in_([constant("sent"), constant("control")]), events.c.pos > bindparam("pos"))
    .order_by(events.c.pos),
    f"LIMIT {SENT_ROWS}",
)


def session_in_store(store: Store, head: RequestHead, grouping: Grouping, batch: Batch) -> str | None:
    """Return the id of the session that has an exchange already, that its grouping names, or whose conversation it
    continues. Inside `store.looking()`; `batch` is what is still to be committed.
    """
    sources = () if grouping.name is None else same_names(grouping.source)
    found, *named = store.sessions_of(head.exchange_id, grouping.name or "", sources)
    if found is None and grouping.name is not None:
        if grouping.source == "previous_response_id":
            found = store.session_of_response(grouping.name)
        found = found or next(filter(None, named), None)
        if grouping.source == PROBE and found and found < uuid7(max(0, head.started_ns - PROBES_NS), bytes(10)):
            found = None
    return found or session_of_history(store, head, grouping, batch)


def same_names(source: str) -> tuple[str, ...]:
    """Return the rules whose names mean the same session: the path and a header both have names of the user."""
    return GIVEN if source in GIVEN else (source,)


def request_in_store(store: Store, in_transaction: InTransaction, exchange_id: str) -> Request:
    """Return a request as an earlier ingester recorded it, maybe with other settings."""

    def found() -> tuple[dict[str, str], list[bytes]]:
        session_id = store.session_of_exchange(exchange_id)
        key = {"session_id": session_id or "", "exchange_id": exchange_id}
        rows = whole_events(store.ask(_REQUEST, key), store.ask) if session_id else ()
        return key, [event.raw for event in rows]

    key, raws = in_transaction(found)
    if not raws:
        return None
    return LoggedRequest(msgspec.json.decode(raws[0], type=RequestRecord), raws, _sent(store, in_transaction, key))


def _sent(store: Store, in_transaction: InTransaction, key: Mapping[str, str]) -> Iterator[bytes]:
    """Yield what the log has of a client after its request, read when it is wanted."""
    pos = -1

    def later() -> list[Event]:
        return [Event(*row) for row in store.ask(_SENT, {**key, "pos": pos})]

    while rows := in_transaction(later):
        pos = rows[-1].pos
        yield from (row.raw for row in rows if row.kind == "sent" or is_of_client(row.raw))


# -- by the history that a request repeats

LOOK_BACK_NS = 7 * 86_400 * 10**9
"""The age up to which a request may continue an exchange: a conversation rests over a weekend. Whoever asks the same
later is more likely to run the same program again.
"""

RECENT = 64  # exchanges that came to one of the same digests: programs ask the same over and over

RETRIED = -1  # the place of a request that got nothing: it is asked again once, by whoever says so

_DIGESTS = [f"digest_{number}" for number in range(2 * LOOK_BACK_ANSWERS + 1)]
_history, _later = tables_of["history"], exchanges.alias()
_is_followed = (
    select(_later.c.exchange_id)
    .where(_later.c.session_id == _history.c.session_id, _later.c.exchange_id > _history.c.exchange_id)
    .exists()
)
_FOUND = Statement(
    select(*_history.c, _is_followed)
    .where(_history.c.digest.in_([bindparam(name) for name in _DIGESTS]))
    .where(_history.c.exchange_id > bindparam("since"))
    .order_by(_history.c.exchange_id.desc()),
    f"LIMIT {RECENT}",
)


def digests_before(grouping: Grouping) -> set[str]:
    """Return the digests of the requests that this one may continue or repeat."""
    history = grouping.history
    if history is None:
        return set()
    return {before for before, _ in history.answers} | ({history.request_digest} if grouping.attempt else set())


def session_of_history(store: Store, head: RequestHead, grouping: Grouping, batch: Batch) -> str | None:
    """Return the session of the exchange that a request continues: the one that has most of its messages, and of
    several with equally many the one that no request has continued. So two conversations with an equal beginning stay
    two.

    `batch` is what is still to be committed. Inside `store.looking()`.
    """
    history = grouping.history
    places = _places(history, is_retry=bool(grouping.attempt)) if history else {}
    if not places:
        return None
    values = {**dict.fromkeys(_DIGESTS, ""), **dict(zip(_DIGESTS, places, strict=False))}
    since = uuid7(max(0, head.started_ns - LOOK_BACK_NS), bytes(10))
    latest = {exchange.session_id: exchange.exchange_id for exchange in batch.exchanges}
    ranked: list[tuple[int, bool, str]] = []
    for session_id, exchange_id, digest, is_followed in store.ask(_FOUND, {**values, "since": since}):
        is_followed = bool(is_followed) or latest.get(session_id, "") > exchange_id
        if not is_followed or places[digest] != RETRIED:
            ranked.append((places[digest], is_followed, session_id))
    return min(ranked, key=itemgetter(0, 1), default=(0, False, None))[2]  # the newest, where they are equal


def _places(history: Chain, *, is_retry: bool) -> dict[str, int]:
    """Return the digests of the exchange before, the likeliest first."""
    places = {unanswered(history.request_digest): RETRIED} if is_retry else {}
    for number, (before, with_answer) in enumerate(history.answers):
        places[with_answer] = 2 * number
        places[broken_off(before)] = 2 * number + 1
    return places


def session_of_open(open: Iterable[OpenExchange], before: set[str]) -> str | None:
    """Return the session of the one open exchange that a request continues: clients may be quicker than the end of a
    stream.
    """
    found = {session_id for each in open for digest, session_id in [each.awaited or ("", None)] if digest in before}
    return found.pop() if len(found) == 1 else None
