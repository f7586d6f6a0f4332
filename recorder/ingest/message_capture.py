"""An exchange over WebSocket as events: a connection, or a turn on it; and which turns of a
connection are open.

The sibling of `recorder.ingest.capture` for messages in the place of a body. The invariant is the
same: the same input gives the same events with the same hashes. A message of the server is one
`frame`, its payload exactly; one over `FRAME_LIMIT` is `part`s, of which only the last is shorter
than the limit. So are the rows of a long `sent`.

Rules of open turns:

* A message of the server belongs to the turn with its response id, else to the oldest open turn
  with its `stream_id`, else to the oldest open turn: one that is being answered before one that
  waits.
* A response that begins and that no open turn waits for is of a turn that the server begins. It may
  continue one that was steered: the message that did so is kept until then.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, get_args

import msgspec

from recorder.ingest.capture import KEYS_LIMIT, READS_PART, Capture
from recorder.model.events import (
    UNDECODED,
    CloseRecord,
    ControlRecord,
    Event,
    ExchangeEnd,
    FrameShape,
    GapRecord,
    Outcome,
    ResponseHead,
    Side,
)
from recorder.wire.content_coding import Decoder
from recorder.wire.dialects import Dialect, Keys, MessageIds
from recorder.wire.dialects.json_values import request_object
from recorder.wire.framing.sse import FRAME_LIMIT
from recorder.wire.framing.websocket import Message

CODING: Literal["websocket"] = "websocket"
"""The coding of a connection in its `end`: its body is messages, and not what was on the wire."""

SHAPES_PART = READS_PART // 2  # frames a `frames` event: about 150 KB of JSON, as of reads

_SIDES: tuple[Side, Side] = get_args(Side)
_encode = msgspec.json.Encoder().encode


class MessageCapture(Capture):
    """The events of one exchange over WebSocket, from its first byte to its end."""

    def __init__(
        self,
        session_id: str,
        exchange_id: str,
        dialect: Dialect,
        started_ns: int,
        first: bytes | None = None,
        *,
        message_dialect: Dialect | None = None,
        sent_before: Iterable[bytes] = (),
    ) -> None:
        """`message_dialect` is that of the messages, if it is another one than that of the
        exchange. `sent_before` is the `raw` of the client's rows that the log has already: they
        stay, whatever is a secret now.
        """
        super().__init__(session_id, exchange_id, dialect, started_ns, first)
        self._keys_of = (message_dialect or dialect).keys.of_message
        self._sent_before = iter(sent_before)
        self._is_turn = True
        # of the latest of both directions: their reads come in several rows, the times in order
        self._now_ns = 0
        self._shapes = array("q")  # as numbers: many connections are open for an hour
        self._client_reads = array("q")

    @classmethod
    def switched(
        cls,
        connection: Capture,
        dialect: Dialect,
        sent_before: Iterable[bytes],
        *,
        coding: str | None = CODING,
    ) -> MessageCapture:
        """Return the capture that takes the place of one whose request is over, with messages of
        that dialect.
        """
        ids, started_ns = connection._ids, connection._started_ns
        capture = cls(
            *ids, connection._dialect, started_ns, message_dialect=dialect, sent_before=sent_before
        )
        capture._pos, capture._hash = connection._pos, connection._hash
        capture._request_complete = connection._request_complete
        capture._decoder = Decoder(coding)
        capture._is_turn = False
        return capture

    def response(self, t_ns: int, head: ResponseHead) -> list[Event]:
        """Return the event of the response head, which says nothing of the messages."""
        self._http_status = head.status
        self._conclusion.head(head)
        return [self._event("response", self._since(t_ns), _encode(head))]

    # -- a direction, as bytes and frames

    def received(self, t_ns: int, data: bytes) -> list[Event]:
        """Count a read of the server's direction, or a message of a turn."""
        self._t_ns = self._since(t_ns)
        self._wire.update(data)
        return self._read(len(data))

    def sent_bytes(self, t_ns: int, size_bytes: int) -> list[Event]:
        """Count a read of the client's direction."""
        events: list[Event] = []
        if len(self._client_reads) >= 2 * READS_PART:
            self._report_client_reads(events)
        self._client_reads.extend((self._since(t_ns), size_bytes))
        return events

    def shape(self, t_ns: int, by: Side, first: int, wire_bytes: int) -> list[Event]:
        """Count a frame."""
        events: list[Event] = []
        if len(self._shapes) >= 4 * SHAPES_PART:
            self._report_shapes(events)
        self._shapes.extend((self._since(t_ns), _SIDES.index(by), first, wire_bytes))
        return events

    # -- messages

    def keys_of(self, payload: bytes) -> Keys:
        """Return the keys of a message, unless it is too long to be read."""
        return self._keys_of(payload) if len(payload) <= KEYS_LIMIT else Keys()

    def heard(self, payload: bytes, keys: Keys) -> Keys:
        """Read a turn as what its first messages are; return the keys of this one, which are `keys`
        by the path.
        """
        is_wanted = (
            self._spoken.is_open and keys.data_start is not None and len(payload) <= FRAME_LIMIT
        )
        if is_wanted and self._spoken.hear(request_object(payload)):
            self._dialect = self._spoken.dialect
            self._keys_of = self._dialect.keys.of_message
            self._conclusion.read_as(self._dialect)
        return self.keys_of(payload) if self._spoken.contradicts_path else keys

    def message(self, t_ns: int, payload: bytes, keys: Keys) -> list[Event]:
        """Return the events of a message of the server."""
        t_ns = self._since(t_ns)
        self._frames += 1
        if self._is_turn:  # an error between two turns is not the end of the connection
            self._conclusion.add("frame", keys.type, keys.output_index, payload)
        if len(payload) <= FRAME_LIMIT:
            return [self._event("frame", t_ns, payload, keys)]
        return [self._event("part", t_ns, part, its) for part, its in _parts(payload, keys)]

    def sent(self, t_ns: int, payload: bytes, keys: Keys | None = None) -> list[Event]:
        """Return the events of a message of the client, as redacted; without `keys`, of bytes that
        are none.
        """
        before = self._sent_again()
        if before is not None:
            payload = before
            keys = self.keys_of(payload) if keys is not None else None
        keys = keys or Keys(type=UNDECODED)
        if len(payload) < FRAME_LIMIT:
            return [self._event("sent", self._since(t_ns), payload, keys)]
        return [
            self._event("sent", self._since(t_ns), part, its) for part, its in _parts(payload, keys)
        ]

    def _sent_again(self) -> bytes | None:
        """Return the next message or control frame of the client that the log has already."""
        rows = [part for part in (next(self._sent_before, None),) if part is not None]
        while rows and len(rows[-1]) == FRAME_LIMIT:
            rows.append(next(self._sent_before, b""))
        return b"".join(rows) if rows else None

    def control(self, t_ns: int, record: ControlRecord) -> list[Event]:
        """Return the event of a control frame of either side."""
        before = self._sent_again() if record.by == "client" else None
        raw = _encode(record) if before is None else before
        return [self._event("control", self._since(t_ns), raw, Keys(type=record.opcode))]

    def undecoded(self, t_ns: int, raw: bytes) -> list[Event]:
        """Return the events of bytes of the server that are not a message."""
        events: list[Event] = []
        self._t_ns = self._since(t_ns)
        self._keep(raw, events)
        return events

    def gap(self, gap: GapRecord) -> list[Event]:
        """Return the events of a gap, of which a turn has no part from before it began."""
        start_ns = self._started_ns
        times = {"from_ns": max(gap.from_ns, start_ns), "to_ns": max(gap.to_ns, start_ns)}
        return super().gap(msgspec.structs.replace(gap, **times))

    def flag(self, reason: str | None) -> None:
        """Note why not all of it could be read, if there is a reason, and none is noted yet."""
        self._undecoded = self._undecoded or reason

    def end(
        self, t_ns: int, end: ExchangeEnd, close: CloseRecord | msgspec.UnsetType = msgspec.UNSET
    ) -> list[Event]:
        """Return the last events, when the exchange is over one way or another."""
        events: list[Event] = []
        self._report_shapes(events)
        self._report_client_reads(events)
        return events + super().end(t_ns, end, close)

    def _flush(self, events: list[Event], outcome: Outcome) -> None:
        """Add nothing: what is unfinished is held by the parsers of the connection."""

    def _since(self, t_ns: int) -> int:
        since_ns = super()._since(t_ns)
        self._now_ns = max(self._now_ns, since_ns)
        return since_ns

    def _report_shapes(self, events: list[Event]) -> None:
        if self._shapes:
            flat, self._shapes = self._shapes, array("q")
            columns = zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)
            shapes: list[FrameShape] = [
                (t_ns, _SIDES[by], first, size) for t_ns, by, first, size in columns
            ]
            events.append(self._event("frames", self._now_ns, _encode(shapes)))

    def _report_reads(self, events: list[Event]) -> None:
        if self._reads:
            reads, self._reads = _pairs(self._reads), array("q")
            events.append(self._event("reads", self._now_ns, _encode(reads)))

    def _report_client_reads(self, events: list[Event]) -> None:
        if self._client_reads:
            reads, self._client_reads = _pairs(self._client_reads), array("q")
            events.append(self._event("reads", self._now_ns, _encode(reads), Keys(type="client")))


