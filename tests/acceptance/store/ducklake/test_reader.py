"""An archive read as a log: everything is as it was in the log that it was copied from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import get_args

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.errors import StoreError
from recorder.store.ducklake.connection import lake
from recorder.store.ducklake.sessions import SESSIONS, ArchiveSessions
from recorder.store.engine import engine_of
from recorder.store.queries.reader import LogReader
from recorder.store.queries.usage import By
from tests.support.questions import MISSING, answers

ALIKE = frozenset(f"usage by {by}" for by in get_args(By)) - {"usage by hour", "usage by tool", "usage by effort"}
"""Sums that an archive makes by the same statements as others: each reads all of it."""


def test_everything_is_as_in_the_log(demo_recording: Path, demo_archive: URL) -> None:
    expected, found = (answers(each, ALIKE) for each in (demo_recording, demo_archive))
    assert expected["sessions with words"]
    assert {name for name in expected if found[name] != expected[name]} == set()


async def test_an_archive_of_an_older_program_names_the_upgrade_and_of_a_newer_is_refused(
    demo_archive: URL, tmp_path: Path
) -> None:
    url = older(demo_archive, tmp_path)
    with pytest.raises(StoreError, match="older schema: run `recorder db upgrade --db ducklake:"):
        await LogReader.open(url)
    engine_of(url).upgrade(url)
    async with await LogReader.open(url) as log:
        assert await log.sessions()
    with lake(url, "db archive", writes=True) as connection:
        connection.execute("UPDATE recorder_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="newer recorder"):
        await LogReader.open(url)
    with pytest.raises(StoreError, match="newer recorder"):
        engine_of(url).upgrade(url)


def older(url: URL, folder: Path) -> URL:
    """A copy of an archive's catalog with an older revision, and without a column and a table that are newer."""
    path = Path(shutil.copy(url.database or "", folder / "catalog"))
    copy = url.set(database=str(path))
    with lake(copy, "db archive", writes=True) as connection:
        connection.execute("UPDATE recorder_version SET version_num = '0001'")
        connection.execute("DROP TABLE prices")
        connection.execute("ALTER TABLE exchanges DROP COLUMN resumes_after")
    return copy


def test_a_reader_loads_a_session_once(demo_archive: URL) -> None:
    with ArchiveSessions(demo_archive, "show") as sessions:
        [(id,)] = sessions.connection.execute("SELECT session_id FROM sessions LIMIT 1").fetchall()
        assert sessions.log(id) is sessions.log(id)
        paths = [Path(sessions.log(MISSING[:-1] + str(number)).url.database or "") for number in range(SESSIONS)]
        assert sessions.log(id).engine
        assert [path.exists() for path in paths] == [False] + [True] * (SESSIONS - 1)
    assert not any(path.exists() for path in paths)
