"""A log whose older sessions are in another database that is attached to it, as after `recorder db archive`."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

from sqlalchemy import URL

from recorder.store.archive.registry import register
from recorder.store.location import database_url
from recorder.store.purge.delete import purge
from recorder.store.purge.tombstone import ARCHIVED
from recorder.store.reader import LogReader
from recorder.store.writer import Store
from tests.support import archives
from tests.support.server import run


def session_ids(log: Path | URL) -> list[str]:
    """The ids of all sessions of a log, in order."""
    return asyncio.run(_session_ids(log))


async def _session_ids(log: Path | URL) -> list[str]:
    async with await LogReader.open_alone(log) as reader:
        return sorted(row.session_id for row in await reader.sessions())


def archive_to(log: Path | URL, archive: URL, *session_ids: str) -> None:
    """Delete sessions from a log, and attach the archive that has them."""
    with Store(log) as store:
        register(store, archive, time.time_ns())
        for session_id in session_ids:
            purge(store, session_id, ARCHIVED, time.time_ns())


def divide(whole: Path, folder: Path, engine: str = "sqlite") -> tuple[Path, URL]:
    """A copy of a log, and its archive, which has every second session: another log, or one of DuckLake."""
    log, other = folder / "log.db", folder / "other.db"
    shutil.copy(whole, log)
    moved = session_ids(whole)[::2]
    refs = [word for each in moved for word in ("--session", each)]
    assert run(whole, "db", "copy", whole, other, *refs).code == 0
    archive = database_url(other)
    if engine == "ducklake":
        archive = archives.archive(other, f"ducklake:sqlite:{folder / 'catalog.db'}", folder / "data")
    archive_to(log, archive, *moved)
    return log, archive
