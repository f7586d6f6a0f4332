"""`recorder.store.maintain.migrate`: each schema becomes the newest, and what is not recorder's is
left alone.
"""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import URL

from recorder.errors import StoreError
from recorder.store.engine import schema_of
from recorder.store.location import database_url
from recorder.store.maintain import migrate
from recorder.store.maintain.declared import schema_differences
from recorder.store.queries.reader import LogReader
from recorder.store.schema import HEAD, table_statements
from recorder.store.sql import dialect
from recorder.store.sqlite.schema import current
from recorder.store.sqlite.tables import TABLES
from recorder.store.write.writer import Store
from tests.support.corpus import ROOT
from tests.support.empty_log import empty
from tests.support.server import run
from tests.support.superuser import asked, dumped, free


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def run_sql(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def test_the_head_is_the_head_of_the_scripts() -> None:
    config = Config(str(ROOT / "alembic.ini"))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


DECLARED = {"4": "6f3dc14f653674513c06835d4d9bf1562bae9de71fa77a3956d9b68b70d9637e"}
"""The digest of the tables at each revision. One that changes is another revision: what a recorder
wrote before has other columns, and is upgraded by the number only.
"""


def test_tables_that_change_have_another_revision() -> None:
    written = "".join(table_statements(TABLES, dialect("sqlite")))
    assert {HEAD: sha256(written.encode()).hexdigest()} == DECLARED


def test_a_new_database_is_recorders_and_has_the_newest_schema(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    Store(path).close()
    assert current(path) == HEAD
    assert path.read_bytes()[68:72] == b"SSEr"  # where the format of SQLite has the application id


def test_an_upgrade_of_the_newest_schema_changes_nothing(tmp_path: Path) -> None:
    path = empty(tmp_path / "log.db")
    schema_of(database_url(path)).upgrade(database_url(path))
    before = snapshot(tmp_path)
    schema_of(database_url(path)).upgrade(database_url(path))
    assert snapshot(tmp_path) == before


def test_a_new_database_is_waited_for_however_long_another_process_takes_to_make_it(
    tmp_path: Path,
) -> None:
    url = database_url(tmp_path / "log.db")
    with ThreadPoolExecutor(1) as another:
        with schema_of(url).migration(url) as connection:
            opened = another.submit(lambda: Store(url, busy_timeout_s=0.01).close())
            with pytest.raises(TimeoutError):  # it waits, and did not give up
                opened.result(timeout=0.5)
            migrate.run(connection)
        opened.result()
    assert current(tmp_path / "log.db") == HEAD


FOREIGN = {
    "tables": "CREATE TABLE notes (x)",
    "tables in WAL mode": "PRAGMA journal_mode = wal; CREATE TABLE notes (x)",
    "another application": "PRAGMA application_id = 1; CREATE TABLE notes (x)",
    "our names": "CREATE TABLE recorder_version (version_num); INSERT INTO recorder_version VALUES ('0001')",
}


@pytest.mark.parametrize("script", FOREIGN.values(), ids=FOREIGN.keys())
async def test_a_database_of_another_program_is_refused_and_untouched(
    tmp_path: Path, script: str
) -> None:
    path = run_sql(tmp_path / "notes.db", script)
    before = snapshot(tmp_path)
    with pytest.raises(
        StoreError, match="belongs to another program, not to recorder; give another path"
    ):
        Store(path)
    with pytest.raises(StoreError, match="belongs to another program"):
        await LogReader.open(path)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "content", [b"x", b"words\n" * 1000, b"SQLite format 3\0", bytes(8192)], ids=len
)
async def test_a_file_that_is_no_database_is_refused_and_untouched(
    tmp_path: Path, content: bytes
) -> None:
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
            f"The database {path} was made by a newer recorder (its schema is 9999, this one knows {HEAD}): "
            "upgrade recorder, or give another path."
        )
        with pytest.raises(StoreError, match="was made by a newer recorder"):
            await LogReader.open(path)
    assert path.read_bytes() == before


async def test_a_reader_refuses_an_older_schema_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.touch()
    with pytest.raises(StoreError, match=r"has an older schema: run `recorder db upgrade --db /"):
        await LogReader.open(path)
    assert path.read_bytes() == b""


