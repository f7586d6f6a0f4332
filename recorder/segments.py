"""The files of a journal: their names, their lock, and reading them while they are written or after.

Reading never changes a byte.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from recorder.errors import RecorderError
from recorder.records import (
    HEADER,
    MAGIC,
    RECORD_LIMIT,
    START,
    Mark,
    Position,
    Record,
    parse,
    segment_record,
    told_before,
)

SUFFIX = ".seg"
PARTIAL = ".partial"  # of a segment that is being begun
SEGMENT_BEGINNING = len(MAGIC) + len(segment_record(0))
WRITER_LOCK, INGESTER_LOCK = "lock", "ingester.lock"

_SEGMENT = re.compile(rf"\d+{re.escape(SUFFIX)}")
_FILE = re.compile(
    rf"\d+({re.escape(SUFFIX)}|{re.escape(PARTIAL)})|(carried|partial)-[\w.-]+|{WRITER_LOCK}|{INGESTER_LOCK}"
)


class JournalReader:
    """The read side: records from a position on, from the journal of a live recorder or a dead one."""

    def __init__(self, directory: Path, position: Position = START) -> None:
        self.directory = directory
        self.position = position
        self.torn: list[str] = []  # a sentence for each record that was never finished: nobody has seen its bytes
        self.damaged: list[str] = []  # a sentence for each stretch of records that cannot be read any more

    def read(self, limit_bytes: int, *, writer_is_dead: bool = False) -> list[Record]:
        """What stands in the journal from `position` on, up to about `limit_bytes`. Empty when there is no more now.

        The end of a segment counts as torn only if the writer is dead or has begun the next segment.
        """
        while True:
            segments = [number for number in segment_numbers(self.directory) if number >= self.position.segment]
            if not segments:
                return []
            if segments[0] != self.position.segment:
                self.position = Position(segments[0], 0)
            data = self._load(limit_bytes, writer_is_dead)
            records = list(parse(data, self.position))
            if records:
                self.position = records[-1].position
                records = [record for record in records if record.mark != Mark.SEGMENT]
                if records:
                    return records
                continue
            if len(data) >= limit_bytes and self._record_is_longer(data):
                limit_bytes = HEADER.unpack_from(data, 0)[0] + HEADER.size
                continue
            if len(segments) == 1 and not writer_is_dead:
                return []
            if len(segments) == 1:
                self._drop_tail(data)
                return []
            self._leave(data, segments[1])
            self.position = Position(segments[1], 0)

    def _load(self, limit_bytes: int, writer_is_dead: bool) -> bytes:
        path = self.directory / segment_name(self.position.segment)
        try:
            with open(path, "rb") as segment:
                if self.position.offset == 0:
                    magic = segment.read(len(MAGIC))
                    if magic != MAGIC and not (writer_is_dead and not any(magic)):  # zeros: what a power cut leaves
                        raise RecorderError(f"{path} is not a journal segment of this version of recorder.")
                    self.position = self.position._replace(offset=len(MAGIC))
                segment.seek(self.position.offset)
                return segment.read(limit_bytes)
        except FileNotFoundError:
            return b""

    @staticmethod
    def _record_is_longer(data: bytes) -> bool:
        length = _length(data)
        return length is not None and len(data) < HEADER.size + length

    def _leave(self, data: bytes, following: int) -> None:
        """Go on to the next segment, which says how long this one should be."""
        segment, offset = self.position
        told = _told_before(self.directory / segment_name(following))
        if following > segment + 1:
            self.damaged.append(f"The segments between {segment} and {following} of {self.directory} are lost.")
        elif told is None and offset > len(MAGIC):  # of an older recorder, or damaged itself
            self._drop_tail(data)
        elif told is None or offset < told:
            self.damaged.append(f"The end of {self.directory / segment_name(segment)} is damaged or lost.")
        else:
            self._drop_tail(b"")

    def _drop_tail(self, data: bytes) -> None:
        path = self.directory / segment_name(self.position.segment)
        left = size_bytes(path) - self.position.offset
        if left <= 0:
            return
        length = _length(data)
        if not any(data) or len(data) < HEADER.size or (length is not None and HEADER.size + length >= left):
            self.torn.append(f"{left} bytes at the end of {path} were torn off in mid-write and are dropped.")
        else:
            self.damaged.append(f"{left} bytes at the end of {path} are damaged and cannot be read.")
        self.position = self.position._replace(offset=self.position.offset + left)


def _told_before(path: Path) -> int | None:
    try:
        with open(path, "rb") as segment:
            return told_before(segment.read(SEGMENT_BEGINNING))
    except FileNotFoundError:
        return None


def _length(data: bytes) -> int | None:
    """The length of the first record's payload, if it is a possible one."""
    length: int = HEADER.unpack_from(data)[0] if len(data) >= HEADER.size else RECORD_LIMIT + 1
    return length if length <= RECORD_LIMIT else None


def size_bytes(path: Path) -> int:
    """The size of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def changed_s(path: Path) -> float:
    """When a file was last written to; long ago if there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def to_disk(descriptor: int) -> None:
    """Bring a file onto the disk. Raises `OSError`."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # where fsync leaves it to the cache of the disk
    else:
        os.fsync(descriptor)


def say_at_rest(directory: Path) -> None:
    """The ingester of a journal has nothing to ingest just now: `at_rest_s` is this moment."""
    with contextlib.suppress(OSError):
        os.utime(directory / INGESTER_LOCK, (time.time(), time.time()))


def at_rest_s(directory: Path) -> float:
    """When all that stood in a journal was last seen to be ingested."""
    return changed_s(directory / INGESTER_LOCK)


def segment_name(number: int) -> str:
    return f"{number:06d}{SUFFIX}"


def segment_numbers(directory: Path) -> list[int]:
    """The segments in a journal directory, in order. A directory that is gone has none."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(name.removesuffix(SUFFIX)) for name in names if _SEGMENT.fullmatch(name))


def is_journal(directory: Path) -> bool:
    """Whether a directory has nothing in it but the files of a journal. Nothing else may be locked, read or removed."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    with os.scandir(directory) as found:
        return all(_FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False) for entry in found)


def remove(directory: Path) -> None:
    """Remove a journal; what is not of a journal stays, and the directory with it."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(directory)):
            if _FILE.fullmatch(entry.name):
                os.unlink(entry.path)
        directory.rmdir()


def try_lock(directory: Path, name: str = WRITER_LOCK) -> int | None:
    """Lock a journal directory, as its recorder or, with `INGESTER_LOCK`, as the one who ingests it.

    Returns a descriptor to close, or `None` if somebody alive has that lock, or the directory is gone.
    """
    try:
        fd = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


@contextlib.contextmanager
def claimed(directory: Path) -> Iterator[bool]:
    """Be the one who ingests a journal; gives whether nobody else is."""
    claim = try_lock(directory, INGESTER_LOCK)
    try:
        yield claim is not None
    finally:
        if claim is not None:
            os.close(claim)
