"""Which session of the log a request belongs to, and what the log has of it already."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from sqlalchemy import bindparam, select

from recorder.ingest.batch import Batch
from recorder.ingest.history_lookup import session_of_history
from recorder.model.events import PROBE
from recorder.model.ids import uuid7
from recorder.model.payloads import RequestHead, RequestRecord
from recorder.store.bodies.rows import whole_events
from recorder.store.schema import events
from recorder.store.sql import Statement, constant
from recorder.store.writer import Store
from recorder.wire.grouping.session import Grouping
from recorder.wire.request_body import ToldRequest

Request = ToldRequest | None
InTransaction = Callable[[Callable[[], Request]], Request]

PROBES_NS = 86_400 * 10**9
"""How long a session of probes goes on: `recorder purge` takes what is old, and one without an end never would be."""

GIVEN = ("path", "header")  # the rules that find a name that the user gave

_REQUEST = Statement(
    select(events)
    .where(events.c.session_id == bindparam("session_id"), events.c.exchange_id == bindparam("exchange_id"))
    .where(events.c.kind == constant("request"))
    .order_by(events.c.pos)
)


def session_in_store(store: Store, head: RequestHead, grouping: Grouping, batch: Batch) -> str | None:
    """The id of the session that an exchange is in already, that its grouping names, or whose conversation it goes on
    with. In a transaction; `batch` is what is still to be committed.
    """
    found = store.session_of_exchange(head.exchange_id)
    if found is None and grouping.name is not None:
        if grouping.source == "previous_response_id":
            found = store.session_of_response(grouping.name)
        for source in same_names(grouping.source):
            found = found or store.session_named(grouping.name, source)
        if grouping.source == PROBE and found and found < uuid7(max(0, head.started_ns - PROBES_NS), bytes(10)):
            found = None
    return found or session_of_history(store, head, grouping, batch)


def same_names(source: str) -> tuple[str, ...]:
    """The rules whose names mean the same session: a name that the user gave is one, in the path or in a header."""
    return GIVEN if source in GIVEN else (source,)


def request_in_store(store: Store, in_transaction: InTransaction, exchange_id: str) -> Request:
    """A request as it was recorded, if an ingester before this one has told it, with other settings."""
    return in_transaction(lambda: _request(store, exchange_id))


def _request(store: Store, exchange_id: str) -> Request:
    session_id = store.session_of_exchange(exchange_id)
    key = {"session_id": session_id, "exchange_id": exchange_id}
    raws = [event.raw for event in whole_events(store.ask(_REQUEST, key), store.ask)] if session_id else []
    return ToldRequest(msgspec.json.decode(raws[0], type=RequestRecord), raws) if raws else None
