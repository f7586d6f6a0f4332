"""The figures of a recorder at one moment: the problems that follow from them, and the metrics in
the text format of Prometheus (0.0.4).
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from recorder import __version__

log = logging.getLogger(__name__)

# Somebody who deletes files of a journal comes again: that is said for longer than until they are
# back.
RECENT_S = 300.0
# a journal may take a tenth of what is free: below this it holds some seconds
MARK_BYTES = 128 * 2**20
# a disk that is filled at 100 MB/s has as much left when it is noticed as the mark asks for, or
# less
LOOK_S = 10.0
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
# a commit takes milliseconds; who holds the lock of a database for longer is in the way
LAG_S = 5.0

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
    goal: str = "the log"  # where the journal goes
    follower: str = "ingester"  # what brings it there; the next three are of a shipper as well
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
        return f"The {health.follower} is being started; the journal keeps what passes."
    return f"The {health.follower} {health.ingester_end} and is started again; the journal keeps what passes."


def _journal(health: HealthSnapshot) -> str | None:
    if not health.journal_is_full:
        return None
    return f"The journal is at its bound: what passes now is counted as gaps until what waits is in {health.goal}."


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
    waits = f"{health.lag_bytes / 2**20:.1f} MiB have waited for {health.goal} for up to {health.lag_s:.0f} s"
    ingester = health.processes.get(health.follower)
    if health.ingester_pid is None:
        return f"{waits}: no {health.follower} runs."
    if ingester is not None and ingester.is_stopped:
        return f"{waits}: the {health.follower} (process {health.ingester_pid}) is stopped, continue it with SIGCONT."
    if health.follower == "shipper":
        return f"{waits}: it is away, slow, or refuses; the recorder's log says which."
    return f"{waits}: the database is locked, full or slow; the recorder's log says which."


def _disk(health: HealthSnapshot) -> str | None:
    if health.free_bytes is None or health.free_bytes >= MARK_BYTES:
        return None
    return low_sentence(health.journal, health.free_bytes)


REASONS = (_ingester, _journal, _journal_files, _lag, attrgetter("database_error"), _disk)


def process(pid: int) -> Process | None:
    """Return the figures of a process; None if the process has ended, or belongs to another user."""
    folder = Path(f"/proc/{pid}")
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        return Process(
            int(fields[21]) * _PAGE_BYTES, len(os.listdir(folder / "fd")), fields[0] in "tT"
        )
    except (OSError, IndexError):
        return None


# -- the disk: below a low-water mark a recorder continues, and warns


async def watch_disk(path: Path, mark_bytes: int = MARK_BYTES, look_s: float = LOOK_S) -> None:
    """Check the disk for ever; warn once when free space falls below the mark, and once when it is
    back.
    """
    low = False
    while True:
        free = free_bytes(path)
        if free is not None and (free < mark_bytes) != low:
            low = not low
            log.warning(
                "%s",
                low_sentence(path, free) if low else f"There is room again on the disk of {path}.",
            )
        await asyncio.sleep(look_s)


def free_bytes(path: Path) -> int | None:
    """Return the free bytes on the disk of a path; None if the system does not report it."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def low_sentence(path: Path, free: int) -> str:
    return (
        f"Only {free // 2**20} MiB are free on the disk of {path}: free some, or gaps will follow."
    )


# -- metrics: their names and meanings

Sample = tuple[Mapping[str, str], float]


class Metric(NamedTuple):
    """A metric, and where its values are."""

    name: str
    type: Literal["counter", "gauge"]
    help: str
    samples: str | Callable[[Any], Iterable[Sample]]  # or the name of the one figure that it is


_BUILD = {
    "version": __version__,
    "python": platform.python_version(),
    "sqlite": sqlite3.sqlite_version,
}

