"""`recorder.store.sqlite.query` and `recorder query`: SQL that can only read."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.commands import main
from recorder.commands import query as command
from recorder.errors import NotFoundError, RecorderError, StoreError, UsageError
from recorder.projections.views import VIEWS
from recorder.store.location import database_url
from recorder.store.projector import START
from recorder.store.query import Query
from recorder.store.query_process import DUCKDB, OWN, open_query
from recorder.store.schema import STALE
from recorder.store.sqlite.query import SqliteQuery
from tests.support import superuser
from tests.support.projection_rows import a_conversation, written
from tests.support.server import PROGRAM, address, children, cpu_s, run, wait_until
from tests.support.superuser import SEARCH

Ask = Callable[..., tuple[int, str, str]]

ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in a file, to be copied: faster than making each anew."""
    path = tmp_path_factory.mktemp("query") / "log.db"
    with written(path) as connection:
        a_conversation(connection)
    return path


@pytest.fixture
def path(conversation: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(conversation, tmp_path / "log.db"))


@pytest.fixture
def query(path: Path) -> Iterator[SqliteQuery]:
    """Of a file, where the claim is about the SQL of SQLite."""
    with SqliteQuery.open(database_url(path)) as opened:
        yield opened


@pytest.fixture(scope="module")
def log(shared_database: URL) -> URL:
    """A log of each engine, not to be written."""
    with written(shared_database) as connection:
        a_conversation(connection)
    return shared_database


@pytest.fixture
def asking(log: URL) -> Iterator[Query]:
    with open_query(log) as opened:
        yield opened


@pytest.fixture
def ask(log: URL, capfdbinary: pytest.CaptureFixture[bytes]) -> Ask:
    """Run the command: its exit code, what it wrote, and what it said."""

    def told(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["query", "--db", address(log), *arguments])
        out, err = capfdbinary.readouterr()
        return int(ended.value.code or 0), out.decode(), err.decode()

    return told


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


def contents(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("sql", WRITES)
def test_nothing_but_reading_is_possible(path: Path, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    before = contents(path)
    with SqliteQuery.open(database_url(path)) as query:
        files = set(os.listdir())
        with pytest.raises(RecorderError):
            list(query.ask(sql).rows)
        assert set(os.listdir()) == files
        assert list(query.ask("SELECT count(*) FROM p_usage_v1").rows) == [(2,)]
    assert contents(path) == before


def test_those_would_do_something_on_a_connection_of_another_program(path: Path, tmp_path: Path) -> None:
    """So it is the connection that refuses them, not their grammar."""
    did = 0
    for sql in WRITES:
        with closing(sqlite3.connect(":memory:")) as connection, closing(sqlite3.connect(path)) as source:
            source.backup(connection)
            try:
                connection.execute(sql.replace("'copy.db'", "':memory:'").replace("'other.db'", "''")).fetchall()
                did += 1
            except sqlite3.Error:
                pass
    assert did > 35


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DELETE FROM sessions", "`recorder query` only reads: DELETE is refused."),
        ("-- all of it\n/* really */ drop table events", "`recorder query` only reads: DROP is refused."),
        ("SELECT load_extension('x')", "`recorder query` only reads: not authorized to use function: load_extension."),
        ("SELECT * FROM nowhere", "no such table: nowhere; `recorder query --list` names the views."),
        ("SELECT unsaid FROM usage", "no such column: unsaid."),
        ("SELEC 1", 'near "SELEC": syntax error.'),
        ("SELECT :x", "You did not supply a value for binding parameter :x: give it with `-p NAME VALUE`."),
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


@pytest.mark.parametrize("sql", ["SELECT '\0'", "SELECT \ud800", "SELECT json_extract('{}', CAST(x'ff' AS TEXT))"])
def test_what_is_no_text_is_no_traceback(query: SqliteQuery, sql: str) -> None:
    with pytest.raises(RecorderError):
        query.ask(sql)


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError), SqliteQuery.open(database_url(tmp_path / "log.db")):
        pass
    assert not list(tmp_path.iterdir())


def test_an_older_and_a_foreign_database_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="older schema"), SqliteQuery.open(database_url(tmp_path / "empty.db")):
        pass
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as foreign:
        foreign.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreError, match="another program"), SqliteQuery.open(database_url(tmp_path / "foreign.db")):
        pass


# -- what it answers


@pytest.mark.parametrize("view", [view.name for view in VIEWS])
def test_every_view_answers(asking: Query, view: str) -> None:
    assert list(asking.ask(f"SELECT * FROM {view}").rows)


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
    assert list(query.ask("SELECT json_extract('\"\\ud800\"', '$'), CAST(x'61ff' AS TEXT)").rows) == [("���", "a�")]


