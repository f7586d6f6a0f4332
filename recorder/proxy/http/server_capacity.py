"""The number of clients that a server takes: as many as the limit of open files allows.

An exchange takes two descriptors: the client's connection and one to its upstream. A client beyond
that is refused while it still can be: once no descriptor is left, a connection can only be accepted
to be closed, and the client sees a reset.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import NamedTuple

EACH = 2  # the client's connection, and one to an upstream
SHARE = 4  # a quarter is reserved: for journal, database, locks, and clients that are refused
# reserved descriptors: what a recorder opens for itself, and a burst of clients
LEAST, MOST = 32, 2048
# where a system calls its limit infinite and has another: more than one process serves
BEYOND = 65_536


def raise_limit() -> int:
    """Raise this process's soft limit of open files to the hard one; return the soft one that it
    had.
    """
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
    """Give a child process that soft limit again: some programs fail with larger descriptors
    (`select`).
    """
    if hasattr(resource, "prlimit"):  # Linux
        with suppress(OSError, ValueError):  # it has ended already
            resource.prlimit(
                pid, resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
            )


class Capacity(NamedTuple):
    """Numbers of clients: those beyond `served` are refused, those beyond `accepted` wait in the
    kernel.
    """

    served: int
    accepted: int


def capacity(limit: int | None = None) -> Capacity:
    """Return the capacity under a limit of open files; by default the soft limit of this process."""
    if limit is None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        limit = BEYOND
    reserved = max(LEAST, min(MOST, limit // SHARE))
    served = max(1, (limit - reserved) // EACH)
    return Capacity(served, served + reserved // 4)
