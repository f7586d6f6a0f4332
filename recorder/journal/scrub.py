"""Overwriting of bytes that must not stay in a journal with zeros, while its recorder continues to
write.

Request bodies may hold secrets: each is overwritten when the log has it (`RequestBodyScrubber`),
and so is what a client sent after a 101. Of sessions that were purged all payloads are overwritten
(`scrub_exchanges`).

Rules of this file:

* A record keeps its length and its place, and its neighbours stay readable at every moment, of a
  crash and of a power cut too.
* A record gets the mark `BLANK` first, one byte; that is on the disk before the payload is touched.
* A body is overwritten after the commit that has its request, not before. If the request is
  ingested again after a crash, it is taken from the log (`recorder.wire.request_body`).
* The bytes that a client sent after a 101 are needed to decode the ones behind them, also after a
  crash: they are overwritten in the same way, but not before the exchange has ended and the journal
  is ingested beyond it.
* Of a purged session only what is before the place up to which the journal is ingested is
  overwritten: that part is never read again. What is behind it may be read this very moment.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

import msgspec

from recorder.files import sync, to_disk
from recorder.journal.format import (
    HEADER,
    MAGIC,
    MARK_OFFSET,
    RECORD_LIMIT,
    Mark,
    Position,
    Record,
    parse,
)
from recorder.journal.reader import (
    JournalReader,
    carried_path,
    read_carried,
    segment_name,
    segment_numbers,
)
from recorder.model.events import RequestHead

log = logging.getLogger(__name__)

# it takes a sync of the file that the recorder writes to: not with each of forty commits a second
SCRUB_S = 1.0
BODY_BLOCK_BYTES = HEADER.size + RECORD_LIMIT  # at a time: one record at least
BLOCK_BYTES = 4 * 2**20  # of records that are searched, at a time
_ZEROS = bytes(2**20)
_BLANK = bytes([Mark.BLANK])
_TO_ITS_END = sys.maxsize
FROM_CLIENTS = frozenset({Mark.REQUEST_BODY, Mark.CLIENT_CHUNK})

Stretch = tuple[int, int, int]
"""A segment's number, and the bytes from where to where."""


class RequestBodyScrubber:
    """The request bodies in one journal that are due to be overwritten, or will be."""

    def __init__(self, directory: Path, place: Position) -> None:
        """`place` is where ingesting starts: the bodies before it are in the log."""
        self._directory = directory
        self._noted: dict[int, tuple[Position, Position]] = {}  # by exchange: from where to where
        # the same of what clients sent after a 101
        self._sent: dict[int, tuple[Position, Position]] = {}
        self._carried: set[int] = set()  # exchanges with a part in what is carried over
        self._due: dict[int, tuple[Position, Position]] = {}
        self._before: Position | None = place
        self._next_s = time.monotonic() + SCRUB_S

    def note(self, record: Record, start: Position) -> None:
        """Note a record that begins at or behind `start` and is being ingested."""
        if record.mark in FROM_CLIENTS:
            noted = self._noted if record.mark == Mark.REQUEST_BODY else self._sent
            begun, _ = noted.get(record.exchange, (start, start))
            noted[record.exchange] = begun, record.position

    def note_carried(self, record: Record, place: Position) -> None:
        """Note a record from before `place` that was carried over and is being ingested."""
        if record.mark in FROM_CLIENTS:
            self._carried.add(record.exchange)
            self.note(record._replace(position=place), place)

    def carry(self) -> None:
        """Note that all was carried over that is not to be overwritten yet."""
        self._carried.update(self._noted, self._sent)

    def committed(self, is_in_log: Callable[[int], bool | None]) -> None:
        """Note a commit.

        `is_in_log` returns whether the request of an exchange is in it; None if it never will be.
        """
        for number, stretch in list(self._noted.items()):
            known = is_in_log(number)
            if known is not False:
                del self._noted[number]
            if known:
                self._due[number] = stretch

    def scrub(self, place: Position, open_: Collection[int] = ()) -> None:
        """Overwrite what the log has, if it is time.

        `place` is the committed one; exchanges in `open_` go on.
        """
        now_s = time.monotonic()
        if not (self._due or self._before or self._sent) or now_s < self._next_s:
            return
        self._next_s = now_s + SCRUB_S
        if self._is_one_missing(place):
            return
        due, self._due = self._due, {}
        before, self._before = self._before, None
        sent = {
            number: span
            for number, span in self._sent.items()
            if number not in open_ and span[1] <= place
        }
        self._sent = {number: span for number, span in self._sent.items() if number not in sent}
        try:
            if before is not None:
                path = self._directory / segment_name(before.segment)
                _overwrite(path, [(0, before.offset)], lambda record: record.mark in FROM_CLIENTS)
            for mark, spans in ((Mark.REQUEST_BODY, due), (Mark.CLIENT_CHUNK, sent)):
                is_due = partial(_is_of, mark, spans)
                for number, stretches in groupby(_joined(spans.values()), itemgetter(0)):
                    parts = [(start, end) for _, start, end in stretches]
                    _overwrite(self._directory / segment_name(number), parts, is_due)
                if not self._carried.isdisjoint(spans):
                    _overwrite(carried_path(self._directory, place), [(0, _TO_ITS_END)], is_due)
                    self._carried.difference_update(spans)
        except OSError as error:
            log.warning(
                "request bodies in the journal are not overwritten, and go with it: %s",
                error.strerror,
            )

    def _is_one_missing(self, place: Position) -> bool:
        """Return whether another program has deleted a segment with something to overwrite, which
        is not done with.

        Its writer puts it back, secrets and all (`recorder.journal.held_files`): it is overwritten
        after that.
        """
        stretches = _joined([*self._due.values(), *self._sent.values()])
        needed = {number for number, _, _ in stretches if number >= place.segment}
        return any(not (self._directory / segment_name(number)).exists() for number in needed)