def test_columns_have_names_of_their_own(asking: Query) -> None:
    assert asking.ask("SELECT 1 AS a, 2 AS a, 3 AS b, 4 AS a").columns == ["a", "a_2", "b", "a_3"]
    assert asking.ask("SELECT 1 AS a, 2 AS a, 3 AS a_2").columns == ["a", "a_3", "a_2"]


def test_rows_are_read_as_they_are_wanted(asking: Query) -> None:
    rows = asking.ask(f"{ENDLESS.replace('max(x)', 'x')}").rows
    assert [next(rows) for _ in range(3)] == [(1,), (2,), (3,)]


def test_projections_that_are_due_are_known(log: URL, asking: Query, ask: Ask) -> None:
    assert not asking.is_stale()
    assert ask("SELECT 1 AS a") == (0, "a\n1\n", "")
    superuser.asked(log, "INSERT INTO rebuilds VALUES ('projections', ?, ?)", *START)
    try:
        assert asking.is_stale()
        assert ask("SELECT 1 AS a") == (0, "a\n1\n", f"{STALE}\n")
    finally:
        superuser.asked(log, "DELETE FROM rebuilds")


# -- the command


@pytest.mark.parametrize(
    ("text", "value"),
    [("42", 42), ("-7", -7), ("0", 0), ("0.50", 0.5), ("-1.5", -1.5), ("9223372036854775807", 2**63 - 1)]
    + [(text, text) for text in ("007", "9223372036854775808", "1e3", "+1", "nan", "inf", "", "1.", "½", "٣", "1_000")],
)  # fmt: skip
def test_a_value_is_a_number_if_it_is_written_as_one(ask: Ask, text: str, value: Any) -> None:
    assert json.loads(ask("SELECT :v AS v", "-p", "v", text, "--json")[1]) == [{"v": value}]


def test_a_value_is_found(ask: Ask) -> None:
    sql = "SELECT sum(total_tokens) AS n FROM usage WHERE session_name = :name AND total_tokens > :n"
    assert ask(sql, "-p", ":name", "run-1", "-p", "n", "13", "--csv")[1] == "n\n14\n"


def test_to_sqlite_a_text_is_greater_than_a_number(query: SqliteQuery) -> None:
    """So a number that is a name is given as a text where it is compared with one."""
    assert list(query.ask("SELECT count(*) FROM usage WHERE session_name < :n", {"n": 99}).rows) == [(0,)]


def test_the_formats_have_the_same_rows(log: URL, ask: Ask) -> None:
    sql = (
        "SELECT NULL AS a, 1.5 AS b, 'x,\"y' AS c, "
        + {
            "sqlite": "CAST('t' AS BLOB) AS d, x'ff' AS e",
            "postgresql": "CAST('t' AS bytea) AS d, decode('ff', 'hex') AS e",
        }[superuser.engine(log)]
    )
    row = {"a": None, "b": 1.5, "c": 'x,"y', "d": "t", "e": {"base64": "/w=="}}
    assert json.loads(ask(sql, "--json")[1]) == [row]
    assert [json.loads(line) for line in ask(sql, "--jsonl")[1].splitlines()] == [row]
    assert ask(sql, "--csv")[1] == 'a,b,c,d,e\n,1.5,"x,""y",t,"{""base64"":""/w==""}"\n'
    assert ask(sql)[1].splitlines()[1].split() == ["1.5", 'x,"y', "t", '{"base64":"/w=="}']


def test_an_empty_result_is_no_error(ask: Ask) -> None:
    sql = "SELECT 1 AS a, 2 AS b WHERE 1 = 0"
    assert [ask(sql, *option)[:2] for option in ([], ["--csv"], ["--json"], ["--jsonl"])] == [
        (0, "a  b\n"),
        (0, "a,b\n"),
        (0, "[]\n"),
        (0, ""),
    ]


def test_a_table_is_bounded_and_says_so(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "TABLE_ROWS", 2)
    code, out, err = ask("VALUES (1), (2), (3)")
    assert (code, out.split()) == (0, ["column1", "1", "2"])
    assert "The first 2 rows; --jsonl and --csv give all of them." in err


