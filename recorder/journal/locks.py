"""The locks of a journal: that of its recorder, and that of the one who ingests it or ships it.

A process holds them as long as it lives, whatever ends it: who gets the lock of the recorder knows
that this is dead.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from recorder.journal.reader import INGESTER_LOCK, WRITER_LOCK, is_journal


def try_lock(directory: Path, name: str = WRITER_LOCK) -> int | None:
    """Lock a journal directory, as its recorder or, with `INGESTER_LOCK`, as the one who ingests
    it.

    Returns a descriptor to close, or `None` if a living process has that lock, the directory was
    deleted, or the lock is a link, which no recorder makes: it may lead to any file.
    """
    try:
        fd = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


@contextlib.contextmanager
def claimed(directory: Path) -> Iterator[bool]:
    """Hold the lock of the ingester of a journal, with the pid in it; yields True if no other
    process has it.
    """
    claim = try_lock(directory, INGESTER_LOCK)
    try:
        if claim is not None:
            with contextlib.suppress(OSError):  # a disk that is full
                os.pwrite(claim, b"%010d\n" % os.getpid(), 0)
        yield claim is not None
    finally:
        if claim is not None:
            os.close(claim)


@contextlib.contextmanager
def claimed_of_dead(directory: Path) -> Iterator[bool]:
    """Hold both locks of a journal whose recorder is dead; yields True if it is one, and no other
    process has them.
    """
    if not is_journal(directory):
        yield False
        return
    with claimed(directory) as mine:
        lock = try_lock(directory) if mine else None
        try:
            yield lock is not None
        finally:
            if lock is not None:
                os.close(lock)
