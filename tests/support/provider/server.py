"""The demo upstream's server: replies at their pace, on the HTTP server of `recorder.proxy.http`.

Rules of this file:

* It knows requests, replies and time, not their meaning.
* Deadlines are absolute: a late event does not delay the next one.
* A client that reads slowly is waited for, one that leaves stops its stream at once.
* It listens on loopback only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from email.utils import formatdate
from http.client import REQUEST_ENTITY_TOO_LARGE
from typing import Self

from recorder.proxy.http.server import Server
from recorder.proxy.http.server_exchange import Headers, ServerExchange
from tests.support.provider.app import App
from tests.support.provider.coding import ENCODERS
from tests.support.provider.prompt_cache import LIFETIME_S
from tests.support.provider.reply import DemoReply, DemoRequest, encoded, whole
from tests.support.provider.websocket import PATHS, DemoConnection

BODY_LIMIT = 64 * 2**20  # no client sends near it; a recorder in front may be tested with it
REQUESTS_LIMIT = 1_000  # for tests to look at; a load test would otherwise pile them up
BURST_BYTES = 256 * 1024  # what one stream may write before the others have their turn

ENCODING_HEADER = "x-demo-encoding"  # gzip, br or zstd: the reply comes in that content coding


class DemoServer:
    """The demo upstream, listening. `async with await start() as demo:` closes it at the end."""

    def __init__(
        self, host: str, port: int, pace: float, linger_s: float, cache_lifetime_s: float
    ) -> None:
        self._host, self._pace, self._linger_s = host, pace, linger_s
        self._clock = asyncio.get_running_loop().time
        self._app = App(self._clock, pace, cache_lifetime_s)
        self._received: deque[DemoRequest] = deque(maxlen=REQUESTS_LIMIT)
        self._server = Server(self._answer, host, port, on_drain=self._drop_clients)

    async def listen(self) -> None:
        """Listen. Raises `RecorderError` if the port cannot be had."""
        await self._server.start()

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def base_url(self) -> str:
        """Return scheme, host and port, without a path."""
        return f"http://{self._host}:{self.port}"

    @property
    def requests(self) -> list[DemoRequest]:
        """Return the newest requests in order of arrival."""
        return list(self._received)

    async def close(self) -> None:
        """Stop listening and drop every client."""
        await self._server.stop(grace_s=0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _drop_clients(self) -> None:
        self._server.drop_clients()

    async def _answer(self, exchange: ServerExchange) -> None:
        """Answer a request: the app of the HTTP server."""
        target = exchange.path + b"?" * bool(exchange.query) + exchange.query
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in exchange.headers
        )
        request = DemoRequest(
            exchange.method, target.decode("latin-1"), headers, await _body(exchange)
        )
        self._received.append(request)
        if exchange.upgrade is not None and exchange.path in PATHS:
            await DemoConnection(exchange, request, self._answer_message, self._pace).serve()
            return
        reply = self._reply(request)
        exchange.start(reply.status, _headers(reply, closes=exchange.closes))
        await _Pump(exchange, reply, self._pace).send()
        if self._linger_s and reply.length is None:
            await asyncio.sleep(self._linger_s)
        exchange.finish()

    def _answer_message(self, request: DemoRequest) -> DemoReply:
        self._received.append(request)
        return self._app.reply(request)

    def _reply(self, request: DemoRequest) -> DemoReply:
        """Return the reply of the app, with the coding that our own header asks for."""
        if len(request.body) > BODY_LIMIT:
            return whole(b"", (), REQUEST_ENTITY_TOO_LARGE)
        reply = self._app.reply(request)
        steps = () if request.method == "HEAD" else reply.steps
        coding = request.header(ENCODING_HEADER)
        if coding not in ENCODERS:
            return DemoReply(
                reply.status, reply.headers, steps, reply.length, reply.started, reply.pace
            )
        headers = (*reply.headers, ("content-encoding", coding))
        return DemoReply(
            reply.status,
            headers,
            encoded(steps, ENCODERS[coding]()),
            None,
            reply.started,
            reply.pace,
        )


class _Pump:
    """The steps of one reply under way, sent by timers of the loop: a task that sleeps costs a
    third more.
    """

    def __init__(self, exchange: ServerExchange, reply: DemoReply, server_pace: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._write, self._flow = exchange.write, exchange.flow
        self._started = self._loop.time() if reply.started is None else reply.started
        self._pace = server_pace if reply.pace is None else reply.pace
        self._steps = iter(reply.steps)
        self._next = next(self._steps, None)
        self._timer: asyncio.Handle | None = None
        self._stopped = self._loop.create_future()

    async def send(self) -> None:
        """Send each step when it is due and the client has room."""
        try:
            while self._next is not None:
                self._stopped = self._loop.create_future()
                self._pump()
                await self._stopped
                await self._flow.drain()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _pump(self) -> None:
        """Send what is due, then set a timer; stop where the client has no room, and at the end."""
        self._timer = None
        room = BURST_BYTES
        while self._next is not None and not self._flow.write_paused:
            due = self._started + self._next.at_s * self._pace
            if self._pace and due > self._loop.time():
                self._timer = self._loop.call_at(due, self._pump)
                return
            if room <= 0:
                self._timer = self._loop.call_soon(self._pump)
                return
            data = self._next.take()
            self._write(data)
            room -= len(data)
            self._next = next(self._steps, None)
        if not self._stopped.done():  # the client may have left in this turn of the loop
            self._stopped.set_result(None)


async def _body(exchange: ServerExchange) -> bytes:
    """Return the request body; one over `BODY_LIMIT` is cut, but not below it."""
    body = exchange.take(BODY_LIMIT)
    if body is not None:
        return body
    pieces = bytearray()
    while piece := await exchange.read():
        if len(pieces) <= BODY_LIMIT:
            pieces += piece
    return bytes(pieces)


def _headers(reply: DemoReply, *, closes: bool) -> Headers:
    length = [] if reply.length is None else [("content-length", str(reply.length))]
    connection = ("connection", "close" if closes else "keep-alive")
    headers = [("date", formatdate(usegmt=True)), *reply.headers, *length, connection]
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


async def start(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    pace: float = 1.0,
    linger_s: float = 0.0,
    cache_lifetime_s: float = LIFETIME_S,
) -> DemoServer:
    """Start the demo upstream; `pace` multiplies every pause, 0 sends without any.

    Port 0 picks a free one.

    `linger_s` is the time between the last event of a stream and the end of its body: services take
    a few milliseconds, in which some clients have left already. `cache_lifetime_s` is that of
    prompts in the cache, since their last use.
    """
    server = DemoServer(host, port, pace, linger_s, cache_lifetime_s)
    await server.listen()
    return server
