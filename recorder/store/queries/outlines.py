"""How far each exchange of a session has come: a line for each, without a look at most of its events."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from sqlalchemy import bindparam, func, or_, select

from recorder.model.ids import first_id
from recorder.store.queries.reader import LogReader
from recorder.store.schema import events, exchanges, sessions, tables_of
from recorder.store.sql import HAS_ENDED, constant, of_same_exchange, of_session, struct_of

BEFORE_S = 24 * 3600  # how old an exchange may be and still go on: background responses take hours
LATE_S = 120  # how much later than its request an exchange may appear in the log: a long upload, a busy database

_event = events.alias("event")
_projected = tables_of["exchanges"]


# A part of an exchange, and not a join: in a file `events` is a view of two tables, and SQLite would go through all of
# it for an outer join.
def of_last_event(name: str) -> Any:
    """Return a column of the last event of an exchange."""
    last = select(_event.c[name]).where(of_same_exchange(_event, exchanges)).order_by(_event.c.pos.desc())
    return last.limit(constant(1)).correlate(exchanges).scalar_subquery()


EVENTS = func.coalesce(of_last_event("pos") + 1, 0).label("events")

_OUTLINES = (
    select(
        exchanges.c.exchange_id,
        EVENTS,
        func.coalesce(of_last_event("t_ns"), 0).label("duration_ns"),
        HAS_ENDED.label("has_ended"),
        _projected.c.status,
        _projected.c.purpose,
    )
    .join_from(exchanges, _projected, of_same_exchange(_projected, exchanges), isouter=True)
    .where(of_session(exchanges))
)


class Outline(msgspec.Struct, frozen=True):
    """An exchange in a few words: how far it has come, and what the projections have of it once it has ended."""

    exchange_id: str
    events: int
    duration_ns: int  # up to its last event
    has_ended: bool
    status: str | None
    purpose: str | None


async def outlines(log: LogReader, session_id: str) -> list[Outline]:
    """Return how far each exchange of a session has come, in no order."""
    rows = await log.rows(_OUTLINES, session_id=session_id)
    return [
        Outline(row.exchange_id, row.events, row.duration_ns, bool(row.has_ended), row.status, row.purpose)
        for row in rows
    ]


async def spans(log: LogReader, session_id: str) -> dict[str, int]:
    """Return the nanoseconds that each exchange of a session has taken so far, up to its last event."""
    begun = [each for each in await outlines(log, session_id) if each.events]
    return {each.exchange_id: each.duration_ns for each in begun}


# -- those of all sessions that grow, for whoever follows them


class ExchangeProgress(msgspec.Struct, frozen=True):
    """An exchange, its session, and how many events of it the log has."""

    session_id: str
    exchange_id: str
    session_name: str
    origin: str
    last_pos: int  # of its last event; -1 without one
    ended: bool


_PROGRESS = (
    select(
        exchanges.c.session_id,
        exchanges.c.exchange_id,
        sessions.c.name.label("session_name"),
        sessions.c.origin,
        func.coalesce(of_last_event("pos"), -1).label("last_pos"),
        HAS_ENDED.label("ended"),
    )
    .join_from(exchanges, sessions, exchanges.c.session_id == sessions.c.session_id)
    .where(
        or_(
            exchanges.c.exchange_id >= bindparam("since"),
            exchanges.c.exchange_id.in_(bindparam("others", expanding=True)),
        )
    )
    .order_by(exchanges.c.exchange_id)
)
_PROGRESS_OF_SESSION = _PROGRESS.where(of_session(exchanges))


def id_ago(now_ns: int, ago_s: int) -> str:
    """Return the smallest id of an exchange that began so long ago."""
    return first_id(now_ns - ago_s * 1_000_000_000)


async def progress(
    log: LogReader, since: str, others: Collection[str] = (), session_id: str | None = None
) -> list[ExchangeProgress]:
    """Return how far exchanges have come whose id is `since` or later, and some `others`, in order of their ids: of one
    session, or of all.
    """
    asked = {"since": since, "others": list(others)}
    if session_id is None:
        rows = await log.rows(_PROGRESS, **asked)
    else:
        rows = await log.rows(_PROGRESS_OF_SESSION, session_id=session_id, **asked)
    return [struct_of(ExchangeProgress, row) for row in rows]