def _joined(spans: Iterable[tuple[Position, Position]]) -> list[Stretch]:
    """Return the stretches of some spans, each place once."""
    joined: list[Stretch] = []
    for number, start, end in sorted(chain.from_iterable(_by_segment(*span) for span in spans)):
        if joined and joined[-1][0] == number and start <= joined[-1][2]:
            number, start, before = joined.pop()
            end = max(before, end)
        joined.append((number, start, end))
    return joined


def _by_segment(start: Position, end: Position) -> Iterator[Stretch]:
    for number in range(start.segment, end.segment + 1):
        first = start.offset if number == start.segment else 0
        yield number, first, end.offset if number == end.segment else _TO_ITS_END


def without_body(record: Record) -> Record:
    """Return a record with its request body blanked."""
    if record.mark != Mark.REQUEST_BODY:
        return record
    return record._replace(mark=Mark.BLANK, payload=bytes(len(record.payload)))


def _is_of(mark: Mark, exchanges: Collection[int], record: Record) -> bool:
    return record.mark == mark and record.exchange in exchanges


def _overwrite(
    path: Path, parts: Iterable[tuple[int, int]], is_wanted: Callable[[Record], bool]
) -> None:
    """Overwrite some records in parts of a file, if it exists: one sync brings all their marks onto
    the disk.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        found = (_payloads(fd, max(start, len(MAGIC)), end, is_wanted) for start, end in parts)
        payloads = list(chain.from_iterable(found))
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


def _payloads(
    fd: int, start: int, end: int, is_wanted: Callable[[Record], bool]
) -> Iterator[tuple[int, int]]:
    """Yield the offset and the length of each payload that is wanted."""
    while start < end and (
        records := list(
            parse(os.pread(fd, min(BODY_BLOCK_BYTES, end - start), start), Position(0, start))
        )
    ):
        for record in records:
            if is_wanted(record):
                yield record.position.offset - len(record.payload), len(record.payload)
        start = records[-1].position.offset


def scrub_exchanges(directory: Path, place: Position, exchange_ids: Collection[str]) -> bool:
    """Overwrite the payloads of these exchanges before `place`; return whether nothing is left of
    them behind it.

    Records whose exchange began in a segment that is deleted are overwritten too: their session is
    unknown.
    """
    others: set[int] = set()

    def is_gone(record: Record) -> bool:
        began = _exchange_id(record)
        if began is not None and began not in exchange_ids:
            others.add(record.exchange)
        return record.mark != Mark.SEGMENT and record.exchange not in others

    for number in segment_numbers(directory):
        if number <= place.segment:
            path = directory / segment_name(number)
            _overwrite(
                path, [(0, place.offset if number == place.segment else _TO_ITS_END)], is_gone
            )
            with suppress(FileNotFoundError):  # its recorder is done with it, and deletes it
                sync(path)
    # it is asked once: what cannot be read now is said
    reader = JournalReader(directory, place, waits=False)
    rest = chain(read_carried(directory, place), reader.records(BLOCK_BYTES))
    with suppress(FileNotFoundError):
        return not any(directory.glob("partial-*")) and not any(
            _exchange_id(each) in exchange_ids for each in rest
        )
    return True


def _exchange_id(record: Record) -> str | None:
    """Return the exchange that begins with a record, if one does."""
    if record.mark != Mark.REQUEST:
        return None
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(record.payload, type=RequestHead).exchange_id
    return None
