"""`recorder.store.maintain.migrate`: each schema becomes the newest, and what is not recorder's is left alone."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from recorder.errors import StoreError
from recorder.store.location import database_url
from recorder.store.maintain import migrate
from recorder.store.queries.reader import LogReader
from recorder.store.sqlite.migrate import current
from recorder.store.write.writer import Store
from tests.support.corpus import ROOT
from tests.support.empty_log import empty
from tests.support.superuser import alembic, asked

# The beginning of the SHA-256 of each migration, by its revision.
MIGRATIONS = {
    "0001": "25c7e4fc7273fc02",
    "0002": "b7284cd99473a2ed",
    "0003": "c9fb92284311a69c",
    "0004": "502223b5c7710ba4",
    "0005": "a8454ebfc27d2d6e",
    "0006": "940eed535dd5f82a",
    "0007": "912f5b80ba5feaac",
    "0008": "1c1e1b7abca74e8c",
    "0009": "4a7ceff322fabcd7",
    "0010": "7e48dce2cb9fc217",
    "0011": "a4a6a353a1954823",
    "0012": "dedb28472b69b38e",
    "0013": "a834bb622efe8866",
    "0014": "1111930ef26c2524",
    "0015": "2d60f994c118d2f6",
    "0016": "3df599b9b094fc62",
    "0017": "ccd61b85d7a52e60",
    "0018": "259d41353b1692b8",
    "0019": "0ccefe55374dc8a2",
    "0020": "351baff72d648428",
    "0021": "6228a07b34dea810",
}


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def run_sql(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def test_the_head_is_the_head_of_the_scripts() -> None:
    config = Config(str(ROOT / "alembic.ini"))
    assert ScriptDirectory.from_config(config).get_heads() == [migrate.HEAD]


def test_a_migration_that_databases_have_is_never_changed() -> None:
    """Who has its revision would not get the change. Add another; only one that nobody has yet may be changed here."""
    digests = {
        path.name[:4]: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in (ROOT / "migrations" / "versions").glob("*.py")
    }
    assert digests == MIGRATIONS


def test_a_new_database_is_recorders_and_has_the_newest_schema(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    Store(path).close()
    assert current(path) == migrate.HEAD
    assert path.read_bytes()[68:72] == b"SSEr"  # where the format of SQLite has the application id


def test_an_upgrade_of_the_newest_schema_changes_nothing(tmp_path: Path) -> None:
    path = empty(tmp_path / "log.db")
    migrate.upgrade(database_url(path))
    before = snapshot(tmp_path)
    migrate.upgrade(database_url(path))
    assert snapshot(tmp_path) == before


def test_a_new_database_is_waited_for_however_long_another_process_takes_to_make_it(tmp_path: Path) -> None:
    url = database_url(tmp_path / "log.db")
    with ThreadPoolExecutor(1) as another:
        with migrate.migration(url) as connection:
            opened = another.submit(lambda: Store(url, busy_timeout_s=0.01).close())
            with pytest.raises(TimeoutError):  # it waits, and did not give up
                opened.result(timeout=0.5)
            migrate.run(connection)
        opened.result()
    assert current(tmp_path / "log.db") == migrate.HEAD


FOREIGN = {
    "tables": "CREATE TABLE notes (x)",
    "tables in WAL mode": "PRAGMA journal_mode = wal; CREATE TABLE notes (x)",
    "another application": "PRAGMA application_id = 1; CREATE TABLE notes (x)",
    "our names": "CREATE TABLE recorder_version (version_num); INSERT INTO recorder_version VALUES ('0001')",
}


@pytest.mark.parametrize("script", FOREIGN.values(), ids=FOREIGN.keys())
async def test_a_database_of_another_program_is_refused_and_untouched(tmp_path: Path, script: str) -> None:
    path = run_sql(tmp_path / "notes.db", script)
    before = snapshot(tmp_path)
    with pytest.raises(StoreError, match="belongs to another program, not to recorder; give another path"):
        Store(path)
    with pytest.raises(StoreError, match="belongs to another program"):
        await LogReader.open(path)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("content", [b"x", b"words\n" * 1000, b"SQLite format 3\0", bytes(8192)], ids=len)
async def test_a_file_that_is_no_database_is_refused_and_untouched(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file.db").write_bytes(content)
    with pytest.raises(StoreError) as refusal:
        Store(tmp_path / "file.db")
    assert str(refusal.value).endswith("; give another path.")
    with pytest.raises(StoreError, match=r"is not a database file|belongs to another program"):
        await LogReader.open(tmp_path / "file.db")
    assert snapshot(tmp_path) == {"file.db": content}


async def test_a_newer_schema_is_refused_and_untouched(tmp_path: Path) -> None:
    path = run_sql(empty(tmp_path / "log.db"), "UPDATE recorder_version SET version_num = '9999'")
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError) as refusal:
            Store(path)
        assert str(refusal.value) == (
            f"The database {path} was made by a newer recorder (its schema is 9999, this one knows {migrate.HEAD}): "
            "upgrade recorder, or give another path."
        )
        with pytest.raises(StoreError, match="was made by a newer recorder"):
            await LogReader.open(path)
    assert path.read_bytes() == before


async def test_a_reader_refuses_an_older_schema_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.touch()
    with pytest.raises(StoreError, match=r"has an older schema: run `recorder db upgrade`\."):
        await LogReader.open(path)
    assert path.read_bytes() == b""


def test_an_upgrade_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with migrate.migration(database_url(tmp_path / "log.db")) as connection:
            connection.exec_driver_sql("PRAGMA application_id = 7")
            connection.exec_driver_sql("CREATE TABLE sessions (x)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (tmp_path / "log.db").read_bytes() == b""
    empty(tmp_path / "log.db")


def dumped(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


OF_AN_OLD_LOG = """
INSERT INTO sessions VALUES ('s', 1, 'run', 'prefix', '{}', 'live');
INSERT INTO exchanges (session_id, exchange_id, started_ns, recorder_id, provider, api, method, target)
    VALUES ('s', 'x', 1, 'r', 'openai', 'openai-chat', 'POST', '/v1/chat/completions');
