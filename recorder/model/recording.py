"""An exchange in memory: its request, its response head, its body and when that came, its end. Pure data.

`recorder.wire.recording` makes one of the events of an exchange, `recorder.recordings` loads it. The body is as the log
has it, its content coding undone, and `headers` are true for it: they name a coding only where none of it was undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from recorder.errors import RecorderError
from recorder.model.events import (
    SWITCHED,
    ControlRecord,
    EndRecord,
    Event,
    Exchange,
    FrameShape,
    Header,
    RequestRecord,
    ResponseHead,
)

MEMORY_LIMIT = 512 * 2**20
"""Bytes of all recordings that are held at once: a hundred long sessions of an agent, and what any machine can
spare."""

EVENT_BYTES = 500
"""Bytes of memory that an event takes besides its `raw`."""

PIECE_BYTES = 200
"""Bytes of memory that a piece takes besides its `raw`, where the events are not held."""

_OF_THE_TRANSFER = frozenset({"content-length", "transfer-encoding"})


def true_headers(given: Iterable[Header], *, is_coded: bool = False) -> list[Header]:
    """Return the headers that are true for a body as it is stored: decoded, unless it is still coded."""
    untrue = _OF_THE_TRANSFER if is_coded else _OF_THE_TRANSFER | {"content-encoding"}
    return [(name, value) for name, value in given if name.lower() not in untrue]


class Piece(NamedTuple):
    """A frame, or another piece of a body, and when its last byte came, in nanoseconds since the exchange began.

    Over WebSocket it is a whole message, or bytes that are none.
    """

    t_ns: int
    raw: bytes
    sequence_number: int | None = None


class SentMessage(NamedTuple):
    """A message of the client over WebSocket, beside the request."""

    t_ns: int
    raw: bytes  # without its secrets
    is_message: bool = True  # False: bytes that could not be decoded


class Gap(NamedTuple):
    """Bytes that were received and not recorded."""

    pos: int  # of its row in the log
    of: Literal["request", "response"]
    from_ns: int  # since the exchange began
    to_ns: int


class Recording(msgspec.Struct, frozen=True):
    """One exchange. Without `response` there was none: the upstream could not be reached, or broke off before it."""

    exchange: Exchange
    request: RequestRecord
    request_body: bytes
    response: ResponseHead | None
    head_ns: int
    pieces: Sequence[Piece]
    reads: Sequence[tuple[int, int]]  # (t_ns, wire bytes) of each read from the upstream
    end: EndRecord | None
    end_ns: int
    name: str = ""  # as a person finds it: exchange 2 of tests/weather.sse.jsonl
    number: int = 1  # in its session; 1 is the first
    gaps: tuple[Gap, ...] = ()
    damage: str | None = None  # why it cannot be an answer: no request, or a head that cannot be read
    sent: tuple[SentMessage, ...] = ()  # over WebSocket, as are the next two
    control: tuple[tuple[int, ControlRecord], ...] = ()  # when each came, and what it is
    frames: tuple[FrameShape, ...] = ()
    events: Sequence[Event] = ()  # the rows of the log, if they are held: to judge, to compare, to write them

    @property
    def headers(self) -> list[Header]:
        """Return the headers of the response that are true for `pieces`."""
        given = self.response.headers if self.response else []
        return true_headers(given, is_coded=self.is_coded)

    @property
    def body(self) -> bytes:
        """Return the response body, as far as it was recorded."""
        return b"".join([piece.raw for piece in self.pieces])

    @property
    def is_coded(self) -> bool:
        """Return True if `pieces` are all still in the content coding that they were sent in.

        Where it was undone up to some point only, no header is true of both parts; the first is what can be read.
        """
        end = self.end
        return end is not None and end.undecoded is not None and end.body_sha256 == end.wire_sha256

    @property
    def is_switched(self) -> bool:
        """Return True for a connection that was switched to WebSocket, and for a turn on one: pieces are messages."""
        return self.response is not None and self.response.status == SWITCHED

    @property
    def has_gap(self) -> bool:
        """Return True if bytes were received and not recorded."""
        return bool(self.gaps) or (self.end is not None and self.end.gap_chunks > 0)


class MemoryBudget:
    """The bytes of recordings that are held together, counted against one limit as they are read."""

    def __init__(self, holder: str, remedy: str, limit_bytes: int | None = None) -> None:
        """Count from 0. `holder` and `remedy` begin and end the message: "These recordings take", "name fewer"."""
        self._limit_bytes = MEMORY_LIMIT if limit_bytes is None else limit_bytes
        self._message = f"{holder} over {self._limit_bytes >> 20} MiB of memory: {remedy}."
        self._size_bytes = 0

    def add(self, size_bytes: int, overhead_bytes: int = EVENT_BYTES) -> None:
        """Count an event or a piece of that many bytes. Raises `RecorderError` when all together pass the limit."""
        self._size_bytes += size_bytes + overhead_bytes
        if self._size_bytes > self._limit_bytes:
            raise RecorderError(self._message)
