"""An event by its position, and its place among the others of its exchange."""

from __future__ import annotations

import msgspec
from sqlalchemy import bindparam, func, select

from recorder.model.events import BODY_KINDS, Event
from recorder.store.queries.reader import LogReader
from recorder.store.schema import events
from recorder.store.sql import of_exchange

_of_pos = (of_exchange(events), events.c.pos == bindparam("pos"))
_EVENT = select(events).where(*_of_pos)
_HASH = select(events.c.hash).where(*_of_pos)
_BODY_BEFORE = select(func.coalesce(func.sum(func.length(events.c.raw)), 0)).where(
    of_exchange(events), events.c.pos < bindparam("pos"), events.c.kind.in_(sorted(BODY_KINDS))
)


class EventPlace(msgspec.Struct, frozen=True):
    """An event, the hash of the one before it, and the bytes of the decoded response body before it."""

    event: Event
    previous: bytes | None
    body_offset: int


async def event_place(log: LogReader, session_id: str, exchange_id: str, pos: int) -> EventPlace | None:
    """Return the event at a position, or None if there is none (yet)."""
    key = {"session_id": session_id, "exchange_id": exchange_id}
    rows = await log.rows(_EVENT, **key, pos=pos)
    if not rows:
        return None
    before = await log.rows(_HASH, **key, pos=pos - 1)
    [(offset,)] = await log.rows(_BODY_BEFORE, **key, pos=pos)
    return EventPlace(await log.event_of(rows[0]), before[0].hash if before else None, int(offset))
