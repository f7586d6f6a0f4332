"""A probe of the log: it reads the sums of ended exchanges, in a few short statements.

Rules of this file:

* It is read-only, it stays in no transaction, and is over in `LIMIT_S` by the clock of the database. One that hangs has
  none: who waits for a look has a limit of his own, and may interrupt it.
* It asks for exchanges by their ids, and reads each once, when it has ended: what it costs does not grow with the log.
* A connection to a server is kept from one probe to the next: to make one holds up the event loop for longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from recorder.model.payloads import EndRecord

LIMIT_S = 1.0
ENOUGH_S = 0.3  # after which no more is asked: the rest is for the next probe
IDS = 50  # asked for at once: exchanges of a thousand events take some milliseconds

_BEGUN = "SELECT exchange_id FROM exchanges WHERE exchange_id "
_ENDED = """SELECT x.exchange_id, e.raw, (
    SELECT coalesce(sum(json_array_length({reads})), 0) FROM events AS r
    WHERE r.session_id = e.session_id AND r.exchange_id = e.exchange_id AND r.kind = 'reads' AND r.type IS NULL
) FROM exchanges AS x JOIN events AS e ON e.session_id = x.session_id AND e.exchange_id = x.exchange_id
AND e.kind = 'end' WHERE x.exchange_id """


class Ended(NamedTuple):
    """The sums of an exchange that has ended in the log."""

    exchange_id: str
    chunks: int
    size_bytes: int
    gap_chunks: int
    gap_bytes: int


class ProbeResult(NamedTuple):
    """The exchanges that the log has, among those in question."""

    begun: list[str]
    ended: list[Ended]
    database_bytes: int | None = None
    wal_bytes: int | None = None  # of a file
    error: str | None = None  # why the log could not be read, or not in time


NOTHING = ProbeResult([], [])

Fetch = Callable[[str, Any], list[Any]]
"""Returns the rows of a statement with one value."""


class LogProbe:
    """A probe of one recorder's log, for one thread."""

    reads: str
    """The expression for the JSON of a row of `reads`."""

    is_asked_for: str
    """The condition that an id is one of those that are given."""

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        """Find the exchanges that have begun and those that have ended, as far as time allows."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """End a look that got no answer in time, if anything can. Called in another thread."""

    def close(self) -> None: ...

    def found(self, ask: Fetch, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        """Return the exchanges that one connection finds."""
        until_s = time.monotonic() + ENOUGH_S
        began = _rows(ask, _BEGUN + self.is_asked_for, begun, until_s)
        over = _rows(ask, _ENDED.format(reads=self.reads) + self.is_asked_for, ended, until_s)
        return ProbeResult([exchange_id for (exchange_id,) in began], [_ended(*row) for row in over])


def _rows(ask: Fetch, sql: str, ids: Sequence[str], until_s: float) -> Iterator[Any]:
    for start in range(0, len(ids), IDS):
        yield from ask(sql, ids[start : start + IDS])
        if time.monotonic() > until_s:
            return


def _ended(exchange_id: str, raw: bytes, chunks: int) -> Ended:
    end = msgspec.json.decode(raw, type=EndRecord)
    return Ended(exchange_id, chunks, end.wire_bytes, end.gap_chunks, end.gap_bytes)
