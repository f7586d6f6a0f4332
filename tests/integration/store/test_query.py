"""`recorder.store.sqlite.query` and its likes: SQL that can only read, on each engine."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.errors import NotFoundError, RecorderError, StoreError, UsageError
from recorder.projections.views.contract import VIEWS
from recorder.store.engine import querying_of
from recorder.store.location import database_url
from recorder.store.queries.query import Query
from recorder.store.sqlite.query import SqliteQuery
from recorder.store.write.projector import START
from tests.support import superuser
from tests.support.rows import a_conversation, written
from tests.support.superuser import SEARCH

ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in a file."""
    path = tmp_path_factory.mktemp("query") / "log.db"
    with written(path) as connection:
        a_conversation(connection)
    return path


@pytest.fixture
def query(path: Path) -> Iterator[SqliteQuery]:
    """Of a file, where the claim is about the SQL of SQLite."""
    with SqliteQuery.open(database_url(path)) as opened:
        yield opened


@pytest.fixture(scope="module")
def log(shared_database: URL) -> URL:
    """A log of each engine."""
    with written(shared_database) as connection:
        a_conversation(connection)
    return shared_database


@pytest.fixture
def asking(log: URL) -> Iterator[Query]:
    with querying_of(log).query(log) as opened:
        yield opened


# -- what it refuses

