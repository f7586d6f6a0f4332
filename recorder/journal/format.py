"""The records of a journal as bytes: format only, no file.

A segment is `MAGIC`, then records one after another: a header (`HEADER`, little-endian) and its
payload. Payloads are JSON for heads and ends, and the bytes of the wire for bodies. Chunks that
passed and are not in the journal are counted and digested until there is room for their `Gap`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from hashlib import sha256
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

MAGIC = b"rec-jnl\x02"  # the last byte is the version of the format
READABLE = frozenset({b"rec-jnl\x01", MAGIC})  # version 1 has no `Mark.CLIENT_CHUNK`
HEADER = Struct("<IIIBq")  # payload length, CRC-32 of all that follows it, exchange, mark, t_ns
_CHECKED = Struct("<IBq")
_pack_header, _pack_checked = HEADER.pack, _CHECKED.pack  # for each chunk that passes
# bytes at the beginning of a record: what follows them is one piece
_UNCHECKED = HEADER.size - _CHECKED.size

# no read from a socket is near it: longer data is cut, a longer length is damage
RECORD_LIMIT = 16 * 2**20


class Mark(IntEnum):
    """The kinds of record, in the order in which an exchange writes them."""

    REQUEST = 1  # JSON: ids, wall time, request head
    REQUEST_BODY = 2  # bytes, as on the wire
    REQUEST_END = 3  # JSON: {"complete": bool}
    RESPONSE = 4  # JSON: response head
    # bytes, as one read from the upstream gave them; after 101 an empty one is the end of that
    # direction
    CHUNK = 5
    GAP = 6  # JSON: see `Gap`
    END = 7  # JSON: {"outcome", "error"}
    SEGMENT = 8  # of no exchange, the first of a segment but the first one: see `segment_record`
    # bytes, as one read from the client gave them after the connection was switched (101)
    CLIENT_CHUNK = 9
    # was REQUEST_BODY or CLIENT_CHUNK: its payload is overwritten or about to be, see `parse`
    BLANK = 0xF0


DATA_MARKS = frozenset({Mark.REQUEST_BODY, Mark.CHUNK, Mark.CLIENT_CHUNK})
MARK_OFFSET = 12  # in `HEADER`: one byte, so that no crash leaves half of another mark


class Record(NamedTuple):
    """One record as read back; `position` is where the next one begins."""

    exchange: int
    mark: int
    t_ns: int
    payload: bytes
    position: Position


class Position(NamedTuple):
    """A place in a journal: a segment's number and a byte offset in it."""

    segment: int
    offset: int


START = Position(0, 0)
# half of what the classes take by themselves, for each record
_new_tuple: Callable[..., Any] = tuple.__new__


class Gap(msgspec.Struct):
    """The counts of bytes that were received but not stored, as the payload of a `GAP` record."""

    mark: int  # one of `DATA_MARKS`
    chunks: int
    size_bytes: int
    sha256: str
    from_ns: int
    to_ns: int
    reason: str


def parse(data: bytes, start: Position) -> Iterator[Record]:
    """Yield the whole, undamaged records at the beginning of `data`, which was read from `start`.

    The checksum of a `BLANK` record is that of what it was: its mark is written over first, its
    payload then. That mark differs from every other one in five bits or more, so damage does not
    make one.
    """
    segment, base = start
    view, unpack, size = memoryview(data), HEADER.unpack_from, HEADER.size
    offset, last = 0, len(data) - size
    while offset <= last:
        length, checksum, exchange, mark, t_ns = unpack(data, offset)
        body = offset + size
        if length > RECORD_LIMIT or body + length > len(data):
            return
        following = body + length
        if crc32(view[offset + _UNCHECKED : following]) != checksum and mark != Mark.BLANK:
            return
        offset = following
        place = _new_tuple(Position, (segment, base + offset))
        yield _new_tuple(Record, (exchange, mark, t_ns, data[body:following], place))


def begin(record: Record) -> Position:
    """Return where a record begins that was read from a segment."""
    segment, offset = record.position
    return Position(segment, offset - len(record.payload) - HEADER.size)


def encode(records: Iterable[Record]) -> Iterator[bytes]:
    """Yield records as the bytes of a separate segment."""
    yield MAGIC
    for exchange, mark, t_ns, payload, _ in records:
        yield from record_bytes(exchange, mark, t_ns, payload)


def record_header(exchange: int, mark: int, t_ns: int, payload: bytes) -> bytes:
    """Return the bytes before the payload of a record."""
    checksum = crc32(payload, crc32(_pack_checked(exchange, mark, t_ns)))
    return _pack_header(len(payload), checksum, exchange, mark, t_ns)


def record_bytes(exchange: int, mark: int, t_ns: int, payload: bytes) -> list[bytes]:
    """Return a record as its header and its payload, not yet joined."""
    return [record_header(exchange, mark, t_ns, payload), payload]


def segment_record(before_bytes: int) -> bytes:
    """Return the first record of a segment: how many bytes the one before has, so that a reader can
    miss them.
    """
    return b"".join(record_bytes(0, Mark.SEGMENT, 0, before_bytes.to_bytes(8, "little")))


class Loss:
    """The running count behind a `Gap`."""

    def __init__(self, mark: Mark, t_ns: int, reason: str) -> None:
        self.mark, self.reason = mark, reason
        self.from_ns = self.to_ns = t_ns
        self.chunks = self.size_bytes = 0
        self.digest = sha256()

    def add(self, t_ns: int, data: bytes) -> None:
        self.to_ns = t_ns
        self.chunks += 1
        self.size_bytes += len(data)
        self.digest.update(data)

    def record(self) -> tuple[Mark, int, bytes]:
        gap = Gap(
            self.mark,
            self.chunks,
            self.size_bytes,
            self.digest.hexdigest(),
            self.from_ns,
            self.to_ns,
            self.reason,
        )
        return Mark.GAP, self.to_ns, msgspec.json.encode(gap)
