"""An event by its position, and its place among the others of its exchange."""

from __future__ import annotations

import msgspec
from sqlalchemy import bindparam, select, text

from recorder.model.events import Event
from recorder.store.queries.reader import LogReader
from recorder.store.schema import events
from recorder.store.sql import IS_OF_BODY, OF_EXCHANGE, of_exchange

_EVENT = select(events).where(of_exchange(events), events.c.pos == bindparam("pos"))
_BEFORE = text(f"""SELECT (SELECT hash FROM events WHERE {OF_EXCHANGE} AND pos = :pos - 1) AS previous,
    (SELECT coalesce(sum(length(raw)), 0) FROM events
    WHERE {OF_EXCHANGE} AND pos < :pos AND {IS_OF_BODY}) AS size""")


class EventPlace(msgspec.Struct, frozen=True):
    """An event, the hash of the one before it, and the bytes of the decoded response body before
    it.
    """

    event: Event
    previous: bytes | None
    body_offset: int


async def event_place(
    log: LogReader, session_id: str, exchange_id: str, pos: int
) -> EventPlace | None:
    """Return the event at a position, or None if there is none (yet)."""
    key = {"session_id": session_id, "exchange_id": exchange_id}
    rows = await log.rows(_EVENT, **key, pos=pos)
    if not rows:
        return None
    [before] = await log.rows(_BEFORE, **key, pos=pos)
    return EventPlace(await log.event_of(rows[0]), before.previous, int(before.size))
