"""The benchmarks run, and their report has the form that is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from click.testing import CliRunner
from sqlalchemy import URL

from benchmarks import exchange, followed, growth, mocks, parquet, postgres, start, viewer
from benchmarks.__main__ import Report
from benchmarks.chart import drawn
from benchmarks.figures import Column, lines, table
from benchmarks.settings import QUICK
from benchmarks.streams import SCENARIOS, rounds
from tests.support.browser import MISSING, program
from tests.support.corpus import ROOT
from tests.support.postgres import VARIABLE, Server, conninfo


def test_the_command_writes_medians_of_five_rounds(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--quick",
        "--only",
        "replay",
        "--json",
        str(path),
    ]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    report = msgspec.json.decode(path.read_bytes(), type=Report)
    error = report.benchmarks["replay"].rows["1 stream"]["p99_us"]
    assert len(error.rounds) == report.settings.rounds == 5
    assert 0 <= error.min <= error.median <= error.max
    assert printed.startswith("replay: ")


@pytest.mark.slow
def test_every_subject_carries_its_streams_to_the_end() -> None:
    settings = msgspec.structs.replace(QUICK, rounds=1, window_s=0.05)
    (measured,) = rounds(SCENARIOS["first"], settings)
    assert {"direct", "relay", "proxy", "recording"} <= set(measured)
    assert all(row["broken"] == 0 for row in measured.values())
    assert all(row["first_us"] > 0 for row in measured.values())


def test_every_event_of_a_mock_comes_and_none_before_its_time() -> None:
    settings = msgspec.structs.replace(QUICK, rounds=1, replay_s=0.2)
    (measured,) = mocks.rounds(2, settings)
    assert list(measured) == ["timetable", "mock"]
    for row in measured.values():
        assert row["missing"] == 0
        assert 0 < row["p50_us"] <= row["p99_us"] <= row["max_us"]
        assert row["core"] > 0


def test_files_and_log_are_asked_the_same() -> None:
    (measured,) = parquet.rounds(msgspec.structs.replace(QUICK, rounds=1, exported_events=2_000))
    assert list(measured) == list(parquet.QUESTIONS)
    assert all(row["sqlite_ms"] > 0 and row["parquet_ms"] > 0 for row in measured.values())


def test_short_exchanges_are_ingested_together_and_one_by_one() -> None:
    (measured,) = exchange.rounds(msgspec.structs.replace(QUICK, rounds=1, short_exchanges=2))
    assert {exchange.RAW, "SQLite, 2 a commit", "SQLite, one a commit"} <= set(measured)
    assert all(row["all_ms"] > 0 and row["wall_ms"] > 0 for row in measured.values())


@pytest.mark.slow
def test_every_command_has_a_first_output() -> None:
    (measured,) = start.rounds(msgspec.structs.replace(QUICK, rounds=1))
    assert list(measured) == [start.PYTHON, *start.COMMANDS]
    assert all(row["first_ms"] > 0 for row in measured.values())


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(program() is None, reason=MISSING)
def test_a_browser_opens_a_large_session_and_follows_a_live_one() -> None:
    settings = msgspec.structs.replace(QUICK, rounds=1, viewer_events=2_000, viewer_s=3.0)
    (looked,), (live,) = viewer.rounds(settings), followed.rounds(settings)
    assert list(looked) == ["2 x 1,000", "1 x 2,000"]
    assert all(
        row["open_ms"] > 0 and 0 < row["frame_p50_ms"] <= row["frame_p99_ms"]
        for row in looked.values()
    )
    assert live[followed.FOLLOWED]["updates_s"] > 0
    assert all(0 < row["p50_us"] <= row["p99_us"] for row in live.values())


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


def test_a_run_becomes_a_picture() -> None:
    column = Column("x relay", "cpu_us", "/", "relay")
    rounds = [
        {"relay": {"cpu_us": 8.0}, "<recording>": {"cpu_us": figure}}
        for figure in (12.0, 14.0, 16.0)
    ]
    picture = ElementTree.fromstring(
        "".join(drawn({"closed100": table("closed100", "", [column], rounds)}))
    )
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[3:] == ["<recording>", "1.75 (1.50 – 2.00)"]
    bars = [
        float(element.attrib["width"])
        for element in picture.iter("{http://www.w3.org/2000/svg}rect")
    ][1:]
    assert bars[1] / bars[0] == pytest.approx(1.75, rel=0.01)


@pytest.mark.slow
def test_the_same_rows_are_appended_and_read_back_by_every_way(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, conninfo(postgres_server.url))
    settings = msgspec.structs.replace(QUICK, rounds=1, rows=1_000)
    (appended,), (read,) = postgres.append_rounds(settings), postgres.read_rounds(settings)
    assert {
        "SQLite",
        "PostgreSQL",
        "psycopg, COPY",
        "psycopg, executemany",
        "sqlite3, executemany",
    } == set(appended)
    assert {"SQLite", "PostgreSQL", "psycopg, SELECT", "sqlite3, SELECT"} == set(read)
    assert all(row["rows_s"] > 0 for row in (*appended.values(), *read.values()))


@pytest.mark.slow
def test_a_log_that_is_grown_is_one_that_commands_read_and_verify(
    database: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "TIMES", 1)
    monkeypatch.setattr(growth, "APPENDED", 1)
    (_, first), (size, figures) = growth.measured(database, [1_000, 3_000])
    assert size == 3_000
    assert {*map(str.strip, growth.COMMANDS), "verify, 3 sessions", "bytes/event on disk"} <= set(
        figures
    )
    assert set(first) - set(figures) == {"verify, 1 sessions"}
    assert float(figures["rate of it against the first size"]) > 0
    client_us, server_us = map(float, figures["appended then, µs of CPU an event"].split(" + "))
    assert client_us > 0
    assert (server_us > 0) == (database.get_backend_name() == "postgresql")


@pytest.mark.slow
def test_commands_are_measured_again_on_a_log_that_was_left(
    database: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "TIMES", 1)
    monkeypatch.setattr(growth, "APPENDED", 1)
    name = database.render_as_string(hide_password=False)
    grown = CliRunner().invoke(
        growth.main, ["--events", "1000", "--grow", name], catch_exceptions=False
    )
    assert "| MB on disk |" in grown.stdout
    again = CliRunner().invoke(growth.main, ["--read", name], catch_exceptions=False)
    assert "| usage --by tool |" in again.stdout
    assert "| verify, 2 sessions |" in again.stdout
