"""The files of a journal, held open by its writer: whoever deletes their names does not get what is
in them.

A cleaner of folders, `git clean -fdx`, a `mv`, an editor: each takes away names while the recorder
writes on into files that nobody can open any more. Once a second the writer compares each name with
its descriptor (`look`), and puts a file that is gone back under its name, with the bytes that the
descriptor has.

Rules of this file:

* Places in the journal stay as they were, so the ingester continues where it stood: nothing is
  ingested twice.
* A file comes back whole or not at all, and segments in their order: no reader sees a segment
  before the one that it follows.
* What the ingester has deleted stays deleted: it writes down its place before it does so.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from recorder.files import sync, to_disk
from recorder.journal.format import START, Position
from recorder.journal.locks import try_lock
from recorder.journal.reader import (
    INGESTED,
    INGESTER_LOCK,
    PARTIAL,
    PREFIX,
    WRITER_LOCK,
    carried_path,
    is_segment_name,
    places_of,
    segment_name,
)

log = logging.getLogger(__name__)

HELD_LIMIT = 128  # descriptors of finished segments: a journal of the usual bound has 64
BLOCK_BYTES = 2**20  # copied at a time

# it makes them again itself: another file there is not a replacement
_OF_INGESTER = (INGESTED, INGESTER_LOCK)


class Damage(NamedTuple):
    """What was done to the files of a journal while its recorder ran, as far as is known."""

    times: int = 0  # that files were gone and were put back
    lost_bytes: int = 0  # of records that were cut off before they were ingested


class HeldFiles:
    """The descriptors of one journal's files.

    `problem` is why some are gone and not back yet, None if all is well.
    """

    def __init__(
        self,
        directory: Path,
        lock: int,
        close: Callable[[int], None] = os.close,
        durable: bool = False,
    ):
        """`lock` is the descriptor that holds the lock of the writer; `close` is given each one
        that is not needed.
        """
        self._directory, self._close, self._durable = directory, close, durable
        self._descriptors = {WRITER_LOCK: lock}
        # still held: a folder that was moved away is not one of a dead recorder
        self._former_locks: list[int] = []
        self._sizes: dict[str, int] = {}  # of segments that are finished
        self.damage = Damage()
        # when that was noticed the last time, by the monotonic clock
        self._damaged_s: float | None = None
        self._ingested = START  # up to there the journal is in the log
        self.problem: str | None = None

    @property
    def damaged_since_s(self) -> float | None:
        """Return how long ago damage was noticed the last time; None if it never was."""
        return None if self._damaged_s is None else time.monotonic() - self._damaged_s

    def __getitem__(self, name: str) -> int:
        return self._descriptors[name]

    def hold(self, name: str, descriptor: int) -> None:
        """Hold a segment that has been begun; beyond the limit the oldest is let go."""
        if len(self._sizes) > HELD_LIMIT:
            self._let_go(min(self._sizes))
        self._descriptors[name] = descriptor

    def finish(self, name: str, size_bytes: int) -> None:
        """Note the size of a segment to which nothing is added any more."""
        self._sizes[name] = size_bytes

    def size_bytes(self, name: str) -> int:
        return os.fstat(self._descriptors[name]).st_size

    def close(self) -> None:
        for name in list(self._descriptors):
            self._let_go(name)
        for descriptor in self._former_locks:
            os.close(descriptor)

    def look(self) -> None:
        """Put back what is gone; let go of what the ingester has deleted. Does not raise."""
        gone = [name for name in self._descriptors if not self._is_there(name)]
        try:
            self._adopt()
            ingested, place = self._places()
            for name in gone:
                if self._is_done_with(name, place):
                    self._let_go(name)
            gone = [name for name in gone if name in self._descriptors]
            self._ingested = ingested
            self._count_cut()
            if gone:
                self._put_back(gone)
        except OSError as error:
            self._cannot(error.strerror or type(error).__name__)
        else:
            self.problem = None

    def _lose(self, size_bytes: int) -> None:
        times, lost_bytes = self.damage
        self.damage = Damage(times, lost_bytes + size_bytes)
        log.error(
            "%d bytes were cut off the journal %s by another program: what they were of has a gap",
            *(size_bytes, self._directory),
        )
        self._write_down()

    def _is_there(self, name: str) -> bool:
        """Return whether a name still leads to the file that is held."""
        try:
            found = os.stat(self._directory / name, follow_symlinks=False)
        except OSError:
            return False
        return name in _OF_INGESTER or os.path.samestat(found, os.fstat(self._descriptors[name]))

    def _is_done_with(self, name: str, place: Position) -> bool:
        if is_segment_name(name):
            return name in self._sizes and name < segment_name(place.segment)
        return name.startswith(PREFIX) and name != carried_path(self._directory, place).name

    def _places(self) -> tuple[Position, Position]:
        """Return up to where the journal is in the log, and from where on the ingester needs it."""
        descriptor = self._descriptors.get(INGESTED)
        return places_of(b"" if descriptor is None else os.pread(descriptor, 100, 0))

    def _adopt(self) -> None:
        """Hold the files that the ingester has made."""
        with suppress(FileNotFoundError):
            for name in os.listdir(self._directory):
                if name in _OF_INGESTER or name.startswith(PREFIX):
                    self._adopt_one(name)

    def _adopt_one(self, name: str) -> None:
        held = self._descriptors.get(name)
        with suppress(OSError):  # it is gone again, or it is a link, which no ingester makes
            if held is None or not os.path.samestat(
                os.stat(self._directory / name), os.fstat(held)
            ):
                descriptor = os.open(
                    self._directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
                )
                self._let_go(name)
                self._descriptors[name] = descriptor

    def _let_go(self, name: str) -> None:
        descriptor = self._descriptors.pop(name, None)
        self._sizes.pop(name, None)
        if descriptor is not None:
            self._close(descriptor)

    def _count_cut(self) -> None:
        """Count what is missing at the end of finished segments.

        Their reader finds that too, by the next segment.
        """
        segment, offset = segment_name(self._ingested.segment), self._ingested.offset
        for name, expected in list(self._sizes.items()):
            size_bytes = self.size_bytes(name)
            self._sizes[name] = min(size_bytes, expected)
            read = offset if name == segment else 0
            if name >= segment and max(size_bytes, read) < expected:
                self._lose(expected - max(size_bytes, read))

    # -- putting back

    def _put_back(self, names: list[str]) -> None:
        """Make the files again. Raises `OSError`."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if WRITER_LOCK in names:
            self._lock_again()
        copied = 0
        for name in sorted(set(names) - {WRITER_LOCK}):
            copied += self._copy(name)
        if self._durable:
            for directory in (self._directory, self._directory.parent):
                sync(directory)
        self.damage = self.damage._replace(times=self.damage.times + 1)
        self._write_down()
        log.error(
            "files of the journal %s were deleted or replaced while it was being written: they are put back, with %d "
            "bytes. Keep whatever cleans up away from that folder.",
            *(self._directory, copied),
        )

    def _lock_again(self) -> None:
        before = self._descriptors[WRITER_LOCK]
        lock = try_lock(self._directory)
        if lock is None:
            raise OSError(0, "another process has locked it")
        self._former_locks.append(before)
        self._descriptors[WRITER_LOCK] = lock
        _copy_times(before, lock)

    def _copy(self, name: str) -> int:
        """Put a file back from its descriptor; return its size.

        It is held by the new descriptor from then on.
        """
        source = self._descriptors[name]
        partial = self._directory / f"{PARTIAL}{name}"
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(partial, flags, 0o600)
        try:
            offset = 0
            while block := os.pread(source, BLOCK_BYTES, offset):
                offset += os.write(target, block)
            _copy_times(source, target)
            if self._durable:
                to_disk(target)
            os.rename(partial, self._directory / name)
        except OSError:
            os.close(target)
            with suppress(OSError):
                partial.unlink()
            raise
        self._descriptors[name] = target
        self._close(source)
        return offset

    def _write_down(self) -> None:
        """Leave the counts for `recorder doctor`, in the file that is locked."""
        self._damaged_s = time.monotonic()
        lock = self._descriptors[WRITER_LOCK]
        status = os.fstat(lock)
        with suppress(OSError):
            os.pwrite(lock, b"%010d %015d\n" % self.damage, 0)
            # it says since when the recorder runs
            os.utime(lock, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _cannot(self, why: str) -> None:
        is_new = self.problem is None
        self.problem = (
            f"Files of the journal {self._directory} were deleted and cannot be put back ({why}): what passes is not "
            "in the log until that folder can be written, and lost if this recorder ends before."
        )
        if is_new:
            log.error("%s", self.problem)


def damage_of(directory: Path) -> Damage:
    """Return what a recorder wrote down of damage to the journal that it writes."""
    try:
        return Damage(*map(int, (directory / WRITER_LOCK).read_bytes().split()))
    except (OSError, ValueError, TypeError):
        return Damage()


def _copy_times(source: int, target: int) -> None:
    status = os.fstat(source)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
