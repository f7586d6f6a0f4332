"""What a process takes, as the system says. Where it does not say (there is no `/proc`), nothing is known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """A process that runs."""

    resident_bytes: int
    descriptors: int
    is_stopped: bool  # by SIGSTOP, or a debugger


def process(pid: int) -> Process | None:
    """Return the figures of a process; None if it is gone, or not ours to look at."""
    folder = Path(f"/proc/{pid}")
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        return Process(int(fields[21]) * _PAGE_BYTES, len(os.listdir(folder / "fd")), fields[0] in "tT")
    except (OSError, IndexError):
        return None
