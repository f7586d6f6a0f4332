"""One WebSocket connection of a replay: the bytes of the client in, the bytes for it out, and how
it ends.

What the messages say is for its subclasses. Rules of this file:

* A client that reads slowly holds its answers up, and nothing else; one that leaves ends all that
  works for it.
* Whoever sends a Close waits for the client's, and not for long.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import suppress

from recorder.errors import UpstreamError
from recorder.proxy.http.messages import Request
from recorder.wire.framing.websocket import Message
from recorder.wire.websocket_endpoint import OutgoingFrame, ServerEndpoint

log = logging.getLogger(__name__)

OUTGOING = 64
"""Frames that wait for a client that reads slowly. With more there, whoever has one more waits,
too.
"""

CLOSE_S = 1.0
"""Seconds for the client to answer a Close: those that do, do it at once, and some do not."""


class ReplayedConnection(ABC):
    """A connection from its 101 on."""

    def __init__(self, request: Request, *, takes_binary: bool) -> None:
        self._request = request
        self._endpoint = ServerEndpoint(takes_binary=takes_binary)
        self._outgoing = asyncio.Queue[bytes | UpstreamError | None](OUTGOING)  # None: a FIN

    @abstractmethod
    async def _begin(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to send, if the server speaks first."""

    @abstractmethod
    async def _take(self, message: Message, tasks: asyncio.TaskGroup) -> None:
        """Take a message of the client."""

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes for the client until one side has ended the connection."""
        running = asyncio.get_running_loop().create_task(self._run())
        try:
            while (data := await self._outgoing.get()) is not None:
                if isinstance(data, UpstreamError):
                    raise data
                yield data
            yield b""  # a FIN, see `BodyStream`
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def _run(self) -> None:
        """Read what the client sends, beside the tasks that answer it.

        The end of the stream cancels all of them.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._begin(tasks)
                async for data in self._request.stream:
                    await self._received(data, tasks)
                    if self._endpoint.is_over:
                        break
                await self._outgoing.put(None)
        except Exception as error:
            log.error("a connection could not be answered", exc_info=error)
            await self._outgoing.put(UpstreamError("the replay failed", "upstream_reset"))

    async def _received(self, data: bytes, tasks: asyncio.TaskGroup) -> None:
        was_closing = self._endpoint.is_closing
        messages, answers = self._endpoint.receive(data)
        for message in messages:
            await self._take(message, tasks)
        if answers:
            await self._outgoing.put(answers)
        # the client has broken a rule
        if self._endpoint.is_closing and not (was_closing or self._endpoint.is_over):
            tasks.create_task(self._give_up())

    async def _send(self, frame: OutgoingFrame) -> None:
        """Send a frame, unless a Close was sent before."""
        if not self._endpoint.is_closing:
            await self._outgoing.put(frame.encoded())

    async def _end(self, code: int | None, reason: str, *, reset: bool = False) -> None:
        """End the connection: by a Close frame, or without a code by a FIN or a RST."""
        if code is None:
            await self._outgoing.put(UpstreamError(reason, "upstream_reset") if reset else None)
        elif data := self._endpoint.close(code, reason):
            await self._outgoing.put(data)
            await self._give_up()

    async def _give_up(self) -> None:
        """End the connection, if the client has not answered our Close by then."""
        await asyncio.sleep(CLOSE_S)
        await self._outgoing.put(None)
