"""How far the log is behind the journal, told from what can be seen of both from outside.

The ingester does not say how far it has read: the place that it commits is that of the oldest exchange still open. But
it reads in order and commits after every read. So what stood in the journal at some time is in the log

* if the committed place is past it, or
* if there was a commit a moment later, or a moment in which nothing waited (`recorder.heartbeat`), and no exchange that
  had begun or ended before that time is missing there.

Rules of this file: no I/O, no clock; seconds are of one clock, whichever the caller has.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from recorder.records import START, Position

COMMIT_S = 0.5  # from a read to its commit, and the grain of a file's time
SIGHTS = 1_000  # half an hour of looks without a commit: beyond that every second one will do


class Sight(NamedTuple):
    """Where the journal ended at some time, and when the last of that was written."""

    at_s: float
    end: Position
    written_s: float


class Lag:
    """Looks at the end of a journal, as long as what was seen may not be in the log."""

    def __init__(self) -> None:
        self._sights: deque[Sight] = deque()
        self.told = START  # all before it is in the log
        self.settled_s = float("-inf")  # what happened before that was ingested, for the place has passed it

    def look(self, now: Sight, place: Position, committed_s: float, oldest_missing_s: float | None) -> float:
        """The age of the oldest byte that is not in the log, in seconds; a byte counts from the first look at it."""
        if now.end > (self._sights[-1].end if self._sights else self.told):
            self._sights.append(now)
        known_s = min(committed_s - COMMIT_S, oldest_missing_s if oldest_missing_s is not None else committed_s)
        while self._sights and (self._sights[0].end <= place or self._sights[0].written_s <= known_s):
            sight = self._sights.popleft()
            self.told = sight.end
            if sight.end <= place:
                self.settled_s = sight.at_s
        if len(self._sights) > SIGHTS:
            self._sights = deque(list(self._sights)[::2])
        began_s = [each for each in (oldest_missing_s, self._sights[0].at_s if self._sights else None) if each]
        return max(0.0, now.at_s - min(began_s, default=now.at_s))
