"""A log or an archive, opened for reading by the URL that a user gave.

Rules of this file:

* Most logs have no archive: nothing is loaded that only those need which have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from recorder.archive.place import database_url, is_archive, require
from recorder.program import load
from recorder.store.queries.reader import LogReader
from recorder.store.sql import ATTACHED_ARCHIVES


async def open_log(url: str | Path | URL) -> LogReader:
    """Open a log, to be read together with the archives that are attached to it, or an archive by
    itself.

    Raise as `open_alone` does. An archive of the log that cannot be read is left out, with a
    warning.
    """
    given = database_url(url)
    log = await open_alone(given)
    rows = [] if is_archive(given) else await log.rows(ATTACHED_ARCHIVES)
    archives = [database_url(row.url) for row in rows]
    if not archives:
        return log
    both: LogReader = load("recorder.archive.attached:AttachedReader")(log, archives)
    return both


async def open_alone(url: URL, prices: Sequence[Sequence[Any]] = ()) -> LogReader:
    """Open a log without its archives, or an archive with the prices of a log.

    Raise `NotFoundError` if there is none, `StoreError` if it cannot be read.
    """
    if not is_archive(url):
        return await LogReader.open(url)
    require(url)
    archive: LogReader = await load("recorder.archive.reader:ArchiveReader").open_with(url, prices)
    return archive
