"""What DuckDB reads of a log in a file: the views are written so that it understands them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

import duckdb
from sqlalchemy import URL

from recorder.commands.ops import health
from recorder.errors import RecorderError
from recorder.projections.views.contract import VIEWS
from recorder.store.duckdb.connection import SETTINGS, DuckdbOpening, connected
from tests.support.rows import a_conversation, written

EXTENSION = next(
    file.locate()
    for file in files("duckdb-extension-sqlite-scanner") or ()
    if file.suffix == ".duckdb_extension"
)
# bytes are cut by SQLite itself, which DuckDB takes as text, numbers and all
AS_TEXT = {"event_payloads"}


@pytest.fixture(scope="module")
def path(demo_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the demo recorded, and a conversation with all that a view may show."""
    path = tmp_path_factory.mktemp("analyst") / "read by others.db"
    with closing(sqlite3.connect(demo_recording)) as demo, closing(sqlite3.connect(path)) as copy:
        demo.backup(copy)
    with written(path) as connection:
        a_conversation(connection)
    return path


@pytest.fixture(scope="module")
def analyst(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect()) as connection:
        connection.execute(f"LOAD '{EXTENSION}'")
        connection.execute(f"ATTACH '{path}' AS log (TYPE sqlite, READ_ONLY)")
        yield connection


def sorted_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def test_each_view_gives_the_rows_that_sqlite_gives(
    path: Path, analyst: duckdb.DuckDBPyConnection
) -> None:
    for view in VIEWS:
        with closing(sqlite3.connect(path)) as connection:
            expected = connection.execute(f"SELECT * FROM {view.name}").fetchall()
        if view.name in AS_TEXT:
            expected = [
                tuple(value if value is None else str(value) for value in row) for row in expected
            ]
        found = analyst.execute(f"SELECT * FROM log.{view.name}")
        assert [column[0] for column in found.description or ()] == list(view.columns)
        rows = found.fetchall()
        assert expected, view.name
        assert sorted_rows(rows) == sorted_rows(expected), view.name
        assert {type(value) for row in rows for value in row} == {
            type(value) for row in expected for value in row
        }


def test_duckdb_opens_a_log_of_each_engine(database: URL) -> None:
    with connected(
        "query", "analytics", lambda opening: opening.attach_log(database)
    ) as connection:
        assert connection.execute("SELECT count(*) FROM log.sessions").fetchall() == [(0,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("DELETE FROM log.sessions")


def test_an_extension_of_another_version_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed = tmp_path / "duckdb_extension_ducklake-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: duckdb-extension-ducklake\nVersion: 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    advice = "its extension ducklake was built for 1.0: run `pip install duckdb==1.0`"
    with pytest.raises(RecorderError, match=advice), connected("query", "analytics"):
        pass
    assert any(line.state == "warn" and advice in line.message for line in health.python())


def test_only_signed_extensions_are_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(SETTINGS, "allow_unsigned_extensions", raising=False)
    changed = bytearray(Path(str(EXTENSION)).read_bytes())
    changed[-1] ^= 1
    (tmp_path / "changed.duckdb_extension").write_bytes(changed)

    def attach(opening: DuckdbOpening) -> None:
        opening.load("sqlite-scanner")
        with pytest.raises(duckdb.IOException, match="signature"):
            opening.connection.execute(f"LOAD '{tmp_path / 'changed.duckdb_extension'}'")

    with connected("query", "analytics", attach):
        pass
