"""A connection of a fork: turns that equal a recorded one are played on it, the others are asked on
a connection to the upstream, which is opened at the first of them.

Rules of this file:

* What is played is recorded as a connection of its own, and so is the one to the upstream, each
  with the messages that passed on it: a live turn stands in the log as it went out.
* The requests of one stream are answered one after another, whoever answers.
* What an upstream ends is ended for the client, unless a played answer is on its way: then the next
  live turn opens another connection. An upstream that refuses the handshake refuses the turn; one
  that has no WebSocket (426) has the client connect again, so that it is told the same.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol, cast

from recorder.errors import UpstreamError, UsageError
from recorder.model.events import Outcome
from recorder.proxy.http.messages import Request, Response, Transport
from recorder.proxy.recording import ExchangeRecorder
from recorder.replay.transport import origin_of
from recorder.replay.websocket.live import LiveConnection
from recorder.replay.websocket.turns import QueuedRequest, Turns
from recorder.wire.dialects import by_path
from recorder.wire.dialects.json_values import Object, request_object, text
from recorder.wire.framing.websocket import Message, encode_close, encode_frame
from recorder.wire.turns import error_message, stream_id_of, with_stream_id
from recorder.wire.websocket_endpoint import MessageKind, OutgoingFrame

log = logging.getLogger(__name__)

SERVICE_RESTART = 1012  # IANA: clients connect again
NO_WEBSOCKET = 426


class Fork(Protocol):
    """Who decides: `recorder.replay.fork.ForkTransport`."""

    live: Transport

    async def playing(self, request: Request) -> Transport | None:
        """Return what answers a request without the upstream; None if it is to be asked."""

    def as_live(self, target: str, payload: bytes) -> bytes:
        """Return a request message as it goes out. Raises `UsageError` if that cannot be."""

    def refused(self, upstream: str) -> None:
        """Note that an upstream has no WebSocket."""


class ForkedTurns(Turns):
    """A connection that a recording and an upstream answer."""

    def __init__(self, request: Request, fork: Fork, recorder: ExchangeRecorder) -> None:
        super().__init__(request, fork.live)
        self._fork, self._recorder = fork, recorder
        self._terminal = by_path("POST", origin_of(request).target).terminal
        self._live: LiveConnection | None = None
        self._opening = asyncio.Lock()  # two streams open one connection
        self._asked: dict[str | None, asyncio.Event] = {}  # of each stream: its live turn has ended

    async def stream(self) -> AsyncGenerator[bytes, None]:
        ended = False
        try:
            async with aclosing(super().stream()) as chunks:
                async for data in chunks:
                    yield data
            ended = True
        except UpstreamError:
            ended = True
            raise
        finally:
            outcome = (
                "eof" if ended else self._request.extensions.get("outcome", "client_disconnect")
            )
            self._recorder.end(cast(Outcome, outcome))

    # -- played

    async def _answer(self, asked: QueuedRequest, tasks: asyncio.TaskGroup) -> None:
        post = self._post(asked)
        player = await self._fork.playing(post)
        if player is None:
            await self._ask(asked, tasks)
            return
        self._record_sent(asked.payload)
        await self._answer_from(player, post, asked, tasks)

    def _record_sent(self, payload: bytes) -> None:
        self._recorder.client_chunk(encode_frame("text", payload, mask=os.urandom(4)))

    async def _send(self, frame: OutgoingFrame) -> None:
        if not self._endpoint.is_closing:
            self._recorder.chunk(frame.encoded())
        await super()._send(frame)

    async def _break_off(self, error: UpstreamError) -> None:
        """End the connection as a played answer ended."""
        if error.close is not None:
            self._recorder.chunk(encode_close(*error.close))
        self._recorder.end(cast(Outcome, error.outcome), str(error))
        await super()._break_off(error)

    # -- live

    async def _ask(self, asked: QueuedRequest, tasks: asyncio.TaskGroup) -> None:
        """Ask the upstream, and wait until its answer has passed."""
        try:
            live = await self._opened(tasks)
            if isinstance(live, Response):
                await self._refused(live, asked)
                return
            payload = self._fork.as_live(origin_of(self._request).target, asked.payload)
        except UpstreamError as error:
            await self._fail(asked, error.status, f"the upstream could not be asked: {error}.")
            return
        except UsageError as error:
            await self._fail(asked, 400, str(error))
            return
        ended = self._asked[asked.stream_id] = asyncio.Event()
        await live.send(payload)
        await ended.wait()

    async def _fail(self, asked: QueuedRequest, status: int, message: str) -> None:
        self._record_sent(asked.payload)
        body = self._error(status, message)
        await self._send_text(with_stream_id(error_message(status, body), asked.stream_id))

    async def _opened(self, tasks: asyncio.TaskGroup) -> LiveConnection | Response:
        async with self._opening:
            if self._live is not None:
                return self._live
            opened = await LiveConnection.open(self._fork.live, self._request)
            if isinstance(opened, LiveConnection):
                self._live = opened
                tasks.create_task(self._pass_all(opened))
            return opened

    async def _refused(self, response: Response, asked: QueuedRequest) -> None:
        """Tell the client why its turn cannot be asked.

        Raises `UpstreamError` if the answer breaks off.
        """
        try:
            if response.status_code != NO_WEBSOCKET:
                self._record_sent(asked.payload)
                await self._refuse(response, asked)
                return
            async for _ in response.stream:  # so that it is recorded whole
                pass
        finally:
            await response.stream.aclose()
        self._fork.refused(origin_of(self._request).upstream)
        await self._end(SERVICE_RESTART, "the upstream has no WebSocket")

    async def _pass_all(self, live: LiveConnection) -> None:
        """Pass the messages of the upstream on, until it ends the connection."""
        try:
            async for message in live.messages():
                await self._pass(message)
        except UpstreamError as error:
            await self._lost(error)
        finally:
            await live.aclose(self._request)

    async def _pass(self, message: Message) -> None:
        kind: MessageKind = "binary" if message.opcode == "binary" else "text"
        await super()._send(OutgoingFrame(kind, message.payload))
        fields = request_object(message.payload)
        if text(fields, "type") in self._terminal and self._asked:
            stream_id = stream_id_of(fields)
            if stream_id not in self._asked:  # some servers leave it out of errors
                stream_id = next(iter(self._asked))
            self._asked.pop(stream_id).set()

    async def _lost(self, error: UpstreamError) -> None:
        """End the client's connection as the upstream ended its own, unless something else is being
        answered on it.
        """
        self._live = None
        if self._waiting and not self._asked:
            log.debug("the upstream has ended the connection: %s", error)
            return
        for ended in self._asked.values():
            ended.set()
        self._asked.clear()
        await super()._break_off(error)

    async def _take_other(self, message: Message, fields: Object) -> None:
        """Pass a message on to the upstream if it is answering, for example `response.cancel`."""
        if self._live is not None and self._asked:
            await self._live.send(message.payload)
        else:
            self._record_sent(message.payload)
            await super()._take_other(message, fields)
