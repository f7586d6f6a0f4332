"""Records that could not be read, kept beside the journals so that nothing is lost with a segment.

`<database>.journal.unreadable/` has a file for each exchange, in the format of a segment, and one
for each damaged stretch of a segment, with its bytes. The request body is left out if the log has
it. All files are for their owner alone.

Rules of this file:

* The folder has a bound. Data over it is not stored, which is logged: it was counted like the rest.
* A purge deletes the files of its sessions, and those whose session is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from recorder.files import sync
from recorder.journal.reader import DamagedStretch

SUFFIX = ".unreadable"
PARTIAL = ".partial"
UNKNOWN = "unknown"  # in the place of a session
# some hundreds of long exchanges: enough to find a fault by, and no disk is full of it
LIMIT_BYTES = 256 * 2**20
BLOCK_BYTES = 2**20


class UnreadableFile(NamedTuple):
    """A file of that folder."""

    path: Path
    size_bytes: int


def folder(root: Path) -> Path:
    """Return the folder for the journals in `root`."""
    return root.with_name(f"{root.name}{SUFFIX}")


def unreadable_files(root: Path) -> list[UnreadableFile]:
    """Return the files there. Raises `OSError` if they cannot be listed."""
    place = folder(root)
    if not place.is_dir():
        return []
    return [
        UnreadableFile(path, path.stat().st_size)
        for path in sorted(place.iterdir())
        if path.is_file()
    ]


def forget(root: Path, session_ids: Collection[str]) -> int:
    """Delete the files of sessions, and those that may be theirs.

    Return how many files of the latter kind there were.

    Raises `OSError`.
    """
    unknown = 0
    for each in unreadable_files(root):
        session_id = each.path.name.partition(".")[0]
        if session_id in session_ids or session_id == UNKNOWN:
            each.path.unlink(missing_ok=True)
            unknown += session_id == UNKNOWN
    return unknown


def keep(root: Path, name: str, pieces: Iterable[bytes]) -> bool:
    """Keep a file, whole or not at all.

    Its name begins with the session and a dot. Returns whether there is room.

    Raises `OSError`.
    """
    place = folder(root)
    place.mkdir(mode=0o700, exist_ok=True)
    path, partial = place / name, place / f"{name}{PARTIAL}"
    room = LIMIT_BYTES - sum(
        each.size_bytes for each in unreadable_files(root) if each.path not in (path, partial)
    )
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(partial, flags, 0o600), "wb") as file:
        for piece in pieces:
            room -= len(piece)
            if room < 0:
                break
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    if room < 0:
        partial.unlink()
        return False
    partial.rename(path)
    sync(place)  # the journal is deleted as soon as this one is there
    return True


def bytes_of(stretch: DamagedStretch) -> Iterator[bytes]:
    """Yield the bytes of a damaged stretch. Raises `OSError`."""
    with stretch.path.open("rb") as segment:
        segment.seek(stretch.offset)
        while block := segment.read(BLOCK_BYTES):
            yield block
