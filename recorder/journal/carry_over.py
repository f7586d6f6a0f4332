"""A file with the records of open exchanges from before a place in a journal.

The name of the file is the place, so that a place that was committed has its file and any other file is left over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from recorder.files import sync
from recorder.journal.format import MAGIC, RECORD_LIMIT, START, Position, Record, encode, parse
from recorder.journal.reader import segment_name, segment_numbers, size_bytes

PREFIX = "carried-"
PARTIAL = "partial-"
BLOCK_BYTES = RECORD_LIMIT  # read at a time; one more may be held while a record in it is not whole


def carried_path(directory: Path, place: Position) -> Path:
    """Return the file for the records from before `place`, of exchanges that were open there."""
    return directory / f"{PREFIX}{place.segment:06d}-{place.offset:010d}"


def is_worth_carrying(directory: Path, place: Position, before: Position) -> bool:
    """Return whether the journal from `place` on is longer than what was carried to `before`, the last time: else a
    long stream would be copied again and again.
    """
    segments = [number for number in segment_numbers(directory) if place.segment <= number]
    grown = sum(size_bytes(directory / segment_name(number)) for number in segments)
    return grown > size_bytes(carried_path(directory, before))


def write_carried(directory: Path, place: Position, records: Iterable[Record]) -> None:
    """Make that file, whole or not at all. Raises `OSError`."""
    path = carried_path(directory, place)
    partial = directory / f"{PARTIAL}{path.name}"
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
    for path in (*directory.glob(f"{PREFIX}*"), *directory.glob(f"{PARTIAL}{PREFIX}*")):
        if path != carried_path(directory, but):
            path.unlink(missing_ok=True)
