"""The metrics of a recorder: names, meanings, and the text format of Prometheus (0.0.4)."""

from __future__ import annotations

import operator
import platform
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from recorder import __version__
from recorder.commands.serving.health_snapshot import HealthSnapshot

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Mapping[str, str], float]


class Metric(NamedTuple):
    """A metric, and a function for its values."""

    name: str
    type: Literal["counter", "gauge"]
    help: str
    samples: Callable[[HealthSnapshot], Iterable[Sample]]


def _one(name: str) -> Callable[[HealthSnapshot], Iterable[Sample]]:
    """Return the function of a metric that is one figure of a snapshot; it yields nothing while that is unknown."""

    read = operator.attrgetter(name)

    def samples(health: HealthSnapshot) -> Iterator[Sample]:
        value = read(health)
        if value is not None:
            yield {}, value

    return samples


_BUILD = {"version": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}

METRICS = (
    Metric("recorder_build_info", "gauge", "Always 1; the versions are labels.", lambda v: [(_BUILD, 1)]),
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
        lambda v: [({"upstream": name, "outcome": how}, count) for (name, how), count in v.exchanges.items()],
    ),
    Metric(
        "recorder_response_chunks_total",
        "counter",
        "Reads from upstreams, of exchanges whose end is in the log.",
        _one("chunks"),
    ),
    Metric(
        "recorder_response_bytes_total",
        "counter",
        "Bytes of response bodies, of exchanges whose end is in the log.",
        _one("size_bytes"),
    ),
    Metric(
        "recorder_gap_chunks_total",
        "counter",
        "Chunks that passed but could not be stored, of exchanges whose end is in the log.",
        _one("gap_chunks"),
    ),
    Metric(
        "recorder_gap_bytes_total",
        "counter",
        "Bytes that passed but could not be stored, of exchanges whose end is in the log.",
        _one("gap_bytes"),
    ),
    Metric(
        "recorder_journal_bytes",
        "gauge",
        "Size of the journal: data that waits for the log, and data of exchanges that are still open.",
        _one("journal_bytes"),
    ),
    Metric(
        "recorder_journal_full",
        "gauge",
        "1 while the journal is at its bound and chunks are only counted.",
        _one("journal_is_full"),
    ),
    Metric(
        "recorder_journal_restored_total",
        "counter",
        "How often another program deleted or replaced files of the journal, and they were put back.",
        _one("journal_times"),
    ),
    Metric(
        "recorder_journal_lost_bytes_total",
        "counter",
        "Bytes that another program cut off the journal before they were in the log.",
        _one("journal_lost_bytes"),
    ),
    Metric(
        "recorder_ingest_lag_seconds",
        "gauge",
        "Age of the oldest byte in the journal that is not in the log.",
        _one("lag_s"),
    ),
    Metric(
        "recorder_ingest_lag_bytes",
        "gauge",
        "Bytes in the journal that are not in the log.",
        _one("lag_bytes"),
    ),
    Metric("recorder_ingester_up", "gauge", "1 while the ingester runs.", lambda v: [({}, v.ingester_pid is not None)]),
    Metric(
        "recorder_ingester_restarts_total",
        "counter",
        "How often the ingester has died and was started again.",
        _one("ingester_restarts"),
    ),
    Metric(
        "recorder_database_errors_total",
        "counter",
        "How often reads of the database began to fail, or the database refused the ingester for good.",
        _one("database_errors"),
    ),
    Metric(
        "recorder_database_bytes",
        "gauge",
        "Size of the database: of its file, or of all that it has on a server.",
        _one("database_bytes"),
    ),
    Metric("recorder_wal_bytes", "gauge", "Size of the WAL beside a database file.", _one("wal_bytes")),
    Metric("recorder_disk_free_bytes", "gauge", "Free space on the disk of the journal.", _one("free_bytes")),
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


def exposition(health: HealthSnapshot) -> bytes:
    """Return all metrics as text."""
    return "".join("".join(_lines(metric, health)) for metric in METRICS).encode()


def _lines(metric: Metric, health: HealthSnapshot) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n"
    for labels, value in metric.samples(health):
        pairs = ",".join(f'{name}="{_escaped(label)}"' for name, label in labels.items())
        yield f"{metric.name}{{{pairs}}} {value:.17g}\n" if pairs else f"{metric.name} {value:.17g}\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
