"""An archive that was changed is found, whatever of it was changed."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

import duckdb
from sqlalchemy import URL

from recorder.archive.lake import lake
from recorder.archive.opening import open_alone
from recorder.archive.place import database_url
from recorder.archive.verify import open_verifier
from recorder.errors import StoreError
from recorder.projections.rows import TABLES
from recorder.store.maintain.verify.log import SessionReport
from recorder.store.maintain.verify.manifest import Mark, Roots
from recorder.store.queries.session_list import list_sessions


def reports(url: URL | Path, *, projections: bool = True) -> tuple[list[str], list[SessionReport]]:
    with open_verifier(database_url(url), lambda _: "gone") as verifier:
        found = [
            verifier.verify(id, lambda _: None, projections=projections)
            for id in verifier.session_ids()
        ]
        assert verifier.count() == sum(report.events for report in found) or any(
            report.findings for report in found
        )
        return verifier.whole_damage(), found


@pytest.fixture
def changed(demo_archive: URL, tmp_path: Path) -> Callable[[str], URL]:
    """Return an archive after a statement: a copy of the catalog, and of the files where it names
    them.
    """
    catalog = Path(demo_archive.database or "")
    for name in ("catalog", "data"):
        source = catalog.parent / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)

    def run(sql: str) -> URL:
        url = demo_archive.set(database=str(tmp_path / "catalog"))
        _move(url, catalog.parent / "data", tmp_path / "data")
        with lake(url, "db archive", writes=True) as connection:
            connection.execute(sql)
        return url

    return run


def _move(url: URL, old: Path, new: Path) -> None:
    """Let a catalog name another data path, as whoever moves an archive does."""
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute(f"UPDATE ducklake_metadata SET value = '{new}/' WHERE value = '{old}/'")


def test_an_archive_that_nobody_changed_is_as_recorded(
    demo_recording: Path, demo_archive: URL
) -> None:
    damage, found = reports(demo_archive)
    of_log, expected = reports(demo_recording)
    assert damage == of_log == []
    assert [report.findings for report in found] == [[]]
    assert [_roots(report.roots) for report in found] == [
        _roots(report.roots) for report in expected
    ]


def _roots(roots: Roots | None) -> Mark | None:
    return roots.last if roots is not None else None


FRAME = "kind = 'frame' AND pos = 9"


CHANGES = [
    (f"UPDATE events SET raw = raw || 'x'::BLOB WHERE {FRAME}", "hash"),
    (f"DELETE FROM events WHERE {FRAME}", "position"),
    ("UPDATE exchanges SET last_hash = 'x'::BLOB", "hash"),
    (f"UPDATE {TABLES['items']} SET text = 'other'", "projection"),
]
MORE_CHANGES = [
    (f"UPDATE events SET t_ns = t_ns + 1 WHERE {FRAME}", "hash"),
    ("DELETE FROM events WHERE kind = 'end'", "end"),
    ("UPDATE exchanges SET target = '/other'", "hash"),
    ("UPDATE exchanges SET root_kind = 'ids'", "hash"),
    ("DELETE FROM exchanges", "orphan"),
    ("DELETE FROM sessions", "orphan"),
    (f"INSERT INTO events SELECT * FROM events WHERE {FRAME}", "file"),
    ("UPDATE events SET month = '1999-01'", "order"),
]


@pytest.mark.parametrize(
    ("sql", "check"),
    [*CHANGES, *(pytest.param(*change, marks=pytest.mark.slow) for change in MORE_CHANGES)],
)
def test_a_change_is_found(
    changed: Callable[[str], URL], caplog: pytest.LogCaptureFixture, sql: str, check: str
) -> None:
    url = changed(sql)
    _, found = reports(url, projections=check == "projection")
    assert check in {finding.check for report in found for finding in report.findings}
    if check in ("hash", "position"):  # whoever reads the session is warned
        caplog.clear()
        read(url)
        [said] = [record.getMessage() for record in caplog.records]
        assert "is not as it was recorded (" in said
        assert "with another last hash): `recorder verify` finds the places." in said


def read(url: URL) -> None:
    """Unpack each session, as whoever reads it does."""

    async def all_of_it() -> None:
        async with await open_alone(url) as archive:
            for session in await list_sessions(archive):
                await archive.exchanges(session.session_id)

    asyncio.run(all_of_it())


def test_a_changed_byte_of_a_file_is_found(
    changed: Callable[[str], URL], caplog: pytest.LogCaptureFixture
) -> None:
    url = changed("SELECT 1")
    [path] = (Path(url.database or "").parent / "data").glob("main/events/*/*.parquet")
    whole = path.read_bytes()
    with duckdb.connect() as connection:
        [(start, size)] = connection.execute(
            "SELECT data_page_offset, total_compressed_size FROM parquet_metadata(?) WHERE path_in_schema = 'raw'",
            [str(path)],
        ).fetchall()
    read(url)
    assert not caplog.records
    for place in (start + size // 4, start + size // 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        caplog.clear()
        with suppress(StoreError):
            read(url)
            assert "is not as it was recorded" in caplog.text
        damage, found = reports(url, projections=False)
        assert damage or any(report.findings for report in found), place


def test_a_file_that_is_missing_is_damage(changed: Callable[[str], URL]) -> None:
    url = changed("SELECT 1")
    [path] = (Path(url.database or "").parent / "data").glob("main/events/*/*.parquet")
    path.unlink()
    with open_verifier(url, lambda _: "gone") as verifier:
        assert verifier.whole_damage()
