"""Sums over an export to Parquet, against the same sums over the log that it was made of."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb

from benchmarks import growth, machine
from benchmarks.figures import Column, Round, Row
from benchmarks.settings import Settings
from recorder.exports.parquet.export import Selection, export
from recorder.store.location import database_url
from recorder.store.write.writer import Store

COLUMNS = (
    Column("SQLite ms", "sqlite_ms"),
    Column("Parquet ms", "parquet_ms"),
    Column("x quicker", "ratio"),
)

QUESTIONS = {
    "tokens by model": """SELECT model, count(*) AS exchanges, sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens FROM usage GROUP BY model ORDER BY model""",
    "gaps by type of event": """SELECT type, count(*) AS events, max(gap_ns) AS longest_ns
FROM event_gaps GROUP BY type ORDER BY type""",
    "text by type of event": """SELECT type, count(*) AS events, sum(length(payload)) AS characters
FROM event_payloads GROUP BY type ORDER BY type""",
}


def rounds(settings: Settings) -> list[Round]:
    """Each round opens both again, and asks both."""
    with tempfile.TemporaryDirectory(prefix="recorder-bench-") as directory:
        folder = Path(directory)
        exported(folder, settings.exported_events)
        with machine.on_core(machine.MEASURED_CORE):
            return [asked(folder) for _ in range(settings.rounds)]


def exported(folder: Path, events: int) -> None:
    """A log of so many events, and its export."""
    path = folder / "log.db"
    with Store(path) as store:
        growth.load(store, range(events // (growth.EVENTS * growth.EXCHANGES)), time.time_ns())
    export(database_url(path), folder / "export", Selection(), time.time_ns(), lambda part: None)


def asked(folder: Path) -> Round:
    """The same questions of both, one after the other; each is asked once before it is measured."""
    with closing(sqlite3.connect(folder / "log.db")) as log, closing(duckdb.connect()) as files:
        for view in ("usage", "event_gaps", "event_payloads"):
            files.execute(
                f"CREATE VIEW {view} AS FROM read_parquet('{folder}/export/{view}/*/*.parquet')"
            )
        return {name: _compared(log, files, sql) for name, sql in QUESTIONS.items()}


def _compared(log: sqlite3.Connection, files: duckdb.DuckDBPyConnection, sql: str) -> Row:
    def of_log() -> object:
        return log.execute(sql).fetchall()

    def of_files() -> object:
        return files.execute(sql).fetchall()

    if of_log() != of_files():
        raise RuntimeError(f"The two differ: {sql}")
    sqlite_ms, parquet_ms = _timed(of_log), _timed(of_files)
    return {"sqlite_ms": sqlite_ms, "parquet_ms": parquet_ms, "ratio": sqlite_ms / parquet_ms}


def _timed(ask: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    ask()
    return (time.perf_counter() - began_s) * 1e3
