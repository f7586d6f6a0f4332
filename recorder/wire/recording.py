"""A recorded exchange as it can be answered with: its request, its response head, its body and when that came.

Pure: events in, one struct out. The body is as the log has it, its content coding undone, and the headers are true for
it: they name a coding only where none of it could be undone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.model.payloads import EndRecord, Header, RequestRecord, ResponseHead
from recorder.wire.conclusion import Conclusion, settled
from recorder.wire.dialects import by_name

BODY_LIMIT = 256 * 2**20  # of one exchange, held while it can be played: far above any response

_OF_THE_TRANSFER = frozenset({"content-length", "transfer-encoding"})


class Piece(NamedTuple):
    """A frame, or another piece of a body, and when its last byte came, in nanoseconds since the exchange began."""

    t_ns: int
    raw: bytes
    sequence_number: int | None = None


class Recorded(msgspec.Struct, frozen=True):
    """One exchange. Without `response` there was none: the upstream could not be reached, or broke off before it."""

    exchange: Exchange
    request: RequestRecord
    request_body: bytes
    response: ResponseHead | None
    head_ns: int
    pieces: tuple[Piece, ...]
    reads: tuple[tuple[int, int], ...]  # (t_ns, wire bytes) of each read from the upstream
    end: EndRecord | None
    end_ns: int
    name: str = ""  # as a person finds it: exchange 2 of tests/weather.sse.jsonl

    @property
    def headers(self) -> list[Header]:
        """Of the response, as they are true for `pieces`."""
        given = self.response.headers if self.response else []
        untrue = _OF_THE_TRANSFER if self.is_coded else _OF_THE_TRANSFER | {"content-encoding"}
        return [(name, value) for name, value in given if name.lower() not in untrue]

    @property
    def is_coded(self) -> bool:
        """Whether `pieces` are all still in the content coding that they were sent in.

        Where it was undone up to some point only, no header is true of both parts; the first is what can be read.
        """
        end = self.end
        return end is not None and end.undecoded is not None and end.body_sha256 == end.wire_sha256


class TooLargeError(ValueError):
    """The body of an exchange is over `BODY_LIMIT`."""


def recorded(exchange: Exchange, events: Iterable[Event]) -> Recorded:
    """What the events of an exchange, all of them and in order, come to. Raises `TooLargeError`, `ValueError`."""
    request: RequestRecord | None = None
    response: ResponseHead | None = None
    end: EndRecord | None = None
    conclusion = Conclusion(by_name(exchange.api))
    body: list[bytes] = []
    pieces: list[Piece] = []
    reads: list[tuple[int, int]] = []
    head_ns = end_ns = size_bytes = rest = 0
    for event in events:
        end_ns = event.t_ns
        conclusion.follow(event)
        if event.kind in BODY_KINDS:
            size_bytes += len(event.raw)
            if size_bytes > BODY_LIMIT:
                raise TooLargeError(f"exchange {exchange.exchange_id} has a body of over {BODY_LIMIT >> 20} MiB")
            pieces.append(Piece(event.t_ns, event.raw, event.sequence_number))
            rest = rest + 1 if event.kind == "body" else 0
        elif event.kind == "request" and event.pos == 0:
            request = msgspec.json.decode(event.raw, type=RequestRecord)
        elif event.kind == "request":
            body.append(event.raw)
        elif event.kind == "response":
            response, head_ns = msgspec.json.decode(event.raw, type=ResponseHead), event.t_ns
        elif event.kind == "reads":
            reads += msgspec.json.decode(event.raw, type=list[tuple[int, int]])
        elif event.kind == "end":
            end = settled(msgspec.json.decode(event.raw, type=EndRecord), conclusion)
    if request is None:
        raise ValueError(f"exchange {exchange.exchange_id} has no request")
    is_done = end is not None and end.outcome == "client_done"
    # What was left over of a content coding whose end did not come is no part of the body.
    pieces = pieces[: len(pieces) - rest] if is_done else pieces
    return Recorded(exchange, request, b"".join(body), response, head_ns, tuple(pieces), tuple(reads), end, end_ns)
