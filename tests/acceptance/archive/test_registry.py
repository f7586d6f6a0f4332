from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.archive.place import database_name, database_url
from recorder.archive.registry import archives_of, register, unregister
from recorder.errors import NotFoundError, UsageError
from recorder.store.write.writer import Store


def test_an_archive_is_attached_once_and_detached(database: URL, tmp_path: Path) -> None:
    first, second = database_url(tmp_path / "b.db"), database_url(tmp_path / "a.db")
    with Store(database) as store:
        assert [
            register(store, each, 1 + number) for number, each in enumerate((first, second, first))
        ] == [
            True,
            True,
            False,
        ]
        assert archives_of(database) == [first, second]
        assert [unregister(store, first), unregister(store, first)] == [True, False]
    assert archives_of(database) == [second]


def test_no_password_is_stored(database: URL) -> None:
    archive = database_url("postgresql://me:secret@db.example/archive")
    with Store(database) as store:
        register(store, archive, 1)
        assert not register(store, archive.set(password="other"), 2)
        assert not register(
            store, database_url("postgresql://me@db.example/archive?password=other"), 2
        )
        [stored] = archives_of(database)
        assert (stored.password, database_name(stored)) == (None, database_name(archive))
        assert unregister(store, archive)
        register(
            store,
            database_url("postgresql://me@db.example/archive?sslkey=/key&sslpassword=secret"),
            3,
        )
        [stored] = archives_of(database)
        assert stored.query == {"sslkey": "/key"}


def test_a_log_is_not_its_own_archive(database: URL) -> None:
    with Store(database) as store, pytest.raises(UsageError, match="is the log itself"):
        register(store, database, 1)


def test_where_there_is_no_log_there_are_no_archives(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        archives_of(database_url(tmp_path / "none.db"))
    assert not (tmp_path / "none.db").exists()


def test_the_registry_loads_nothing_that_opens_an_archive() -> None:
    code = "import sys, recorder.archive.registry; sys.exit('duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
