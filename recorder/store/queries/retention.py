"""The size of each session in the database, and the policy that selects sessions to purge by age,
size, or in total.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import TextClause, text

from recorder.store.queries.reader import LogReader
from recorder.store.sql import has_ended, of_named, size_of, struct_of


class SessionSize(msgspec.Struct, frozen=True):
    """A session and the size of its events."""

    session_id: str
    "Id of the session, a UUIDv7."
    name: str
    "Name of the session."
    used_ns: int  # of the session itself if it has none
    "Wall time of its newest request."
    exchanges: int
    "Number of exchanges."
    events: int
    "Number of events."
    bytes: int  # requests included
    "Bytes of its events."


class RetentionPolicy(msgspec.Struct, frozen=True):
    """Bounds on sessions. A session expires when it passes all that are given."""

    before_ns: int | None = None  # last used before that
    over_bytes: int | None = None  # larger than that
    keep_bytes: int | None = None  # the least recently used of all those that together are larger


async def holdings(log: LogReader, session_ids: Collection[str] | None = None) -> list[SessionSize]:
    """Return the sizes of some sessions, or of all: the least recently used first."""
    return [
        struct_of(SessionSize, row)
        for row in await log.rows(_session_sizes(log.engine, session_ids))
    ]


async def recorders_of_open(log: LogReader) -> dict[str, set[str]]:
    """Return the recorders of exchanges that have not ended, by session."""
    recorders: dict[str, set[str]] = {}
    for row in await log.rows(_OPEN):
        recorders.setdefault(row.session_id, set()).add(row.recorder_id)
    return recorders


def _session_sizes(engine: str, session_ids: Collection[str] | None) -> TextClause:
    which = "" if session_ids is None else "WHERE session_id IN :session_ids"
    sql = f"""SELECT s.session_id, s.name, coalesce(x.used_ns, s.created_ns) AS used_ns,
    coalesce(x.exchanges, 0) AS exchanges, coalesce(e.events, 0) AS events, coalesce(e.bytes, 0) AS bytes
FROM (SELECT session_id, name, created_ns FROM sessions {which}) AS s
LEFT JOIN (SELECT session_id, count(*) AS exchanges, max(started_ns) AS used_ns
    FROM exchanges {which} GROUP BY session_id) AS x ON x.session_id = s.session_id
LEFT JOIN (SELECT session_id, count(*) AS events, sum({size_of("raw", engine)}) AS bytes
    FROM events {which} GROUP BY session_id) AS e ON e.session_id = s.session_id
ORDER BY 3, s.session_id"""
    return (
        of_named(sql).bindparams(session_ids=list(session_ids))
        if session_ids is not None
        else text(sql)
    )


_OPEN = text(
    f"SELECT DISTINCT session_id, recorder_id FROM exchanges WHERE NOT {has_ended('exchanges')}"
)
"""Sessions with an exchange that has not ended, and the recorders that were recording it."""


def expired(
    sizes: Sequence[SessionSize], limits: RetentionPolicy, spared: Collection[str] = ()
) -> list[SessionSize]:
    """Return the sessions to purge, from all sessions with the least recently used first.

    `spared` are ids to keep.
    """
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
