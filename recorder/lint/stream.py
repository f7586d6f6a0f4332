"""A recording as a linter looks at it: its stream as a client would read it, block by block. Pure;
never raises.

The rules see each block once, as it passes: a long stream, decoded, is ten times its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from recorder.model.events import ENDED_HERE, Event, Gap, Recording
from recorder.projections.fact_reader import DOCUMENT_LIMIT, PAYLOAD_LIMIT
from recorder.wire.dialects import Dialect, by_name
from recorder.wire.dialects.json_values import too_deep
from recorder.wire.dialects.keys import refuse
from recorder.wire.framing import JSON_ARRAY, Framing
from recorder.wire.framing.sse import BOM, Fields, parse
from recorder.wire.recording import BodyBlock, blocks, framing_in_head


class StreamBlock(NamedTuple):
    """A block of the stream: an event as a client reads it, a comment, or an unterminated end."""

    pos: int  # of its row in the log; of its last one if it is in parts
    t_ns: int
    kind: str  # frame, comment, tail; in a framing other than that of server-sent events message
    raw: bytes  # with its terminator; of a message that can be read its data
    # its `event:` line; of a message the type of the log, where its framing has one
    name: str | None
    data: bytes | None  # its `data:` lines, joined; None if there is none
    payload: Any  # its data as JSON; None if it is none
    message: Fields | None = None  # in its framing, whose data may wrap that of the block

    @property
    def type(self) -> str | None:
        """Return the type that its payload has."""
        found = self.payload.get("type") if isinstance(self.payload, dict) else None
        return found if isinstance(found, str) else None

    @property
    def is_event(self) -> bool:
        """Return whether it carries data, and was ended by a blank line as events are, or is a
        message.
        """
        return self.kind in ("frame", "message") and self.data is not None

    @property
    def is_damaged(self) -> bool:
        """Return whether it is a message of the binary event stream of AWS that no client reads."""
        return self.kind == "message" and self.data is None and bool(self.raw)


class StreamView:
    """A recording with what its rules need more than once."""

    def __init__(self, recording: Recording) -> None:
        self.recording, self.exchange = recording, recording.exchange
        self.response, self.end = recording.response, recording.end
        self.events: Sequence[Event] = recording.events

    @property
    def status(self) -> int:
        """Return the status; 0 without a response."""
        return self.response.status if self.response else 0

    @property
    def content_type(self) -> str:
        """Return the content type without its parameters, in lower case."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @cached_property
    def request_json(self) -> Any:
        """Return the request body as JSON; `None` if it is none, or too large to be looked at."""
        body = self.recording.request_body
        return _decoded(body) if len(body) <= DOCUMENT_LIMIT else None

    @cached_property
    def is_stream(self) -> bool:
        """Return True if the body was split into events: what is not a stream is judged by its head
        alone.
        """
        return any(each.kind in ("frame", "comment", "part", "tail") for each in self.events)

    @property
    def is_answer(self) -> bool:
        """Return True if it is a stream that began well: an error status is reported by a rule of
        HTTP.
        """
        return self.is_stream and self.status < 400

    @property
    def is_seen_whole(self) -> bool:
        """Return True if what is missing at the end was not sent: no side left early, and the
        recorder lost nothing.
        """
        return not (self.was_cut_by_us or self.has_gap)

    @cached_property
    def is_switched(self) -> bool:
        """Return True if it came over WebSocket, where each event is a message and none of it is
        server-sent events.
        """
        return self.recording.is_switched

    @cached_property
    def gaps(self) -> Sequence[Gap]:
        """Return the gaps in the response: what is missing here was perhaps not missing there."""
        return [each for each in self.recording.gaps if each.of == "response"]

    @property
    def has_gap(self) -> bool:
        """Return True if bytes of the response were not recorded."""
        return bool(self.gaps)

    @cached_property
    def body(self) -> bytes:
        """Return the response body, whatever it is; its beginning, if it is too large to be looked
        at.
        """
        pieces, size_bytes = [], 0
        for each in self.recording.pieces:
            if size_bytes <= DOCUMENT_LIMIT:
                pieces.append(each.raw)
                size_bytes += len(each.raw)
        return b"".join(pieces)

    @cached_property
    def document(self) -> Any:
        """Return the response body as JSON; `None` if it is none."""
        return _decoded(self.body)

    @cached_property
    def was_cut_by_us(self) -> bool:
        """Return True if the client left, the recorder stopped, or the stream still continues: the
        provider may have sent what is missing at its end, or never had a chance to send it.
        """
        return self.end is None or self.end.outcome in ENDED_HERE

    @cached_property
    def blocks(self) -> Sequence[StreamBlock]:
        """Return all blocks of the stream."""
        return list(self.each_block())

    @property
    def frames(self) -> Sequence[StreamBlock]:
        """Return the blocks that are events."""
        return [each for each in self.blocks if each.is_event]

    @cached_property
    def has_events(self) -> bool:
        return any(each.is_event for each in self.each_block())

    def each_block(self) -> Iterator[StreamBlock]:
        """Yield the stream, block by block. A block longer than any payload has no data.

        A block right after lost bytes may be half an event, and so may an unended one before them:
        of these only the times are true.
        """
        is_after_gap, is_first = False, True
        framing, dialect = framing_in_head(self.exchange, self.response), by_name(self.exchange.api)
        tail: StreamBlock | None = None  # the last block, if it is an unended one
        for block in blocks(self.exchange, self.events, PAYLOAD_LIMIT):
            is_gap = block.kind == "gap"
            if tail is not None:
                yield _half(tail) if is_gap else tail
                tail = None
            if not is_gap:
                whole = _stream_block(block, framing, dialect, is_first=is_first)
                is_half = is_after_gap or (block.kind != "message" and framing is JSON_ARRAY)
                made = _half(whole) if is_half else whole
                is_first = False
                if block.kind == "tail":
                    tail = made
                else:
                    yield made
            is_after_gap = is_gap
        if tail is not None:
            yield tail

    def header(self, name: str) -> str | None:
        """Return the value of the first header of that name in the response."""
        given = self.response.headers if self.response else []
        return next((value for each, value in given if each.lower() == name), None)


def _half(block: StreamBlock) -> StreamBlock:
    return StreamBlock(block.pos, block.t_ns, "tail", b"", None, None, None)


def _stream_block(
    block: BodyBlock, framing: Framing, dialect: Dialect, *, is_first: bool
) -> StreamBlock:
    raw, event = block.raw or b"", block.event
    if block.kind == "message":
        message = Fields() if block.raw is None else framing.fields(raw)
        data = None if message.data is None else dialect.unwrapped(message.data)
        payload = None if data is None else _payload(data)
        name = None if message.event is None else event.type
        said = raw if data is None else data
        return StreamBlock(event.pos, event.t_ns, block.kind, said, name, data, payload, message)
    fields = parse(raw.removeprefix(BOM) if is_first else raw)
    name = fields.event.decode("utf-8", "replace") if fields.event else None
    payload = None if fields.data is None else _payload(fields.data)
    return StreamBlock(event.pos, event.t_ns, block.kind, raw, name, fields.data, payload)


def _payload(data: bytes) -> Any:
    """Return JSON, or `None`. Half an emoji as an escape is JSON, though no text; NaN is none."""
    if too_deep(data):
        return None
    found = _decoded(data)
    if found is not None or data == b"null":
        return found
    try:
        return json.loads(data.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def _decoded(raw: bytes) -> Any:
    """Return JSON, or `None` if it is none, or nests deeper than the views read it."""
    try:
        return None if too_deep(raw) else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
