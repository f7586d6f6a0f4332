"""The files of a journal: their names, their lock, and reading them while they are written or after.

Reading never changes a byte.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from recorder.errors import RecorderError
from recorder.records import HEADER, MAGIC, RECORD_LIMIT, START, Position, Record, parse


class JournalReader:
    """The read side: records from a position on, from the journal of a live recorder or a dead one."""

    def __init__(self, directory: Path, position: Position = START) -> None:
        self.directory = directory
        self.position = position
        self.torn: list[str] = []  # one sentence for each torn tail that was dropped

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
            data = self._load(limit_bytes)
            records = list(parse(data, self.position))
            if records:
                self.position = records[-1].position
                return records
            if len(data) >= limit_bytes and self._record_is_longer(data):
                limit_bytes = HEADER.unpack_from(data, 0)[0] + HEADER.size
                continue
            if len(segments) == 1 and not writer_is_dead:
                return []
            self._drop_tail()
            if len(segments) == 1:
                return []
            self.position = Position(segments[1], 0)

    def _load(self, limit_bytes: int) -> bytes:
        with open(self.directory / segment_name(self.position.segment), "rb") as segment:
            if self.position.offset == 0:
                if segment.read(len(MAGIC)) not in (MAGIC, b""):
                    raise RecorderError(f"{segment.name} is not a journal segment of this version of recorder.")
                self.position = self.position._replace(offset=len(MAGIC))
            segment.seek(self.position.offset)
            return segment.read(limit_bytes)

    @staticmethod
    def _record_is_longer(data: bytes) -> bool:
        return len(data) >= HEADER.size and len(data) < HEADER.unpack_from(data, 0)[0] + HEADER.size <= RECORD_LIMIT

    def _drop_tail(self) -> None:
        path = self.directory / segment_name(self.position.segment)
        left = path.stat().st_size - self.position.offset
        if left > 0:
            self.torn.append(f"{left} bytes at the end of {path} were torn off in mid-write and are dropped.")
            self.position = self.position._replace(offset=self.position.offset + left)


def segment_name(number: int) -> str:
    return f"{number:06d}.seg"


def segment_numbers(directory: Path) -> list[int]:
    """The segments in a journal directory, in order. A directory that is gone has none."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(name[:-4]) for name in names if name.endswith(".seg") and name[:-4].isdigit())


def try_lock(directory: Path) -> int | None:
    """Lock a journal directory as its recorder. Returns a descriptor to close, or `None` if its recorder is alive."""
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