def is_of_client(control: bytes) -> bool:
    """Return whether the `raw` of a `control` event is that of a control frame of the client."""
    return msgspec.json.decode(control, type=ControlRecord).by == "client"


def _pairs(reads: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(reads[::2], reads[1::2], strict=True))


def _parts(payload: bytes, keys: Keys) -> Iterator[tuple[bytes, Keys]]:
    """Yield a long payload in parts, the keys with the last, which may be empty: it is shorter than
    the others.
    """
    unread = Keys(type=UNDECODED) if keys.type == UNDECODED and keys.data_start is None else Keys()
    whole = msgspec.structs.replace(keys, data_start=None, data_length=None)
    for start in range(0, len(payload) + 1, FRAME_LIMIT):
        part = payload[start : start + FRAME_LIMIT]
        yield part, whole if len(part) < FRAME_LIMIT else unread


# -- the turns of a connection that have not ended


OPEN_TURNS = 256
"""Turns of one connection that wait for their end: real ones have a handful of streams. Further
requests stay with the connection, so that a client which only asks costs no memory without bound.
"""

STEERS = 16
"""Messages that steer a response and have no successor yet: a connection has one for each stream.
Of longer ones than `FRAME_LIMIT` the successor has no request, so that they take no memory."""

ENDED_RESPONSES = 256
"""Ids of responses that have ended, so that what still comes for one is not taken for a part of the
next turn.
"""