WRITES = [
    *("DELETE FROM usage", "DELETE FROM sessions", "DROP TABLE events", "DROP VIEW usage", "VACUUM", "ANALYZE"),
    "REINDEX",
    *("INSERT INTO rebuilds VALUES ('x', '', '')", "REPLACE INTO rebuilds VALUES ('x', '', '')"),
    *("UPDATE p_usage_v1 SET input_tokens = 0", "WITH a AS (SELECT 1) DELETE FROM p_usage_v1"),
    "SELECT 1; DROP VIEW usage",
    *("CREATE TABLE t (x)", "CREATE TEMP TABLE t (x)", "CREATE TABLE t AS SELECT 1", "CREATE INDEX i ON events (t_ns)"),
    *("CREATE VIEW v AS SELECT 1", "CREATE TEMP VIEW v AS SELECT 1", "CREATE VIRTUAL TABLE v USING fts5 (x)"),
    "CREATE TEMP TRIGGER t AFTER INSERT ON events BEGIN SELECT 1; END",
    *("ALTER TABLE events RENAME TO e", "ALTER TABLE events ADD COLUMN x", "ALTER TABLE events DROP COLUMN raw"),
    *("ATTACH 'other.db' AS other", "ATTACH ':memory:' AS other", "ATTACH '' AS other", "DETACH main"),
    *("VACUUM INTO 'copy.db'", "VACUUM main INTO 'copy.db'", "EXPLAIN DELETE FROM sessions"),
    *("/* SELECT */ DELETE FROM events", "DELETE FROM p_usage_v1"),
    *("BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "COMMIT", "ROLLBACK", "SAVEPOINT s", "RELEASE s"),
    *("PRAGMA query_only = 0", "PRAGMA query_only", "PRAGMA user_version = 7", "PRAGMA journal_mode = delete"),
    *("PRAGMA writable_schema = 1", "PRAGMA trusted_schema = 1", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA optimize"),
    *("PRAGMA temp_store_directory = '/tmp'", "PRAGMA data_version = 1", "PRAGMA main.journal_size_limit = 0"),
    *("SELECT * FROM pragma_query_only", "SELECT * FROM pragma_user_version", "SELECT * FROM pragma_database_list"),
    *("SELECT * FROM pragma_table_info('events')", "SELECT load_extension('x')", "SELECT load_extension('x', 'y')"),
    *("SELECT fts3_tokenizer('x')", "SELECT writefile('x', 'y')", "SELECT readfile('/etc/passwd')", "SELECT edit('x')"),
    *("UPDATE sqlite_master SET sql = ''", "UPDATE sqlite_schema SET rootpage = 1", "DELETE FROM sqlite_master"),
    *(f"INSERT INTO {SEARCH} ({SEARCH}) VALUES ('rebuild')", f"INSERT INTO {SEARCH} ({SEARCH}) VALUES ('delete-all')"),
    *(f"DELETE FROM {SEARCH}_data", f"DROP TABLE {SEARCH}"),
    *("SELECT 1; DELETE FROM p_usage_v1", "SELECT 1; SELECT 2", "SELECT 1; PRAGMA query_only = 0"),
    "DELETE FROM p_usage_v1; SELECT 1",
]  # fmt: skip


def test_nothing_but_reading_is_possible(
    query: SqliteQuery, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    before, files = path.read_bytes(), sorted(os.listdir())
    did = []
    for sql in WRITES:
        try:
            list(query.ask(sql).rows)
            did.append(sql)
        except RecorderError:
            pass
        if path.read_bytes() != before or sorted(os.listdir()) != files:
            did.append(sql)
    assert did == []
    assert list(query.ask("SELECT count(*) FROM p_usage_v1").rows) == [(2,)]


@pytest.mark.long
def test_those_would_do_something_on_a_connection_of_another_program(path: Path) -> None:
    """So it is the connection that refuses them, not their grammar."""
    did = 0
    for sql in WRITES:
        with (
            closing(sqlite3.connect(":memory:")) as connection,
            closing(sqlite3.connect(path)) as source,
        ):
            source.backup(connection)
            try:
                connection.execute(
                    sql.replace("'copy.db'", "':memory:'").replace("'other.db'", "''")
                ).fetchall()
                did += 1
            except sqlite3.Error:
                pass
    assert did > 35


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DELETE FROM sessions", "`recorder query` only reads: DELETE is refused."),
        (
            "-- all of it\n/* really */ drop table events",
            "`recorder query` only reads: DROP is refused.",
        ),
        (
            "SELECT load_extension('x')",
            "`recorder query` only reads: not authorized to use function: load_extension.",
        ),
        (
            "SELECT * FROM nowhere",
            "no such table: nowhere; `recorder query --list` names the views.",
        ),
        ("SELECT unsaid FROM usage", "no such column: unsaid."),
        ("SELEC 1", 'near "SELEC": syntax error.'),
        (
            "SELECT :x",
            "You did not supply a value for binding parameter :x: give it with `-p NAME VALUE`.",
        ),
        ("SELECT ?", "A `?` has no name: write `:name`, and give its value with `-p NAME VALUE`."),
        ("SELECT 1; SELECT 2", "You can only execute one statement at a time."),
        ("SELECT abs(-9223372036854775807 - 1)", "integer overflow."),
    ],
)
def test_an_error_is_one_sentence(query: SqliteQuery, sql: str, message: str) -> None:
    with pytest.raises(RecorderError) as refusal:
        list(query.ask(sql).rows)
    assert (str(refusal.value), refusal.value.exit_code) == (message, 1)


@pytest.mark.parametrize("sql", ["", "  ", ";", "-- nothing", "/**/"])
def test_no_sql_is_a_matter_of_usage(asking: Query, sql: str) -> None:
    with pytest.raises(UsageError, match="There is no SQL to run"):
        asking.ask(sql)


@pytest.mark.parametrize(
    "sql", ["SELECT '\0'", "SELECT \ud800", "SELECT json_extract('{}', CAST(x'ff' AS TEXT))"]
)
def test_what_is_no_text_is_no_traceback(query: SqliteQuery, sql: str) -> None:
    with pytest.raises(RecorderError):
        query.ask(sql)


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError), SqliteQuery.open(database_url(tmp_path / "log.db")):
        pass
    assert not list(tmp_path.iterdir())


