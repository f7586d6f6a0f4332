"""A transaction that is tried until the database takes it: a disk is cleaned up, a lock is let go, a server returns."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from recorder.errors import StoreError
from recorder.store.sqlite.connection import is_final
from recorder.store.writer import Store

log = logging.getLogger(__name__)

RETRY_S = 0.1  # how often a refused commit is tried again
COMPLAIN_S = 10.0  # how often to say that it still is

Pause = Callable[[float], bool]
"""Wait so many seconds, or less; returns whether to stop."""

T = TypeVar("T")


class Stopped(Exception):
    """Asked to stop while the database refuses. Nothing is lost: the journal still has it."""


class Uncommitted(Exception):
    """A commit failed by a fault of ours while a record was told that has no part in it: the next must tell it all."""


class Patience:
    """That of whoever ingests."""

    def __init__(self, store: Store, pause: Pause) -> None:
        self._store, self._pause = store, pause

    def __call__(self, work: Callable[[], T]) -> T:
        """Do it until the store does. Raises `Stopped`.

        Final are a conflict, and a database that is gone, or is none of ours any more: the next must be told it all.
        """
        complained_s = float("-inf")
        while True:
            try:
                with self._store.transaction():
                    return work()
            except StoreError as error:
                if is_final(error):
                    raise
                now_s = time.monotonic()
                if now_s - complained_s > COMPLAIN_S:
                    log.warning("the database refuses, the journal keeps what passes: %s", error)
                    complained_s = now_s
                if self._pause(RETRY_S):
                    raise Stopped from error
