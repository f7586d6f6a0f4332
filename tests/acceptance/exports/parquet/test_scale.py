"""An export of a log of a million events: its memory, its rows, and how much quicker sums are over
it.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from benchmarks import growth
from benchmarks.parquet import asked
from recorder.projections.views.contract import VIEWS
from recorder.store.write.writer import Store
from tests.support.exports import tables
from tests.support.rows import START_NS
from tests.support.server import peak

EVENTS = 1_000_000
LIMIT_KB = 300_000  # it takes 220 MB
QUICKER = 10  # it is over 50


@pytest.mark.slow
def test_a_million_events_are_exported_in_bounded_memory_and_summed_quickly(tmp_path: Path) -> None:
    path, folder = tmp_path / "log.db", tmp_path / "export"
    with Store(path) as store:
        growth.load(store, range(EVENTS // (growth.EVENTS * growth.EXCHANGES)), START_NS)
    ran, peak_kb = peak("export", folder, "--format", "parquet", "--events", "--db", path)
    assert ran.returncode == 0, ran.stderr
    sys.stdout.write(f"{peak_kb:,} KiB\n")
    assert peak_kb < LIMIT_KB
    with closing(sqlite3.connect(path)) as log, tables(folder) as files:
        assert files.execute("SELECT count(*) FROM events").fetchone() == (EVENTS,)
        for view in VIEWS:
            sql = f"SELECT {', '.join(view.columns)} FROM {view.name} ORDER BY {', '.join(view.columns)}"
            assert files.execute(sql).fetchall() == log.execute(sql).fetchall(), view.name
    measured = asked(folder.parent)
    sys.stdout.write(f"{measured}\n")
    assert measured["gaps by type of event"]["ratio"] > QUICKER
    assert measured["text by type of event"]["ratio"] > QUICKER
