"""The events of an exchange → a `Recording`, and its stream block by block.

Pure; never raises on what was recorded. It is here and not in the model, since the dialect says
whether a client that left had all of its response (`recorder.wire.conclusion`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec

from recorder.model.events import (
    BODY_KINDS,
    LEFT_OUT,
    SWITCHED,
    UNDECODED,
    WEBSOCKET,
    ControlRecord,
    EndRecord,
    Event,
    Exchange,
    FrameShape,
    Gap,
    GapRecord,
    Piece,
    Recording,
    RequestRecord,
    ResponseHead,
    SentMessage,
    header,
)
from recorder.model.packed_events import Derived, PackedEvents
from recorder.wire.conclusion import conclusion_of, settled
from recorder.wire.dialects import LiveRequest, LiveSession, by_name, by_path
from recorder.wire.dialects.decoder import JsonDecoder
from recorder.wire.framing import SSE, Framing, framing_of
from recorder.wire.framing.sse import BOM, begins_stream, ends_message, parse

Reads = list[tuple[int, int]]


def recording_of(
    exchange: Exchange,
    events: Iterable[Event],
    *,
    name: str = "",
    number: int = 1,
    keeps_events: bool = True,
) -> Recording:
    """Return the recording of an exchange from all its events, in order.

    What cannot be read is left out and named in `damage`; such a request has the values of its row
    instead.
    """
    builder = RecordingBuilder(exchange, keeps_events=keeps_events)
    for event in events:
        builder.add(event)
    return builder.recording(name, number)


def require_answerable(recording: Recording) -> Recording:
    """Return the recording.

    Raises `ValueError` if it has no request, or a head that cannot be read.
    """
    if recording.damage is not None:
        raise ValueError(recording.damage)
    return recording


class RecordingBuilder:
    """A recording in the making: events in order in.

    If it keeps the events, they are packed, and its pieces and reads are read from them: they would
    be as large.
    """

    def __init__(self, exchange: Exchange, *, keeps_events: bool = True) -> None:
        self._exchange = exchange
        self._events = PackedEvents() if keeps_events else None
        self._conclusion = conclusion_of(exchange)
        self._live_turn = live_turn(exchange)
        self._request: RequestRecord | None = None
        self._response: ResponseHead | None = None
        self._end: EndRecord | None = None
        self._damage: str | None = None
        self._body: list[bytes] = []
        self._pieces: list[Piece] = []
        self._reads: Reads = []
        self._piece_count = self._read_count = 0
        self._gaps: list[Gap] = []
        self._head_ns = self._end_ns = 0
        self._rest = 0  # pieces of no stream behind the last block
        self._reader = _PieceReader()
        self._parts_sent = MessageParts()  # of the client
        self._sent: list[SentMessage] = []
        self._control: list[tuple[int, ControlRecord]] = []
        self._frames: list[FrameShape] = []

    def add(self, event: Event) -> None:
        """Add the next event."""
        self._end_ns = event.t_ns
        self._keep(event)
        if event.kind in BODY_KINDS:
            self._conclusion.follow(event)
            self._add_piece(event)
        elif event.kind == "request":
            self._add_request(event)
        elif event.kind == "response":
            self._add_response(event)
        elif event.kind == "reads":
            self._add_reads(event)
        elif event.kind in ("sent", "control", "frames"):
            self._add_of_websocket(event)
        elif event.kind == "gap":
            # one that cannot be read is a gap all the same, and no damage
            gap = _decoded(event.raw, GapRecord)
            times = (
                (gap.of, gap.from_ns, gap.to_ns) if gap else ("response", event.t_ns, event.t_ns)
            )
            self._gaps.append(Gap(event.pos, *times))
        elif event.kind == "end":
            self._end = self._decoded(event, EndRecord)

    def _add_request(self, event: Event) -> None:
        if event.pos:
            self._body.append(event.raw)
            return
        self._request = self._decoded(event, RequestRecord)
        if self._request is not None and isinstance(self._request.derived, str):
            self._damage = (
                f"it is derived from {self._request.derived}: no byte of a response is known"
            )

    def _keep(self, event: Event) -> None:
        if self._events is not None:
            self._events.add(event)
        if self._live_turn is not None:
            self._live_turn.add(event)

    def _add_piece(self, event: Event) -> None:
        if event.type == LEFT_OUT:
            return
        self._rest = self._rest + 1 if event.kind == "body" else 0
        piece = self._reader.piece(event)
        if piece is not None:
            self._piece_count += 1
            if self._events is None:
                self._pieces.append(piece)

    def _add_response(self, event: Event) -> None:
        self._response, self._head_ns = self._decoded(event, ResponseHead), event.t_ns
        if self._response is not None:
            self._conclusion.head(self._response)
            self._reader.is_switched = self._response.status == SWITCHED

    def _add_reads(self, event: Event) -> None:
        reads = (self._decoded(event, Reads) or []) if event.type is None else []
        self._read_count += len(reads)
        self._reads += reads if self._events is None else ()

    def _add_of_websocket(self, event: Event) -> None:
        if event.kind == "frames":
            self._frames += self._decoded(event, list[FrameShape]) or []
        elif event.kind == "control":
            record = self._decoded(event, ControlRecord)
            self._control += [(event.t_ns, record)] if record is not None else []
        else:
            message = self._parts_sent.add(event.raw)
            if message is not None:
                is_message = event.type != UNDECODED or event.data_start is not None
                self._sent.append(SentMessage(event.t_ns, message, is_message))

    def recording(self, name: str = "", number: int = 1) -> Recording:
        """Return the recording of the events so far. No event may follow."""
        exchange, end = self._exchange, self._end and settled(self._end, self._conclusion)
        request, damage = self._request, self._damage
        if request is None:
            damage = damage or f"exchange {exchange.exchange_id} has no request"
            request = RequestRecord(
                exchange.method, exchange.target, exchange.provider, [], 0, "", 0, complete=False
            )
        # What was left over of a content coding whose end did not come is not part of the body.
        count = self._piece_count - (
            self._rest if end is not None and end.outcome == "client_done" else 0
        )
        body = b"".join(self._body) if self._live_turn is None else self._live_turn.request()
        return Recording(
            *(exchange, request, body, self._response, self._head_ns),
            *self._pieces_and_reads(count),
            end,
            self._end_ns,
            name,
            number,
            gaps=tuple(self._gaps),
            damage=damage,
            sent=tuple(self._sent),
            control=tuple(self._control),
            frames=tuple(self._frames),
            events=() if self._events is None else self._events,
        )

    def _pieces_and_reads(self, count: int) -> tuple[Sequence[Piece], Sequence[tuple[int, int]]]:
        events = self._events
        if events is None:
            return tuple(self._pieces[:count]), tuple(self._reads)
        events.pack()
        return Derived(partial(_pieces, events), count), Derived(
            partial(_reads, events), self._read_count
        )

    def _decoded(self, event: Event, type: Any) -> Any:
        found = _decoded(event.raw, type)
        if found is None:
            exchange_id = self._exchange.exchange_id
            self._damage = (
                self._damage or f"event {event.pos} of exchange {exchange_id} cannot be read"
            )
        return found


class MessageParts:
    """The parts of WebSocket messages, of which the log has a long one in several."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, part: bytes) -> bytes | None:
        """Return the message that a part ends."""
        self._parts.append(part)
        if not ends_message(part):
            return None
        message = b"".join(self._parts)
        self._parts.clear()
        return message