def test_an_upgrade_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with schema_of(database_url(tmp_path / "log.db")).migration(
            database_url(tmp_path / "log.db")
        ) as connection:
            connection.exec_driver_sql("PRAGMA application_id = 7")
            connection.exec_driver_sql("CREATE TABLE sessions (x)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (tmp_path / "log.db").read_bytes() == b""
    empty(tmp_path / "log.db")


# -- logs of before the first release

AS_BEFORE = """
CREATE TABLE old_exchanges (
    session_id TEXT NOT NULL, exchange_id TEXT NOT NULL, started_ns INTEGER NOT NULL, recorder_id TEXT NOT NULL,
    provider TEXT NOT NULL, api TEXT NOT NULL, method TEXT NOT NULL, target TEXT NOT NULL, client TEXT,
    client_version TEXT, thread_id TEXT, turn_id TEXT, attempt INTEGER, resumes_response_id TEXT,
    resumes_after INTEGER, PRIMARY KEY (session_id, exchange_id),
    FOREIGN KEY(session_id) REFERENCES sessions (session_id)
) STRICT;
INSERT INTO old_exchanges SELECT * FROM exchanges;
CREATE TABLE old_events (
    session_id TEXT NOT NULL, exchange_id TEXT NOT NULL, pos INTEGER NOT NULL, kind TEXT NOT NULL,
    t_ns INTEGER NOT NULL, type TEXT, sequence_number INTEGER, item_id TEXT, output_index INTEGER, raw BLOB NOT NULL,
    data_start INTEGER, data_length INTEGER, hash BLOB NOT NULL, PRIMARY KEY (session_id, exchange_id, pos),
    FOREIGN KEY(session_id, exchange_id) REFERENCES old_exchanges (session_id, exchange_id)
) STRICT;
INSERT INTO old_events SELECT * FROM events;
DROP VIEW events; DROP VIEW exchanges;
DROP TABLE stored_events; DROP TABLE event_items; DROP TABLE event_types; DROP TABLE stored_exchanges;
ALTER TABLE old_exchanges RENAME TO exchanges; ALTER TABLE old_events RENAME TO events;
CREATE INDEX exchanges_exchange_id ON exchanges (exchange_id);
CREATE INDEX exchanges_resumes ON exchanges (session_id, resumes_response_id) WHERE resumes_response_id IS NOT NULL;
CREATE INDEX events_end ON events (session_id, exchange_id) WHERE kind = 'end';
UPDATE recorder_version SET version_num = '0021';
"""
FEWER_COLUMNS = """
ALTER TABLE p_items_v1 DROP COLUMN thread_id; ALTER TABLE p_exchanges_v1 DROP COLUMN owner;
INSERT INTO dead_letters SELECT session_id, exchange_id, 'a recorder of today failed here' FROM exchanges;
"""
UNRELEASED = {
    "before compact tables": AS_BEFORE + FEWER_COLUMNS,
    "with them": FEWER_COLUMNS + "UPDATE recorder_version SET version_num = '1';",
}


def without_views(path: Path) -> Path:
    """Drop the guards and the views of a file but those of the log."""
    free(path)
    for (name,) in asked(path, "SELECT name FROM sqlite_master WHERE type = 'view'"):
        if name not in ("events", "exchanges"):
            run_sql(path, f"DROP VIEW {name}")
    return path


@pytest.mark.parametrize("made", UNRELEASED.values(), ids=UNRELEASED.keys())
def test_a_log_of_before_the_first_release_keeps_every_row(demo_db: Path, made: str) -> None:
    before = dumped(demo_db)
    run_sql(without_views(demo_db), made)
    assert run(demo_db, "db", "upgrade").code == 0
    assert dumped(demo_db) == before
    assert schema_differences(database_url(demo_db)) == []
    assert run(demo_db, "verify").code == 0


async def test_a_log_of_an_earlier_schema_is_refused_and_untouched(tmp_path: Path) -> None:
    path = run_sql(empty(tmp_path / "log.db"), "UPDATE recorder_version SET version_num = '0007'")
    before = path.read_bytes()
    with pytest.raises(StoreError) as refusal:
        Store(path)
    assert str(refusal.value) == (
        f"The database {path} was made before the first release of recorder (its schema is 0007): `export` its "
        "sessions as cassettes with the recorder that made it, and `import` them here."
    )
    with pytest.raises(StoreError, match="before the first release"):
        await LogReader.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("revision", migrate.UNRELEASED)
def test_a_log_on_a_server_gets_the_views_of_the_first_release(
    postgres_database: URL, revision: str
) -> None:
    asked(postgres_database, f"UPDATE recorder_version SET version_num = '{revision}'")
    asked(postgres_database, "DROP VIEW usage_by_model")
    asked(postgres_database, "ALTER TABLE p_exchanges_v1 DROP COLUMN owner CASCADE")
    schema_of(postgres_database).upgrade(postgres_database)
    assert schema_differences(postgres_database) == []
