from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from recorder.errors import StoreBusyError, StoreConflictError, StoreError
from recorder.store.location import database_url
from recorder.store.maintain.migrate import APPLICATION_ID
from recorder.store.sql import Statement
from recorder.store.sqlite.connection import (
    MIGRATION,
    READER,
    WRITER,
    Recipe,
    application_id,
    apply,
    create_file,
    meaning,
    translated,
    write_lock,
    writer_engine,
)
from recorder.store.sqlite.reading import reader
from recorder.store.write.writer import Store
from tests.support.rows import add, begin, make_events

PAGE_BYTES = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a ?#%.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "PRAGMA journal_mode = wal; CREATE TABLE t (x); INSERT INTO t VALUES (1);"
        )
    return path


@contextmanager
def writer(path: Path, recipe: Recipe = WRITER, timeout_s: float = 0.05) -> Iterator[Any]:
    engine = writer_engine(path, recipe, timeout_s)
    with translated(path), engine.connect() as connection:
        yield connection


def pragmas(connection: Any, recipe: Recipe) -> dict[str, object]:
    return {pragma: connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() for pragma in recipe}


def test_the_writer_has_its_recipe(path: Path) -> None:
    with writer(path, timeout_s=5) as connection:
        assert pragmas(connection, WRITER) == WRITER
        assert pragmas(connection, {"busy_timeout": 0}) == {"busy_timeout": 5000}
        assert connection.connection.driver_connection.isolation_level is None
    assert WRITER["journal_mode"] == "wal"
    assert WRITER["synchronous"] == 2
    assert WRITER["wal_autocheckpoint"] == 0
    assert WRITER["journal_size_limit"] == 64 * 2**20


async def test_the_reader_has_its_recipe(path: Path) -> None:
    pool = reader(database_url(path))
    async with pool.connect() as connection:
        for pragma, value in READER.items():
            assert (await connection.execute(text(f"PRAGMA {pragma}"))).scalar_one() == value
    await pool.dispose()


def test_an_upgrade_leaves_the_journal_mode_alone(tmp_path: Path) -> None:
    create_file(tmp_path / "new.db")
    with writer(tmp_path / "new.db", MIGRATION) as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"


def test_a_pragma_that_is_not_taken_is_an_error() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        with pytest.raises(
            StoreError, match="does not take PRAGMA journal_mode = wal; it says 'memory'"
        ):
            apply(connection, WRITER)
        with pytest.raises(
            StoreError, match="does not take PRAGMA no_such_pragma = 1; it says None"
        ):
            apply(connection, {"no_such_pragma": 1})


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (2)",
        "DELETE FROM t",
        "DROP TABLE t",
        "CREATE TABLE u (x)",
        "PRAGMA user_version = 7",
        "VACUUM",
    ],
)
async def test_a_reader_cannot_write(path: Path, statement: str) -> None:
    pool = reader(database_url(path))
    async with pool.connect() as connection:
        # the file itself is open for reading only
        await connection.execute(text("PRAGMA query_only = 0"))
        with pytest.raises(DBAPIError):
            await connection.execute(text(statement))
    await pool.dispose()


async def test_a_reader_takes_any_bytes_for_text(path: Path) -> None:
    pool = reader(database_url(path))
    async with pool.connect() as connection:
        assert (
            await connection.execute(text("SELECT CAST(x'41ff42' AS TEXT)"))
        ).scalar_one() == "A\ufffdB"
    await pool.dispose()


def test_a_writing_transaction_begins_with_the_lock(path: Path) -> None:
    with writer(path) as first, first.begin():
        with pytest.raises(StoreBusyError, match="is locked by another program"):
            with writer(path) as second:
                second.begin()


def test_what_a_transaction_did_is_undone_with_it_tables_included(path: Path) -> None:
    with writer(path) as connection:
        transaction = connection.begin()
        connection.exec_driver_sql("CREATE TABLE u (x)")
        transaction.rollback()
        assert connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars().all() == ["t"]


