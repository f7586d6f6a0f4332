"""SQL of a user on a connection of DuckDB."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")


from recorder.archive.views import open_views
from recorder.errors import RecorderError, UsageError
from recorder.store.duckdb.connection import connected
from recorder.store.duckdb.query import DuckdbQuery
from recorder.store.location import database_url
from recorder.store.queries.query import STOPPED


@pytest.fixture
def query() -> Iterator[DuckdbQuery]:
    with connected("query", "analytics") as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT range AS n, 'x' || range AS name FROM range(1000)"
        )
        connection.execute("CREATE TABLE rebuilds (name VARCHAR)")
        yield DuckdbQuery(connection, is_stale="SELECT EXISTS (SELECT 1 FROM rebuilds)")


def test_a_statement_gives_names_and_rows(query: DuckdbQuery) -> None:
    result = query.ask("SELECT n, name, n AS n FROM t WHERE n < 2 ORDER BY n")
    assert result.columns == ["n", "name", "n_2"]
    assert list(result.rows) == [(0, "x0", 0), (1, "x1", 1)]
    assert not query.is_stale()


def test_values_are_given_by_name(query: DuckdbQuery) -> None:
    sql = """SELECT count(*), ':n', [4, 5, 6][1:2], {'k':n}.k::TEXT -- :no
        FROM t WHERE n<:n AND name<>:name GROUP BY n"""
    assert next(query.ask(sql, {"n": 1, "name": "y", "unused": 1}).rows) == (1, ":n", "[4, 5]", "0")


def test_values_are_those_that_sqlite_has(query: DuckdbQuery) -> None:
    sql = """SELECT sum(n), avg(n), 1.5, n = 0, uuid()::TEXT, DATE '2026-01-02', 'x'::BLOB,
        NULL, ['b', 'a'], {'k': [1]},
        count(*) FROM t WHERE n = 0 GROUP BY n"""
    row = next(query.ask(sql).rows)
    assert [type(value) for value in row] == [
        int,
        float,
        float,
        int,
        str,
        str,
        bytes,
        type(None),
        str,
        str,
        int,
    ]
    assert row[8:10] == ('["b", "a"]', '{"k": [1]}')


REFUSED = [
    "INSERT INTO t VALUES (1, 'a')",
    "WITH a AS (SELECT 1) INSERT INTO t SELECT 1, 'a'",
    "CREATE TEMP TABLE u AS SELECT 1",
    "EXPLAIN ANALYZE DELETE FROM t",
    "DELETE FROM t RETURNING *",
    "ATTACH 'other.db'",
    "COPY t TO 'x.csv'",
    "SET threads = 3",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CHECKPOINT",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE t",
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT (SELECT count(*) FROM glob('/etc/*'))",
    "WITH a AS (SELECT * FROM duckdb_settings()) SELECT * FROM a",
    "SELECT * FROM t WHERE EXISTS (FROM sqlite_scan('x.db', 'y'))",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM '/etc/hostname.csv'",
    "SELECT * FROM local_rows",
    "SELECT * FROM __ducklake_metadata_lake.ducklake_metadata",
    "SELECT nonsense FROM",
    "SELECT * FROM missing",
]


def test_it_only_reads(query: DuckdbQuery) -> None:
    local_rows = [{"a": 1}]
    for sql in REFUSED:
        with pytest.raises(RecorderError) as caught:
            list(query.ask(sql).rows)
        assert str(caught.value).endswith("."), (sql, local_rows)
        assert "\n" not in str(caught.value), sql
        assert list(query.ask("SELECT count(*) FROM t").rows) == [(1000,)], sql


def test_whatever_reads_is_taken(query: DuckdbQuery) -> None:
    for sql in (
        "EXPLAIN SELECT n FROM t",
        "FROM t",
        "TABLE t",
        "VALUES (1)",
        "DESCRIBE t",
        "SELECT * FROM range(3)",
    ):
        assert list(query.ask(sql).rows), sql


@pytest.mark.parametrize(
    ("sql", "message"), [("", "no SQL"), ("-- a", "no SQL"), ("SELECT ?", "no name")]
)
def test_a_mistake_has_its_sentence(query: DuckdbQuery, sql: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        query.ask(sql)


def test_a_value_that_is_missing_is_named(query: DuckdbQuery) -> None:
    with pytest.raises(RecorderError, match="n has no value: give it with"):
        query.ask("SELECT :n")


LONG = "SELECT count(*) FROM range(100000000000) AS a WHERE a.range % 7 = 8"


def test_a_statement_has_a_time_limit(query: DuckdbQuery) -> None:
    with pytest.raises(RecorderError, match=r"no row for 0\.2 s"):
        query.ask(LONG, timeout_s=0.2)
    assert list(query.ask("SELECT 1").rows) == [(1,)]


def test_a_statement_is_stopped(query: DuckdbQuery) -> None:
    timer = threading.Timer(0.2, query.stop)
    timer.start()
    with pytest.raises(RecorderError, match=STOPPED):
        query.ask(LONG)
    timer.join()


def test_rows_are_read_as_they_are_wanted(query: DuckdbQuery) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = query.ask("SELECT range, repeat('x', 1000) FROM range(1000000000)").rows
    assert [row[0] for _, row in zip(range(1000), rows, strict=False)] == list(range(1000))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 2**10
    assert list(query.ask("SELECT 1").rows) == [(1,)]


def test_a_log_is_read_by_its_views(demo_db: Path) -> None:
    with open_views(database_url(demo_db), "query") as connection:
        query = DuckdbQuery(connection)
        assert list(query.ask("SELECT count(*) > 0 FROM messages").rows) == [(1,)]
        assert not query.is_stale()