METRICS = (
    Metric(
        "recorder_build_info",
        "gauge",
        "Always 1; the versions are labels.",
        lambda v: [(_BUILD, 1)],
    ),
    Metric(
        "recorder_streams_open",
        "gauge",
        "Exchanges that have begun and not ended, by upstream.",
        lambda v: [({"upstream": name}, count) for name, count in v.streams.items()],
    ),
    Metric(
        "recorder_exchanges_total",
        "counter",
        "Exchanges that have ended, by upstream and how the connection ended; eof is a whole response.",
        lambda v: [
            ({"upstream": name, "outcome": how}, count)
            for (name, how), count in v.exchanges.items()
        ],
    ),
    Metric(
        "recorder_response_chunks_total",
        "counter",
        "Reads from upstreams, of exchanges whose end is in the log.",
        "chunks",
    ),
    Metric(
        "recorder_response_bytes_total",
        "counter",
        "Bytes of response bodies, of exchanges whose end is in the log.",
        "size_bytes",
    ),
    Metric(
        "recorder_gap_chunks_total",
        "counter",
        "Chunks that passed but could not be stored, of exchanges whose end is in the log.",
        "gap_chunks",
    ),
    Metric(
        "recorder_gap_bytes_total",
        "counter",
        "Bytes that passed but could not be stored, of exchanges whose end is in the log.",
        "gap_bytes",
    ),
    Metric(
        "recorder_journal_bytes",
        "gauge",
        "Size of the journal: data that waits for the log, and data of exchanges that are still open.",
        "journal_bytes",
    ),
    Metric(
        "recorder_journal_full",
        "gauge",
        "1 while the journal is at its bound and chunks are only counted.",
        "journal_is_full",
    ),
    Metric(
        "recorder_journal_restored_total",
        "counter",
        "How often another program deleted or replaced files of the journal, and they were put back.",
        "journal_times",
    ),
    Metric(
        "recorder_journal_lost_bytes_total",
        "counter",
        "Bytes that another program cut off the journal before they were in the log.",
        "journal_lost_bytes",
    ),
    Metric(
        "recorder_ingest_lag_seconds",
        "gauge",
        "Age of the oldest byte in the journal that is not in the log.",
        "lag_s",
    ),
    Metric(
        "recorder_ingest_lag_bytes",
        "gauge",
        "Bytes in the journal that are not in the log.",
        "lag_bytes",
    ),
    Metric(
        "recorder_ingester_up",
        "gauge",
        "1 while the ingester runs.",
        lambda v: [({}, v.ingester_pid is not None)],
    ),
    Metric(
        "recorder_ingester_restarts_total",
        "counter",
        "How often the ingester has died and was started again.",
        "ingester_restarts",
    ),
    Metric(
        "recorder_database_errors_total",
        "counter",
        "How often reads of the database began to fail, or the database refused the ingester for good.",
        "database_errors",
    ),
    Metric(
        "recorder_database_bytes",
        "gauge",
        "Size of the database: of its file, or of all that it has on a server.",
        "database_bytes",
    ),
    Metric("recorder_wal_bytes", "gauge", "Size of the WAL beside a database file.", "wal_bytes"),
    Metric(
        "recorder_disk_free_bytes", "gauge", "Free space on the disk of the journal.", "free_bytes"
    ),
    Metric(
        "recorder_process_resident_memory_bytes",
        "gauge",
        "Memory of the recorder and of its ingester.",
        lambda v: [({"process": name}, each.resident_bytes) for name, each in v.processes.items()],
    ),
    Metric(
        "recorder_process_open_fds",
        "gauge",
        "Descriptors that the recorder and its ingester have open.",
        lambda v: [({"process": name}, each.descriptors) for name, each in v.processes.items()],
    ),
)


def exposition(figures: object, metrics: Iterable[Metric] = METRICS) -> bytes:
    """Return metrics as text; a figure that is not known is left out."""
    return "".join("".join(_lines(metric, figures)) for metric in metrics).encode()


def _lines(metric: Metric, figures: object) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n"
    samples = metric.samples
    if isinstance(samples, str):
        value = attrgetter(samples)(figures)
        found: Iterable[Sample] = [] if value is None else [({}, value)]
    else:
        found = samples(figures)
    for labels, value in found:
        pairs = ",".join(f'{name}="{_escaped(label)}"' for name, label in labels.items())
        yield (
            f"{metric.name}{{{pairs}}} {value:.17g}\n" if pairs else f"{metric.name} {value:.17g}\n"
        )


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
