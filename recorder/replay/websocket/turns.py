"""A connection on which each request message has an answer of its own.

Rules of this file:

* A request message becomes a POST through the wrapped transport, and the blocks of its event stream
  become messages. So matching, faults and times are those of HTTP, and it does not matter which of
  the two was recorded. The clock of an answer starts when its message has come, or when the answer
  before it on the same stream has ended.
* What HTTP says in a status, a message says in band: `{"type":"error","status":…,"error":{…}}`.
* Other messages of the client (`response.cancel`, `response.steer`) change nothing: what came after
  them is recorded. A response that continues a steered one without a request is sent behind it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from itertools import chain

import msgspec

from recorder.errors import UpstreamError
from recorder.proxy.http.messages import Request, Response, Transport, WholeUpload
from recorder.replay.faults.transport import blocks
from recorder.replay.transport import origin_of
from recorder.replay.websocket.connection import ReplayedConnection
from recorder.wire.dialects import error_body
from recorder.wire.dialects.json_values import Object, request_object
from recorder.wire.framing import SSE, framing_of
from recorder.wire.framing.websocket import MESSAGE_LIMIT, Message
from recorder.wire.turns import (
    as_post,
    error_message,
    is_request,
    payload_of,
    stream_id_of,
    with_stream_id,
)
from recorder.wire.websocket_endpoint import OutgoingFrame

log = logging.getLogger(__name__)

QUEUED = 32
"""Request messages of one connection that wait or are being answered: a client sends the next one
when it has the answer, and has a handful of streams."""

QUEUED_BYTES = MESSAGE_LIMIT
"""Of all of them but the last: as much as one of them may have."""

OF_THE_HANDSHAKE = (b"sec-websocket-", b"upgrade", b"connection", b"content-", b"transfer-encoding")
"""The beginnings of header names, in lower case, that are not those of a POST or its answer."""


class QueuedRequest(msgspec.Struct):
    """A request message whose turn has not come."""

    payload: bytes
    stream_id: str | None


class Turns(ReplayedConnection):
    """A connection of which each request message has an answer of its own."""

    def __init__(self, request: Request, inner: Transport) -> None:
        super().__init__(request, takes_binary=False)
        self._inner = inner
        # of each stream, the first is being answered
        self._waiting: dict[str | None, deque[QueuedRequest]] = {}
        self._requests = 0  # that came so far

    async def _begin(self, tasks: asyncio.TaskGroup) -> None:
        """Do nothing: the client speaks first."""

    async def _take(self, message: Message, tasks: asyncio.TaskGroup) -> None:
        """Queue a request message; answer at once what is none."""
        fields = request_object(message.payload)
        if not fields:
            await self._send_text(
                error_message(400, self._error(400, "This message is not a JSON object."))
            )
        elif not is_request(origin_of(self._request).target, fields):
            await self._take_other(message, fields)
        elif self._is_full():
            text = f"More than {QUEUED} requests, or {QUEUED_BYTES >> 20} MiB, at once: wait for the answers."
            await self._send_text(
                with_stream_id(error_message(429, self._error(429, text)), stream_id_of(fields))
            )
        else:
            self._requests += 1
            stream_id = stream_id_of(fields)
            is_first = stream_id not in self._waiting
            self._waiting.setdefault(stream_id, deque()).append(
                QueuedRequest(message.payload, stream_id)
            )
            if is_first:
                tasks.create_task(self._work(stream_id, tasks))

    async def _take_other(self, message: Message, fields: Object) -> None:
        """Take a message that asks for nothing."""
        log.debug("a message of type %r changes nothing in a replay", fields.get("type"))

    def _is_full(self) -> bool:
        sizes = [len(each.payload) for each in chain.from_iterable(self._waiting.values())]
        return len(sizes) >= QUEUED or sum(sizes) > QUEUED_BYTES

    async def _work(self, stream_id: str | None, tasks: asyncio.TaskGroup) -> None:
        """Answer the requests of one stream, one after another."""
        waiting = self._waiting[stream_id]
        while waiting and not self._endpoint.is_closing:
            await self._answer(waiting[0], tasks)
            waiting.popleft()
        del self._waiting[stream_id]

    async def _answer(self, asked: QueuedRequest, tasks: asyncio.TaskGroup) -> None:
        await self._answer_from(self._inner, self._post(asked), asked, tasks)

    async def _answer_from(
        self, inner: Transport, post: Request, asked: QueuedRequest, tasks: asyncio.TaskGroup
    ) -> None:
        """Send what a transport answers to the POST that a message stands for."""
        try:
            response = await inner.handle_async_request(post)
        except UpstreamError as error:
            await self._break_off(error)
            return
        try:
            is_stream = framing_of(response.headers.get("content-type")) is SSE
            if is_stream and response.status_code < 400:
                await self._pass_on(response, asked)
            else:
                await self._refuse(response, asked)
        except UpstreamError as error:
            await self._break_off(error)
            return
        finally:
            await response.stream.aclose()
        for after_s, payload in response.extensions.get("followed_by", ()):
            await asyncio.sleep(after_s)
            await self._send_text(with_stream_id(payload, asked.stream_id))
        if (hang_up := response.extensions.get("hang_up")) is not None:
            tasks.create_task(self._hang_up(*hang_up))

    def _post(self, asked: QueuedRequest) -> Request:
        """Return the request that a message stands for, with the headers of the handshake."""
        request, origin, body = self._request, origin_of(self._request), as_post(asked.payload)
        length = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]

        def of_post(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
            return [
                *(each for each in headers if not each[0].lower().startswith(OF_THE_HANDSHAKE)),
                *length,
            ]

        extensions = request.extensions.copy()
        extensions.pop("upgrade", None)
        extensions["is_message"] = True
        extensions["recorder"] = msgspec.structs.replace(origin, headers=of_post(origin.headers))
        return Request(
            "POST", request.url, of_post(request.headers.raw), WholeUpload(body), extensions
        )

    async def _pass_on(self, response: Response, asked: QueuedRequest) -> None:
        """Send each event as a message."""
        changed = response.extensions.get("frames")
        number = 0
        async for block in blocks(response.stream):
            payload = payload_of(block.raw) if block.event is not None else None
            if payload is None:
                continue
            number += 1
            payload = with_stream_id(payload, asked.stream_id)
            frames: Sequence[OutgoingFrame] = [OutgoingFrame("text", payload)]
            for frame in changed(number, frames) if changed is not None else frames:
                await self._send(frame)

    async def _refuse(self, response: Response, asked: QueuedRequest) -> None:
        """Send an answer that is not a stream as an error in band."""
        body = b"".join([chunk async for chunk in response.stream])
        status = response.status_code
        if status < 400:
            status, body = (
                502,
                self._error(
                    502, "The answer is not an event stream, so it cannot be sent as messages."
                ),
            )
        kept = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in response.headers.raw
            if not name.lower().startswith(OF_THE_HANDSHAKE)
        }
        await self._send_text(with_stream_id(error_message(status, body, kept), asked.stream_id))

    def _error(self, status: int, message: str) -> bytes:
        origin = origin_of(self._request)
        return error_body("POST", origin.target, origin.upstream, status, message)

    async def _break_off(self, error: UpstreamError) -> None:
        """End the connection as the answer ended."""
        code, reason = error.close or (None, str(error))
        await self._end(code, reason, reset=error.outcome == "upstream_reset")

    async def _hang_up(self, after_s: float, code: int | None, reason: str) -> None:
        """End the connection as the server did when it was recorded, unless the client goes on
        before.
        """
        requests = self._requests
        await asyncio.sleep(after_s)
        if self._requests == requests and not self._waiting:
            await self._end(code, reason)

    async def _send_text(self, payload: bytes) -> None:
        await self._send(OutgoingFrame("text", payload))
