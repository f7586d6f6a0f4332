"""How far exchanges have come, asked of the log in one statement: what a follower of many of them looks at."""

from __future__ import annotations

import msgspec
from sqlalchemy import bindparam, func, or_, select

from recorder.store.schema import events, exchanges, sessions


class Progress(msgspec.Struct, frozen=True):
    """How far an exchange has come."""

    session_id: str
    exchange_id: str
    session_name: str
    origin: str
    last_pos: int | None
    ended: bool


_of_exchange = (events.c.session_id == exchanges.c.session_id) & (events.c.exchange_id == exchanges.c.exchange_id)

PROGRESS = (
    select(
        exchanges.c.session_id,
        exchanges.c.exchange_id,
        sessions.c.name,
        sessions.c.origin,
        select(func.max(events.c.pos)).where(_of_exchange).correlate(exchanges).scalar_subquery(),
        select(events.c.pos).where(_of_exchange, events.c.kind == "end").correlate(exchanges).exists(),
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
"""The columns of `Progress`, of exchanges whose id is `since` or later, and of those in `others`."""
