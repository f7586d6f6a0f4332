"""What an ingester leaves word of in idle moments: that nothing waits, and to a server that its recorder lives.

That nothing waits is told by the time of the file that it has locked, set once after its last commit: of a stream that
is open and silent nothing else says so. It is no write into the log: nothing is written to a file that has nothing to
keep, and whether a recorder of this machine lives is told by the locks of its journal. Of other machines a server knows
only when it last heard, with each place that they commit and in idle moments: `recorder.unfinished` ends what those
have left open that were silent for long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from recorder.errors import StoreError
from recorder.location import is_file
from recorder.store import Store

EVERY_S = 30.0  # to a server, a small transaction: a recorder that idles takes two a minute
SOON_S = 1.0  # after a commit: that nothing waited since then is known to whoever asks how far behind the log is


class Heartbeat:
    """Of one recorder, beside its ingester."""

    def __init__(self, store: Store, recorder_id: str, at_rest: Callable[[], None] = lambda: None) -> None:
        """`at_rest` leaves word that nothing waits."""
        self._store, self._recorder_id, self._at_rest = store, recorder_id, at_rest
        self._soon_s = 0.0
        self._due_s = float("inf") if is_file(store.url) else 0.0

    def committed(self) -> None:
        """A place was committed."""
        now_s = time.monotonic()
        self._soon_s = now_s + SOON_S
        self._due_s = max(self._due_s, now_s + EVERY_S)

    def rest(self) -> None:
        """There is nothing to ingest just now. A server that is away is told when it is time again."""
        now_s = time.monotonic()
        if now_s >= self._soon_s:
            self._soon_s = float("inf")
            self._at_rest()
        if now_s >= self._due_s:
            self._due_s = now_s + EVERY_S
            with suppress(StoreError), self._store.transaction():
                self._store.renew(self._recorder_id)
