"""SQL of a user on an archive gives what it gives on the log."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive.lake import lake
from recorder.archive.place import database_url
from recorder.archive.query import open_query
from recorder.errors import RecorderError
from recorder.projections.views.contract import VIEWS


def test_a_view_gives_the_rows_of_the_log(demo_recording: Path, demo_archive: URL) -> None:
    with open_query(database_url(demo_recording)) as log, open_query(demo_archive) as archive:
        assert not archive.is_stale()
        for view in VIEWS:
            sql = f"SELECT * FROM {view.name}"
            expected, found = log.ask(sql), archive.ask(sql)
            assert found.columns == expected.columns
            rows = [list(found.rows), list(expected.rows)]
            assert sorted(rows[0], key=repr) == sorted(rows[1], key=repr), view.name
            assert {type(value) for row in rows[0] for value in row} == {
                type(v) for row in rows[1] for v in row
            }


REFUSED = [
    "DELETE FROM sessions",
    "SELECT * FROM ducklake_snapshots('lake')",
    "CALL ducklake_expire_snapshots('lake')",
    "SELECT * FROM __ducklake_metadata_lake.ducklake_metadata",
    "SELECT * FROM read_parquet('{data}/main/sessions/*/*.parquet')",
    "COPY sessions TO '{data}/x.csv'",
    "SELECT * FROM '/etc/passwd'",
]


def test_it_only_reads_its_tables(demo_archive: URL) -> None:
    data = Path(demo_archive.database or "").parent / "data"
    before = sorted(data.rglob("*"))
    with open_query(demo_archive) as query:
        assert list(query.ask("SELECT 7 / 2, 7 / 2e0").rows) == [(3, 3.5)], "as in a log"
        for sql in REFUSED:
            with pytest.raises(RecorderError):
                list(query.ask(sql.format(data=data)).rows)
            assert list(query.ask("SELECT count(*) FROM sessions").rows) == [(1,)], sql
    assert sorted(data.rglob("*")) == before


def test_the_views_are_in_the_archive_itself(demo_archive: URL) -> None:
    with lake(demo_archive, "query") as connection:
        connection.execute("USE memory")
        assert connection.execute("SELECT count(*) > 0 FROM lake.messages").fetchall() == [(True,)]
