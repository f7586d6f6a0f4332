"""The files of a journal: their names, and reading them while they are written or after.

Reading never changes a byte. Records of open exchanges that are carried over are in a file whose
name is the place, so that a place that was committed has its file and any other file is left over.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from recorder.errors import RecorderError
from recorder.files import sync
from recorder.journal.format import (
    HEADER,
    MAGIC,
    READABLE,
    RECORD_LIMIT,
    START,
    Mark,
    Position,
    Record,
    encode,
    parse,
    segment_record,
)

# how long a segment may be missing while its writer lives, which looks after its files every second
PUT_BACK_S = 5.0

SUFFIX = ".seg"
PARTIAL = ".partial"  # of a segment that is being begun
SEGMENT_BEGINNING = len(MAGIC) + len(segment_record(0))
WRITER_LOCK, INGESTER_LOCK, INGESTED = "lock", "ingester.lock", "ingested"

_SEGMENT_MARK = int(Mark.SEGMENT)  # compared with each record
_SEGMENT = re.compile(rf"\d+{re.escape(SUFFIX)}")
_FILE = re.compile(
    rf"\d+({re.escape(SUFFIX)}|{re.escape(PARTIAL)})|(carried|partial)-[\w.-]+|{WRITER_LOCK}|{INGESTER_LOCK}|{INGESTED}"
)


class DamagedStretch(NamedTuple):
    """A segment from an offset on, which cannot be read."""

    path: Path
    offset: int


class JournalReader:
    """A reader of records from a position on, from the journal of a live recorder or a dead one."""

    def __init__(self, directory: Path, position: Position = START, *, waits: bool = True) -> None:
        """`waits`: a segment that is missing, or is another one, may come back while its writer
        lives.
        """
        self.directory = directory
        self.position = position
        # a sentence for each record that was never finished: nobody has seen its bytes
        self.torn: list[str] = []
        # a sentence for each stretch of records that cannot be read any more
        self.damaged: list[str] = []
        self.stretches: list[DamagedStretch] = []  # what there is of those
        self._waits = waits
        self._missing_since_s: float | None = None

    def read(self, limit_bytes: int, *, writer_is_dead: bool = False) -> list[Record]:
        """Return the records from `position` on, up to about `limit_bytes`; none when there are no
        more now.

        The end of a segment counts as torn only if the writer is dead or has begun the next
        segment.
        """
        while True:
            segments = [
                number
                for number in segment_numbers(self.directory)
                if number >= self.position.segment
            ]
            if not segments or not self._is_at_hand(segments, writer_is_dead):
                return []
            data = self._load(limit_bytes)
            if data is None:  # deleted since the names were listed
                return []
            records = list(parse(data, self.position))
            if records:
                self._missing_since_s = None
                self.position = records[-1].position
                records = [record for record in records if record.mark != _SEGMENT_MARK]
                if records:
                    return records
                continue
            length = _length(data)
            if length is not None and limit_bytes <= len(data) < HEADER.size + length:
                limit_bytes = HEADER.size + length
                continue
            if not self._go_on(segments, data, writer_is_dead):
                return []

    def records(self, limit_bytes: int, *, writer_is_dead: bool = False) -> Iterator[Record]:
        """Yield the records from `position` on, which are read by so many bytes."""
        while records := self.read(limit_bytes, writer_is_dead=writer_is_dead):
            yield from records

    def _go_on(self, segments: Sequence[int], data: bytes, writer_is_dead: bool) -> bool:
        """Leave a segment of which `data` has no whole record, if nothing more comes.

        Return whether one follows.
        """
        if len(segments) > 1:
            if not self._is_there(segments[1]) and self._may_come_back(writer_is_dead):
                return False
            self._missing_since_s = None
            self._leave(data, segments[1])
            self.position = Position(segments[1], 0)
            return True
        if writer_is_dead:
            self._drop_tail(data)
        return False

    def _is_there(self, following: int) -> bool:
        """Return whether a segment has all of its bytes, damaged or not, as far as the next one
        says how many.
        """
        segment, offset = self.position
        recorded = _previous_segment_bytes(self.directory / segment_name(following)) or 0
        size = max(offset, size_bytes(self.directory / segment_name(segment)))
        return following == segment + 1 and size >= recorded

    def _is_at_hand(self, segments: Sequence[int], writer_is_dead: bool) -> bool:
        """Return whether to read on: in the segment of `position`, or in the first one that there
        is.

        One that another program deleted or replaced is put back while its writer lives: that is
        waited for.
        """
        is_there = segments[0] == self.position.segment
        path = self.directory / segment_name(segments[0])
        if is_there and self._has_begun(path, writer_is_dead):
            return True
        if self._may_come_back(writer_is_dead):
            return False
        if is_there and len(segments) == 1 and size_bytes(path):
            raise RecorderError(f"{path} is not a journal segment of this version of recorder.")
        if is_there:
            return True  # the next one shows whose it was: it is damage, up to there
        if self.position != START:
            lost = f"The segments from {self.position.segment} to {segments[0] - 1} of {self.directory} are lost."
            self.damaged.append(lost)
        self.position = Position(segments[0], 0)
        return self._is_at_hand(segments, writer_is_dead)

    def _has_begun(self, path: Path, writer_is_dead: bool) -> bool:
        """Return whether `position` is behind the beginning of its segment, where it is set to if
        there is one.
        """
        if self.position.offset > 0:
            return True
        try:
            with open(path, "rb") as segment:
                magic = segment.read(len(MAGIC))
        except FileNotFoundError:
            return False
        if magic.startswith(MAGIC[:-1]) and magic not in READABLE:
            raise RecorderError(f"{path} is not a journal segment of this version of recorder.")
        is_blank = writer_is_dead and not any(magic)  # zeros: what a power cut leaves
        if magic not in READABLE and not is_blank:
            return False
        self.position = self.position._replace(offset=len(MAGIC))
        return True

    def _may_come_back(self, writer_is_dead: bool) -> bool:
        if writer_is_dead or not self._waits or self.position == START:
            return False
        now_s = time.monotonic()
        if self._missing_since_s is None:
            self._missing_since_s = now_s
        return now_s - self._missing_since_s < PUT_BACK_S

    def _load(self, limit_bytes: int) -> bytes | None:
        """Return what there is behind `position` in its segment; None if there is no such segment."""
        try:
            with open(self.directory / segment_name(self.position.segment), "rb") as segment:
                segment.seek(self.position.offset)
                return segment.read(limit_bytes)
        except FileNotFoundError:
            return None

    def _leave(self, data: bytes, following: int) -> None:
        """Continue with the next segment, which has the size that this one should have."""
        segment, offset = self.position
        recorded = _previous_segment_bytes(self.directory / segment_name(following))
        if following > segment + 1:
            self.damaged.append(
                f"The segments between {segment} and {following} of {self.directory} are lost."
            )
        elif recorded is None and offset > len(MAGIC):  # of an older recorder, or damaged itself
            self._drop_tail(data)
        elif recorded is None or offset < recorded:
            path = self.directory / segment_name(segment)
            self.damaged.append(f"The end of {path} is damaged or lost.")
            if size_bytes(path) > offset:
                self.stretches.append(DamagedStretch(path, offset))
        else:
            self._drop_tail(b"")

    def _drop_tail(self, data: bytes) -> None:
        path = self.directory / segment_name(self.position.segment)
        left = size_bytes(path) - self.position.offset
        if left <= 0:
            return
        length = _length(data)
        if (
            not any(data)
            or len(data) < HEADER.size
            or (length is not None and HEADER.size + length >= left)
        ):
            self.torn.append(
                f"{left} bytes at the end of {path} were torn off in mid-write and are dropped."
            )
        else:
            self.damaged.append(
                f"{left} bytes at the end of {path} are damaged and cannot be read."
            )
            self.stretches.append(DamagedStretch(path, self.position.offset))
        self.position = self.position._replace(offset=self.position.offset + left)


def _previous_segment_bytes(path: Path) -> int | None:
    """Return the size of the segment before, from the beginning of a segment; None if it has none."""
    try:
        with open(path, "rb") as segment:
            magic, data = segment.read(len(MAGIC)), segment.read(SEGMENT_BEGINNING - len(MAGIC))
    except FileNotFoundError:
        return None
    for record in parse(data, START) if magic in READABLE else ():
        if record.mark == _SEGMENT_MARK:
            return int.from_bytes(record.payload, "little")
    return None


def _length(data: bytes) -> int | None:
    """Return the length of the first record's payload, if it is a possible one."""
    length: int = HEADER.unpack_from(data)[0] if len(data) >= HEADER.size else RECORD_LIMIT + 1
    return length if length <= RECORD_LIMIT else None


