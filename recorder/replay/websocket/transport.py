"""The transport that accepts WebSocket handshakes, and chooses how a connection is replayed.

Where the path has turns, each request message is answered by itself, whatever connection it was
recorded on, or none (`recorder.replay.websocket.turns`). A handshake that was refused when it was
recorded is refused again.

Elsewhere the handshake is matched, and its connection is played back whole: the server's messages,
each after the client's that came before it. What the client sends is counted, not compared: the
first message of the server that came behind the client's third one comes behind the third one
again, as long after it. In a live session (Realtime, Gemini Live) sound is counted by its size,
because each run cuts it into other pieces; and an id that the client makes anew stands in the place
of the recorded one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from recorder.model.events import SWITCHED, WEBSOCKET, FrameShape, Recording, as_sent, header
from recorder.proxy.http.messages import IteratedBody, RawHeaders, Request, Response, Transport
from recorder.replay.matching import MatchRequest, Miss, server_close
from recorder.replay.pace import Pace, Waiting
from recorder.replay.transport import ReplayTransport, match_request, origin_of, whole
from recorder.replay.websocket.connection import ReplayedConnection
from recorder.replay.websocket.turns import OF_THE_HANDSHAKE, Turns
from recorder.wire.dialects import LiveSession, error_body
from recorder.wire.dialects.json_values import as_json, request_object
from recorder.wire.framing.websocket import Message
from recorder.wire.redaction.headers import COUNTED
from recorder.wire.turns import PROTOCOL, has_turns, live_session
from recorder.wire.websocket_endpoint import (
    HandshakeError,
    MessageKind,
    OutgoingFrame,
    accepted,
    offered_protocols,
)

_FIN, _OPCODE = 0x80, 0x0F  # of the first byte of a frame
_TEXT, _BINARY, _CONTROL = 0x1, 0x2, 0x8


_TEXTUAL: MessageKind = "text"


class PlayedMessage(NamedTuple):
    """A message of the server, due so long after the client's message of that number; 0 is the
    handshake.
    """

    after: int
    delay_ns: int
    opcode: MessageKind
    payload: bytes
    # that the client must have sent, too; it is due so long after the last of these
    sound_bytes: int = 0
    is_after_sound: bool = False  # they came behind the client's message


def script_of(recorded: Recording) -> list[PlayedMessage]:
    """Return the messages of the server in order, each with what it follows."""
    opcodes = iter(_opcodes(recorded.frames))
    heard = iter([*_heard(recorded), None])
    before, after, sound_bytes, is_after_sound = recorded.head_ns, 0, 0, False
    next_heard = next(heard)
    script: list[PlayedMessage] = []
    for piece in recorded.pieces:
        while next_heard is not None and next_heard.t_ns <= piece.t_ns:
            before, is_after_sound = next_heard.t_ns, next_heard.sound_bytes is not None
            after += next_heard.sound_bytes is None
            sound_bytes += next_heard.sound_bytes or 0
            next_heard = next(heard)
        delay_ns = max(0, piece.t_ns - before)
        opcode = next(opcodes, _TEXTUAL)
        script.append(
            PlayedMessage(after, delay_ns, opcode, piece.raw, sound_bytes, is_after_sound)
        )
    return script


class HeardMessage(NamedTuple):
    """A message of the client."""

    t_ns: int
    sound_bytes: int | None  # if it is only sound
    ids: Sequence[str] = ()  # that the client made


def _heard(recorded: Recording) -> Sequence[HeardMessage]:
    """Return the client's messages.

    Of those that are not of a live session, the times are enough.
    """
    live = live_session(recorded.request.target)
    if live is None or not recorded.sent:
        return [HeardMessage(t_ns, None) for t_ns in _sent_ns(recorded.frames)]
    return [_read(live, each.t_ns, each.raw) for each in recorded.sent if each.is_message]


def _read(live: LiveSession, t_ns: int, payload: bytes) -> HeardMessage:
    message = request_object(payload)
    return HeardMessage(t_ns, live.sound_size(message), live.client_ids(message))


def _sent_ns(frames: Sequence[FrameShape]) -> Iterator[int]:
    """Yield the times of the client's messages."""
    for t_ns, by, first, _ in frames:
        if by == "client" and first & _FIN and first & _OPCODE < _CONTROL:
            yield t_ns


def _opcodes(frames: Sequence[FrameShape]) -> Iterator[MessageKind]:
    """Yield the kinds of the server's messages."""
    for _, by, first, _ in frames:
        if by == "server" and first & _OPCODE in (_TEXT, _BINARY):
            yield "binary" if first & _OPCODE == _BINARY else "text"


