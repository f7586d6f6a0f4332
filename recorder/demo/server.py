"""A small HTTP/1.1 server on loopback that sends replies at their pace, cheap enough to drive load tests.

Rules of this file:

* It knows requests, replies and time, not what they say.
* Deadlines are absolute: a late event does not delay the next one. A client that reads slowly is waited for
  (`pause_writing`), one that leaves stops its stream at once.
* It listens on loopback only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from email.utils import formatdate
from http.client import REQUEST_ENTITY_TOO_LARGE, responses
from typing import Self, cast

import httptools

from recorder.demo.app import App
from recorder.demo.coding import ENCODERS
from recorder.demo.reply import Reply, Request, Step, batched, encoded, whole
from recorder.errors import RecorderError, UsageError

BODY_LIMIT = 64 * 2**20  # no client sends near it; a recorder in front may be tested with it
REQUESTS_KEPT = 1_000  # for tests to look at; a load test would otherwise pile them up
PIPELINE_LIMIT = 16  # requests that wait behind one that is being answered; clients send none
BURST_BYTES = 256 * 1024  # what one stream may write before the others have their turn

ENCODING_HEADER = "x-demo-encoding"  # gzip, br or zstd: the reply comes in that content coding
BATCH_HEADER = "x-demo-batch"  # so many events in one chunk


class _Connection(asyncio.Protocol):
    """One client: its requests in order, and the stream that is being sent to it."""

    def __init__(self, server: DemoServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request, bool, bool]] = deque()
        self._stream: _Stream | None = None
        self.writable = True
        self._begin()

    def _begin(self) -> None:
        self._target = b""
        self._headers: list[tuple[str, str]] = []
        self._body = bytearray()

    # -- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._server.joined(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the request is complete and gets its 426; what follows is not HTTP
        except httptools.HttpParserCallbackError:
            raise  # a fault of ours, not of the client
        except httptools.HttpParserError:
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()

    def eof_received(self) -> None:
        self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._server.left(self)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self._stream:
            self._stream.resume()

    def _stop(self) -> None:
        self._waiting.clear()
        if self._stream:
            self._stream.cancel()
            self._stream = None

    # -- from the parser

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if any(name == "expect" and value.lower() == "100-continue" for name, value in self._headers):
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        if len(self._body) <= BODY_LIMIT:
            self._body += data

    def on_message_complete(self) -> None:
        request = Request(
            self._parser.get_method().decode(), self._target.decode("latin-1"), tuple(self._headers), bytes(self._body)
        )
        self._begin()
        chunks = self._parser.get_http_version() != "1.0"
        self._waiting.append((request, self._parser.should_keep_alive(), chunks))
        if len(self._waiting) > PIPELINE_LIMIT:
            self.transport.abort()
        elif self._stream is None:
            self._answer()

    # -- answering

    def _answer(self) -> None:
        request, keep_alive, chunks = self._waiting.popleft()
        reply = _reply(self._server, request)
        keep_alive = keep_alive and (chunks or reply.length is not None)
        self.transport.write(_head(reply, keep_alive, chunks))
        self._keep_alive = keep_alive
        started = self._loop.time() if reply.started is None else reply.started
        pace = self._server.pace if reply.pace is None else reply.pace
        framed = chunks and reply.length is None
        linger_s = self._server.linger_s if reply.length is None else 0.0
        self._stream = _Stream(self, started, pace, reply, framed=framed, linger_s=linger_s)
        self._stream.pump()

    def answered(self) -> None:
        """The stream has sent its last byte."""
        self._stream = None
        if not self._keep_alive:
            self.transport.close()
        elif self._waiting:
            self._answer()


class _Stream:
    """The body of one reply under way: sends each step when it is due and the client has room."""

    def __init__(
        self, connection: _Connection, started: float, pace: float, reply: Reply, *, framed: bool, linger_s: float
    ) -> None:
        self._connection = connection
        self._write = connection.transport.write
        self._loop = asyncio.get_running_loop()
        self._started = started
        self._pace = pace
        self._steps: Iterator[Step] = iter(reply.steps)
        self._next = next(self._steps, None)
        self._framed = framed
        self._linger_s = linger_s
        self._timer: asyncio.Handle | None = None

    def pump(self) -> None:
        """Send what is due, then sleep until something is."""
        self._timer = None
        room = BURST_BYTES
        while self._next is not None and self._connection.writable:
            due = self._started + self._next.at_s * self._pace
            if self._pace and due > self._loop.time():
                self._timer = self._loop.call_at(due, self.pump)
                return
            if room <= 0:
                self._timer = self._loop.call_soon(self.pump)
                return
            room -= self._send(self._next)
            self._next = next(self._steps, None)
        if self._next is None and self._linger_s:
            self._timer = self._loop.call_later(self._linger_s, self._finish)
        elif self._next is None:
            self._finish()

    def _send(self, step: Step) -> int:
        data = step.take()
        if data:
            self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._framed else data)
        return len(data)

    def _finish(self) -> None:
        if self._framed:
            self._write(b"0\r\n\r\n")
        self._connection.answered()

    def resume(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_soon(self.pump)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _reply(server: DemoServer, request: Request) -> Reply:
    """The reply of the app, with the coding and batching that our own headers ask for."""
    server.received.append(request)
    if len(request.body) > BODY_LIMIT:
        return whole(b"", (), REQUEST_ENTITY_TOO_LARGE)
    reply = server.app.reply(request)
    size = request.header(BATCH_HEADER)
    steps = batched(reply.steps, int(size)) if size.isdigit() and int(size) > 1 else reply.steps
    steps = () if request.method == "HEAD" else steps
    coding = request.header(ENCODING_HEADER)
    if coding not in ENCODERS:
        return Reply(reply.status, reply.headers, steps, reply.length, reply.started, reply.pace)
    headers = (*reply.headers, ("content-encoding", coding))
    return Reply(reply.status, headers, encoded(steps, ENCODERS[coding]()), None, reply.started, reply.pace)


def _head(reply: Reply, keep_alive: bool, chunks: bool) -> bytes:
    framing = (
        [("content-length", str(reply.length))]
        if reply.length is not None
        else [("transfer-encoding", "chunked")] * chunks
    )
    headers = [
        ("date", formatdate(usegmt=True)),
        *reply.headers,
        *framing,
        ("connection", "keep-alive" if keep_alive else "close"),
    ]
    lines = [f"HTTP/1.1 {reply.status} {responses.get(reply.status, '')}", *(f"{k}: {v}" for k, v in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class DemoServer:
    """The demo upstream, listening. `async with await start() as demo:` closes it at the end."""

    def __init__(self, pace: float, linger_s: float) -> None:
        self.pace = pace
        self.linger_s = linger_s
        self.app = App(asyncio.get_running_loop().time, pace)
        self.received: deque[Request] = deque(maxlen=REQUESTS_KEPT)
        self._connections: set[_Connection] = set()
        self._nobody = asyncio.Event()
        self._nobody.set()

    async def _listen(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Connection(self), host, port, backlog=1_024)
        except OSError as error:
            raise RecorderError(f"The demo upstream cannot listen on port {port}: {error.strerror}.") from error
        self._address = self._server.sockets[0].getsockname()

    @property
    def port(self) -> int:
        return int(self._address[1])

    @property
    def base_url(self) -> str:
        """Scheme, host and port, without a path."""
        return f"http://{self._address[0]}:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """The newest requests in order of arrival."""
        return list(self.received)

    @property
    def open_connections(self) -> int:
        """How many clients are connected now."""
        return len(self._connections)

    def joined(self, connection: _Connection) -> None:
        connection.transport.set_write_buffer_limits(high=BURST_BYTES)
        self._connections.add(connection)
        self._nobody.clear()

    def left(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._nobody.set()

    async def idle(self) -> None:
        """Wait until no client is connected."""
        await self._nobody.wait()

    async def close(self) -> None:
        """Stop listening and drop every client."""
        self._server.close()
        for connection in tuple(self._connections):
            connection.transport.abort()
        await self.idle()
        await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def start(host: str = "127.0.0.1", port: int = 0, *, pace: float = 1.0, linger_s: float = 0.0) -> DemoServer:
    """Start the demo upstream; `pace` multiplies every pause, 0 sends without any. Port 0 picks a free one.

    `linger_s` is the time between the last event of a stream and the end of its body: services take a few milliseconds,
    in which some clients have left already.
    """
    if host != "127.0.0.1":
        raise UsageError(f"The demo upstream listens on loopback only: use 127.0.0.1, not {host}.")
    server = DemoServer(pace, linger_s)
    await server._listen(host, port)
    return server
