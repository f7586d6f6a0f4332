"""An exchange: its rows in the log, the JSON in these, and a recording of it in memory. Pure data.

The fields of a row are the columns of its table, in order (`recorder.store.schema`). Times are
integers in nanoseconds: `*_ns` of a session or exchange is wall time since the epoch, `t_ns` of an
event is monotonic time since the exchange began.

The JSON is that of requests, responses and endings: of the journal's control records (heads and
end), and of the log's events of those kinds (records). Headers and URLs in it are already redacted
(`recorder.wire.redaction.headers`): these structs reach the disk.

`recorder.wire.recording` makes a recording of the events of an exchange, `recorder.recordings`
loads it. The body is as the log has it, its content coding undone, and `headers` are true for it:
they name a coding only where none of it was undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from recorder.errors import RecorderError
from recorder.model.attribution import Attribution

Kind = Literal[
    "request",  # pos 0: the request head as JSON; then, with type "body", its body in parts
    "response",  # the response head as JSON
    # one event with its terminator (`recorder.wire.framing`); over WebSocket the payload of one
    # message
    "frame",
    "comment",  # an SSE block that carries no field: comment lines, stray blank lines
    "part",  # a piece of an event over `recorder.wire.framing.sse.FRAME_LIMIT`
    "tail",  # an unterminated event at the end of the stream
    "body",  # a piece of a body that is one document, or could not be decoded
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
"""The type of a row that has a recipe in place of a request body (`recorder.model.shared_body`). No
event has it.
"""

BrokenOff = Literal[
    "client_disconnect",
    "upstream_reset",
    "upstream_unreachable",
    "truncated",
    "timeout",
    "recorder_shutdown",
    "token_revoked",
    "recorder_crash",
]
Outcome = Literal["eof", "client_done"] | BrokenOff
"""How the transport of an exchange ended: the body as HTTP says a body ends, or before that.
`client_done`: the client left when the stream had said that it is over, and did not wait for the
end of its body (`recorder.wire.conclusion`)."""

WHOLE: frozenset[Outcome] = frozenset({"eof", "client_done"})
"""Outcomes of a response of which nothing is missing."""

ENDED_HERE: frozenset[str] = frozenset(
    {"client_disconnect", "client_done", "recorder_shutdown", "token_revoked", "recorder_crash"}
)
"""Outcomes that are not doing of the upstream: what is missing at the end, it may have sent."""

Status = Literal["completed", "incomplete", "failed", "error_status"] | BrokenOff
"""How an exchange ended, its meaning included: `status` of the `end` event."""


class Session(msgspec.Struct, frozen=True):
    """A named group of exchanges: one agent run, one test, one `recorder run`."""

    session_id: str
    "Id of the session, a UUIDv7."
    created_ns: int
    "Wall time of the session's beginning, in nanoseconds since 1970."
    name: str
    "Name of the session."
    source: str
    "The rule that found the session's name."
    labels: str
    "A JSON object as text: labels of the session."
    origin: Literal["live", "import", "synthetic"]
    "Where it is from: recorded, imported, or made by a program."


class Exchange(msgspec.Struct, frozen=True):
    """One HTTP request and the response it got, streamed or not; a WebSocket connection; or a turn
    on one.
    """

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
"""The method of a turn over WebSocket: a message of the client that asks for a response, and the
messages that answer it. The connection is an exchange of its own, whose method is GET.
"""

STDIO = "STDIO"
"""The method of a run of a program whose standard streams were recorded: the lines of both sides
are messages of one connection, and its request is the command."""

UNDECODED: Literal["undecoded"] = "undecoded"
"""The type of a `sent` that is not a message, of which no part is JSON: bytes of the client that
cannot be read.
"""

LEFT_OUT: Literal["left_out"] = "left_out"
"""The type of a `body` that is not part of the decoded body: what stood after the end of its
coding, which clients leave out."""

# the status of the response with which a connection is switched to WebSocket; turns repeat its head
SWITCHED = 101

# the source of sessions that are derived from what an agent wrote down of them
TRANSCRIPT = "transcript"
# the source of sessions that `sessions` does not list: requests that are not a conversation, by day
PROBE = "probe"
LATEST = "latest"  # the session that was used last: no session is called that


def payload_of(event: Event) -> bytes | None:
    """Return the JSON payload of an event; None if it is not one `data:` line."""
    if event.data_start is None or event.data_length is None:
        return None
    return event.raw[event.data_start : event.data_start + event.data_length]


def has_ended(events: Iterable[Event]) -> bool:
    """Return whether the `end` of an exchange is among its events; notes may follow it."""
    return any(event.kind == "end" for event in events)


# -- the JSON in events


Header = tuple[str, str]  # name as sent, value; latin-1 decoded, so that every byte survives


def header(headers: Iterable[Header], name: str) -> str:
    """Return the first value of a header, whose name is in lower case; empty if there is none."""
    return next((value for given, value in headers if given.lower() == name), "")


def as_sent(headers: Iterable[Header]) -> list[tuple[bytes, bytes]]:
    """Return headers as they were on the wire, as far as that is known."""
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in headers
    ]


class Imported(msgspec.Struct, frozen=True):
    """The session of an imported exchange, which a recorder finds out for others.

    With `exchange`, its row in the log that it was exported from, what follows are not bytes of a
    response: each chunk is an event of the log, a line of the export (`recorder.model.jsonl`).
    """

    session: Session
    exchange: Exchange | None = None


class RequestHead(msgspec.Struct, frozen=True):
    """A request as the client sent it, before it is forwarded."""

    exchange_id: str
    session_id: str  # the session's id if grouping finds no session that exists
    started_ns: int  # wall time
    method: str
    # path and redacted query, as the client sent them, without the `/s/<session>` prefix
    target: str
    upstream: str  # the name of the upstream it goes to
    headers: list[Header]
    # from the path prefix, `X-Recorder-Session` or a header of the user's own
    session: str | None = None
    session_source: str | None = None  # `path`, `header`
    imported: Imported | None = None  # if no client sent it to us
    # of the session, a JSON object, if this request begins it
    labels: str | msgspec.UnsetType = msgspec.UNSET
    # of the body, where the user's names stand
    session_fields: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    derived: str | msgspec.UnsetType = msgspec.UNSET  # as in `RequestRecord`
    # of the upstream, if it is not the public one of that name
    base_url: str | msgspec.UnsetType = msgspec.UNSET
    attribution: Attribution | msgspec.UnsetType = msgspec.UNSET


class RequestEnd(msgspec.Struct, frozen=True):
    """The end of a request body, and whether all of it was seen."""

    complete: bool


class ResponseHead(msgspec.Struct, frozen=True):
    """A response head as the upstream sent it."""

    status: int
    reason: str
    headers: list[Header]
    http_version: str = "1.1"


class ExchangeEnd(msgspec.Struct, frozen=True):
    """The end of the transport of an exchange; `error` is one sentence, if there is one."""

    outcome: Outcome
    error: str | None = None


class WebSocketTurn(msgspec.Struct, frozen=True):
    """The place of a request that was a message over WebSocket."""

    connection: str  # the id of the exchange that is the connection
    number: int  # of this request on that connection; 1 is the first
    # of the several streams of responses that one connection may carry
    stream_id: str | None = None


class RequestRecord(msgspec.Struct, frozen=True):
    """`raw` of the first `request` event, as JSON. The body follows in events of type "body".

    With `redactions` all sizes and the digest are those of the body as it is recorded: a digest of
    what was sent would let a short secret be guessed, since the rest is known.
    """

    method: str
    target: str
    upstream: str
    headers: list[Header]
    wire_bytes: int  # of the body, as it was sent
    wire_sha256: str
    body_bytes: int  # of the body, decoded, as recorded
    complete: bool  # whether all of the body was seen
    undecoded: str | None = None  # why the body is not decoded: it is JSON in truth, or not kept
    # of the body: how many secrets of which kind
    redactions: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    # if it was a message: the body is its payload
    websocket: WebSocketTurn | msgspec.UnsetType = msgspec.UNSET
    # what the exchange was derived from, if no byte of it was seen
    derived: str | msgspec.UnsetType = msgspec.UNSET
    # of the upstream, if it is not the public one of that name
    base_url: str | msgspec.UnsetType = msgspec.UNSET
    attribution: Attribution | msgspec.UnsetType = msgspec.UNSET


class GapRecord(msgspec.Struct, frozen=True):
    """`raw` of a `gap` event, as JSON: the bytes that were received here but not stored."""

    of: Literal["request", "response"]
    chunks: int
    size_bytes: int
    sha256: str
    from_ns: int  # since the exchange began
    to_ns: int
    reason: str


Side = Literal["client", "server"]
"""The sender, of the two ends of a connection that was switched to WebSocket."""

FrameShape = tuple[int, Side, int, int]
"""One WebSocket frame: `t_ns` of its last byte, its sender, its first byte (FIN, RSV1 to RSV3 and
the opcode, RFC 6455 section 5.2), and its length on the wire, header and masking key included.
`raw` of a `frames` event is a list of them.
"""


class ControlRecord(msgspec.Struct, frozen=True):
    """`raw` of a `control` event, as JSON: a control frame, unmasked."""

    by: Side
    opcode: Literal["ping", "pong", "close"]
    payload: str  # hexadecimal
    code: int | None = None  # of a close that has one
    reason: str | None = None


class CloseRecord(msgspec.Struct, frozen=True):
    """The end of a WebSocket connection."""

    # who ended its direction first, by a Close frame or without one; None if nobody did
    by: Side | None
    # of the first Close frame, 1005 if it has none; None if none was sent: RFC 6455's 1006
    code: int | None = None
    reason: str | None = None


class EndRecord(msgspec.Struct, frozen=True):
    """`raw` of the `end` event, as JSON: how it ended, and the sums that `recorder verify` checks."""

    status: Status
    outcome: Outcome
    error: str | None
    http_status: int | None
    wire_bytes: int  # of the response body, received
    wire_sha256: str  # of what was kept of them
    body_bytes: int  # of the decoded body, kept
    body_sha256: str
    events: int  # before this one
    frames: int
    gap_chunks: int
    gap_bytes: int
    coding: str | None
    undecoded: str | None  # why the body is kept as it was sent from some point on
    lossless: bool
    # of a connection that was switched to WebSocket
    close: CloseRecord | msgspec.UnsetType = msgspec.UNSET


class LateRecord(msgspec.Struct, frozen=True):
    """`raw` of the `note` event after the `end` of an exchange whose recorder came back later, as
    JSON.
    """

    reason: str
    events: int  # that the log does not have
    body_bytes: int  # of the decoded body, in them
    body_sha256: str
    status: Status | None  # how it ended in truth


# -- an exchange in memory


MEMORY_LIMIT = 512 * 2**20
"""Bytes of all recordings that are held at once: a hundred long sessions of an agent, and what any
machine can spare."""

EVENT_BYTES = 500
"""Bytes of memory that an event takes besides its `raw`."""

PIECE_BYTES = 200
"""Bytes of memory that a piece takes besides its `raw`, where the events are not held."""

_OF_THE_TRANSFER = frozenset({"content-length", "transfer-encoding"})


def true_headers(given: Iterable[Header], *, is_coded: bool = False) -> list[Header]:
    """Return the headers that are true for a body as it is stored: decoded, unless it is still
    coded.
    """
    untrue = _OF_THE_TRANSFER if is_coded else _OF_THE_TRANSFER | {"content-encoding"}
    return [(name, value) for name, value in given if name.lower() not in untrue]


class Piece(NamedTuple):
    """A frame, or another piece of a body, and when its last byte came, in nanoseconds since the
    exchange began.

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
    """One exchange.

    Without `response` there was none: the upstream could not be reached, or broke off before it.
    """

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
    # why it cannot be an answer: no request, or a head that cannot be read
    damage: str | None = None
    sent: tuple[SentMessage, ...] = ()  # over WebSocket, as are the next two
    control: tuple[tuple[int, ControlRecord], ...] = ()  # when each came, and what it is
    frames: tuple[FrameShape, ...] = ()
    # the rows of the log, if they are held: to judge, to compare, to write them
    events: Sequence[Event] = ()

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

        Where it was undone up to some point only, no header is true of both parts; the first is
        what can be read.
        """
        end = self.end
        return end is not None and end.undecoded is not None and end.body_sha256 == end.wire_sha256

    @property
    def is_switched(self) -> bool:
        """Return True for a connection that was switched to WebSocket, and for a turn on one:
        pieces are messages.
        """
        return self.response is not None and self.response.status == SWITCHED

    @property
    def has_gap(self) -> bool:
        """Return True if bytes were received and not recorded."""
        return bool(self.gaps) or (self.end is not None and self.end.gap_chunks > 0)


class MemoryBudget:
    """The bytes of recordings that are held together, counted against one limit as they are read."""

    def __init__(self, holder: str, remedy: str, limit_bytes: int | None = None) -> None:
        """Count from 0.

        `holder` and `remedy` begin and end the message: "These recordings take", "name fewer".
        """
        self._limit_bytes = MEMORY_LIMIT if limit_bytes is None else limit_bytes
        self._message = f"{holder} over {self._limit_bytes >> 20} MiB of memory: {remedy}."
        self._size_bytes = 0

    def add(self, size_bytes: int, overhead_bytes: int = EVENT_BYTES) -> None:
        """Count an event or a piece of that many bytes.

        Raises `RecorderError` when all together pass the limit.
        """
        self._size_bytes += size_bytes + overhead_bytes
        if self._size_bytes > self._limit_bytes:
            raise RecorderError(self._message)