NO_MESSAGE = Message("text", b"")  # in place of a request


class OpenTurn(msgspec.Struct, eq=False):
    """A turn that has not ended, as its owner begins it."""

    capture: MessageCapture
    events: list[Event]  # of its request, until they are handed on
    on_end: Callable[[], None]
    stream_id: str | None = None
    response_id: str | None = None
    has_head: bool = False
    has_begun: bool = False  # a response to it
    is_asked_for: bool = False  # by a message, and not only by sound that the server may answer


SETUP_LIMIT = 2**20
"""Bytes of the message that sets up a live session, which is kept for the request of each of its
turns: the instructions and tools of agents have some tens of thousands."""


class OpenTurns:
    """All of one connection."""

    def __init__(self) -> None:
        self._open: list[OpenTurn] = []
        self._ended_responses = deque[str](maxlen=ENDED_RESPONSES)
        self._steers: dict[str, Message] = {}  # by the id of the response

    def __iter__(self) -> Iterator[OpenTurn]:
        return iter(list(self._open))

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        return len(self._open) >= OPEN_TURNS

    @property
    def latest(self) -> OpenTurn | None:
        return self._open[-1] if self._open else None

    @property
    def have_begun(self) -> bool:
        """Return whether none of them waits for a response."""
        return all(turn.has_begun for turn in self._open)

    def add(self, turn: OpenTurn) -> None:
        self._open.append(turn)

    def end(self, turn: OpenTurn) -> None:
        self._open.remove(turn)
        if turn.response_id is not None:
            self._ended_responses.append(turn.response_id)

    def steer(self, response_id: str | None, message: Message) -> None:
        """Keep a message that steers a response for the one that continues it."""
        if response_id is None or len(message.payload) > FRAME_LIMIT:
            return
        self._steers[response_id] = message
        if len(self._steers) > STEERS:
            del self._steers[next(iter(self._steers))]

    def steered(self, response_id: str | None) -> Message:
        """Return the message that steered a response, once; an empty one if there is none."""
        return self._steers.pop(response_id or "", NO_MESSAGE)

    def is_unasked(self, ids: MessageIds) -> bool:
        """Return whether a response that begins is of no open turn: all that may be meant have
        another one, or it continues a response that was steered.
        """
        if ids.response_id is None or ids.response_id in self._ended_responses or self.is_full:
            return False
        turn = self.of(ids)
        if turn is None or turn.response_id is None:
            return turn is None or ids.previous_response_id in self._steers
        return turn.response_id != ids.response_id

    def of(self, ids: MessageIds) -> OpenTurn | None:
        """Return the open turn that a message belongs to."""
        if not self._open or ids.response_id in self._ended_responses:
            return None
        turns = self._open
        if ids.response_id is not None:
            known = next((turn for turn in turns if turn.response_id == ids.response_id), None)
            if known is not None:
                return known
        if ids.stream_id is not None:
            of_stream = [turn for turn in turns if turn.stream_id == ids.stream_id]
            turns = of_stream or [turn for turn in turns if turn.stream_id is None]
        begun = [turn for turn in turns if turn.response_id is not None]
        waiting = [turn for turn in turns if turn.response_id is None]
        # An id that is not known is that of a response that begins now; else it was changed on the
        # way.
        turns = begun + waiting if ids.response_id is None else waiting + begun
        return turns[0] if turns else None
