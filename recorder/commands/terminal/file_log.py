"""A log in a temporary folder: of a file, or of what is to be exported in another form."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL

from recorder.recordings.files import load_file
from recorder.recordings.session import RecordedSession
from recorder.store.location import database_url
from recorder.store.write.writer import Store

_PREFIX = "recorder-file-"
# a folder is made, then locked: in between nobody may take it for one that was left
_YOUNG_S = 60.0


@contextmanager
def file_log(path: Path) -> Iterator[tuple[URL, str]]:
    """Make a log of a file of any format; give its URL and the id of its session.

    It is deleted at the end.

    Raises `RecorderError` if the file cannot be read.
    """
    found = load_file(path)
    with temporary_log() as url:
        _write(url, found)
        yield url, found.session.session_id


@contextmanager
def temporary_log() -> Iterator[URL]:
    """Give the URL of a new log in a folder that is deleted at the end."""
    _sweep()
    # for the user alone: mkdtemp makes it 0700
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        lock = _locked(Path(folder))
        try:
            yield database_url(Path(folder) / "log.db")
        finally:
            if lock is not None:
                os.close(lock)


def _sweep() -> None:
    """Remove what commands left that were killed: nobody holds the lock of its folder."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        lock = _locked(folder) if _is_old(folder) else None
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _is_old(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and time.time() - status.st_mtime > _YOUNG_S


def _locked(folder: Path) -> int | None:
    """Lock a folder; return the descriptor, None if another process has it or it cannot be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # it is gone, of another user, or not a folder
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _write(url: URL, found: RecordedSession) -> None:
    exchanges = [each.exchange for each in found.recordings]
    with Store(url) as store, store.transaction():
        store.add_session(found.session)
        store.add_exchanges(exchanges)
        is_new = store.append(found.events)
        keys = [(each.session_id, each.exchange_id) for each in exchanges]
        store.projector.project_all(keys, in_order=True, is_new=is_new)
