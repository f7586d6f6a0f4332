"""The exchanges of all sessions that grow, for whoever follows them."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from sqlalchemy import bindparam, func, or_, select

from recorder.model.ids import first_id
from recorder.store.queries.outlines import of_last_event
from recorder.store.queries.reader import LogReader
from recorder.store.schema import exchanges, sessions
from recorder.store.sql import HAS_ENDED, of_session, struct_of

BEFORE_S = 24 * 3600  # how old an exchange may be and still go on: background responses take hours
LATE_S = 120  # how much later than its request an exchange may appear in the log: a long upload, a busy database


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
