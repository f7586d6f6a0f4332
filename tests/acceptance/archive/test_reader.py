"""An archive read as a log: everything is as it was in the log that it was copied from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive.lake import lake
from recorder.archive.opening import open_log
from recorder.archive.reader import SESSIONS, ArchiveReader
from recorder.archive.schema import upgrade
from recorder.errors import StoreError
from recorder.store.queries.session_list import list_sessions
from recorder.store.queries.usage import By
from tests.support.questions import MISSING, answers

ALIKE = frozenset(f"usage by {by}" for by in get_args(By)) - {
    "usage by hour",
    "usage by tag",
    "usage by tool",
    "usage by effort",
}
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
        await open_log(url)
    upgrade(url)
    async with await open_log(url) as log:
        assert await list_sessions(log)
    with lake(url, "db archive", writes=True) as connection:
        connection.execute("UPDATE recorder_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="newer recorder"):
        await open_log(url)
    with pytest.raises(StoreError, match="newer recorder"):
        upgrade(url)


def older(url: URL, folder: Path) -> URL:
    """A copy of an archive's catalog with an older revision, and without a column and a table that
    are newer.
    """
    path = Path(shutil.copy(url.database or "", folder / "catalog"))
    copy = url.set(database=str(path))
    with lake(copy, "db archive", writes=True) as connection:
        connection.execute("UPDATE recorder_version SET version_num = '0001'")
        connection.execute("DROP TABLE prices")
        connection.execute("ALTER TABLE exchanges DROP COLUMN resumes_after")
    return copy


async def test_a_reader_unpacks_a_session_once(demo_archive: URL) -> None:
    async with await ArchiveReader.open_with(demo_archive) as archive:
        [some, *_] = await list_sessions(archive)
        ids = [some.session_id, *(MISSING[:-1] + str(number) for number in range(SESSIONS))]
        unpacked: dict[str, Any] = {}
        for each in (*ids[:1], *ids):
            await archive.exchanges(each)
            unpacked.setdefault(each, archive._unpacked[each])
        assert list(archive._unpacked.items()) == list(unpacked.items())[1:]
        folders = [Path(each.log.url.database or "").parent for each in unpacked.values()]
        assert [folder.exists() for folder in folders] == [False] + [True] * SESSIONS
    assert not any(folder.exists() for folder in folders)
