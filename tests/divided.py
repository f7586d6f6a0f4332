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
from tests.serving import run


def session_ids(log: Path | URL) -> list[str]:
    """The ids of all sessions of a log, in order."""
    return asyncio.run(_session_ids(log))


async def _session_ids(log: Path | URL) -> list[str]:
    async with await LogReader.open_alone(log) as reader:
        return sorted(row.session_id for row in await reader.sessions())


def archive_to(log: Path, archive: URL, *session_ids: str) -> None:
    """Delete sessions from a log, and attach the archive that has them."""
    with Store(log) as store:
        register(store, archive, time.time_ns())
        for session_id in session_ids:
            purge(store, session_id, ARCHIVED, time.time_ns())


def divide(whole: Path, folder: Path) -> tuple[Path, Path]:
    """A copy of a log, and a log beside it that is its archive and has every second session."""
    log, archive = folder / "log.db", folder / "archive.db"
    shutil.copy(whole, log)
    moved = session_ids(whole)[::2]
    refs = [word for each in moved for word in ("--session", each)]
    ran = run(whole, "db", "copy", whole, archive, *refs)
    assert ran.code == 0, (ran.err, ran.out)
    archive_to(log, database_url(archive), *moved)
    return log, archive
