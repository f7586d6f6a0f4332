"""The rows of the log: sessions, exchanges, events. Frozen, no behaviour.

The fields of each struct are the columns of its table, in order (`recorder.store.schema`). Times are integers in
nanoseconds: `*_ns` of a session or exchange is wall time since the epoch, `t_ns` of an event is monotonic time since
the exchange began.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Kind = Literal[
    "request",  # pos 0: the request head as JSON; then, with type "body", its body in parts
    "response",  # the response head as JSON
    "frame",  # one SSE block with its terminator; over WebSocket the payload of one message of the server
    "comment",  # an SSE block that carries no field: comment lines, stray blank lines
    "part",  # a piece of an SSE block over `recorder.wire.sse.FRAME_LIMIT`
    "tail",  # an unterminated block at the end of the stream
    "body",  # a piece of a body that is not SSE, or could not be decoded
    "sent",  # over WebSocket: the payload of one message of the client
    "control",  # over WebSocket: a ping, pong or close of either side, as JSON, see `ControlRecord`
    "frames",  # over WebSocket: the shapes of frames, as compact JSON, see `FrameShape`
    "reads",  # [[t_ns, wire bytes], …]: the reads from the upstream, as compact JSON
    "gap",  # what was received but not kept, counted, as JSON
    "end",  # how it ended, with counts and digests, as JSON
    "note",  # a remark on the exchange, added later
]

BODY_KINDS: frozenset[Kind] = frozenset({"frame", "comment", "part", "tail", "body"})
"""Kinds whose `raw`, in order of `pos`, concatenate to the decoded response body."""

SHARED = "shared"
"""The type of a row that has a recipe in place of a request body (`recorder.model.shared_body`). No event has it."""

BrokenOff = Literal[
    "client_disconnect",
    "upstream_reset",
    "upstream_unreachable",
    "truncated",
    "timeout",
    "recorder_shutdown",
    "recorder_crash",
]
Outcome = Literal["eof", "client_done"] | BrokenOff
"""How the transport of an exchange ended: the body as HTTP says a body ends, or before that. `client_done`: the client
left when the stream had said that it is over, and did not wait for the end of its body (`recorder.wire.conclusion`)."""

WHOLE: frozenset[Outcome] = frozenset({"eof", "client_done"})
"""Outcomes of a response of which nothing is missing."""

ENDED_HERE: frozenset[str] = frozenset({"client_disconnect", "client_done", "recorder_shutdown", "recorder_crash"})
"""Outcomes that are not doing of the upstream: what is missing at the end, it may have sent."""

Status = Literal["completed", "incomplete", "failed", "error_status"] | BrokenOff
"""How an exchange ended, its meaning included: `status` of the `end` event."""


class Session(msgspec.Struct, frozen=True):
    """A named group of exchanges: one agent run, one test, one `recorder run`."""

    session_id: str  # UUIDv7, hyphenated
    created_ns: int
    name: str
    source: str  # the grouping rule that found the name
    labels: str  # a JSON object
    origin: Literal["live", "import", "synthetic"]


class Exchange(msgspec.Struct, frozen=True):
    """One HTTP request and the response it got, streamed or not; a WebSocket connection; or a turn on one."""

    session_id: str
    exchange_id: str  # UUIDv7, hyphenated
    started_ns: int
    recorder_id: str
    provider: str  # the upstream's name: openai, anthropic, gemini, or the user's own
    api: str  # the dialect's name: openai-responses, openai-chat, anthropic, gemini, other
    method: str  # of HTTP, or `WEBSOCKET`
    target: str  # path and redacted query, as the client sent them
    client: str | None = None
    client_version: str | None = None
    thread_id: str | None = None
    turn_id: str | None = None
    attempt: int | None = None
    resumes_response_id: str | None = None
    resumes_after: int | None = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """One row of the log: a frame, or a step in the life of an exchange."""

    session_id: str
    exchange_id: str
    pos: int  # 0, 1, 2 … without a hole
    kind: Kind
    t_ns: int  # arrival of the frame's last byte, since the exchange began
    type: str | None
    sequence_number: int | None
    item_id: str | None
    output_index: int | None
    raw: bytes
    data_start: int | None  # where in `raw` the JSON payload stands, if it is one `data:` line
    data_length: int | None
    hash: bytes  # SHA-256, see `link`


WEBSOCKET = "WEBSOCKET"
"""The method of a turn over WebSocket: a message of the client that asks for a response, and the messages that answer
it. The connection is an exchange of its own, whose method is GET.
"""

UNDECODED: Literal["undecoded"] = "undecoded"
"""The type of a `sent` that is not a message, of which no part is JSON: bytes of the client that cannot be read."""

LEFT_OUT: Literal["left_out"] = "left_out"
"""The type of a `body` that is not part of the decoded body: what stood after the end of its coding, which clients
leave out."""

SWITCHED = 101  # the status of the response with which a connection is switched to WebSocket; turns repeat its head

PROBE = "probe"  # the source of sessions that `sessions` does not list: requests that are not a conversation, by day
LATEST = "latest"  # the session that was used last: no session is called that


def payload_of(event: Event) -> bytes | None:
    """Return the JSON payload of an event; None if it is not one `data:` line."""
    if event.data_start is None or event.data_length is None:
        return None
    return event.raw[event.data_start : event.data_start + event.data_length]


def has_ended(events: Iterable[Event]) -> bool:
    """Return whether the `end` of an exchange is among its events; notes may follow it."""
    return any(event.kind == "end" for event in events)
