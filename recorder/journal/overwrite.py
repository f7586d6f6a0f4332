"""Overwriting, in a journal that is being written, the request bodies that the log has: they may hold secrets there.

Rules of this file:

* A body is written over when the commit that has its request is done, not before. Told again after a crash, the request
  is taken from the log (`recorder.wire.request_body`).
* What stands beside a body stays readable at every moment, of a crash and of a power cut too. A record gets its new
  mark first, one byte; that is on the disk before the payload is touched.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from recorder.journal.carry_over import carried_path
from recorder.journal.format import HEADER, MAGIC, MARK_OFFSET, RECORD_LIMIT, Mark, Position, Record, parse
from recorder.journal.reader import segment_name, to_disk

log = logging.getLogger(__name__)

EVERY_S = 1.0  # it takes a sync of the file that the recorder writes to: not with each of forty commits a second
READ_BYTES = HEADER.size + RECORD_LIMIT  # at a time: one record at least
_ZEROS = bytes(2**20)
_BLANK = bytes([Mark.BLANK])
_TO_ITS_END = sys.maxsize

Stretch = tuple[int, int, int]
"""Of a journal: a segment's number, and from which byte to which."""


class Bodies:
    """The request bodies that stand in one journal."""

    def __init__(self, directory: Path, place: Position) -> None:
        """`place` is where the journal is told from: those before it are in the log."""
        self._directory = directory
        self._noted: dict[int, tuple[Position, Position]] = {}  # by exchange: from where to where
        self._carried: set[int] = set()  # exchanges of which some stands in what is carried over
        self._due: dict[int, tuple[Position, Position]] = {}
        self._before: Position | None = place
        self._next_s = time.monotonic() + EVERY_S

    def note(self, record: Record, start: Position) -> None:
        """A record that begins at or behind `start` is told."""
        if record.mark == Mark.REQUEST_BODY:
            begun, _ = self._noted.get(record.exchange, (start, start))
            self._noted[record.exchange] = begun, record.position

    def note_carried(self, record: Record, place: Position) -> None:
        """A record from before `place` is told, of those that were carried over."""
        if record.mark == Mark.REQUEST_BODY:
            self._carried.add(record.exchange)
            self._noted.setdefault(record.exchange, (place, place))

    def carry(self) -> None:
        """What is not in the log yet is now in what is carried over."""
        self._carried.update(self._noted)

    def committed(self, is_in_log: Callable[[int], bool | None]) -> None:
        """A commit is done: `is_in_log` tells of an exchange whether its request is. `None`: it will never be."""
        for number, stretch in list(self._noted.items()):
            known = is_in_log(number)
            if known is not False:
                del self._noted[number]
            if known:
                self._due[number] = stretch

    def overwrite(self, place: Position) -> None:
        """Write over what the log has, if it is time. `place` is the one that is committed."""
        now_s = time.monotonic()
        if not (self._due or self._before) or now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        due, self._due = self._due, {}
        before, self._before = self._before, None
        try:
            if before is not None:
                _overwrite(self._directory / segment_name(before.segment), 0, before.offset, None)
            for number, start, end in _joined(due.values()):
                _overwrite(self._directory / segment_name(number), start, end, due)
            if not self._carried.isdisjoint(due):
                _overwrite(carried_path(self._directory, place), 0, _TO_ITS_END, due)
                self._carried.difference_update(due)
        except OSError as error:
            log.warning("request bodies in the journal are not overwritten, and go with it: %s", error.strerror)


def _joined(spans: Iterable[tuple[Position, Position]]) -> list[Stretch]:
    """The same places, each of them once."""
    joined: list[Stretch] = []
    for number, start, end in sorted(each for span in spans for each in _by_segment(*span)):
        if joined and joined[-1][0] == number and start <= joined[-1][2]:
            number, start, before = joined.pop()
            end = max(before, end)
        joined.append((number, start, end))
    return joined


def _by_segment(start: Position, end: Position) -> Iterator[Stretch]:
    for number in range(start.segment, end.segment + 1):
        first = start.offset if number == start.segment else 0
        yield number, first, end.offset if number == end.segment else _TO_ITS_END


def blank(record: Record) -> Record:
    """A record that has no request body any more."""
    if record.mark != Mark.REQUEST_BODY:
        return record
    return record._replace(mark=Mark.BLANK, payload=bytes(len(record.payload)))


def _overwrite(path: Path, start: int, end: int, exchanges: Collection[int] | None) -> None:
    """The request bodies of these exchanges, or of all, in a stretch of a file. A file that is gone has none."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        payloads = list(_payloads(fd, max(start, len(MAGIC)), end, exchanges))
        if not payloads:
            return
        for offset, _ in payloads:
            os.pwrite(fd, _BLANK, offset - HEADER.size + MARK_OFFSET)
        to_disk(fd)
        for offset, length in payloads:
            for at in range(0, length, len(_ZEROS)):
                os.pwrite(fd, _ZEROS[: length - at], offset + at)
    finally:
        os.close(fd)


def _payloads(fd: int, start: int, end: int, exchanges: Collection[int] | None) -> Iterator[tuple[int, int]]:
    """Where they are, and how long."""
    while start < end and (
        records := list(parse(os.pread(fd, min(READ_BYTES, end - start), start), Position(0, start)))
    ):
        for record in records:
            if record.mark == Mark.REQUEST_BODY and (exchanges is None or record.exchange in exchanges):
                yield record.position.offset - len(record.payload), len(record.payload)
        start = records[-1].position.offset