class LiveTurn:
    """A turn of a live session, whose request is in several messages: events in order in."""

    def __init__(self, session: LiveSession) -> None:
        self._heard_types = session.heard_types
        self._request = session.request()
        self._setup: list[bytes] = []  # the message that set the session up, in parts
        self._parts = MessageParts()

    def add(self, event: Event) -> None:
        """Add the next event of the exchange."""
        if event.kind == "request" and event.pos:
            self._setup.append(event.raw)
        elif event.kind == "sent":
            message = self._parts.add(event.raw)
            if message is not None:
                self._begun().sent(message)
        elif event.kind == "frame" and event.type in self._heard_types:
            self._begun().heard(event.raw)

    def request(self) -> bytes:
        """Return the request so far, as a JSON object."""
        return self._begun().body()

    def _begun(self) -> LiveRequest:
        if self._setup:
            self._request.sent(b"".join(self._setup))
            self._setup.clear()
        return self._request


def live_turn(exchange: Exchange) -> LiveTurn | None:
    """Return the reader of a turn of a live session; None for any other exchange, whose request is
    its body.
    """
    format = by_name(exchange.api).websocket if exchange.method == WEBSOCKET else None
    return None if format is None or format.live is None else LiveTurn(format.live)


def decoder_between_turns(exchange: Exchange) -> JsonDecoder | None:
    """Return the decoder of what no turn of a live session has; None for any exchange but its
    connection.
    """
    if exchange.method != "GET" or exchange.api != "other":
        return None
    format = by_path("POST", exchange.target).websocket
    return (
        None
        if format is None or format.live is None or format.live.between is None
        else format.live.between()
    )


class _PieceReader:
    """The pieces of a body: over WebSocket, a message as a whole."""

    def __init__(self) -> None:
        self.is_switched = False  # to WebSocket
        self._parts = MessageParts()  # of the server

    def piece(self, event: Event) -> Piece | None:
        """Return the piece that an event of the body ends."""
        raw: bytes | None = event.raw
        if self.is_switched and event.kind == "part":
            raw = self._parts.add(event.raw)
        return None if raw is None else Piece(event.t_ns, raw, event.sequence_number)


