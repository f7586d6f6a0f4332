"""The exchanges of all sessions that ran at some time, whichever session they are in."""

from __future__ import annotations

from sqlalchemy import text

from recorder.model.events import Exchange
from recorder.model.ids import first_id
from recorder.store.queries.outlines import of_last_event
from recorder.store.queries.reader import LogReader
from recorder.store.schema import exchanges
from recorder.store.sql import columns_of, struct_of

BEFORE_NS = 3600 * 10**9  # how long before the time they may have begun

# An id has the millisecond in which its exchange began, or nearly: by it they are found without a
# look at all.
_OVERLAPPING = text(f"""SELECT {columns_of(exchanges, "x")}
FROM exchanges AS x
WHERE x.exchange_id >= :since AND x.exchange_id < :until
    AND x.started_ns <= :until_ns AND x.started_ns + coalesce({of_last_event("t_ns")}, 0) >= :from_ns
ORDER BY x.exchange_id LIMIT :limit""")


async def overlapping(log: LogReader, from_ns: int, until_ns: int, limit: int) -> list[Exchange]:
    """Return the first exchanges that ran between two wall times."""
    since, until = first_id(from_ns - BEFORE_NS), first_id(until_ns + BEFORE_NS)
    rows = await log.rows(
        _OVERLAPPING, since=since, until=until, from_ns=from_ns, until_ns=until_ns, limit=limit
    )
    return [struct_of(Exchange, row) for row in rows]
