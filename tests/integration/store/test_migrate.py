"""`recorder.store.maintain.migrate`: each schema becomes the newest, and what is not recorder's is left alone."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from recorder.errors import StoreError
from recorder.store.engine import schema_of
from recorder.store.location import database_url
from recorder.store.maintain import migrate
from recorder.store.queries.reader import LogReader
from recorder.store.schema import HEAD
from recorder.store.sqlite.schema import current
from recorder.store.write.writer import Store
from tests.support.corpus import ROOT
from tests.support.empty_log import empty


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def run_sql(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def test_the_head_is_the_head_of_the_scripts() -> None:
    config = Config(str(ROOT / "alembic.ini"))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


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


def test_a_new_database_is_waited_for_however_long_another_process_takes_to_make_it(tmp_path: Path) -> None:
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
            f"The database {path} was made by a newer recorder (its schema is 9999, this one knows {HEAD}): "
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
        with schema_of(database_url(tmp_path / "log.db")).migration(database_url(tmp_path / "log.db")) as connection:
            connection.exec_driver_sql("PRAGMA application_id = 7")
            connection.exec_driver_sql("CREATE TABLE sessions (x)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (tmp_path / "log.db").read_bytes() == b""
    empty(tmp_path / "log.db")


# -- logs of before the first release


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
