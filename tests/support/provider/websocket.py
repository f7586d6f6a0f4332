"""The demo upstream over WebSocket: `GET /v1/responses` with an upgrade. A request is a message,
and so is each event.

Rules of this file:

* A message is answered as the POST that requests the same is, at the same pace; the events are
  messages.
* Requests of one connection are answered one after another. They may have only what is new since an
  earlier response of the same connection; a prewarm (`generate: false`) is one.
* An error is a message: `{"type":"error","status":…,"error":{…}}`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from recorder.proxy.http.server_exchange import SWITCHING, ServerExchange
from recorder.wire.dialects.json_values import array, as_json, object_, request_object, text
from recorder.wire.framing.sse import Splitter
from recorder.wire.turns import (
    as_post,
    error_message,
    is_request,
    payload_of,
    stream_id_of,
    with_stream_id,
)
from recorder.wire.websocket_endpoint import HandshakeError, OutgoingFrame, ServerEndpoint, accepted
from tests.support.provider.continued import ContinuedResponses
from tests.support.provider.reply import DemoReply, DemoRequest

PATHS = frozenset({b"/v1/responses"})
QUEUED = 16  # requests that wait: clients send the next one when they have the answer
BURST = 256  # messages that one answer may write before the others have their turn

Answer = Callable[[DemoRequest], DemoReply]


class _QueuedRequest(NamedTuple):
    """A request message."""

    body: bytes  # of the POST that requests the same
    stream_id: str | None


class DemoConnection:
    """One connection."""

    def __init__(
        self, exchange: ServerExchange, request: DemoRequest, answer: Answer, pace: float
    ) -> None:
        self._exchange, self._request, self._answer, self._pace = exchange, request, answer, pace
        self._endpoint = ServerEndpoint(takes_binary=False)
        self._waiting = asyncio.Queue[_QueuedRequest](QUEUED)
        self._continued = ContinuedResponses()

    async def serve(self) -> None:
        """Answer until the client has closed."""
        answer = accepted(self._exchange.headers)
        if isinstance(answer, HandshakeError):
            headers = [(name.encode(), value.encode()) for name, value in answer.headers]
            self._exchange.respond(answer.status, headers, answer.message.encode())
            return
        self._exchange.start(SWITCHING, answer)
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(self._answer_all())
            while not self._endpoint.is_over and (data := await self._exchange.read()):
                await self._received(data)
            answering.cancel()
        self._exchange.finish()

    async def _received(self, data: bytes) -> None:
        messages, answers = self._endpoint.receive(data)
        self._exchange.write(answers)
        for message in messages:
            fields = request_object(message.payload)
            if is_request(self._request.target, fields):
                await self._waiting.put(
                    _QueuedRequest(as_post(message.payload), stream_id_of(fields))
                )
            elif not fields:
                self._send(error_message(400, b'{"error":{"message":"Invalid JSON."}}'))

    async def _answer_all(self) -> None:
        while True:
            waiting = await self._waiting.get()
            whole = self._whole(waiting.body)
            if whole is None:
                error = b'{"error":{"message":"Previous response not found.","code":"previous_response_not_found"}}'
                self._send(with_stream_id(error_message(400, error), waiting.stream_id))
                continue
            headers = (("content-type", "application/json"),)
            reply = self._answer(
                DemoRequest("POST", self._request.target, headers, as_json(whole).encode())
            )
            await self._play(reply, waiting, array(whole.get("input")))

    def _whole(self, body: bytes) -> Mapping[str, Any] | None:
        """Return a request with the conversation that it continues; None if that is not known."""
        request = dict(request_object(body))
        items = self._continued.whole_input(request)
        id = text(request.pop("previous_response_id", None))
        return (
            {**request, "input": items}
            if id is None or self._continued.find(id) is not None
            else None
        )

    async def _play(self, reply: DemoReply, waiting: _QueuedRequest, items: Any) -> None:
        """Send each event when it is due, and remember the response that they make."""
        loop, splitter, sent = asyncio.get_running_loop(), Splitter(), 0
        pace = self._pace if reply.pace is None else reply.pace
        started, body, last = loop.time(), b"", b""
        for step in reply.steps:
            sent += 1
            delay_s = started + step.at_s * pace - loop.time()
            if delay_s > 0 and pace:
                await asyncio.sleep(delay_s)
            elif sent % BURST == 0:
                await asyncio.sleep(0)
            await self._exchange.flow.drain()
            data = step.take()
            if reply.status != 200:
                body += data
                continue
            for payload in (payload_of(piece.raw) for piece in splitter.feed(data)):
                if payload is not None:
                    last = payload
                    self._send(with_stream_id(payload, waiting.stream_id))
        if reply.status != 200:
            self._send(with_stream_id(error_message(reply.status, body), waiting.stream_id))
        self._remember(object_(request_object(last).get("response")), items)

    def _remember(self, response: Mapping[str, Any], items: Any) -> None:
        id = text(response.get("id"))
        if id is not None:
            self._continued.add(id, [*items, *array(response.get("output"))])

    def _send(self, payload: bytes) -> None:
        if not self._endpoint.is_closing:
            self._exchange.write(OutgoingFrame("text", payload).encoded())
