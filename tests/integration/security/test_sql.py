"""`recorder query`: what could write, and what could go on for ever. The folder is the same
afterwards, to the byte.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import pytest

from recorder.errors import RecorderError
from recorder.store.location import database_url
from recorder.store.queries import query as querying
from recorder.store.sqlite.query import SqliteQuery, _authorize
from tests.integration.store.test_query import ENDLESS
from tests.support.rows import a_conversation, written
from tests.support.superuser import SEARCH

MORE = [
    *f"""
PRAGMA query_only(0)
PRAGMA main.query_only = OFF
pragma/**/query_only=0
PRAGMA query_only=0; DELETE FROM events
PRAGMA locking_mode = exclusive
PRAGMA page_size = 512
PRAGMA auto_vacuum = 1
PRAGMA incremental_vacuum
PRAGMA application_id = 1
PRAGMA schema_version = 1
PRAGMA encoding = 'UTF-16'
PRAGMA secure_delete = 0
PRAGMA wal_checkpoint
PRAGMA shrink_memory
PRAGMA hard_heap_limit = 1
PRAGMA soft_heap_limit = 1
PRAGMA foreign_keys = 0
PRAGMA recursive_triggers = 1
PRAGMA ignore_check_constraints = 1
PRAGMA integrity_check
PRAGMA database_list
PRAGMA compile_options
PRAGMA module_list
SELECT * FROM pragma_wal_checkpoint
SELECT * FROM pragma_journal_mode
SELECT * FROM pragma_page_size(1)
PRAGMA case_sensitive_like = 1
PRAGMA data_store_directory = '/tmp'
PRAGMA legacy_alter_table = 1
ATTACH 'file:other.db?mode=rwc' AS o
ATTACH DATABASE 'log.db' AS twice
ATTACH char(111) AS o
ATTACH x'61' AS o
VACUUM INTO 'file:copy.db?mode=rwc'
VACUUM INTO char(99)
VACUUM temp INTO 'copy.db'
CREATE VIRTUAL TABLE c USING csv(filename='/etc/passwd')
CREATE VIRTUAL TABLE z USING zipfile('x.zip')
CREATE VIRTUAL TABLE d USING dbstat
CREATE VIRTUAL TABLE temp.s USING fts5vocab(x, 'row')
SELECT * FROM fsdir('/')
SELECT * FROM zipfile('x')
SELECT * FROM sqlite_dbpage
INSERT INTO sqlite_dbpage VALUES (1, x'')
SELECT * FROM bytecode('SELECT 1')
SELECT shell('id')
INSERT INTO events SELECT * FROM events
INSERT OR REPLACE INTO events SELECT * FROM events LIMIT 1
INSERT OR IGNORE INTO rebuilds VALUES ('x', '', '')
REPLACE INTO sessions SELECT * FROM sessions
UPDATE events SET raw = x'' RETURNING raw
DELETE FROM events RETURNING *
INSERT INTO rebuilds VALUES ('x', '', '') RETURNING 1
UPDATE OR REPLACE events SET pos = 0
WITH x AS (SELECT 1) UPDATE events SET pos = 1
WITH x AS (SELECT 1) REPLACE INTO rebuilds VALUES ('a', '', '')
INSERT INTO rebuilds VALUES ('x', '', '') ON CONFLICT DO UPDATE SET name = 'y'
DROP TRIGGER IF EXISTS x
DROP TABLE IF EXISTS events
DROP INDEX IF EXISTS x
ALTER TABLE events RENAME COLUMN raw TO r
ALTER TABLE nowhere ADD x
CREATE TABLE IF NOT EXISTS t (x)
CREATE UNIQUE INDEX IF NOT EXISTS i ON events (raw)
CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END
INSERT INTO sqlite_sequence VALUES ('a', 1)
DELETE FROM sqlite_stat1
INSERT INTO sqlite_master VALUES ('a', 'b', 'c', 0, 'd')
INSERT INTO {SEARCH} ({SEARCH}) VALUES ('optimize')
INSERT INTO {SEARCH} ({SEARCH}, rank) VALUES ('merge', 500)
INSERT INTO {SEARCH} ({SEARCH}, rank) VALUES ('pgsz', 64)
DELETE FROM {SEARCH}
DROP TABLE {SEARCH}_config
END
END TRANSACTION
ROLLBACK TO s
COMMIT; DROP TABLE events
BEGIN; DELETE FROM events; COMMIT
EXPLAIN ATTACH 'other.db' AS o
EXPLAIN QUERY PLAN DELETE FROM events
SELECT 1 /*;*/; DELETE FROM events
ANALYZE events
ANALYZE sqlite_master
REINDEX events
DETACH DATABASE main
.shell id
.output x
SELECT load_extension(char(120))
SELECT fts3_tokenizer('simple', x'00')
SELECT sqlite_rename_table(1,2,3,4,5,6,7)
SELECT writefile('out', raw) FROM events
SELECT eval('DELETE FROM events')
SELECT system('id')
""".strip().splitlines(),
    "\ufeffDELETE FROM events",
    " \t\n;DELETE FROM events",
    "--\nDELETE FROM events",
    "\\! id",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    with written(folder / "log.db") as connection:
        a_conversation(connection)
    return folder


@pytest.fixture
def query(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteQuery]:
    monkeypatch.chdir(folder)
    with SqliteQuery.open(database_url(folder / "log.db")) as opened:
        yield opened


def state(folder: Path) -> dict[str, str]:
    """Every file and what is in it, but for SQLite's map of who reads what."""
    files = (path for path in folder.rglob("*") if not path.name.endswith("-shm"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_nothing_is_changed_and_nothing_is_made(query: SqliteQuery, folder: Path) -> None:
    """Up to the first that is obeyed: what comes after it says nothing."""
    before = state(folder)
    obeyed = (sql for sql in MORE if is_answered(query, sql) or state(folder) != before)
    assert next(obeyed, None) is None
    assert list(query.ask("SELECT count(*) FROM p_usage_v1").rows) == [(2,)], "it still reads"


def test_the_pages_of_the_file_are_refused_where_sqlite_was_built_with_them() -> None:
    """The SQLite of many systems has no such table, so that the statement above says nothing there."""
    assert (
        _authorize(sqlite3.SQLITE_READ, "sqlite_dbpage", "data", "main", None)
        == sqlite3.SQLITE_DENY
    )
    assert _authorize(sqlite3.SQLITE_READ, "events", "raw", "main", None) == sqlite3.SQLITE_OK


def is_answered(query: SqliteQuery, sql: str) -> bool:
    try:
        list(query.ask(sql).rows)
    except RecorderError:
        return False
    return True


def test_what_is_answered_changes_nothing_either(query: SqliteQuery, folder: Path) -> None:
    before = state(folder)
    for sql in (
        "SELECT * FROM sqlite_stmt",
        "EXPLAIN VACUUM INTO 'copy.db'",
        "SELECT * FROM dbstat",
    ):
        # whether there is such a table is a matter of how SQLite was built
        with suppress(RecorderError):
            list(query.ask(sql).rows)
        assert state(folder) == before, sql


def test_without_the_authorizer_files_would_be_made(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is merely read-only lets them through: the test above would fail on it."""
    monkeypatch.chdir(tmp_path)
    with closing(
        sqlite3.connect(f"file:{folder}/log.db?mode=ro", uri=True, isolation_level=None)
    ) as connection:
        connection.execute("PRAGMA query_only = 1")
        connection.execute("ATTACH 'other.db' AS o")
        connection.execute("PRAGMA query_only = 0")
        connection.execute("CREATE TABLE o.t (x)")
        connection.execute("VACUUM main INTO 'copy.db'")
    assert {path.name for path in tmp_path.iterdir()} == {"other.db", "copy.db"}


NEVER_DONE = [
    ENDLESS,
    ENDLESS.replace("max(x)", "count(*)"),
    ENDLESS.replace("max(x) FROM n", "x FROM n WHERE x < 0"),
    ENDLESS.replace("max(x) FROM n", "x FROM n ORDER BY x"),
    "SELECT count(*) FROM (" + " CROSS JOIN ".join(f"events AS e{number}" for number in range(30)) + ")",
]  # fmt: skip


def test_what_never_ends_is_stopped_after_a_minute_if_nothing_else_was_said(
    query: SqliteQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that is a second later whenever somebody looks at it."""
    looks = count(1_000_000)
    monkeypatch.setattr(querying, "LOOK_S", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(looks)))
    with pytest.raises(RecorderError, match="gave no row for 60 s: --timeout gives it more"):
        list(query.ask(ENDLESS).rows)
    assert next(looks) - 1_000_000 < 100


@pytest.mark.parametrize("sql", NEVER_DONE)
def test_what_never_ends_is_stopped(query: SqliteQuery, sql: str) -> None:
    with pytest.raises(
        RecorderError, match=r"^The statement gave no row for 0\.1 s: --timeout gives it more\.$"
    ):
        list(query.ask(sql, timeout_s=0.1).rows)
    assert list(query.ask("SELECT 1").rows) == [(1,)]


def test_a_value_has_a_limit(query: SqliteQuery) -> None:
    for sql in (
        "SELECT zeroblob(300 << 20)",
        "SELECT hex(zeroblob(200 << 20))",
        "SELECT replace(hex(zeroblob(1 << 16)), '0', hex(zeroblob(1 << 14)))",
    ):
        with pytest.raises(RecorderError, match=r"too big|too large"):
            list(query.ask(sql).rows)
