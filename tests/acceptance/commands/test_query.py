"""`recorder.store.queries.query_process` and `recorder query`: what ends a statement, in whatever
step it is.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.archive.query import DUCKDB, OWN, open_query
from recorder.errors import RecorderError
from recorder.store.location import database_url
from tests.integration.store.test_query import ENDLESS
from tests.support.empty_log import empty
from tests.support.server import PROGRAM, children, cpu_s, wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return empty(tmp_path / "log.db")


ONE_STEP = {
    "sqlite": "SELECT instr(zeroblob(2000000), zeroblob(1000000) || x'01')",
    "duckdb": "SELECT instr(repeat('a', 4000000), repeat('a', 2000000) || 'b')",
    "postgresql": "SELECT position('b' || repeat('a', 150000) IN repeat('a', 450000))",
}
"""Statements of which one step takes a quarter of a minute, and hears of no interrupt."""
COMPUTES_S = 1.0  # of processor time: more than its process needs to start
HOURS = "SELECT instr(zeroblob(200000000), zeroblob(100000000) || x'01')"


def test_one_step_of_an_engine_has_a_limit_of_time_too(shared_database: URL) -> None:
    assert_ends(shared_database, OWN, ONE_STEP[shared_database.get_backend_name()])


def test_one_step_of_duckdb_has_a_limit_of_time_too(path: Path) -> None:
    assert_ends(database_url(path), DUCKDB, ONE_STEP["duckdb"])


def assert_ends(url: URL, way: str, sql: str) -> None:
    with open_query(url, way) as query:
        with pytest.raises(
            RecorderError,
            match=r"^The statement gave no row for 0\.1 s: --timeout gives it more\.$",
        ):
            list(query.ask(sql, timeout_s=0.1).rows)
        with pytest.raises(RecorderError):
            query.ask("SELECT 1")


HUGE = {
    "five values": (OWN, f"SELECT {', '.join(['zeroblob(250000000) || x' + repr('00')] * 5)}"),
    "five times one": (
        OWN,
        f"SELECT {', '.join(['x'] * 5)} FROM (SELECT zeroblob(250000000) AS x)",
    ),
    "a text": (DUCKDB, "SELECT length(format('{:>2000000000}', 'a'))"),
    "a list": (DUCKDB, "SELECT list(x) FROM range(1000000000) AS t (x)"),
}


@pytest.mark.parametrize(("way", "sql"), HUGE.values(), ids=HUGE)
def test_a_statement_has_a_limit_of_memory(path: Path, way: str, sql: str) -> None:
    with (
        pytest.raises(
            RecorderError, match=r"^This takes more (than the 1024 MiB of|memory than DuckDB has)"
        ),
        open_query(database_url(path), way) as query,
    ):
        list(query.ask(sql).rows)


def test_a_row_has_a_limit(path: Path) -> None:
    sql = "SELECT zeroblob(140000000), zeroblob(140000000)"
    with (
        open_query(database_url(path)) as query,
        pytest.raises(RecorderError, match="A row is over 256 MiB"),
    ):
        list(query.ask(sql).rows)


def test_rows_before_an_error_are_given(path: Path) -> None:
    sql = "SELECT json(column1) FROM (VALUES ('1'), ('2'), ('3'), ('no'))"
    with open_query(database_url(path)) as query:
        rows = query.ask(sql).rows
        assert [next(rows), next(rows)] == [("1",), ("2",)]
        with pytest.raises(RecorderError, match="malformed JSON"):
            next(rows)


def test_a_module_of_the_working_directory_is_not_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sqlite3.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    with open_query(database_url(path)) as query:
        assert list(query.ask("SELECT 1").rows) == [(1,)]


@pytest.mark.parametrize(
    ("by", "sql"),
    [(signal.SIGINT, ENDLESS), (signal.SIGTERM, HOURS), (signal.SIGKILL, HOURS)],
    ids=["SIGINT-endless", "SIGTERM-one step", "SIGKILL-one step"],
)
def test_a_statement_ends_with_its_command(path: Path, by: signal.Signals, sql: str) -> None:
    command = [*PROGRAM, "query", "--db", str(path), "--timeout", "600", sql]
    temporary = path.parent / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    asked: list[int] = []
    with (
        (path.parent / "said").open("w+b") as said,
        subprocess.Popen(
            command, stdout=said, stderr=said, env=environment, start_new_session=True
        ) as process,
    ):
        try:
            wait_until(lambda: any(cpu_s(child) > COMPUTES_S for child in children(process.pid)))
            asked = children(process.pid)
            process.send_signal(by)
            assert process.wait(60) == (130 if by == signal.SIGINT else -by)
            wait_until(lambda: not any(str(path) in opened_by(child) for child in asked))
            wait_until(lambda: not list(temporary.iterdir()))
        finally:
            process.kill()
            for child in asked:
                if str(path) in opened_by(child):
                    os.kill(child, signal.SIGKILL)
        said.seek(0)
        assert b"Traceback" not in said.read()


def opened_by(pid: int) -> list[str]:
    with suppress(FileNotFoundError):
        return [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    return []
