"""The processor priority of an ingester: the lowest, except while somebody waits for it.

On Linux niceness is a thread's, and who is nice may not take that back; where processes are grouped
by session (`sched_autogroup_enabled`), what counts is the niceness of the group, and that can be
taken back, also from outside.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

NICENESS = 19  # the proxy comes first: what waits here waits on disk
# of a group that is far behind: a tenth of a core that others fill, and not a hundredth
FAR_NICENESS = 10
FAR_S = 30.0  # behind: longer than any burst that a recorder should get through without a word

_NICE = re.compile(r" nice (-?\d+)$")


def be_nice() -> None:
    """Lower the priority of this thread and of its group."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    set_group(NICENESS)


def group(pid: int | None = None) -> int | None:
    """Return the niceness of the group of a process, or of this one; None without groups, or if it
    is not ours.
    """
    with contextlib.suppress(OSError):
        if found := _NICE.search(_file(pid).read_text().strip()):
            return int(found[1])
    return None


def set_group(niceness: int, pid: int | None = None) -> None:
    """Set the niceness of all processes of a session, if there are groups; the kernel accepts about
    ten changes a second.
    """
    with contextlib.suppress(OSError):
        _file(pid).write_text(str(niceness))


def _file(pid: int | None) -> Path:
    return Path(f"/proc/{pid or 'self'}/autogroup")
