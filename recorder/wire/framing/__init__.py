"""The framings of responses: which bytes of a stream are one event, and where its payload is in
them.

The head of a response says which one it is; an array that is a stream has the type of a document,
and its dialect says so (`Dialect.array_streams`). A further framing is a module here with a
splitter and a reader of fields, and a row in `_BY_CONTENT_TYPE`. Must not know: what a payload
means.

The invariant of each splitter: whatever the chunking, `b"".join(piece.raw) == input`, and the
pieces are the same. Nothing is ever refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol

import msgspec

from recorder.model.events import SWITCHED, Header, header
from recorder.wire.framing import aws_event_stream, json_array, ndjson, sse
from recorder.wire.framing.sse import CommonFields, Fields, Piece


class Splitter(Protocol):
    """Bytes in any chunking in, `Piece`s out."""

    @property
    def rest(self) -> bytes:
        """Return the bytes after the last piece."""

    def feed(self, data: bytes) -> list[Piece]:
        """Add a chunk; returns the pieces that are complete now."""

    def common(self, data: bytes) -> CommonFields | None:
        """Return the fields of a chunk that is one frame as most are, which `feed` need not see
        then.
        """

    def close(self) -> list[Piece]:
        """End the stream; returns the rest."""


def _with_data(raw: bytes, fields: Fields, data: bytes) -> bytes:
    start, size_bytes = fields.data_start or 0, fields.data_length or 0
    return raw[:start] + data + raw[start + size_bytes :]


class Framing(msgspec.Struct, frozen=True):
    """The way in which events follow each other in a response."""

    name: Literal["sse", "ndjson", "aws_event_stream", "json_array", "websocket"]
    fields: Callable[[bytes], Fields]  # of a whole frame; without `data` where it cannot be read
    ends: Callable[[bytes], bool]  # whether a part of a long frame is its last one
    splitter: Callable[[], Splitter]
    # a frame, its fields, the data in place of its own
    with_data: Callable[[bytes, Fields, bytes], bytes] = _with_data
    # a frame that stands elsewhere than it did
    placed: Callable[[bytes, bool], bytes] = lambda raw, is_first: raw


def _no_splitter() -> Splitter:
    raise AssertionError("the frames of a WebSocket connection are split where it is read")


SSE = Framing("sse", sse.parse, sse.ends_block, sse.Splitter)
NDJSON = Framing("ndjson", ndjson.fields, sse.ends_message, ndjson.Splitter)
AWS_EVENT_STREAM = Framing(
    "aws_event_stream",
    aws_event_stream.fields,
    sse.ends_message,
    aws_event_stream.Splitter,
    with_data=aws_event_stream.with_data,
)
JSON_ARRAY = Framing(
    "json_array", json_array.fields, sse.ends_message, json_array.Splitter, placed=json_array.placed
)
MESSAGES = Framing(
    "websocket", lambda raw: Fields(None, raw, 0, len(raw)), sse.ends_message, _no_splitter
)

_BY_CONTENT_TYPE: Mapping[str, Framing] = {
    "text/event-stream": SSE,
    "application/x-ndjson": NDJSON,  # Ollama, Cohere's first API
    "application/ndjson": NDJSON,
    "application/jsonl": NDJSON,
    "application/x-jsonlines": NDJSON,
    "application/stream+json": NDJSON,  # Spring
    "application/vnd.amazon.eventstream": AWS_EVENT_STREAM,  # Bedrock
}


def framing_of(content_type: str | None) -> Framing | None:
    """Return the framing of a response body, by its content type; None for one document."""
    essence = (content_type or "").partition(";")[0].strip().lower()
    return _BY_CONTENT_TYPE.get(essence)


def framing_of_head(status: int, headers: Iterable[Header]) -> Framing | None:
    """Return the framing of what follows a response head; None for one document."""
    return MESSAGES if status == SWITCHED else framing_of(header(headers, "content-type"))
