"""What an ingester leaves word of in idle moments: to a server, that its recorder lives.

It is no write into the log, and nothing is written to a file: whether a recorder of this machine lives is told by the
locks of its journal. Of other machines a server knows only when it last heard, with each place that they commit and in
idle moments: `recorder.ingest.recovery` ends what those have left open that were silent for long.
"""

from __future__ import annotations

import time
from contextlib import suppress

from recorder.errors import StoreError
from recorder.store.engine import engine_of
from recorder.store.writer import Store

EVERY_S = 30.0  # to a server, a small transaction: a recorder that idles takes two a minute


class Heartbeat:
    """Of one recorder, beside its ingester."""

    def __init__(self, store: Store, recorder_id: str) -> None:
        self._store, self._recorder_id = store, recorder_id
        self._due_s = float("inf") if engine_of(store.url).is_local else 0.0

    def committed(self) -> None:
        """A place was committed."""
        self._due_s = max(self._due_s, time.monotonic() + EVERY_S)

    def rest(self) -> None:
        """There is nothing to ingest just now. A server that is away is told when it is time again."""
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + EVERY_S
            with suppress(StoreError), self._store.transaction():
                self._store.renew(self._recorder_id)
