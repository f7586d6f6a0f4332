"""A server's connections, and on each of them the requests of one client, one after another.

httptools (llhttp, the parser of Node.js) parses HTTP/1.1. Rules of this file:

* A request is answered only if everybody who reads its head finds the same end of it; any other is
  a 400.
* The head of a request is bounded: its size, its number of headers, its time. What follows it costs
  no timer.
* A body that the app does not read is held back in the kernel, and so are requests behind those
  that wait already.
* A request waits for the end of the one before it, and until the client has taken the responses
  sent so far: nothing is answered in advance.
* A client that leaves is noticed: at once where its connection is read, within `LOOK_S` where it is
  not.
* An offer to switch to WebSocket is the last request that is parsed, until the app has declined it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import httptools

from recorder.proxy.http.hints import Hints
from recorder.proxy.http.server_capacity import Capacity
from recorder.proxy.http.server_exchange import App, Headers, ServerExchange

log = logging.getLogger(__name__)

# of a request's line and headers: Codex sends about 4 KiB, httpx takes a URL of 64
HEAD_BYTES = 64 * 2**10
HEADERS = 100  # of a request: SDKs send about 25
# from the first byte of a request to the last one of its head, which clients send in one piece
HEAD_S = 10.0
KEEP_ALIVE_S = 75.0  # longer than clients keep an idle connection, so that they let go first
# of a body that is not read: then the socket is not read, and TCP holds the client back
HELD_BYTES = 64 * 2**10
# between looks whether a client has gone that is not read, and so would not be seen to
LOOK_S = 1.0
PIPELINED = 16  # requests behind the one that is being answered: more than any client sends at once

_GONE = getattr(select, "POLLRDHUP", 0)  # poll always reports a broken connection
_WEBSOCKET = b"websocket"
_FRAMING = frozenset({b"transfer-encoding", b"content-length"})
_DISGUISED = frozenset({b"transfer_encoding", b"content_length"})
_BAD_REQUEST = b"Invalid HTTP request received."
_REFUSAL = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b" % (len(_BAD_REQUEST), _BAD_REQUEST)
)
UNLIMITED = 2**31
_NO_ROOM_HEADERS = [
    (b"content-type", b"application/json"),
    (b"retry-after", b"1"),
    (b"connection", b"close"),
]
_NO_ROOM = (
    b'{"error":{"message":"This recorder has as many connections as its limit of open files allows: try again soon, '
    b'or raise the limit (ulimit -n) and restart it.","type":"no_room","code":"no_room"}}'
)


class ServerConnections:
    """The connections of one server, and the exchanges that are being answered on them."""

    def __init__(
        self, app: App, on_crowded: Callable[[], None], on_eased: Callable[[], None]
    ) -> None:
        """`on_crowded` is called beyond `capacity.accepted` connections, `on_eased` when there are
        fewer again.
        """
        self.app = app
        self.capacity = Capacity(UNLIMITED, UNLIMITED)
        self.connections: set[ServerConnection] = set()
        self.answering: set[ServerExchange] = set()
        self.hints = Hints()
        self._on_crowded, self._on_eased = on_crowded, on_eased
        self._is_full = False

    def add(self, connection: ServerConnection) -> bool:
        """Count a connection; return whether there is room for it."""
        self.connections.add(connection)
        count, capacity = len(self.connections), self.capacity
        if count <= capacity.served:
            return True
        if not self._is_full:
            self._is_full = True
            log.warning(
                "no more than %d clients at once: new ones are refused; raise the limit (ulimit -n)",
                capacity.served,
            )
        if count > capacity.accepted:
            self._on_crowded()
        return False

    def remove(self, connection: ServerConnection) -> None:
        self.connections.discard(connection)
        count, capacity = len(self.connections), self.capacity
        if count == capacity.accepted:
            self._on_eased()
        elif count < capacity.served // 2:
            self._is_full = False

    async def answer(self, exchange: ServerExchange, *, is_refused: bool) -> None:
        try:
            await exchange.answer(_refuse if is_refused else self.app)
        finally:
            self.answering.discard(exchange)


async def _refuse(exchange: ServerExchange) -> None:
    """Answer 503 when the body is read: closing before would reset the connection, and the answer
    would be lost.
    """
    if not exchange.expects:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEAD_S):
                while await exchange.read():
                    pass
    exchange.respond(503, _NO_ROOM_HEADERS, _NO_ROOM)


def is_framed(headers: Iterable[tuple[bytes, bytes]], version: str) -> bool:
    """Return whether everybody who reads these headers finds the same end of the request (RFC 9112
    section 6.3).

    httptools lets through what this refuses: versions other than 1.0 and 1.1, transfer codings that
    not every server decodes or that HTTP/1.0 does not have, and names that a server which keeps
    headers in variables takes for others.
    """
    codings = []
    for name, value in headers:
        if name == b"transfer-encoding":
            codings.append(value.lower())
        elif name in _DISGUISED:
            return False
    if version not in ("1.0", "1.1"):
        return False
    return not codings or (codings == [b"chunked"] and version == "1.1")


class ServerConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, connections: ServerConnections, loop: asyncio.AbstractEventLoop) -> None:
        self._connections, self._loop = connections, loop
        self._parser = self._new_parser()
        self._answering: ServerExchange | None = None
        self._waiting: deque[ServerExchange] = deque()
        self._coming: ServerExchange | None = None  # whose body is being read, or was read last
        self._timer: asyncio.TimerHandle | None = None
        self._is_in_head = self._is_held = self._is_looking = self._is_deaf = False
        self._is_refused = False
        self._is_offered = self._is_declining = False  # another protocol
        self._is_raw = (
            # what comes is not parsed: it was switched, or will be if the app accepts the last
            # request
            False
        )
        self._head_bytes = self._bodiless_bytes = 0
        self._url = b""
        self._headers: Headers = []
        self._drained: asyncio.Future[None] | None = None
        self.transport: Any = None
        self.write_paused = False

    def shut_down(self) -> None:
        """Close it, after the response that is under way."""
        if self._answering is None:
            self.transport.close()
        else:
            self._answering.closes = True

    # -- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._is_refused = not self._connections.add(self)
        self._wait(KEEP_ALIVE_S)  # for a first request as long as for the next one

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._is_raw:
            self._feed_raw(data)
            return
        was_in_head = self._is_in_head
        self._bodiless_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._connections.hints.on_no_http(data)
            self._refuse()
            return
        if self._bodiless_bytes > 2 * HEAD_BYTES:  # of one header, or trailers, or chunk extensions
            self._refuse()
        elif self._is_in_head and not (was_in_head and self._timer):
            self._wait(HEAD_S)

    def eof_received(self) -> bool:
        """Keep a connection open that was switched: the client has ended one of two directions."""
        exchange = self._answering
        if exchange is None or not exchange.is_switched:
            return False
        exchange.end()
        return True

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._wait(None)
        self._is_deaf = True
        del self._parser  # which has this connection, and would keep it until the next collection
        self._waiting.clear()
        self._coming = None
        self.resume_writing()
        if self._answering is not None:
            self._answering.lost()

    # -- what a request calls

    async def drain(self) -> None:
        if self.write_paused:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await self._drained

    def taken(self) -> None:
        if self._is_held:
            self._hold()

    def answered(self, *, closes: bool, behind: bytes = b"") -> None:
        self._answering = None
        if closes:
            self.transport.close()
        elif self._is_raw and not self._waiting:  # it was the offer, and is declined
            self._is_raw, self._coming = False, None
            self._parser, self._is_offered = self._new_parser(), False
            self._wait(KEEP_ALIVE_S)
            if behind:
                self.data_received(behind)
        elif self._waiting:
            self._go_on()
        elif not self._is_in_head:  # of a next one, which has its time
            self._wait(KEEP_ALIVE_S)
        self._hold()

    def switched(self, exchange: ServerExchange) -> None:
        self._is_raw, self._is_in_head, self._coming = True, False, exchange
        self._waiting.clear()
        self._wait(None)

    def over(self) -> None:
        exchange, self._answering = self._answering, None
        if exchange is None or not exchange.more:
            self.transport.close()
        else:
            # closing now could reset the connection, and what the client has not read yet would be
            # lost
            self._coming = None
            self._wait(HEAD_S)
        self._hold()

    def reset(self) -> None:
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    # -- what the parser calls

    def on_message_begin(self) -> None:
        if self._is_declining:
            return
        self._is_in_head = True
        self._head_bytes, self._url, self._headers = 0, b"", []

    def on_url(self, url: bytes) -> None:
        if self._is_in_head:
            self._url += url
            self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_in_head:
            return  # trailers are not part of the head
        self._headers.append((name.lower(), value))
        self._count(len(name) + len(value) + len(b": \r\n"))

    def on_headers_complete(self) -> None:
        if not self._is_in_head:
            return
        parser, headers = self._parser, self._headers
        version = parser.get_http_version()
        if not is_framed(headers, version):
            raise ValueError("the end of the request is not certain")
        url = httptools.parse_url(self._url)
        url.path.decode("ascii")  # raises ValueError
        self._is_in_head = False
        self._bodiless_bytes = 0
        self._wait(None)
        exchange = ServerExchange(
            self,
            parser.get_method().decode("ascii"),
            url.path,
            url.query or b"",
            headers,
            version=version,
        )
        exchange.closes = version == "1.0" or not parser.should_keep_alive()
        if version == "1.1":
            exchange.expects = b"100-continue" in [
                value.lower() for name, value in headers if name == b"expect"
            ]
        self._is_offered = parser.should_upgrade()
        if self._is_offered and _offers_websocket(exchange, version):
            exchange.upgrade = _WEBSOCKET
            exchange.end()
        self._coming = exchange
        self._waiting.append(exchange)
        self._go_on()
        self._hold()

    def on_body(self, body: bytes) -> None:
        self._bodiless_bytes = 0
        if self._coming is not None:
            self._coming.feed(body)
            if self._coming.held_bytes > HELD_BYTES:
                self._hold()
            elif self._answering is None:  # what is left of one that is answered
                self._wait(KEEP_ALIVE_S)

    def on_message_complete(self) -> None:
        if self._coming is not None and not self._is_offered:
            self._coming.end()

    # -- its own

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # the client may have pipelined before it closes
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _parse(self, data: bytes) -> None:
        rest = memoryview(data)
        while True:
            try:
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as offer:
                rest = rest[offer.args[0] :]
                if self._coming is not None and self._coming.upgrade is not None:
                    self._is_raw = True
                    self._feed_raw(bytes(rest))
                    return
                self._decline()
            else:
                return

    def _decline(self) -> None:
        """Continue in HTTP/1.1, as a client that offers another protocol expects of a server that
        does not support it.

        Java's client offers HTTP/2 with each first request. The parser takes what follows for that
        protocol; it is the body of the request, so a new parser reads it, behind a head with the
        same framing.
        """
        framing = [b"%b: %b\r\n" % header for header in self._headers if header[0] in _FRAMING]
        self._parser, self._is_offered, self._is_declining = self._new_parser(), False, True
        self._parser.feed_data(b"".join([b"POST / HTTP/1.1\r\n", *framing, b"\r\n"]))
        self._is_declining = False

    def _feed_raw(self, data: bytes) -> None:
        if self._coming is not None and data:
            self._coming.feed(data)
            if self._coming.held_bytes > HELD_BYTES:
                self._hold()

    def _go_on(self) -> None:
        """Start to answer the next request, if its turn has come."""
        if (
            self._waiting
            and self._answering is None
            and not self.write_paused
            and not self.transport.is_closing()
        ):
            self._answering = exchange = self._waiting.popleft()
            self._connections.answering.add(exchange)
            self._loop.create_task(self._connections.answer(exchange, is_refused=self._is_refused))

    def _hold(self) -> None:
        """Pause reading while too much is held, else resume it."""
        coming = self._coming
        held = len(self._waiting) >= PIPELINED or (
            coming is not None and coming.held_bytes > HELD_BYTES
        )
        if held != self._is_held and not self.transport.is_closing():
            self._is_held = held
            if held:
                self.transport.pause_reading()
                self._look_later()
            else:
                self.transport.resume_reading()

    def _look_later(self) -> None:
        """Schedule a look, unless there is one: an upload is paused and resumed again and again."""
        if not self._is_looking:
            self._is_looking = True
            self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Abort if the client has left while the connection is not read."""
        self._is_looking = False
        if self._is_held and not self.transport.is_closing():
            poll = select.poll()
            poll.register(self.transport.get_extra_info("socket").fileno(), _GONE)
            is_switched = self._answering is not None and self._answering.is_switched
            # a FIN ends only one direction of one that was switched
            broken = select.POLLERR if is_switched else ~0
            if any(events & broken for _, events in poll.poll(0)):
                self.transport.abort()
            else:
                self._look_later()

    def _refuse(self) -> None:
        """Answer 400 to what is not HTTP; in the middle of a response there is no place for that,
        and it is cut off.
        """
        self._is_deaf = True
        if self._answering is None or not self._answering.started:
            self.transport.write(_REFUSAL)
            self.transport.close()
        else:
            self.transport.abort()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES or len(self._headers) > HEADERS:
            # which httptools makes a 400 of
            raise ValueError("the head of the request is too large")

    def _wait(self, seconds: float | None) -> None:
        """Wait no longer than that for a head; `None`: wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self._late)

    def _late(self) -> None:
        """Close: no whole head has come in time.

        Behind a request that is being answered it gets more time.
        """
        self._timer = None
        if self._answering is not None or self._waiting:
            self._wait(HEAD_S)
        else:
            self.transport.close()


def _offers_websocket(exchange: ServerExchange, version: str) -> bool:
    """Return whether a request that offers another protocol can be switched to WebSocket (RFC 6455
    section 4.2.1).

    One with a body cannot: what comes behind the head is that body, and is read as such.
    """
    if exchange.method != "GET" or version != "1.1":
        return False
    offered = [value.strip().lower() for name, value in exchange.headers if name == b"upgrade"]
    lengths = [value for name, value in exchange.headers if name in _FRAMING]
    return offered == [_WEBSOCKET] and all(value == b"0" for value in lengths)
