"""The files of a journal: their names, their lock, and reading them while they are written or after.

Reading never changes a byte.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from recorder.errors import RecorderError
from recorder.records import HEADER, MAGIC, RECORD_LIMIT, START, Position, Record, parse

SUFFIX = ".seg"
WRITER_LOCK, INGESTER_LOCK = "lock", "ingester.lock"

_SEGMENT = re.compile(rf"\d+{re.escape(SUFFIX)}")


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
                return records
            if len(data) >= limit_bytes and self._record_is_longer(data):
                limit_bytes = HEADER.unpack_from(data, 0)[0] + HEADER.size
                continue
            if len(segments) == 1 and not writer_is_dead:
                return []
            self._drop_tail(data)
            if len(segments) == 1:
                return []
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


def segment_name(number: int) -> str:
    return f"{number:06d}{SUFFIX}"


def segment_numbers(directory: Path) -> list[int]:
    """The segments in a journal directory, in order. A directory that is gone has none."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(name.removesuffix(SUFFIX)) for name in names if _SEGMENT.fullmatch(name))


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
