"""The machine: its cores, and what a process has used of them.

Pinning and the CPU clock of another process are Linux's. Elsewhere nothing is pinned, and CPU time
is not a number.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import sqlite3
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

_LIBRARIES = ("uvloop", "httptools", "sqlalchemy", "msgspec")


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


_CORES = _cores()
MEASURED_CORE = _CORES[0] if len(_CORES) > 1 else None
LOAD_CORE = _CORES[1] if len(_CORES) > 1 else None


@contextlib.contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """This process, and those that it starts meanwhile, on one core."""
    if sys.platform != "linux" or core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, in all of its threads."""
    if sys.platform != "linux":
        return math.nan
    return time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid(3) gives, CPUCLOCK_SCHED


def resident_bytes(pid: int) -> float:
    """What a process has in memory; not a number where that cannot be told."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return math.nan
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def children(pid: int) -> list[int]:
    """Return the processes that a process has started, in any of its threads."""
    try:
        return [
            int(child)
            for each in Path(f"/proc/{pid}/task").glob("*/children")
            for child in each.read_text().split()
        ]
    except OSError:
        return []


def description() -> dict[str, str]:
    """What the figures of a run depend on."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in _LIBRARIES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
