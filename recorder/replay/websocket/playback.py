"""The playback of a recorded WebSocket connection: the server's messages, each after the client's that came before it.

It is for protocols that have no turns here (Realtime, Gemini Live). What the client sends is counted, not compared: the
first message of the server that came behind the client's third one comes behind the third one again, as long after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from recorder.model.payloads import FrameShape
from recorder.model.recording import Recording
from recorder.proxy.http.messages import Request
from recorder.replay.matching import server_close
from recorder.replay.pace import Pace, Waiting
from recorder.replay.transport import ReplayTransport
from recorder.replay.websocket.connection import ReplayedConnection
from recorder.wire.websocket import Message
from recorder.wire.websocket_endpoint import OutgoingFrame

_FIN, _OPCODE = 0x80, 0x0F  # of the first byte of a frame
_TEXT, _BINARY, _CONTROL = 0x1, 0x2, 0x8


MessageKind = Literal["text", "binary"]
_TEXTUAL: MessageKind = "text"


class PlayedMessage(NamedTuple):
    """A message of the server, due so long after the client's message of that number; 0 is the handshake."""

    after: int
    delay_ns: int
    opcode: MessageKind
    payload: bytes


def script_of(recorded: Recording) -> list[PlayedMessage]:
    """Return the messages of the server in order, each with what it follows."""
    heard_ns = [recorded.head_ns]
    opcodes = iter(_opcodes(recorded.frames))
    asked_ns = iter([*_sent_ns(recorded.frames), None])
    next_ns = next(asked_ns)
    script: list[PlayedMessage] = []
    for piece in recorded.pieces:
        while next_ns is not None and next_ns <= piece.t_ns:
            heard_ns.append(next_ns)
            next_ns = next(asked_ns)
        delay_ns = max(0, piece.t_ns - heard_ns[-1])
        script.append(PlayedMessage(len(heard_ns) - 1, delay_ns, next(opcodes, _TEXTUAL), piece.raw))
    return script


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
        self._heard = [Waiting(replay.clock)]  # the handshake, then each message of the client that was recorded
        self._sent_ns = list(_sent_ns(recorded.frames))
        self._news = asyncio.Event()

    async def _begin(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(self._play())

    async def _take(self, message: Message, tasks: asyncio.TaskGroup) -> None:
        if len(self._heard) <= len(self._sent_ns):  # nothing follows a further one
            self._heard.append(Waiting(self._replay.clock))
            self._news.set()

    async def _play(self) -> None:
        for message in script_of(self._recorded):
            await self._until(message.after, message.delay_ns)
            await self._send(OutgoingFrame(message.opcode, message.payload))
        await self._end_as_recorded()

    async def _until(self, number: int, delay_ns: int) -> None:
        """Wait until it is so long since the client's message of that number, or the handshake."""
        while len(self._heard) <= number:
            self._news.clear()
            await self._news.wait()
        await Pace(self._heard[number], self._replay.speed).until(delay_ns)

    async def _end_as_recorded(self) -> None:
        """End the connection as the server did; one that the client ended, or nobody, stays open for the client."""
        end, sent_ns = self._recorded.end, self._sent_ns
        close = server_close(self._recorded)
        if end is None or close is None:
            return
        await self._until(len(sent_ns), max(0, self._recorded.end_ns - (sent_ns or [self._recorded.head_ns])[-1]))
        await self._end(close.code, close.reason or "", reset=end.outcome == "upstream_reset")
