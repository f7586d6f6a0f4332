"""The benchmarks run, and their report has the form that is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.__main__ import Report
from benchmarks.figures import Column, lines, table
from benchmarks.settings import QUICK
from benchmarks.streams import SCENARIOS, rounds
from tests.corpus import ROOT


def test_the_command_writes_medians_of_five_rounds(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "replay", "--json", str(path)]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    report = msgspec.json.decode(path.read_bytes(), type=Report)
    error = report.benchmarks["replay"].rows["1 stream"]["p99_us"]
    assert len(error.rounds) == report.settings.rounds == 5
    assert 0 <= error.min <= error.median <= error.max
    assert printed.startswith("replay: ")


def test_every_subject_carries_its_streams_to_the_end() -> None:
    settings = msgspec.structs.replace(QUICK, rounds=1, window_s=0.05)
    (measured,) = rounds(SCENARIOS["first"], settings)
    assert {"direct", "relay", "proxy", "recording"} <= set(measured)
    assert all(row["broken"] == 0 for row in measured.values())
    assert all(row["first_us"] > 0 for row in measured.values())


def test_ratios_are_taken_within_a_round_and_missing_figures_are_left_out() -> None:
    columns = [Column("x relay", "cpu_us", "/", "relay"), Column("x nginx", "cpu_us", "/", "nginx")]
    measured = [
        {"relay": {"cpu_us": 2.0}, "ours": {"cpu_us": 3.0}},
        {"relay": {"cpu_us": 10.0}, "ours": {"cpu_us": 25.0}},
    ]
    found = table("name", "title", columns, measured)
    assert found.rows["ours"]["cpu_us/relay"].rounds == [1.5, 2.5]
    assert [column.title for column in found.columns] == ["x relay"]
    assert "2.00 (1.50 – 2.50)" in list(lines(found))[-1]
