"""The wait for a server that says nothing: it was stopped, its disk hangs, or something on the way
has forgotten it.

Rules of this file:

* TCP does not tell. The kernel of a stopped process goes on acknowledging, and so does a proxy
  whose server is away.
* The limit is on silence: a byte that comes or goes starts it again. A login has a limit of its
  own, of the driver.
* Nobody knows whether the server still does what it was asked. The limit is for who repeats it
  (`Store`).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

import psycopg

# without an answer: nothing that is asked at once takes longer, however slow a disk is
LONGEST_S = 480.0

T = TypeVar("T")


class Patience:
    """The time for which a server may be silent while it is asked; then its connection is closed on
    our side.

    It doubles each time: so a commit that honestly takes longer is done at last, and a server on
    which processes hang does not get another of ours every half minute. After a commit it is as at
    the beginning.
    """

    def __init__(self, first_s: float = inf) -> None:
        self._first_s = self.limit_s = first_s

    def lose(self) -> None:
        self.limit_s = min(2 * self.limit_s, max(self._first_s, LONGEST_S))

    def recover(self) -> None:
        self.limit_s = self._first_s


class PatientConnection(psycopg.Connection[Any]):
    """A connection of psycopg that waits with patience."""

    patience = Patience()

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        return super().wait(self._while_answered(gen), *args, **options)

    def rollback(self) -> None:
        if not self.closed:  # else its error would be raised in place of the one that says why
            super().rollback()

    def _while_answered(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Pass on what the driver awaits, and what comes.

        Ten times a second it says that nothing came; before psycopg 3.2.11 it did not.
        """
        ready, heard_s, limit_s = None, time.monotonic(), self.patience.limit_s
        is_over = False
        while True:
            try:
                awaited = gen.send(ready)
            except StopIteration as end:
                result: T = end.value
                return result
            except psycopg.OperationalError as error:
                if is_over:
                    raise psycopg.OperationalError(f"no answer for {limit_s:g} s") from error
                raise
            ready = yield awaited
            now_s = time.monotonic()
            if ready:
                heard_s = now_s
            elif now_s - heard_s > limit_s and not is_over:
                is_over = True
                self.patience.lose()
                hang_up(self)


def hang_up(connection: psycopg.Connection) -> None:
    """End a connection on our side: a server that hangs takes no cancel.

    The driver, which waits for a byte or the end, reads the end.
    """
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
