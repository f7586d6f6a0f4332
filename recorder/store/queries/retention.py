"""The size of each session in the database, and the policy that selects sessions to purge by age, size, or in total."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import Select, func, select, text

from recorder.store.queries.reader import LogReader
from recorder.store.schema import events, exchanges, sessions
from recorder.store.sql import has_ended, struct_of

AnySelect = Select[*tuple[Any, ...]]


class SessionSize(msgspec.Struct, frozen=True):
    """A session and the size of its events."""

    session_id: str
    name: str
    used_ns: int  # wall time of its newest request; of the session itself if it has none
    exchanges: int
    events: int
    bytes: int  # of its events, requests included


class RetentionPolicy(msgspec.Struct, frozen=True):
    """Bounds on sessions. A session expires when it passes all that are given."""

    before_ns: int | None = None  # last used before that
    over_bytes: int | None = None  # larger than that
    keep_bytes: int | None = None  # the least recently used of all those that together are larger


async def holdings(log: LogReader, session_ids: Collection[str] | None = None) -> list[SessionSize]:
    """Return the sizes of some sessions, or of all: the least recently used first."""
    return [struct_of(SessionSize, row) for row in await log.rows(_session_sizes(session_ids))]


async def recorders_of_open(log: LogReader) -> dict[str, set[str]]:
    """Return the recorders of exchanges that have not ended, by session."""
    recorders: dict[str, set[str]] = {}
    for row in await log.rows(_OPEN):
        recorders.setdefault(row.session_id, set()).add(row.recorder_id)
    return recorders


def _session_sizes(session_ids: Collection[str] | None) -> AnySelect:
    of_exchanges = select(
        exchanges.c.session_id,
        func.count().label("exchanges"),
        func.max(exchanges.c.started_ns).label("used_ns"),
    ).group_by(exchanges.c.session_id)
    of_events = select(
        events.c.session_id, func.count().label("events"), func.sum(func.length(events.c.raw)).label("bytes")
    ).group_by(events.c.session_id)
    if session_ids is not None:
        of_exchanges = of_exchanges.where(exchanges.c.session_id.in_(session_ids))
        of_events = of_events.where(events.c.session_id.in_(session_ids))
    of_exchanges_, of_events_ = of_exchanges.subquery(), of_events.subquery()
    used_ns = func.coalesce(of_exchanges_.c.used_ns, sessions.c.created_ns).label("used_ns")
    sums = (of_exchanges_.c.exchanges, of_events_.c.events, of_events_.c.bytes)
    counts = [func.coalesce(each, 0).label(each.name) for each in sums]
    statement = (
        select(
            sessions.c.session_id,
            sessions.c.name,
            used_ns,
            *counts,
        )
        .join_from(sessions, of_exchanges_, of_exchanges_.c.session_id == sessions.c.session_id, isouter=True)
        .join(of_events_, of_events_.c.session_id == sessions.c.session_id, isouter=True)
        .order_by(used_ns, sessions.c.session_id)
    )
    return statement if session_ids is None else statement.where(sessions.c.session_id.in_(session_ids))


# Sessions with an exchange that has not ended, and the recorders that were recording it.
_OPEN: AnySelect = (
    select(exchanges.c.session_id, exchanges.c.recorder_id).where(text(f"NOT {has_ended('exchanges')}")).distinct()
)


def expired(sizes: Sequence[SessionSize], limits: RetentionPolicy, spared: Collection[str] = ()) -> list[SessionSize]:
    """Return the sessions to purge, from all sessions with the least recently used first. `spared` are ids to keep."""
    found = [
        each
        for each in sizes
        if each.session_id not in spared
        and (limits.before_ns is None or each.used_ns < limits.before_ns)
        and (limits.over_bytes is None or each.bytes > limits.over_bytes)
    ]
    if limits.keep_bytes is None:
        return found
    excess = sum(each.bytes for each in sizes) - limits.keep_bytes
    going = []
    for each in found:
        if excess <= 0:
            break
        going.append(each)
        excess -= each.bytes
    return going
