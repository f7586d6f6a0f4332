"""An exchange as a linter looks at it: head, events as a client would read them, end.

Pure; never raises on what was recorded. What the log keeps in parts is put together here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from recorder.model.events import BODY_KINDS, ENDED_HERE, Event, Exchange
from recorder.model.payloads import EndRecord, GapRecord, RequestRecord, ResponseHead
from recorder.projections.fact_reader import DOCUMENT_LIMIT, PAYLOAD_LIMIT, Pieces
from recorder.wire.sse import BOM, ends_block, parse


class Told(NamedTuple):
    """One block of the stream: an event as a client reads it, a comment, or what stood unterminated at the end."""

    pos: int  # of its row in the log; of its last one if it is in parts
    t_ns: int
    kind: str  # frame, comment, tail
    raw: bytes  # with its terminator
    name: str | None  # what its `event:` line says
    data: bytes | None  # its `data:` lines, joined; None if there is none
    payload: Any  # its data as JSON; None if it is none

    @property
    def type(self) -> str | None:
        """What its payload says it is."""
        said = self.payload.get("type") if isinstance(self.payload, dict) else None
        return said if isinstance(said, str) else None


class Gap(NamedTuple):
    """Bytes of the response that were not kept."""

    pos: int
    from_ns: int
    to_ns: int


class Stream:
    """One exchange. What is derived from it and serves several rules is a cached property here or in a walk over it."""

    def __init__(self, exchange: Exchange, events: Iterable[Event]) -> None:
        self.exchange = exchange
        self.events: Sequence[Event] = list(events)
        self.memo: dict[str, Any] = {}  # what a walk over it found, by the walk's name, for all rules that ask it

    @cached_property
    def request(self) -> RequestRecord | None:
        return next((_decoded(each.raw, RequestRecord) for each in self._of("request") if each.pos == 0), None)

    @cached_property
    def asked(self) -> Any:
        """The request body as JSON; `None` if it is none, or too large to be looked at."""
        body = b"".join(each.raw for each in self._of("request") if each.pos and each.type == "body")
        return _decoded(body, Any) if len(body) <= DOCUMENT_LIMIT else None

    @cached_property
    def response(self) -> ResponseHead | None:
        return next((_decoded(each.raw, ResponseHead) for each in self._of("response")), None)

    @cached_property
    def end(self) -> EndRecord | None:
        return next((_decoded(each.raw, EndRecord) for each in self._of("end")), None)

    @cached_property
    def is_stream(self) -> bool:
        """Whether the body was told apart into events: what is no stream is judged by its head alone."""
        return any(each.kind in ("frame", "comment", "part", "tail") for each in self.events)

    @cached_property
    def has_gap(self) -> bool:
        """Whether bytes of the response were not kept: then what is missing here was perhaps not missing there."""
        return bool(self.gaps)

    @cached_property
    def gaps(self) -> Sequence[Gap]:
        """Where bytes of the response were not kept, and between which times they came."""
        found = ((each, _decoded(each.raw, GapRecord)) for each in self._of("gap"))
        return [
            Gap(each.pos, told.from_ns if told else each.t_ns, told.to_ns if told else each.t_ns)
            for each, told in found
            if told is None or told.of == "response"
        ]

    @cached_property
    def body(self) -> bytes:
        """The response body, whatever it is; its beginning, if it is too large to be looked at."""
        pieces, size_bytes = [], 0
        for each in self.events:
            if each.kind in BODY_KINDS and size_bytes <= DOCUMENT_LIMIT:
                pieces.append(each.raw)
                size_bytes += len(each.raw)
        return b"".join(pieces)

    @cached_property
    def document(self) -> Any:
        """The response body as JSON; `None` if it is none."""
        return _decoded(self.body, Any)

    @cached_property
    def was_cut_by_us(self) -> bool:
        """Whether the client left or the recorder stopped, or it still goes on: what is missing at its end, the
        provider may have sent, or never had a chance to send.
        """
        outcome = self.end.outcome if self.end else None
        return outcome is None or outcome in ENDED_HERE

    @cached_property
    def told(self) -> Sequence[Told]:
        """The stream, block by block."""
        return list(_blocks(self.events))

    @cached_property
    def frames(self) -> Sequence[Told]:
        """The blocks that carry data, ended by a blank line as events are."""
        return [each for each in self.told if each.kind == "frame" and each.data is not None]

    def header(self, name: str) -> str | None:
        """Of the response; the first of that name."""
        given = self.response.headers if self.response else []
        return next((value for each, value in given if each.lower() == name), None)

    def _of(self, kind: str) -> Iterable[Event]:
        return (each for each in self.events if each.kind == kind)


def _blocks(events: Iterable[Event]) -> Iterable[Told]:
    """The events of the body, those in parts put together. What is longer than any payload is a block without data.

    What comes right after lost bytes may be half an event, and what is unended before them is: of these nothing is told
    but when they came.
    """
    blocks = list(_all_blocks(events))
    for before, told, after in zip([_START, *blocks], blocks, [*blocks[1:], _START], strict=False):
        if told is not None:
            is_half = before is None or (after is None and told.kind == "tail")
            yield Told(told.pos, told.t_ns, "tail", b"", None, None, None) if is_half else told


def _all_blocks(events: Iterable[Event]) -> Iterable[Told | None]:
    """The same, with `None` where bytes were lost."""
    parts = Pieces(PAYLOAD_LIMIT)
    for event in events:
        if event.kind == "part":
            parts.add(event.raw)
            if ends_block(event.raw):
                yield _told(event, "frame", parts.take() or b"")
        elif event.kind == "tail" and parts.size_bytes:
            parts.add(event.raw)
            yield _told(event, "tail", parts.take() or b"")
        elif event.kind in ("frame", "comment", "tail"):
            yield _told(event, event.kind, event.raw)
        elif event.kind == "gap":
            parts.take()
            yield None


_START = Told(-1, 0, "comment", b"", None, None, None)  # or the end: no bytes are lost there


def _told(event: Event, kind: str, raw: bytes) -> Told:
    fields = parse(raw.removeprefix(BOM))
    name = fields.event.decode("utf-8", "replace") if fields.event else None
    payload = None if fields.data is None else _payload(fields.data)
    return Told(event.pos, event.t_ns, kind, raw, name, fields.data, payload)


def _payload(data: bytes) -> Any:
    """JSON, or `None`. Half an emoji as an escape is JSON, though no text; NaN is none."""
    found = _decoded(data, Any)
    if found is not None or data == b"null":
        return found
    try:
        return json.loads(data.decode(), parse_constant=_no_json)
    except (ValueError, RecursionError):
        return None


def _no_json(constant: str) -> Any:
    raise ValueError(constant)


def _decoded(raw: bytes, type: Any) -> Any:
    """JSON, or `None` if it is none."""
    try:
        return msgspec.json.decode(raw, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