class Playback(ReplayedConnection):
    """One connection that is played back."""

    def __init__(self, request: Request, recorded: Recording, replay: ReplayTransport) -> None:
        super().__init__(request, takes_binary=True)
        self._recorded, self._replay = recorded, replay
        self._live = live_session(recorded.request.target)
        self._recorded_ids = [each.ids for each in _heard(recorded) if each.sound_bytes is None]
        # recorded ones of the client, and what it has in their place
        self._ids: dict[bytes, bytes] = {}
        # the handshake, then each message of the client that was recorded
        self._heard = [Waiting(replay.clock)]
        self._sound_bytes = 0
        self._sound_heard = self._heard[0]
        self._news = asyncio.Event()

    async def _begin(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(self._play())

    async def _take(self, message: Message, tasks: asyncio.TaskGroup) -> None:
        heard = (
            HeardMessage(0, None) if self._live is None else _read(self._live, 0, message.payload)
        )
        if heard.sound_bytes is not None:
            self._sound_bytes += heard.sound_bytes
            self._sound_heard = Waiting(self._replay.clock)
        elif len(self._heard) <= len(self._recorded_ids):  # nothing follows a further one
            self._rename(self._recorded_ids[len(self._heard) - 1], heard.ids)
            self._heard.append(Waiting(self._replay.clock))
        self._news.set()

    def _rename(self, recorded: Sequence[str], given: Sequence[str]) -> None:
        """Note the ids that the client has made anew in a message."""
        for old, new in zip(recorded, given, strict=False):
            if old != new:
                self._ids[as_json(old).encode()] = as_json(new).encode()

    async def _play(self) -> None:
        for message in script_of(self._recorded):
            await self._until(message)
            payload = message.payload
            for old, new in self._ids.items():
                payload = payload.replace(old, new)
            await self._send(OutgoingFrame(message.opcode, payload))
        await self._end_as_recorded()

    async def _until(self, message: PlayedMessage) -> None:
        """Wait until it is so long since the client's message that it follows, or the handshake."""
        while len(self._heard) <= message.after or self._sound_bytes < message.sound_bytes:
            self._news.clear()
            await self._news.wait()
        waiting = self._sound_heard if message.is_after_sound else self._heard[message.after]
        await Pace(waiting, self._replay.speed).until(message.delay_ns)

    async def _end_as_recorded(self) -> None:
        """End the connection as the server did; one that the client ended, or nobody, stays open
        for the client.
        """
        end, heard = (
            self._recorded.end,
            [each for each in _heard(self._recorded) if each.sound_bytes is None],
        )
        close = server_close(self._recorded)
        if end is None or close is None:
            return
        last_ns = heard[-1].t_ns if heard else self._recorded.head_ns
        delay_ns = max(0, self._recorded.end_ns - last_ns)
        await self._until(PlayedMessage(len(heard), delay_ns, _TEXTUAL, b""))
        await self._end(close.code, close.reason or "", reset=end.outcome == "upstream_reset")


class WebSocketTransport:
    """Accepts WebSocket handshakes; all other requests pass to `inner`, which answers with
    `replay`, with faults or without.
    """

    def __init__(self, inner: Transport, replay: ReplayTransport) -> None:
        self._inner, self._replay = inner, replay

    async def handle_async_request(self, request: Request) -> Response:
        if request.extensions.get("upgrade") != PROTOCOL.encode():
            return await self._inner.handle_async_request(request)
        query = match_request(request, b"")
        if has_turns(query.target):
            return await self._for_turns(request, query)
        found = self._replay.matcher.match(msgspec.structs.replace(query, method=WEBSOCKET))
        if isinstance(found, Miss):
            return await self._replay.missed(request, found)
        if not found.recorded.is_switched:
            return await self._replay.replay(request, found.recorded)
        return _accepted(request, found.recorded, Playback(request, found.recorded, self._replay))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _for_turns(self, request: Request, query: MatchRequest) -> Response:
        """Accept a connection whose messages are answered one by one, unless the upstream had
        refused it.
        """
        replay = self._replay
        if replay.forwards and not replay.matcher.has_requests(
            msgspec.structs.replace(query, method="POST")
        ):
            missed = Miss(
                query, None, [], f"Nothing recorded answers {query.target} ({query.upstream})."
            )
            return await replay.missed(request, missed)
        recorded = replay.matcher.connection(msgspec.structs.replace(query, method=WEBSOCKET))
        if recorded is not None and not recorded.is_switched:
            return await replay.replay(request, recorded)
        return _accepted(request, recorded, Turns(request, self._inner))


def _accepted(
    request: Request, recorded: Recording | None, connection: ReplayedConnection
) -> Response:
    """Return the answer to a handshake, behind which a connection is answered."""
    headers = handshake_answer(request, recorded)
    return headers if isinstance(headers, Response) else switched(headers, connection)


def switched(headers: RawHeaders, connection: ReplayedConnection) -> Response:
    """Return the answer that accepts a handshake."""
    return Response(SWITCHED, b"Switching Protocols", headers, IteratedBody(connection.stream()))


def handshake_answer(request: Request, recorded: Recording | None) -> RawHeaders | Response:
    """Return the headers of the 101 that answers a handshake: our own, and those of the recorded
    one that are not part of it. A handshake that breaks a rule has an error in their place.
    """
    given = (
        recorded.response.headers if recorded is not None and recorded.response is not None else []
    )
    answer = accepted(request.headers.raw, _protocol(request, given))
    if isinstance(answer, HandshakeError):
        origin = origin_of(request)
        body = error_body(
            request.method, origin.target, origin.upstream, answer.status, answer.message
        )
        return whole(answer.status, body, answer.headers)
    more = as_sent((name, value) for name, value in given if not COUNTED.fullmatch(value))
    return [*answer, *(each for each in more if not each[0].lower().startswith(OF_THE_HANDSHAKE))]


def _protocol(request: Request, recorded: Sequence[tuple[str, str]]) -> str | None:
    """Return the subprotocol to answer with: the recorded one.

    Its name may have been redacted, because clients put keys into it. They prefer the one that has
    none.
    """
    offered = offered_protocols(request.headers.raw)
    chosen = header(recorded, "sec-websocket-protocol")
    if not chosen or not offered:
        return None
    return chosen if chosen in offered else offered[0]