def test_an_array_that_is_too_large_is_refused_whole(log: URL, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "HELD_BYTES", 2**20)
    zeros = {"sqlite": "hex(zeroblob(1 << 20))", "postgresql": "repeat('00', 1 << 20)"}[superuser.engine(log)]
    code, out, err = ask(f"SELECT {zeros} AS z", "--json")
    assert (code, out) == (1, "")
    assert "over 1 MiB, too much for one JSON array: use --jsonl" in err
    assert ask(f"SELECT {zeros} AS z", "--jsonl")[0] == 0


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_sql_may_come_from_stdin(ask: Ask, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 'it' AS a\n")))
    assert ask(*arguments)[:2] == (0, "a\nit\n")


@pytest.mark.parametrize(
    "arguments",
    [["SELECT 1", "--json", "--csv"], ["--json", "--jsonl", "SELECT 1"], ["--list", "--csv"], ["--list", "x"]],
)
def test_what_makes_no_sense_is_a_matter_of_usage(ask: Ask, arguments: list[str]) -> None:
    assert ask(*arguments)[:2] == (2, "")


def test_the_list_names_every_view_and_column_without_a_database(tmp_path: Path) -> None:
    listed = run(tmp_path / "none.db", "query", "--list").out.decode()
    described = json.loads(run(tmp_path / "none.db", "query", "--list", "--json").out)
    assert [each["view"] for each in described] == [view.name for view in VIEWS]
    for view, each in zip(VIEWS, described, strict=True):
        assert [column["name"] for column in each["columns"]] == list(view.columns)
        assert f"\n{view.name}\n" in f"\n{listed}"


def test_every_example_of_the_help_answers(ask: Ask) -> None:
    shown = (command.command.help or "").splitlines()
    [by_model] = [line for line in shown if "usage_by_model" in line]
    assert ask(by_model.split('"')[1])[0] == 0
    assert ask("select text from messages where session_name = :name", "-p", "name", "run-1", "--jsonl")[1] == (
        '{"text":"The dice are gone."}\n'
    )


ONE_STEP = {
    "sqlite": "SELECT instr(zeroblob(2000000), zeroblob(1000000) || x'01')",
    "duckdb": "SELECT instr(repeat('a', 4000000), repeat('a', 2000000) || 'b')",
    "postgresql": "SELECT position('b' || repeat('a', 150000) IN repeat('a', 450000))",
}
"""Statements of which one step takes a quarter of a minute, and hears of no interrupt."""
COMPUTES_S = 1.0  # of processor time: more than its process needs to start
HOURS = "SELECT instr(zeroblob(200000000), zeroblob(100000000) || x'01')"


def test_one_step_of_an_engine_has_a_limit_of_time_too(log: URL) -> None:
    assert_ends(log, OWN, ONE_STEP[log.get_backend_name()])


def test_one_step_of_duckdb_has_a_limit_of_time_too(path: Path) -> None:
    assert_ends(database_url(path), DUCKDB, ONE_STEP["duckdb"])


def assert_ends(url: URL, way: str, sql: str) -> None:
    with open_query(url, way) as query:
        with pytest.raises(RecorderError, match=r"^The statement gave no row for 0\.1 s: --timeout gives it more\.$"):
            list(query.ask(sql, timeout_s=0.1).rows)
        with pytest.raises(RecorderError):
            query.ask("SELECT 1")


HUGE = {
    "five values": (OWN, f"SELECT {', '.join(['zeroblob(250000000) || x' + repr('00')] * 5)}"),
    "five times one": (OWN, f"SELECT {', '.join(['x'] * 5)} FROM (SELECT zeroblob(250000000) AS x)"),
    "a text": (DUCKDB, "SELECT length(format('{:>2000000000}', 'a'))"),
    "a list": (DUCKDB, "SELECT list(x) FROM range(1000000000) AS t (x)"),
}


@pytest.mark.parametrize(("way", "sql"), HUGE.values(), ids=HUGE)
def test_a_statement_has_a_limit_of_memory(path: Path, way: str, sql: str) -> None:
    with (
        pytest.raises(RecorderError, match=r"^This takes more (than the 1024 MiB of|memory than DuckDB has)"),
        open_query(database_url(path), way) as query,
    ):
        list(query.ask(sql).rows)


def test_a_row_has_a_limit(path: Path) -> None:
    sql = "SELECT zeroblob(140000000), zeroblob(140000000)"
    with open_query(database_url(path)) as query, pytest.raises(RecorderError, match="A row is over 256 MiB"):
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


@pytest.mark.parametrize("sql", [ENDLESS, HOURS], ids=["endless", "one step"])
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_statement_ends_with_its_command(path: Path, sql: str, by: signal.Signals) -> None:
    command = [*PROGRAM, "query", "--db", str(path), "--timeout", "600", sql]
    temporary = path.parent / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    asked: list[int] = []
    with (
        (path.parent / "said").open("w+b") as said,
        subprocess.Popen(command, stdout=said, stderr=said, env=environment, start_new_session=True) as process,
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