INSERT INTO events VALUES ('s', 'x', 0, 'frame', 1, NULL, NULL, NULL, NULL, x'64', NULL, NULL, x'00');
"""


def but_for_rebuilds(rows: list[str]) -> list[str]:
    """Projections are computed anew by each version that computes them otherwise. Of a view the lines do not count."""
    kept = [row for row in rows if not row.startswith('INSERT INTO "rebuilds"')]
    return sorted(re.sub(r"\s+", "", row) if row.startswith("CREATE VIEW") else row for row in kept)


def test_a_log_without_projections_keeps_its_rows_and_gets_a_rebuild(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    alembic(path, "upgrade", "0001")
    old = set(dumped(run_sql(path, OF_AN_OLD_LOG)))
    migrate.upgrade(database_url(path))
    replaced = ("CREATE VIEW event_payloads", "CREATE TRIGGER", "CREATE TABLE ingest_offsets")
    gone = {row for row in old - set(dumped(path)) if not row.startswith(replaced)}
    assert gone == {"INSERT INTO \"recorder_version\" VALUES('0001');"}
    assert "INSERT INTO \"rebuilds\" VALUES('projections','','');" in dumped(path)


def test_a_log_without_exchanges_needs_no_rebuild(tmp_path: Path) -> None:
    assert not [row for row in dumped(empty(tmp_path / "log.db")) if row.startswith('INSERT INTO "rebuilds"')]


WRITTEN = {
    "0001": OF_AN_OLD_LOG
    + "INSERT INTO events VALUES ('s', 'x', 1, 'request', 1, 'body', NULL, NULL, NULL, x'7b7d', NULL, NULL, x'01');",
    "0002": "",
    "0005": "",
    "0011": """
