"""The connection to an archive: where it is, what it makes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

import duckdb
from sqlalchemy import URL

from recorder.archive.lake import data_path, lake
from recorder.archive.place import database_name, database_url, is_archive
from recorder.archive.schema import TABLES, create, month_of, revision
from recorder.errors import NotFoundError, StoreError, UsageError
from recorder.store.schema import HEAD


@pytest.mark.parametrize(
    "form", ["ducklake:{}", "ducklake:sqlite:{}", "ducklake+sqlite:///{}", "ducklake:sqlite:///{}"]
)
def test_a_catalog_in_a_file_has_one_url(form: str, tmp_path: Path) -> None:
    url = database_url(form.format(tmp_path / "old.ducklake"))
    assert url == URL.create("ducklake+sqlite", database=str(tmp_path / "old.ducklake"))
    assert database_name(url) == f"ducklake:{tmp_path / 'old.ducklake'}"


@pytest.mark.parametrize(
    "form",
    [
        "ducklake:postgresql://me:secret@host:5433/archive",
        "ducklake:postgres://me:secret@host:5433/archive",
        "ducklake+postgresql://me:secret@host:5433/archive",
        "ducklake:postgres:user=me password=secret port=5433 dbname=archive host=host",
    ],
)
def test_a_catalog_on_a_server_has_one_url(form: str) -> None:
    url = database_url(form)
    assert is_archive(url)
    assert database_name(url) == "ducklake:postgresql://host:5433/archive"
    assert database_url(url) == url


@pytest.mark.parametrize(
    "form", ["ducklake+ducklake:///x", "ducklake:", "ducklake:nonsense://x", "ducklake:mysql://h/d"]
)
def test_a_catalog_elsewhere_is_refused(form: str) -> None:
    with pytest.raises(UsageError):
        database_url(form)


def test_an_archive_is_made_once_with_all_tables(tmp_path: Path) -> None:
    url = database_url(f"ducklake:{tmp_path / 'catalog'}")
    data = tmp_path / "data"
    with lake(url, "db archive", data=str(data), writes=True) as connection:
        create(connection)
        create(connection)
        assert data_path(connection) == f"{data}/"
    assert (data.stat().st_mode & 0o777, (tmp_path / "catalog").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )
    with lake(url, "sessions") as connection:
        assert revision(connection) == HEAD
        for table in TABLES:
            found = connection.execute(f"SELECT * FROM {table.name}").description
            assert [column[0] for column in found or ()] == list(table.columns)
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("DELETE FROM sessions")


def test_a_reader_makes_no_catalog(tmp_path: Path) -> None:
    url = database_url(f"ducklake:{tmp_path / 'catalog'}")
    with pytest.raises(NotFoundError, match="no archive"), lake(url, "sessions"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_new_archive_needs_a_data_path(tmp_path: Path) -> None:
    url = database_url(f"ducklake:{tmp_path / 'catalog'}")
    with pytest.raises(UsageError, match="--data"), lake(url, "db archive", writes=True):
        pass
    assert not list(tmp_path.iterdir())


def test_an_archive_has_one_data_path(tmp_path: Path) -> None:
    url = database_url(f"ducklake:{tmp_path / 'catalog'}")
    with lake(url, "db archive", data=str(tmp_path / "a"), writes=True):
        pass
    with pytest.raises(UsageError, match="leave --data out"):
        with lake(url, "db archive", data=str(tmp_path / "b"), writes=True):
            pass


@pytest.mark.parametrize("writes", [False, True])
def test_a_log_is_no_catalog(demo_db: Path, tmp_path: Path, writes: bool) -> None:
    before = demo_db.read_bytes()
    url = database_url(f"ducklake:{demo_db}")
    with (
        pytest.raises(StoreError),
        lake(url, "sessions", data=str(tmp_path / "data"), writes=writes),
    ):
        pass
    assert demo_db.read_bytes() == before


def test_a_catalog_on_a_server(postgres_database: URL, tmp_path: Path) -> None:
    url = postgres_database.set(drivername="ducklake+postgresql")
    with pytest.raises(NotFoundError), lake(url, "sessions"):
        pass
    with lake(url, "db archive", data=str(tmp_path), writes=True) as connection:
        create(connection)
    with lake(url, "sessions") as connection:
        assert revision(connection) == HEAD


def test_no_sentence_has_a_password(tmp_path: Path) -> None:
    url = database_url("ducklake:postgresql://me:se%22cret@127.0.0.1:1/x")
    with pytest.raises(StoreError) as caught, lake(url, "sessions"):
        pass
    assert "cret" not in str(caught.value)
    assert "Connection refused" in str(caught.value)


def test_a_session_is_in_the_month_of_its_id() -> None:
    assert month_of("0195544b-8000-7000-8000-000000000000") == "2025-03"
    assert month_of("ffffffff-ffff-ffff-ffff-ffffffffffff")
