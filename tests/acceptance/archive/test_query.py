"""`recorder query --engine duckdb`: the views of a log as DuckDB computes them, and nothing but
reading.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive.place import database_url
from recorder.archive.query import open_query
from recorder.archive.sql import open_in_duckdb
from recorder.errors import NotFoundError, RecorderError
from recorder.projections.views.contract import VIEWS
from recorder.store.schema import STALE
from tests.support.rows import a_conversation, written
from tests.support.server import address, run
from tests.support.superuser import connected, execute


@pytest.fixture(scope="module")
def log(shared_database: URL) -> URL:
    with written(shared_database) as connection:
        a_conversation(connection)
    return shared_database


def test_every_view_has_the_rows_of_the_logs_own_engine(log: URL) -> None:
    found = {}
    with open_in_duckdb(log) as query:
        for view in VIEWS:
            result = query.ask(f"SELECT * FROM {view.name}")
            found[view.name] = result.columns, sorted(result.rows, key=repr)
    with open_query(log) as query:
        for view in VIEWS:
            result = query.ask(f"SELECT * FROM {view.name}")
            assert found[view.name] == (result.columns, sorted(result.rows, key=repr)), view.name


def test_values_have_names_and_functions_are_those_of_duckdb(log: URL) -> None:
    sql = "SELECT quantile_disc(ttft_ns, 0.5) AS median, median // 4 AS part FROM latency WHERE session_name = :name"
    ran = run(
        log,
        "query",
        sql,
        "-p",
        "name",
        "run-1",
        "--engine",
        "duckdb",
        "--json",
        "--db",
        address(log),
    )
    assert (ran.code, json.loads(ran.out)) == (0, [{"median": 50, "part": 12}])


def test_nothing_but_reading_is_possible(log: URL) -> None:
    with open_in_duckdb(log) as query:
        for sql in (
            "DELETE FROM log.sessions",
            "CREATE TABLE t (n INT)",
            "SELECT * FROM read_text('/x')",
        ):
            with pytest.raises(RecorderError, match=r"only reads|is refused"):
                list(query.ask(sql).rows)


def test_a_log_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError), open_in_duckdb(database_url(tmp_path / "none.db")):
        pass
    assert not list(tmp_path.iterdir())


def test_a_rebuild_that_is_due_is_mentioned(tmp_path: Path) -> None:
    with written(tmp_path / "log.db") as connection:
        a_conversation(connection)
    with connected(tmp_path / "log.db") as connection:
        execute(connection, "INSERT INTO rebuilds VALUES ('projections', '', '')")
    ran = run(
        tmp_path / "log.db", "query", "SELECT 1", "--engine", "duckdb", "--db", tmp_path / "log.db"
    )
    assert (ran.code, ran.err) == (0, f"{STALE}\n")


def test_without_the_extra_one_sentence_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with written(tmp_path / "log.db"):
        pass
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "duckdb.py").write_text("raise ImportError")
    # a statement runs in a process of its own
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "without"))
    ran = run(
        tmp_path / "log.db", "query", "SELECT 1", "--engine", "duckdb", "--db", tmp_path / "log.db"
    )
    assert (ran.code, ran.out) == (1, b"")
    assert ran.err.startswith(
        "Error: `recorder query --engine duckdb` needs the extra analytics: run `pip install "
    )
    assert ran.err.count("\n") == 1