INSERT INTO p_exchanges_v1 (session_id, exchange_id, request_model, is_turn, is_retrieval) VALUES ('s', 'x', 'm', 0, 0);
INSERT INTO p_usage_v1 (session_id, exchange_id, input_tokens, usage_raw, partial) VALUES ('s', 'x', 7, '{}', 1);
""",
}
"""What recorders with older schemas wrote, by the schema."""
PROJECTED = "DELETE FROM p_usage_v1; DELETE FROM p_exchanges_v1;"


@pytest.mark.long
async def test_a_log_of_an_older_schema_keeps_all_of_it_and_may_go_back(tmp_path: Path) -> None:
    path, before = tmp_path / "log.db", {}
    for revision, script in WRITTEN.items():
        alembic(path, "upgrade", revision)
        before[revision] = dumped(run_sql(path, script))
    alembic(path, "upgrade", "0020")
    assert asked(path, "SELECT input_tokens, web_searches, reported_cost_usd FROM usage") == [(7, None, None)]
    assert asked(path, "SELECT count(*) FROM rebuilds") == [(1,)]
    for revision in reversed(WRITTEN):
        alembic(path, "downgrade", revision)
        assert but_for_rebuilds(dumped(path)) == but_for_rebuilds(before[revision]), revision
        if revision == "0011":
            run_sql(path, PROJECTED)
    migrate.upgrade(database_url(path))
    async with await LogReader.open(path) as log:
        assert [(event.type, event.raw) async for event in log.events("s", "x")] == [(None, b"d"), ("body", b"{}")]


@pytest.mark.long
def test_what_an_older_schema_cannot_say_has_no_way_down(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    alembic(path, "upgrade", "0020")
    with pytest.raises(NotImplementedError, match="to be rid of it, delete the file"):
        alembic(path, "downgrade", "base")
    shared = "'request', 1, 'shared', NULL, NULL, NULL, x'7b', NULL, NULL, x'01'"
    run_sql(path, OF_AN_OLD_LOG + f"INSERT INTO events VALUES ('s', 'x', 1, {shared});")
    with pytest.raises(NotImplementedError, match="nobody can read the request bodies that share bytes"):
        alembic(path, "downgrade", "0005")
    assert current(path) == "0020"


def test_views_as_declared_have_no_way_down(tmp_path: Path) -> None:
    path = empty(tmp_path / "log.db")
    with pytest.raises(NotImplementedError, match="read this log with a recorder that knows it"):
        alembic(path, "downgrade", "0020")
    assert current(path) == migrate.HEAD


def test_a_log_whose_projections_mean_something_else_gets_a_rebuild_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    alembic(path, "upgrade", "0006")
    run_sql(path, OF_AN_OLD_LOG + "INSERT INTO rebuilds VALUES ('projections', 's', 'half');")
    alembic(path, "upgrade", "0020")
    assert [row for row in dumped(path) if "rebuilds" in row and "INSERT" in row] == [
        "INSERT INTO \"rebuilds\" VALUES('projections','','');"
    ]


def test_rows_that_were_wrong_are_what_a_fold_makes_of_them_now(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    alembic(path, "upgrade", "0006")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(OF_AN_OLD_LOG)
        for number, (api, status, rate) in enumerate(
            [("other", "completed", -15.0), ("other", "upstream_reset", 2.0), ("gemini", "completed", None)]
        ):
            x = f"x{number}"
            log = "INSERT INTO exchanges VALUES ('s', ?, 1, 'r', 'p', ?, 'POST', '/'" + ", NULL" * 7 + ")"
            connection.execute(log, [x, api])
            tables: dict[str, dict[str, Any]] = {
                "p_exchanges_v1": {"status": status, "is_turn": 0, "is_retrieval": 0},
                "p_usage_v1": {"partial": 1},
                "p_timing_v1": {"events_per_s": rate, "stalls": 0, "events": 1, "bytes": 2},
            }
            for table, values in tables.items():
                row = {"session_id": "s", "exchange_id": x, **values}
                sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
                connection.execute(sql, list(row.values()))
    migrate.upgrade(database_url(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(
            "SELECT partial, events_per_s FROM p_usage_v1 JOIN p_timing_v1 USING (exchange_id) ORDER BY exchange_id"
        ).fetchall() == [(0, None), (1, 2.0), (1, None)]
