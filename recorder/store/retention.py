"""What each session takes in the database, and which of them are to go: by age, by size, or for the rest to fit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import Select, func, select

from recorder.store.schema import events, exchanges, sessions
from recorder.store.sql import constant

AnySelect = Select[*tuple[Any, ...]]


class Holding(msgspec.Struct, frozen=True):
    """A session and what it takes."""

    session_id: str
    name: str
    used_ns: int  # wall time of its newest request; of the session itself if it has none
    exchanges: int
    events: int
    bytes: int  # of its events, requests included


class Limits(msgspec.Struct, frozen=True):
    """What sessions must not be, to stay. Of several all must be passed for one to go."""

    before_ns: int | None = None  # last used before that
    over_bytes: int | None = None  # larger than that
    keep_bytes: int | None = None  # the least recently used of all those that together are larger


def holdings(session_ids: Collection[str] | None = None) -> AnySelect:
    """The statement for some sessions, or all: the least recently used first."""
    told = select(
        exchanges.c.session_id,
        func.count().label("exchanges"),
        func.max(exchanges.c.started_ns).label("used_ns"),
    ).group_by(exchanges.c.session_id)
    held = select(
        events.c.session_id, func.count().label("events"), func.sum(func.length(events.c.raw)).label("bytes")
    ).group_by(events.c.session_id)
    if session_ids is not None:
        told = told.where(exchanges.c.session_id.in_(session_ids))
        held = held.where(events.c.session_id.in_(session_ids))
    told_, held_ = told.subquery(), held.subquery()
    used_ns = func.coalesce(told_.c.used_ns, sessions.c.created_ns).label("used_ns")
    counts = (told_.c.exchanges, held_.c.events, held_.c.bytes)
    statement = (
        select(sessions.c.session_id, sessions.c.name, used_ns, *(func.coalesce(count, 0) for count in counts))
        .join_from(sessions, told_, told_.c.session_id == sessions.c.session_id, isouter=True)
        .join(held_, held_.c.session_id == sessions.c.session_id, isouter=True)
        .order_by(used_ns, sessions.c.session_id)
    )
    return statement if session_ids is None else statement.where(sessions.c.session_id.in_(session_ids))


_end = events.alias("ending")
_has_ended = (
    select(_end.c.pos)
    .where(_end.c.session_id == exchanges.c.session_id, _end.c.exchange_id == exchanges.c.exchange_id)
    .where(_end.c.kind == constant("end"))
    .correlate(exchanges)
    .exists()
)
OPEN: AnySelect = select(exchanges.c.session_id, exchanges.c.recorder_id).where(~_has_ended).distinct()
"""Sessions with an exchange that has not ended, and the recorders that were recording it."""


def chosen(held: Sequence[Holding], limits: Limits, spared: Collection[str] = ()) -> list[Holding]:
    """Of all sessions, the least recently used first, those that are to go. `spared` are ids of some that stay."""
    found = [
        each
        for each in held
        if each.session_id not in spared
        and (limits.before_ns is None or each.used_ns < limits.before_ns)
        and (limits.over_bytes is None or each.bytes > limits.over_bytes)
    ]
    if limits.keep_bytes is None:
        return found
    excess = sum(each.bytes for each in held) - limits.keep_bytes
    going = []
    for each in found:
        if excess <= 0:
            break
        going.append(each)
        excess -= each.bytes
    return going
