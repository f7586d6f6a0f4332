"""A transaction repeated until the database takes it: a disk is cleaned up, a lock is let go, a
server returns.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import URL

from recorder.errors import StoreBusyError, StoreConflictError, StoreError, StoreLostError
from recorder.store.engine import writing_of
from recorder.store.write.writer import Store

log = logging.getLogger(__name__)

RETRY_S = 0.1  # between two attempts
COMPLAIN_S = 10.0  # between two warnings that the database still refuses

Pause = Callable[[float], bool]
"""Wait so many seconds, or less; returns whether to stop."""

T = TypeVar("T")


class Stopped(Exception):
    """The pause returned True while the database refused.

    Nothing is lost: the journal still has it.
    """


class Uncommitted(Exception):
    """A commit failed by a fault of ours, during a record that has no part in it: the next ingester
    repeats it all.
    """


def is_final(url: URL, error: StoreError) -> bool:
    """Return whether it is of no use to repeat the transaction that raised this.

    Final are a conflict, a deleted database, and errors of the statement or its values. A lock, a
    full disk, missing rights, a server that is away: somebody mends those, and the journal waits.
    """
    if isinstance(error, StoreConflictError | StoreLostError):
        return True
    cause = getattr(error.__cause__, "orig", error.__cause__)
    if cause is None or isinstance(error, StoreBusyError):
        return False
    return writing_of(url).is_of_statement(cause)


class Retry:
    """The policy of the ingester: repeat what may still succeed, raise what is final (`is_final`)."""

    def __init__(self, store: Store, pause: Pause) -> None:
        self._store, self._pause = store, pause

    def __call__(self, work: Callable[[], T], *, only_reads: bool = False) -> T:
        """Do some work in a transaction, again and again until it is committed.

        Returns what it returned.

        Raises `Stopped` when the pause returns True, and a final `StoreError`: the next ingester
        begins again then.
        """
        complained_s = float("-inf")
        while True:
            try:
                with self._store.looking() if only_reads else self._store.transaction():
                    return work()
            except StoreError as error:
                if is_final(self._store.url, error):
                    raise
                now_s = time.monotonic()
                if now_s - complained_s > COMPLAIN_S:
                    log.warning("the database refuses, the journal keeps what passes: %s", error)
                    complained_s = now_s
                if self._pause(RETRY_S):
                    raise Stopped from error
