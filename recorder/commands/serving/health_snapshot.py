"""The figures of a recorder at one moment, and the problems that follow from them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from recorder.commands.serving.disk_watch import MARK_BYTES, low_sentence

RECENT_S = (
    300.0  # somebody who deletes files of a journal comes again: that is said for longer than until they are back
)
LAG_S = 5.0  # a commit takes milliseconds; who holds the lock of a database for longer is in the way

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """A process that runs."""

    resident_bytes: int
    descriptors: int
    is_stopped: bool  # by SIGSTOP, or a debugger


class HealthSnapshot(msgspec.Struct, frozen=True):
    """The figures. What is counted is counted since the recorder started."""

    streams: Mapping[str, int] = {}  # open, by upstream
    exchanges: Mapping[tuple[str, str], int] = {}  # ended, by upstream and outcome
    chunks: int = 0  # of response bodies, of exchanges whose end is in the log, like the next three
    size_bytes: int = 0
    gap_chunks: int = 0
    gap_bytes: int = 0
    journal: Path = Path()
    journal_bytes: int = 0
    journal_is_full: bool = False
    journal_problem: str | None = None  # while its files are gone
    journal_times: int = 0  # that its files were gone and were put back
    journal_lost_bytes: int = 0  # cut off by other programs before they were in the log
    journal_since_s: float | None = None  # how long ago that was noticed the last time
    lag_s: float = 0.0
    lag_bytes: int = 0
    database_bytes: int | None = 0
    wal_bytes: int | None = 0  # a server keeps that to itself
    database_errors: int = 0
    database_error: str | None = None  # while it lasts
    ingester_pid: int | None = None  # while it runs
    ingester_end: str | None = None  # how the last one ended
    ingester_restarts: int = 0
    free_bytes: int | None = None
    processes: Mapping[str, Process] = {}


def reasons(health: HealthSnapshot) -> list[str]:
    """Return the problems of a recorder, one sentence each."""
    return [sentence for reason in REASONS if (sentence := reason(health))]


def _ingester(health: HealthSnapshot) -> str | None:
    if health.ingester_pid is not None:
        return None
    if health.ingester_end is None:
        return "The ingester is being started; the journal keeps what passes."
    return f"The ingester {health.ingester_end} and is started again; the journal keeps what passes."


def _journal(health: HealthSnapshot) -> str | None:
    if not health.journal_is_full:
        return None
    return "The journal is at its bound: what passes now is counted as gaps until the database takes what waits."


def _journal_files(health: HealthSnapshot) -> str | None:
    if health.journal_problem is not None:
        return health.journal_problem
    if health.journal_since_s is None or health.journal_since_s > RECENT_S:
        return None
    return (
        f"Another program deleted or cut files of the journal {health.journal} {health.journal_since_s:.0f} s ago: "
        f"they are put back, {health.journal_lost_bytes:,} bytes are lost. Keep whatever cleans up away from there."
    )


def _lag(health: HealthSnapshot) -> str | None:
    if health.lag_s <= LAG_S:
        return None
    waits = f"{health.lag_bytes / 2**20:.1f} MiB have waited for the log for up to {health.lag_s:.0f} s"
    ingester = health.processes.get("ingester")
    if health.ingester_pid is None:
        return f"{waits}: no ingester runs."
    if ingester is not None and ingester.is_stopped:
        return f"{waits}: the ingester (process {health.ingester_pid}) is stopped, continue it with SIGCONT."
    return f"{waits}: the database is locked, full or slow; the recorder's log says which."


def _database(health: HealthSnapshot) -> str | None:
    return health.database_error


def _disk(health: HealthSnapshot) -> str | None:
    if health.free_bytes is None or health.free_bytes >= MARK_BYTES:
        return None
    return low_sentence(health.journal, health.free_bytes)


REASONS = (_ingester, _journal, _journal_files, _lag, _database, _disk)


def process(pid: int) -> Process | None:
    """Return the figures of a process; None if the process has ended, or belongs to another user."""
    folder = Path(f"/proc/{pid}")
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        return Process(int(fields[21]) * _PAGE_BYTES, len(os.listdir(folder / "fd")), fields[0] in "tT")
    except (OSError, IndexError):
        return None