def test_an_older_and_a_foreign_database_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with (
        pytest.raises(StoreError, match="older schema"),
        SqliteQuery.open(database_url(tmp_path / "empty.db")),
    ):
        pass
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as foreign:
        foreign.execute("CREATE TABLE t (x)")
    with (
        pytest.raises(StoreError, match="another program"),
        SqliteQuery.open(database_url(tmp_path / "foreign.db")),
    ):
        pass


# -- what it answers


def test_every_view_answers(asking: Query) -> None:
    assert [
        view.name for view in VIEWS if not list(asking.ask(f"SELECT * FROM {view.name}").rows)
    ] == []


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3) SELECT x FROM n",
        "VALUES (1), (2)",
        "SELECT sum(t_ns) OVER (ORDER BY pos) FROM events -- with a remark",
        "SELECT 1;",
    ],
)
def test_all_that_reads_is_answered(asking: Query, sql: str) -> None:
    assert list(asking.ask(sql).rows)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value FROM json_each('[1]')",
        "SELECT key FROM json_tree('[1]')",
        f"SELECT snippet({SEARCH}, 0, '[', ']', '…', 5) FROM {SEARCH} WHERE {SEARCH} MATCH 'dice'",
        "EXPLAIN QUERY PLAN SELECT * FROM usage_by_model",
        "SELECT name FROM sqlite_schema",
    ],
)
def test_so_is_all_that_only_sqlite_has(query: SqliteQuery, sql: str) -> None:
    assert list(query.ask(sql).rows)


def test_text_that_is_no_unicode_is_shown_as_far_as_it_is(query: SqliteQuery) -> None:
    assert list(
        query.ask("SELECT json_extract('\"\\ud800\"', '$'), CAST(x'61ff' AS TEXT)").rows
    ) == [("���", "a�")]


def test_columns_have_names_of_their_own(asking: Query) -> None:
    assert asking.ask("SELECT 1 AS a, 2 AS a, 3 AS b, 4 AS a").columns == ["a", "a_2", "b", "a_3"]
    assert asking.ask("SELECT 1 AS a, 2 AS a, 3 AS a_2").columns == ["a", "a_3", "a_2"]


def test_rows_are_read_as_they_are_wanted(asking: Query) -> None:
    rows = asking.ask(f"{ENDLESS.replace('max(x)', 'x')}").rows
    assert [next(rows) for _ in range(3)] == [(1,), (2,), (3,)]


def test_whoever_looks_at_rows_slowly_is_not_hurried(asking: Query) -> None:
    rows = asking.ask(ENDLESS.replace("max(x)", "x"), timeout_s=1.0).rows
    assert next(rows) == (1,)
    time.sleep(1.5)  # longer than the statement has for a row
    assert [next(rows) for _ in range(100_000)][-1] == (100_001,)


def test_values_are_those_of_python(log: URL, asking: Query) -> None:
    blobs = {
        "sqlite": "CAST('t' AS BLOB) AS d, x'ff' AS e",
        "postgresql": "CAST('t' AS bytea) AS d, decode('ff', 'hex') AS e",
    }[superuser.engine(log)]
    columns, rows = asking.ask(
        f"SELECT NULL AS a, 1.5 AS b, 'x' AS c, {blobs}, :n + 1 AS f", {"n": 41}
    )
    assert (columns, list(rows)) == (list("abcdef"), [(None, 1.5, "x", b"t", b"\xff", 42)])


def test_projections_that_are_due_are_known(log: URL, asking: Query) -> None:
    assert not asking.is_stale()
    superuser.asked(log, "INSERT INTO rebuilds VALUES ('projections', ?, ?)", *START)
    try:
        assert asking.is_stale()
    finally:
        superuser.asked(log, "DELETE FROM rebuilds")


def test_to_sqlite_a_text_is_greater_than_a_number(query: SqliteQuery) -> None:
    """So a number that is a name is given as a text where it is compared with one."""
    assert list(
        query.ask("SELECT count(*) FROM usage WHERE session_name < :n", {"n": 99}).rows
    ) == [(0,)]
