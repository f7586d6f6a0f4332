"""The journals beside a database, as they stand: whose recorder runs, and what is left of others.

A look changes nothing: no file is made, and a lock is tried for no longer than it takes to let go of it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL

from recorder import readers
from recorder.checkup import Writer
from recorder.location import is_file, journal_root
from recorder.segments import INGESTER_LOCK, WRITER_LOCK, segment_name, segment_numbers, size_bytes
from recorder.statements import SERVER_NS, Statement
from recorder.unfinished import SILENT

GONE_NS = 3600 * 10**9  # a recorder elsewhere is gone that was not heard of for so long, if nothing else is said
YOUNG_S = 2.0  # a journal is made, then locked: in between nobody may be in the way of that


_SILENCE = Statement(
    f"SELECT {SILENT.format(now=SERVER_NS, heard='coalesce(seen_ns, 0)')} FROM ingest_offsets "
    "WHERE recorder_id = :recorder_id"
)


class Left(NamedTuple):
    """A journal without owner."""

    directory: Path
    size_bytes: int


def writer_of(root: Path) -> Callable[[str], Writer]:
    """What says of a recorder whether it still writes, or somebody ingests what it left. Each is looked at once."""
    return cache(lambda name: state(root / name) if name and Path(name).name == name else "gone")


def writer_at(url: URL) -> Callable[[str], Writer]:
    """The same of a database: of one on a server also recorders of other machines, by when it last heard of them."""
    here = writer_of(journal_root(url))
    return here if is_file(url) else cache(lambda name: _elsewhere(url, name) if here(name) == "gone" else here(name))


def _elsewhere(url: URL, recorder_id: str) -> Writer:
    with readers.opened(url) as reader:
        for (silent_ns,) in reader.ask(_SILENCE, {"recorder_id": recorder_id}):
            return "alive" if silent_ns <= GONE_NS else "left"
    return "gone"


def state(directory: Path) -> Writer:
    if not directory.is_dir():
        return "gone"
    return "alive" if any(_is_held(directory / name) for name in (WRITER_LOCK, INGESTER_LOCK)) else "left"


def journals(root: Path) -> Iterator[Path]:
    """The folders of all journals there. Raises `OSError` if they cannot be listed."""
    if root.is_dir():
        yield from sorted(path for path in root.iterdir() if path.is_dir())


def left(directory: Path) -> Left:
    """How much waits in a journal."""
    sizes = (size_bytes(directory / segment_name(number)) for number in segment_numbers(directory))
    return Left(directory, sum(sizes))


def killed(directory: Path) -> str:
    """What to say of the journal of a recorder that was killed."""
    size = left(directory).size_bytes
    return f"A recorder was killed and left {size:,} bytes in {directory}: run `recorder db recover`."


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