def test_a_refused_connection_is_closed(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_bytes(b"these are words, not a database\n" * 100)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(StoreError, match="is not a database file"):
            with writer(tmp_path / "text.db"):
                pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_files_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "log.db"
    umask = os.umask(0)
    try:
        create_file(path)
        with write_lock(path, 0), writer(path) as connection, connection.begin():
            connection.exec_driver_sql("CREATE TABLE t (x)")
            modes = {entry.name: entry.stat().st_mode & 0o777 for entry in os.scandir(path.parent)}
    finally:
        os.umask(umask)
    assert modes == dict.fromkeys(["log.db", "log.db-wal", "log.db-shm", "log.db.lock"], 0o600)
    assert [
        directory.stat().st_mode & 0o777 for directory in (path.parent, path.parent.parent)
    ] == [0o700, 0o700]


def test_a_file_that_is_there_is_left_as_it_is(path: Path) -> None:
    path.chmod(0o640)
    before = path.read_bytes()
    create_file(path)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (before, 0o640)


def test_a_path_where_no_file_can_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path, sentence in {
        tmp_path: f"{tmp_path} is a directory: the database needs the path of a file.",
        tmp_path
        / "file"
        / "log.db": f"The database {tmp_path}/file/log.db cannot be created: Not a directory.",
        Path(
            "/proc/log.db"
        ): "The database /proc/log.db cannot be created: No such file or directory.",
        tmp_path
        / (
            "x" * 300
        ): f"The database {tmp_path / ('x' * 300)} cannot be created: File name too long.",
    }.items():
        with pytest.raises(StoreError) as refusal:
            create_file(path)
        assert str(refusal.value) == sentence


def test_the_write_lock_is_for_one_at_a_time(path: Path) -> None:
    with write_lock(path, 0):
        with pytest.raises(StoreBusyError, match="Another recorder is writing to"):
            with write_lock(path, 0):
                pass
    with write_lock(path, 0):
        pass


def test_the_write_lock_is_waited_for(path: Path) -> None:
    start = time.monotonic()
    with write_lock(path, 0), pytest.raises(StoreBusyError):
        with write_lock(path, 0.1):
            pass
    assert time.monotonic() - start >= 0.1


def test_a_lock_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "log.db.lock").mkdir()
    with pytest.raises(StoreError, match=r"cannot be written: .*log\.db\.lock: Is a directory\."):
        with write_lock(tmp_path / "log.db", 0):
            pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log.db.lock").symlink_to(tmp_path / "theirs")
    with pytest.raises(
        StoreError, match=r"cannot be written: .*log\.db\.lock: Too many levels of symbolic links\."
    ):
        Store(tmp_path / "log.db")
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusyError),
        (sqlite3.SQLITE_LOCKED, StoreBusyError),
        (sqlite3.SQLITE_FULL, StoreBusyError),
        (sqlite3.SQLITE_CONSTRAINT_TRIGGER, StoreConflictError),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreError),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreError),
        (sqlite3.SQLITE_CORRUPT_VTAB, StoreError),
        (None, StoreError),
    ],
)
def test_an_error_of_sqlite_has_a_meaning(code: int | None, kind: type[StoreError]) -> None:
    error = sqlite3.OperationalError("what SQLite says")
    if code is not None:
        error.sqlite_errorcode = code
    found = meaning(error, Path("/d/log.db"))
    assert type(found) is kind
    assert "/d/log.db" in str(found)
    assert str(found).endswith(".")


def test_a_file_that_is_half_of_a_checkpoint_is_whole_with_its_wal(tmp_path: Path) -> None:
    """Its header speaks of pages that are still in the WAL only: the first page is copied first."""
    before, half = tmp_path / "log.db", tmp_path / "half.db"
    with Store(before) as store:
        small = before.read_bytes()
        add(store, make_events(begin(store), [b"x" * 100_000] * 5))
        Path(f"{half}-wal").write_bytes(Path(f"{before}-wal").read_bytes())
    half.write_bytes(before.read_bytes()[:PAGE_BYTES] + small[PAGE_BYTES:])
    assert application_id(half) == APPLICATION_ID
    with Store(half) as store, store.transaction():
        assert len(list(store.ask(Statement("SELECT pos FROM events"), {}))) == 5
