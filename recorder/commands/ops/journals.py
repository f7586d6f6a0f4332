"""The journals beside a database: which recorders run, and what killed ones left.

A look changes nothing: no file is made, and a lock is tried for no longer than it takes to let go
of it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from recorder.journal.reader import (
    INGESTER_LOCK,
    WRITER_LOCK,
    segment_name,
    segment_numbers,
    size_bytes,
)

if TYPE_CHECKING:  # it loads the whole store, which `recorder sessions` has no use for
    from recorder.store.maintain.verify.log import Writer

# a recorder elsewhere is gone that was not heard of for so long, if nothing else is said
GONE_NS = 3600 * 10**9
YOUNG_S = 2.0  # a journal is made, then locked: in between nobody may be in the way of that


def state(directory: Path) -> Writer:
    if not directory.is_dir():
        return "gone"
    return (
        "alive"
        if any(_is_held(directory / name) for name in (WRITER_LOCK, INGESTER_LOCK))
        else "left"
    )


def journals(root: Path) -> Iterator[Path]:
    """Yield the folders of all journals in `root`. Raise `OSError` if they cannot be listed."""
    if root.is_dir():
        yield from sorted(path for path in root.iterdir() if path.is_dir())


def journal_bytes(directory: Path) -> int:
    """Return the size of a journal: what is not deleted yet."""
    return sum(
        size_bytes(directory / segment_name(number)) for number in segment_numbers(directory)
    )


def killed(directory: Path) -> str:
    """Return the sentence about the journal of a killed recorder."""
    size = journal_bytes(directory)
    return (
        f"A recorder was killed and left {size:,} bytes in {directory}: run `recorder db recover`."
    )


def _is_held(lock: Path) -> bool:
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # of another user: who cannot look must not say that nobody is there
    try:
        if time.time() - os.fstat(fd).st_mtime < YOUNG_S:
            return True
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
