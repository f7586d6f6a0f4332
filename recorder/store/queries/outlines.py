"""How far each exchange of a session has come: a line for each, without a look at most of its
events.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec
from sqlalchemy import bindparam, text

from recorder.model.ids import first_id
from recorder.projections.rows import TABLES
from recorder.store.queries.reader import LogReader
from recorder.store.schema import ID
from recorder.store.sql import has_ended, structs_of

BEFORE_S = 24 * 3600  # how old an exchange may be and still go on: background responses take hours
# exchanges that go on for longer than LATE_S: those that a killed recorder left open would add up
OPEN_LIMIT = 500
# how much later than its request an exchange may appear in the log: a long upload, a busy database
LATE_S = 120


# A part of an exchange, and not a join: in a file `events` is a view of two tables, and SQLite
# would go through all of it for an outer join.
def of_last_event(name: str) -> str:
    """Return a column of the last event of an exchange, `exchanges AS x`; NULL if there is none."""
    return f"""(SELECT last.{name} FROM events AS last
    WHERE last.session_id = x.session_id AND last.exchange_id = x.exchange_id ORDER BY last.pos DESC LIMIT 1)"""


LAST_POS = f"coalesce({of_last_event('pos')}, -1)"
_OUTLINES = text(f"""SELECT x.exchange_id, {LAST_POS} + 1 AS events,
    coalesce({of_last_event("t_ns")}, 0) AS duration_ns, {has_ended("x")} AS has_ended, p.status, p.purpose
FROM exchanges AS x
LEFT JOIN {TABLES["exchanges"]} AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
WHERE x.session_id = :session_id""")


class Outline(msgspec.Struct, frozen=True):
    """An exchange in a few words: how far it has come, and what the projections have of it once it
    has ended.
    """

    exchange_id: str
    events: int
    duration_ns: int  # up to its last event
    has_ended: bool
    status: str | None
    purpose: str | None


async def outlines(log: LogReader, session_id: str) -> list[Outline]:
    """Return how far each exchange of a session has come, in no order."""
    rows = await log.rows(_OUTLINES, session_id=session_id)
    return structs_of(Outline, rows)


async def spans(log: LogReader, session_id: str) -> dict[str, int]:
    """Return the nanoseconds that each exchange of a session has taken so far, up to its last
    event.
    """
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


_PROGRESS = f"""SELECT x.session_id, x.exchange_id, s.name AS session_name, s.origin, {LAST_POS} AS last_pos,
    {has_ended("x")} AS ended
FROM exchanges AS x JOIN sessions AS s ON s.session_id = x.session_id
WHERE (x.exchange_id >= :since OR x.exchange_id IN :others)"""


def id_ago(now_ns: int, ago_s: int) -> str:
    """Return the smallest id of an exchange that began so long ago."""
    return first_id(now_ns - ago_s * 1_000_000_000)


async def progress(
    log: LogReader, since: str, others: Collection[str] = (), session_id: str | None = None
) -> list[ExchangeProgress]:
    """Return how far exchanges have come whose id is `since` or later, and some `others`, in order
    of their ids: of one session, or of all.
    """
    of_one = {} if session_id is None else {"session_id": session_id}
    sql = f"{_PROGRESS} {'AND x.session_id = :session_id' if of_one else ''} ORDER BY x.exchange_id"
    statement = text(sql).bindparams(bindparam("others", type_=ID, expanding=True))
    rows = await log.rows(statement, since=since, others=list(others), **of_one)
    return structs_of(ExchangeProgress, rows)


class Growth(NamedTuple):
    """An exchange that has come further."""

    exchange: ExchangeProgress
    after: int  # the last position that was known before; -1 if it is new


class WatchedExchanges:
    """The exchanges that may grow, of one session or of all, and how far they had come.

    An exchange may enter the log later than one that began after it. So each look is at all that
    began lately, and at what is open.
    """

    def __init__(self, log: LogReader, session_id: str | None = None) -> None:
        self._log, self._session_id = log, session_id
        self.known: dict[str, ExchangeProgress] = {}

    async def news(self, since: str) -> dict[str, Growth]:
        """Return the exchanges with this id or a later one, and of older ones those that go on,
        which have come further since the last call.
        """
        news: dict[str, Growth] = {}
        for row in await progress(self._log, since, self._open_before(since), self._session_id):
            before = self.known.get(row.exchange_id)
            if before != row:
                news[row.exchange_id] = Growth(row, -1 if before is None else before.last_pos)
                self.known[row.exchange_id] = row
        open_before = set(self._open_before(since))
        self.known = {
            id: each for id, each in self.known.items() if id >= since or id in open_before
        }
        return news

    def set_back(self, exchange: ExchangeProgress, pos: int) -> None:
        """Have the next call return an exchange again, with what comes after a position."""
        self.known[exchange.exchange_id] = msgspec.structs.replace(
            exchange, last_pos=pos, ended=False
        )

    def _open_before(self, since: str) -> list[str]:
        """Return the exchanges before an id that may still grow, the newest of them if there are
        many.
        """
        return sorted(id for id, each in self.known.items() if id < since and not each.ended)[
            -OPEN_LIMIT:
        ]
