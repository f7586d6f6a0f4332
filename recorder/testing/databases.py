"""Sessions of databases, and files, for `recorder.testing.subject`, which loads this when a test
names one.
"""

from __future__ import annotations

import os
from pathlib import Path

from recorder.archive.opening import open_log
from recorder.archive.place import chosen_url
from recorder.recordings.loader import Loader, load_session
from recorder.recordings.session import RecordedSession
from recorder.store.queries.reader import LogReader


async def session_in(
    database: str | Path | None, name: str, *, keeps_events: bool = True
) -> RecordedSession:
    """Return a session of a database; for None of the user's."""
    async with await _opened(database) as log:
        return await load_session(log, name, keeps_events=keeps_events)


async def find(ref: str) -> RecordedSession:
    """Return a file, or a session of the user's database, as `recorder lint` does."""
    return await Loader(_opened).find(ref)


async def _opened(database: str | Path | None = None) -> LogReader:
    return await open_log(
        chosen_url(os.environ.get("RECORDER_DB")) if database is None else database
    )
