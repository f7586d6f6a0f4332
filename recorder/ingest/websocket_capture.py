"""A connection that was switched to WebSocket, as events: of its own exchange, and of one for each
turn on it.

The sibling of `recorder.ingest.capture`, in whose place it is used from the response 101 on. As
pure as that: what the journal has of both directions goes in, with its times. The same input in any
batches gives the same events with the same hashes. The bytes are read by
`recorder.wire.framing.websocket`; the dialect of the path says which messages are turns.

Rules of this file:

* A message of the client of the dialect's `request_type` begins a turn. A message of the server
  belongs to one of the open turns (`OpenTurns`). Further messages of the client are assigned in the
  same way. What fits none stays with the connection.
* A response that begins and that no open turn waits for is a turn, too: the server began it. Its
  request is the message that steered the response which it continues, or nothing.
* In a live session nothing need ask: the first message of the client since the turn before begins
  one, if it is of the dialect's `opening_types`. Its request repeats the message that set the
  session up; all others are `sent` in it.
* Nothing that either side sends raises. What cannot be read is kept as it is and flagged; of the
  client's direction only as text, because a secret cannot be looked for in other bytes.
* After a gap nothing of that direction can be framed any more: a frame says how long it is, and
  nothing says where another one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from recorder.ingest.capture import Capture
from recorder.ingest.message_capture import (
    NO_MESSAGE,
    SETUP_LIMIT,
    MessageCapture,
    OpenTurn,
    OpenTurns,
)
from recorder.model.events import (
    CloseRecord,
    ControlRecord,
    Event,
    ExchangeEnd,
    GapRecord,
    Header,
    Outcome,
    RequestHead,
    ResponseHead,
    Side,
)
from recorder.wire.dialects import Dialect, MessageIds, by_name, by_path, by_request
from recorder.wire.dialects.declared import DECLARED
from recorder.wire.framing.lines import LineParser
from recorder.wire.framing.websocket import (
    CONTROL_LIMIT,
    Damage,
    Deflate,
    Frame,
    Message,
    MessageParser,
    accept_of,
    close_of,
    negotiated,
)
from recorder.wire.redaction.bodies import Redactor, placeholder

NO_CODE = 1005  # of a Close frame that has none, RFC 6455 section 7.1.5

RESTART = 1012
"""The code with which this recorder closes connections when it stops; only servers begin with it.
So a client that sends it first answers a Close of ours, which is not of the upstream and not in the
journal."""

LOST = "bytes of this direction before this point were not kept: what follows cannot be framed"

Part = Frame | Message | Damage


class UnreadableDirection:
    """A parser of a direction whose bytes cannot be framed: all of them are damage, with one
    reason.
    """

    is_framed = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def feed(self, data: bytes) -> list[Part]:
        return [Damage(data, self._reason)] if data else []

    def close(self) -> list[Part]:
        return []


BeginTurn = Callable[[int, int, bytes, bool, str | None], OpenTurn]
"""Begin a turn: its time, its number, the payload of its request, whether that is whole, and its
stream.
"""


class WebSocketCapture:
    """The events of a connection and of its turns."""

    def __init__(
        self,
        connection: MessageCapture,
        dialect: Dialect,
        request: Iterable[Header],
        redactor: Redactor,
        begin: BeginTurn,
        handshake: Capture,
        *,
        is_stdio: bool = False,
    ) -> None:
        """`dialect` is that of the path, `request` the headers of the handshake, which may be no
        offer of WebSocket, and `handshake` the capture that was used so far. `is_stdio`: messages
        are lines.
        """
        self._is_stdio = is_stdio
        self._handshake = handshake
        self._connection, self._redactor, self._begin = connection, redactor, begin
        self._format = dialect.websocket
        self._live = None if self._format is None else self._format.live
        self._setup = NO_MESSAGE  # of a live session: what holds for its turns
        self._request = {name.lower(): value for name, value in request}
        self._parsers: dict[Side, MessageParser | LineParser | UnreadableDirection] = {}
        self._head: ResponseHead | None = None
        self._open = OpenTurns()
        self._turns = 0
        self._ended_first: Side | None = None
        self._over: set[Side] = set()  # the directions of which nothing more comes
        # code and reason of the first Close frame
        self._close: tuple[int, str | None] | None = None
        self._unfinished: str | None = None

    # -- for its owner

    @property
    def open_ids(self) -> list[str]:
        """Return the ids of the turns that have not ended."""
        return [turn.capture.exchange_id for turn in self._open]

    def after_request(self) -> Capture:
        """Return a capture of the connection as it was after its request."""
        return self._handshake.after_request()

    def response(self, t_ns: int, head: ResponseHead) -> list[Event]:
        """Return the event of the response 101. It decides how the messages are compressed."""
        self._head = head
        if self._is_stdio:
            self._parsers = {"client": LineParser(), "server": LineParser()}
            return self._connection.response(t_ns, head)
        compression: tuple[Deflate | None, Deflate | None] | str = self._refusal(
            head
        ) or negotiated(head.headers)
        if isinstance(compression, str):
            refusal = compression
            self._parsers = {
                "client": UnreadableDirection(refusal),
                "server": UnreadableDirection(refusal),
            }
            self._connection.flag(refusal)
        else:
            of_client, of_server = compression
            self._parsers = {
                "client": MessageParser(from_client=True, deflate=of_client),
                "server": MessageParser(from_client=False, deflate=of_server),
            }
        return self._connection.response(t_ns, head)

    def _refusal(self, head: ResponseHead) -> str | None:
        """Return why the bytes that follow are not WebSocket, and flag an answer that is not quite
        one.
        """
        if not _is_websocket(self._request.items()):
            return "the upstream answered 101 to what was not a WebSocket upgrade"
        key = self._request.get("sec-websocket-key")
        accepts = [
            value.strip() for name, value in head.headers if name.lower() == "sec-websocket-accept"
        ]
        if key is not None and accepts != [accept_of(key)]:
            self._connection.flag("Sec-WebSocket-Accept does not answer the key of the request")
        return None

    # -- both directions

    def chunk(self, t_ns: int, data: bytes) -> list[Event]:
        """Return the events of one read from the server; an empty one is the end of its direction."""
        if not data:
            return self._end_direction("server", t_ns)
        events = self._connection.received(t_ns, data)
        self._take("server", t_ns, self._parsers["server"].feed(data), events)
        return events

    def client_chunk(self, t_ns: int, data: bytes) -> list[Event]:
        """Return the events of one read from the client; an empty one is the end of its direction."""
        if not data:
            return self._end_direction("client", t_ns)
        events = self._connection.sent_bytes(t_ns, len(data))
        self._take("client", t_ns, self._parsers["client"].feed(data), events)
        return events

    def gap(self, gap: GapRecord) -> list[Event]:
        """Return the events of bytes of one direction that were not kept.

        Of the server's, no open turn can go on.
        """
        side: Side = "client" if gap.of == "request" else "server"
        events: list[Event] = []
        self._drain(side, gap.from_ns, events)
        self._parsers[side] = UnreadableDirection(LOST)
        self._connection.flag(LOST)
        events += self._connection.gap(gap)
        if side == "server":
            self._gap_in_turns(gap, events)
            self._end_turns(gap.to_ns, ExchangeEnd("recorder_crash", gap.reason), events)
        return events

    def end(self, t_ns: int, end: ExchangeEnd) -> list[Event]:
        """Return the last events, when the connection is over one way or another."""
        events: list[Event] = []
        for side in ("client", "server"):
            self._drain(side, t_ns, events)
        self._end_turns(t_ns, self._end_of_turns(end), events)
        if end.outcome == "eof":
            self._connection.flag(self._unfinished)
        if end.outcome == "client_disconnect" and self._turns:
            end = ExchangeEnd("client_done")  # what it left unfinished are turns, which say so
        return [*events, *self._connection.end(t_ns, end, self._close_record())]

    def break_off(self, t_ns: int, gap: GapRecord, end: ExchangeEnd) -> list[Event]:
        """End all with a gap, because the rest cannot be read.

        What the parsers hold is not looked at.
        """
        events: list[Event] = []
        self._gap_in_turns(gap, events)
        self._end_turns(t_ns, end, events)
        events += self._connection.gap(gap)
        return [*events, *self._connection.end(t_ns, end, self._close_record())]

    def _gap_in_turns(self, gap: GapRecord, events: list[Event]) -> None:
        """Note a gap in all open turns.

        Whose bytes it were, nobody knows: the connection counts them.
        """
        uncounted = msgspec.structs.replace(gap, size_bytes=0, sha256="")
        for turn in self._open:
            events += turn.capture.gap(uncounted)

    # -- what a direction holds

    def _take(self, side: Side, t_ns: int, parts: Iterable[Part], events: list[Event]) -> None:
        for part in parts:
            if isinstance(part, Frame):
                events += self._connection.shape(t_ns, side, part.first, part.wire_bytes)
                continue
            if isinstance(part, Damage):
                self._connection.flag(part.reason)
                self._take_damage(side, t_ns, part, events)
                continue
            self._connection.flag(part.fault)
            if part.opcode == "text" or part.opcode == "binary":
                take = self._take_request if side == "client" else self._take_answer
                take(t_ns, part, events)
            elif len(part.payload) > CONTROL_LIMIT:  # up to 64 MiB
                self._take_damage(side, t_ns, Damage(part.payload, part.fault or ""), events)
            else:
                self._take_control(side, t_ns, part, events)

    def _take_damage(self, side: Side, t_ns: int, damage: Damage, events: list[Event]) -> None:
        if side == "server":
            events += self._connection.undecoded(t_ns, damage.raw)
            for turn in self._open:  # it may have been a message of any of them
                turn.capture.flag(damage.reason)
        else:
            events += self._connection.sent(t_ns, self._readable(damage.raw))

    def _readable(self, raw: bytes) -> bytes:
        """Return bytes of the client as they may be kept: text without its secrets, or a count of
        what is none.

        Bytes that cannot be framed are cut anywhere, and half a secret does not look like one.
        """
        try:
            raw.decode()
        except UnicodeDecodeError:
            return placeholder("coded", len(raw))
        is_framed = self._parsers["client"].is_framed
        return (
            self._redactor.redact(raw, cut=True).body
            if is_framed
            else placeholder("coded", len(raw))
        )

    def _take_control(self, side: Side, t_ns: int, message: Message, events: list[Event]) -> None:
        if message.opcode != "ping" and message.opcode != "pong" and message.opcode != "close":
            return
        payload = (
            message.payload if side == "server" else self._redactor.redact(message.payload).body
        )
        record = ControlRecord(side, message.opcode, payload.hex())
        if message.opcode == "close":
            code, reason = close_of(payload)
            record = msgspec.structs.replace(record, code=code, reason=reason)
        [event] = self._connection.control(t_ns, record)
        events.append(event)
        if message.opcode == "close":
            recorded = msgspec.json.decode(event.raw, type=ControlRecord)
            if self._close is None:
                self._close = NO_CODE if recorded.code is None else recorded.code, recorded.reason
            self._ended_first = self._ended_first or side
            if side == "server":
                self._end_turns(t_ns, self._end_of_turns(None), events)

    def _end_direction(self, side: Side, t_ns: int) -> list[Event]:
        events: list[Event] = []
        self._ended_first = self._ended_first or side
        self._drain(side, t_ns, events)
        if side == "server":
            self._end_turns(t_ns, self._end_of_turns(None), events)
        return events

    def _drain(self, side: Side, t_ns: int, events: list[Event]) -> None:
        """Keep what a direction leaves unfinished.

        If somebody broke off there, that is not a fault of it.
        """
        if side in self._over or not self._parsers:
            return
        self._over.add(side)
        for part in self._parsers[side].close():
            if isinstance(part, Damage):
                self._unfinished = self._unfinished or part.reason
                self._take_damage(side, t_ns, part, events)
            else:
                self._take(side, t_ns, [part], events)

    # -- turns

    def _take_request(self, t_ns: int, message: Message, events: list[Event]) -> None:
        """Read a message of the client: the request of a turn, or something else."""
        keys = self._connection.keys_of(message.payload)
        is_request = self._format is not None and keys.type == self._format.request_type
        ids = self._format.ids(message.payload) if self._format else MessageIds()
        if self._live is not None:
            self._note_setup(keys.type, message)
            self._open_turn(
                t_ns, is_first=keys.type in self._live.opening_types, asks=is_request, events=events
            )
            is_request = False  # it is a message of that turn, as all others are
        if is_request and not self._open.is_full:
            self._begin_turn(t_ns, message, ids.stream_id, events)
            return
        if self._live is None and self._format is not None and keys.type == self._format.steer_type:
            ids = ids._replace(response_id=ids.previous_response_id)
            self._open.steer(ids.response_id, message)
        turn = None if is_request else self._turn_of_client(ids)
        payload = self._redactor.redact(message.payload, cut=message.fault is not None).body
        keys = keys if payload is message.payload else self._connection.keys_of(payload)
        capture = self._connection if turn is None else turn.capture
        events += capture.sent(t_ns, payload, keys)

    def _turn_of_client(self, ids: MessageIds) -> OpenTurn | None:
        """Return the open turn of a further message: in a live session the latest, unless it names
        another one.
        """
        is_of_latest = self._live is not None and ids.response_id is None
        return self._open.latest if is_of_latest else self._open.of(ids)

    def _note_setup(self, type: str | None, message: Message) -> None:
        """Keep the latest message that says what holds for the turns of a live session from now on."""
        if (
            self._live is not None
            and type in self._live.setup_types
            and len(message.payload) <= SETUP_LIMIT
        ):
            self._setup = message

    def _open_turn(self, t_ns: int, *, is_first: bool, asks: bool, events: list[Event]) -> None:
        """Begin a turn of a live session with a message of the client, if it is the first of one or
        asks for one.
        """
        begins = (is_first and not self._open) or (asks and self._open.have_begun)
        if begins and not self._open.is_full:
            self._begin_turn(t_ns, self._setup, None, events)
        for turn in self._open if asks else ():
            turn.is_asked_for = True

    def _begin_turn(
        self, t_ns: int, request: Message, stream_id: str | None, events: list[Event]
    ) -> OpenTurn:
        self._turns += 1
        turn = self._begin(t_ns, self._turns, request.payload, request.fault is None, stream_id)
        turn.stream_id = stream_id
        self._open.add(turn)
        events += turn.events
        turn.events.clear()
        return turn

    def _take_answer(self, t_ns: int, message: Message, events: list[Event]) -> None:
        """Read a message of the server: of the turn that it answers, or of none."""
        payload, keys = message.payload, self._connection.keys_of(message.payload)
        begins = self._format is not None and keys.type in self._format.begin_types
        ids = self._format.ids(payload) if self._format and (self._open or begins) else MessageIds()
        self._note_setup(keys.type, message)
        if begins and self._is_unasked(ids):
            request = (
                self._open.steered(ids.previous_response_id) if self._live is None else self._setup
            )
            turn: OpenTurn | None = self._begin_turn(t_ns, request, ids.stream_id, events)
        else:
            turn = self._open.of(ids)
        if turn is None:
            events += self._connection.message(t_ns, payload, keys)
            return
        turn.has_begun = turn.has_begun or begins
        turn.response_id = turn.response_id or ids.response_id
        turn.stream_id = turn.stream_id or ids.stream_id
        if not turn.has_head and self._head is not None:
            events += turn.capture.response(t_ns, self._head)
            turn.has_head = True
        events += turn.capture.received(t_ns, payload)
        turn.capture.flag(message.fault)
        keys = turn.capture.heard(payload, keys)
        events += turn.capture.message(t_ns, payload, keys)
        if keys.type in turn.capture.dialect.terminal:
            self._end_turn(turn, t_ns, ExchangeEnd("eof"), events)

    def _is_unasked(self, ids: MessageIds) -> bool:
        """Return whether a response that begins is one that the server begins by itself."""
        return self._open.is_unasked(ids) or (self._live is not None and not self._open)

    def _end_turns(self, t_ns: int, end: ExchangeEnd, events: list[Event]) -> None:
        for turn in self._open:
            is_owed = self._live is None or turn.has_begun or turn.is_asked_for
            self._end_turn(turn, t_ns, end if is_owed else ExchangeEnd("client_done"), events)

    def _end_turn(self, turn: OpenTurn, t_ns: int, end: ExchangeEnd, events: list[Event]) -> None:
        self._open.end(turn)
        events += turn.capture.end(t_ns, end)
        turn.on_end()

    def _end_of_turns(self, end: ExchangeEnd | None) -> ExchangeEnd:
        """Return how the open turns end, when the connection does or nothing more comes from the
        server.
        """
        if end is not None and end.outcome in _OURS:
            return end
        if self._ended_first == "client" and self._close is not None and self._close[0] == RESTART:
            return ExchangeEnd(
                "recorder_shutdown", "the recorder stopped, and asked the client to connect again"
            )
        if self._ended_first == "client" or (
            end is not None and end.outcome == "client_disconnect"
        ):
            return ExchangeEnd("client_disconnect")
        closed = "the connection ended without a Close"
        if self._close is not None:
            code, reason = self._close
            named = f"{code} {reason}" if reason else str(code)
            closed = f"the upstream closed the connection ({named})"
        if end is None:
            return ExchangeEnd("truncated", closed)
        outcome: Outcome = "truncated" if end.outcome in ("eof", "client_done") else end.outcome
        return ExchangeEnd(outcome, end.error or closed)

    def _close_record(self) -> CloseRecord:
        return CloseRecord(self._ended_first, *(self._close or (None, None)))


_OURS: frozenset[Outcome] = frozenset(
    {"recorder_shutdown", "token_revoked", "recorder_crash", "timeout"}
)
"""Ends of a connection that neither side chose."""


def dialect_of(head: RequestHead, body: bytes = b"") -> Dialect:
    """Return the dialect of an exchange, by its head and the body of its request.

    A connection to be switched is of none, because its turns have that of its path, but for a
    declared one.
    """
    is_connection = head.method == "GET" and _is_websocket(head.headers)
    if is_connection:
        found = by_path(head.method, head.target)
        return found if DECLARED in found.profiles else by_name("other")
    return by_request(head.method, head.target, head.headers, body)


def _is_websocket(headers: Iterable[Header]) -> bool:
    return any(
        name.lower() == "upgrade" and value.strip().lower() == "websocket"
        for name, value in headers
    )
