"""How many files this process may have open, and how many clients that allows.

A request takes two: its client's connection and one to its upstream. What is beyond that is refused while it still can
be: once there is no descriptor left, a connection can only be accepted to be closed, and the client sees a reset.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import NamedTuple

EACH = 2  # the client's connection, and one to an upstream
SHARE = 4  # a quarter of all is kept back: for journal, database, locks, and clients that are told there is no room
LEAST, MOST = 32, 2048  # of what is kept back: what a recorder opens for itself, and a burst of clients
BEYOND = 65_536  # where a system calls its limit infinite and has another: more than one process serves


def raise_limit() -> int:
    """Raise the soft limit of this process to the hard one; return the soft one that it had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return soft
    for wanted in (hard, BEYOND, 10_240):  # the last is what macOS allows at most by default
        if wanted == resource.RLIM_INFINITY or wanted > soft:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                break
    return soft


def lower_limit(pid: int, soft: int) -> None:
    """Give another process of ours that soft limit again: some programs fail with numbers beyond it (`select`)."""
    if hasattr(resource, "prlimit"):  # Linux
        with suppress(OSError, ValueError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class Room(NamedTuple):
    """How many clients a server takes."""

    served: int
    accepted: int  # those beyond `served` are refused; beyond this they wait, not accepted yet


def room(limit: int | None = None) -> Room:
    """Return how many clients there is room for under a limit; by default the soft one of this process."""
    if limit is None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        limit = BEYOND
    reserved = max(LEAST, min(MOST, limit // SHARE))
    served = max(1, (limit - reserved) // EACH)
    return Room(served, served + reserved // 4)