def size_bytes(path: Path) -> int:
    """Return the size of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def changed_s(path: Path) -> float:
    """Return when a file was last written to; long ago if there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def ingester_pid(directory: Path) -> int | None:
    """Return the process that ingests a journal, or did so last."""
    try:
        return int((directory / INGESTER_LOCK).read_bytes())
    except (OSError, ValueError):
        return None


def write_ingested(directory: Path, until: Position, place: Position) -> None:
    """Write down how far a journal is in the log: what it has before `until` was read, and is
    committed. What is before the segment of `place` is not needed any more.
    """
    with contextlib.suppress(OSError):  # who cannot be told counts what is in the log as waiting
        fd = os.open(
            directory / INGESTED, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            os.pwrite(fd, b"%010d %015d %010d %015d\n" % (*until, *place), 0)
        finally:
            os.close(fd)


def ingested(directory: Path) -> Position:
    """Return how far a journal is in the log, as its ingester wrote it down; the start if it did
    not.
    """
    try:
        return places_of((directory / INGESTED).read_bytes())[0]
    except OSError:
        return START


def places_of(written: bytes) -> tuple[Position, Position]:
    """Return what `write_ingested` wrote; the start for what it did not."""
    try:
        segment, offset, *place = map(int, written.split())
    except ValueError:
        return START, START
    return Position(segment, offset), Position(*place) if len(place) == 2 else START


class Waiting(NamedTuple):
    """The records of a journal that are not in the log."""

    end: Position
    size_bytes: int
    since_s: float | None  # how old the oldest of it is, by the clock of its records


def waiting(directory: Path) -> Waiting:
    """Return what a journal holds behind the place up to which it is in the log.

    It costs some calls of the system.
    """
    place = ingested(directory)
    end, size = place, 0
    oldest: Position | None = None
    for number in segment_numbers(directory):
        if number < place.segment:
            continue
        path = directory / segment_name(number)
        length = size_bytes(path)
        begin = len(MAGIC) if number <= 1 else SEGMENT_BEGINNING
        begin = max(begin, place.offset) if number == place.segment else begin
        end = Position(number, max(begin, length))
        size += end.offset - begin
        if oldest is None and length > begin:
            oldest = Position(number, begin)
    return Waiting(end, size, _age_s(directory, oldest) if oldest is not None else None)


def _age_s(directory: Path, oldest: Position) -> float:
    """Return the age of a record: at most that of the journal, for an import has times of long ago."""
    most_s = max(0.0, time.time() - changed_s(directory / WRITER_LOCK))
    try:
        with open(directory / segment_name(oldest.segment), "rb") as segment:
            segment.seek(oldest.offset)
            _, _, _, _, t_ns = HEADER.unpack(segment.read(HEADER.size))
    except (OSError, struct.error):
        return most_s
    age_s = (time.monotonic_ns() - t_ns) / 1e9
    return age_s if 0 <= age_s < most_s else most_s


def segment_name(number: int) -> str:
    return f"{number:06d}{SUFFIX}"


def is_segment_name(name: str) -> bool:
    return _SEGMENT.fullmatch(name) is not None


def segment_numbers(directory: Path) -> list[int]:
    """Return the segments in a journal directory, in order. A deleted directory has none."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(name.removesuffix(SUFFIX)) for name in names if _SEGMENT.fullmatch(name))


def is_journal(directory: Path) -> bool:
    """Return whether a directory has only the files of a journal.

    Nothing else may be locked, read or removed.
    """
    if directory.is_symlink() or not directory.is_dir():
        return False
    with os.scandir(directory) as found:
        return all(
            _FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False) for entry in found
        )


def remove(directory: Path) -> None:
    """Remove a journal; what is not of a journal stays, and the directory with it."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(directory)):
            if _FILE.fullmatch(entry.name):
                os.unlink(entry.path)
        directory.rmdir()


# -- the records of open exchanges from before a place, carried over into a file of their own


PREFIX = "carried-"
UNFINISHED = "partial-"
BLOCK_BYTES = RECORD_LIMIT  # read at a time; one more may be held while a record in it is not whole


def carried_path(directory: Path, place: Position) -> Path:
    """Return the file for the records from before `place`, of exchanges that were open there."""
    return directory / f"{PREFIX}{place.segment:06d}-{place.offset:010d}"


def is_worth_carrying(directory: Path, place: Position, before: Position) -> bool:
    """Return whether the journal from `place` on is longer than what was carried to `before`, the
    last time: else a long stream would be copied again and again.
    """
    segments = [number for number in segment_numbers(directory) if place.segment <= number]
    grown = sum(size_bytes(directory / segment_name(number)) for number in segments)
    return grown > size_bytes(carried_path(directory, before))


def write_carried(directory: Path, place: Position, records: Iterable[Record]) -> None:
    """Make that file, whole or not at all. Raises `OSError`."""
    path = carried_path(directory, place)
    partial = directory / f"{UNFINISHED}{path.name}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(partial, flags, 0o600), "wb") as file:
        file.writelines(encode(records))
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    sync(directory)  # the place that is committed next counts on the file being there


def read_carried(directory: Path, place: Position) -> Iterator[Record]:
    """Yield the records of that file, if there is one."""
    path = carried_path(directory, place)
    if not path.exists():
        return
    with path.open("rb") as file:
        held = file.read(len(MAGIC))[len(MAGIC) :]
        while block := file.read(BLOCK_BYTES):
            held += block
            end = 0
            for record in parse(held, START):
                end = record.position.offset
                yield record
            held = held[end:]


def drop_carried(directory: Path, *, but: Position) -> None:
    """Delete what is left over from other places, and what a full disk left half-written."""
    for path in (*directory.glob(f"{PREFIX}*"), *directory.glob(f"{UNFINISHED}{PREFIX}*")):
        if path != carried_path(directory, but):
            path.unlink(missing_ok=True)
