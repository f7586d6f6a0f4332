"""Overwriting what a journal still holds of exchanges that are in no log any more, while its recorder runs.

Rules of this file:

* Only what stands before the place up to which the journal is ingested is written to: nobody reads that again. What
  stands behind it may be read this very moment.
* A record keeps its length and its place. Should the journal be told from its beginning, to a new database, the other
  records are all there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import msgspec

from recorder.journal.carry_over import read_carried
from recorder.journal.format import HEADER, MAGIC, Mark, Position, Record, parse, record_bytes
from recorder.journal.reader import JournalReader, segment_name, segment_numbers
from recorder.model.payloads import RequestHead

READ_BYTES = 4 * 2**20  # at a time


def blank(directory: Path, place: Position, exchange_ids: Collection[str]) -> bool:
    """Overwrite what stands before `place` of these exchanges; returns whether nothing is left of them behind it.

    Records whose exchange began in a segment that is deleted are overwritten too: there is no telling whose they are.
    """
    kept: set[int] = set()
    for number in segment_numbers(directory):
        if number <= place.segment:
            with suppress(FileNotFoundError):  # its recorder is done with it, and deletes it
                _blank_segment(directory / segment_name(number), number, place, exchange_ids, kept)
    rest = chain(read_carried(directory, place), _records_from(directory, place))
    with suppress(FileNotFoundError):
        return not any(directory.glob("partial-*")) and not any(_exchange_id(each) in exchange_ids for each in rest)
    return True


def _blank_segment(path: Path, number: int, place: Position, exchange_ids: Collection[str], kept: set[int]) -> None:
    data = path.read_bytes()[len(MAGIC) :]
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for record in parse(data, Position(number, len(MAGIC))):
            if record.position > place:
                break
            began = _exchange_id(record)
            if began is not None and began not in exchange_ids:
                kept.add(record.exchange)
            if record.exchange not in kept:
                _overwrite(fd, record)
        os.fsync(fd)
    finally:
        os.close(fd)


def _overwrite(fd: int, record: Record) -> None:
    length = len(record.payload)
    buffers = record_bytes(record.exchange, record.mark, record.t_ns, bytes(length))
    os.pwrite(fd, b"".join(buffers), record.position.offset - length - HEADER.size)


def _records_from(directory: Path, place: Position) -> Iterator[Record]:
    reader = JournalReader(directory, place)
    while records := reader.read(READ_BYTES):
        yield from records


def _exchange_id(record: Record) -> str | None:
    """The exchange that begins with a record, if one does."""
    if record.mark != Mark.REQUEST:
        return None
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(record.payload, type=RequestHead).exchange_id
    return None