def _pieces(events: Iterable[Event]) -> Iterator[Piece]:
    reader = _PieceReader()
    for event in events:
        if event.kind in BODY_KINDS and event.type != LEFT_OUT:
            piece = reader.piece(event)
            if piece is not None:
                yield piece
        elif event.kind == "response":
            reader.is_switched = is_switched(event.raw)


def _reads(events: Iterable[Event]) -> Iterator[tuple[int, int]]:
    for event in events:
        if event.kind == "reads" and event.type is None:
            yield from _decoded(event.raw, Reads) or ()


def _decoded(raw: bytes, type: Any) -> Any:
    """Return our own JSON, or None if another version wrote it otherwise."""
    try:
        return msgspec.json.decode(raw, type=type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class BodyBlock(NamedTuple):
    """A block of an event stream: an event as a client reads it, a comment, an unterminated end; or
    a gap in it.

    In a framing other than that of server-sent events, a message.
    """

    event: Event  # its row in the log; of several parts the last
    kind: Literal["frame", "comment", "tail", "gap", "message"]
    raw: bytes | None  # with its terminator; None if it is over the limit


def blocks(exchange: Exchange, events: Iterable[Event], limit_bytes: int) -> Iterator[BodyBlock]:
    """Yield the blocks of a stream in order, those that the log has in parts put together.

    `events` are those of an exchange from its beginning: its response head says how they are
    framed.
    """
    parts: list[bytes] = []
    framing = SSE
    framed: Literal["frame", "message"] = "frame"
    for event in events:
        kind = event.kind
        if kind == "part":
            parts.append(event.raw)
            if framing.ends(event.raw):
                yield BodyBlock(event, framed, _joined(parts, limit_bytes))
                parts.clear()
        elif kind == "response":
            framing = framing_in(exchange, event.raw)
            framed = "frame" if framing is SSE else "message"
        elif kind == "tail":
            yield BodyBlock(event, "tail", _joined([*parts, event.raw], limit_bytes))
            parts.clear()
        elif kind == "frame":
            yield BodyBlock(event, framed, event.raw)
        elif kind == "comment":
            yield BodyBlock(event, kind, event.raw)
        elif kind == "gap":
            parts.clear()
            yield BodyBlock(event, "gap", None)


def framing_in(exchange: Exchange, response: bytes) -> Framing:
    """Return the framing of a response by the `raw` of its head; that of most where it says none."""
    return framing_in_head(exchange, _decoded(response, ResponseHead))


def framing_in_head(exchange: Exchange, head: ResponseHead | None) -> Framing:
    """Return the framing of a response by its head; that of most where it says none."""
    found = (
        None
        if head is None
        else by_name(exchange.api).framing_of(exchange.target, head.status, head.headers)
    )
    return found or SSE


def is_switched(response: bytes) -> bool:
    """Return whether the `raw` of a response head is that of a connection that was switched to
    WebSocket, or of a turn on one: then frames are messages.
    """
    head = _decoded(response, ResponseHead)
    return head is not None and head.status == SWITCHED


def _joined(parts: Sequence[bytes], limit_bytes: int) -> bytes | None:
    return b"".join(parts) if sum(map(len, parts)) <= limit_bytes else None


# -- the payloads of a response

_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n")


def payloads(recording: Recording) -> Iterator[bytes]:
    """Yield the payloads in order; none of a response that was not received."""
    if recording.is_switched:
        yield from (piece.raw for piece in recording.pieces)
    elif is_stream(recording):
        yield from payloads_of(joined(recording.pieces))
    elif framing := framing_of(header(recording.headers, "content-type")):
        yield from _payloads_in(framing, recording.body)
    elif body := recording.body:
        yield body


def _payloads_in(framing: Framing, body: bytes) -> Iterator[bytes]:
    """Yield the payloads of a stream that is not one of server-sent events.

    A long frame comes in parts.
    """
    parts: list[bytes] = []
    for piece in framing.splitter().feed(body):
        parts.append(piece.raw)
        if piece.complete:
            data = framing.fields(b"".join(parts)).data
            parts.clear()
            if data is not None:
                yield data


def is_stream(recording: Recording) -> bool:
    """Return whether a response is a stream of server-sent events, by its content type or by how it
    begins.
    """
    return (
        framing_of(header(recording.headers, "content-type")) is SSE
        or begins_stream(recording.body) is True
    )


def joined(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Yield the blocks of a stream; the log has a long one in several pieces."""
    parts: list[bytes] = []
    for piece in pieces:
        parts.append(piece.raw)
        if piece.raw.endswith(_BLANK_LINES):
            yield b"".join(parts)
            parts = []
    if parts:
        yield b"".join(parts)


def payloads_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the payloads of the blocks of a stream that have one."""
    for number, block in enumerate(blocks):
        data = parse(block if number else block.removeprefix(BOM)).data
        if data is not None:
            yield data
