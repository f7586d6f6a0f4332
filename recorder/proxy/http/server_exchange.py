"""A client's request, and the way to answer it: what an app is called with.

Rules of this file:

* A response that its app does not finish is never ended properly: the client must see that it is
  not whole.
* Data is written to the connection at once: the head together with the available part of the body,
  the end together with the last part.
* The app is cancelled when its client has gone. Nothing is raised for that.
* After a 101 nothing is HTTP any more: both directions are raw bytes, and each has its own end, a
  FIN.
"""

from __future__ import annotations

import asyncio
import http
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, Protocol

Headers = list[tuple[bytes, bytes]]

log = logging.getLogger(__name__)

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 section 5.6.2
_NOT_IN_VALUES = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BODILESS = frozenset({204, 304})
SWITCHING = 101  # Switching Protocols
_PHRASES = {int(status): status.phrase.encode() for status in http.HTTPStatus}


class Connection(Protocol):
    """The part of a connection that an exchange calls.

    While `write_paused` no more should be sent.
    """

    transport: Any
    write_paused: bool

    async def drain(self) -> None: ...

    def taken(self) -> None:
        """Note that the app has read the available part of a body."""

    def answered(self, *, closes: bool, behind: bytes = b"") -> None:
        """Note that the response is whole; `closes`: it was the last of this connection.

        `behind` is what came behind an offer to switch that was declined: the next requests.
        """

    def switched(self, exchange: ServerExchange) -> None:
        """Feed all that comes from now on to that exchange, as it is."""

    def over(self) -> None:
        """Close a connection that was switched, when the client has ended its direction."""

    def reset(self) -> None:
        """End with a RST."""


class Bearer(NamedTuple):
    """Whoever showed a token."""

    owner: str | None = None
    team: str | None = None
    tags: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()  # those that it may use, by their names; none: all
    # at most, of what its requests and their responses have
    content: Literal["full", "shape", "none"] = "full"
    is_valid: Callable[[], bool] = lambda: True  # still: a token may be revoked

    def may_use(self, upstream: str) -> bool:
        return not self.upstreams or upstream in self.upstreams


class ServerExchange:
    """One request, from its head on, and its response.

    `path` and `query` are those of the target, in bytes, as they came; names in `headers` are in
    lower case.

    `upgrade` is the protocol that the client offers to switch to, in lower case, if an app can
    accept it: only `websocket`. The request has no body; what comes behind its head is held until
    the app has answered. `start` with 101 accepts: from then on `read` returns the client's raw
    bytes, and is empty at its FIN; `write` sends raw bytes, `finish` the last of them and a FIN.
    The app may read on after that; when it returns, the exchange is over. Any other status
    declines, and the connection goes on in HTTP.

    `added` are further headers of the response: they are sent unless it has one with the name of
    the first of them. `bearer` has shown a token, if an app in front of this one asked for it.
    """

    def __init__(
        self,
        connection: Connection,
        method: str,
        path: bytes,
        query: bytes,
        headers: Headers,
        *,
        version: str,
    ) -> None:
        self.method, self.path, self.query, self.headers = method, path, query, headers
        self.flow = self._connection = connection
        self.more = True  # of the request body is to come
        self.expects = False  # a word before it sends the body (100 Continue)
        self.closes = False  # the connection, once it is answered
        self.started = self.gone = self.is_switched = False
        self.upgrade: bytes | None = None
        self.added: Headers = []
        self.bearer: Bearer | None = None
        self.held_bytes = 0
        self._body: list[bytes] = []
        self._is_old = version == "1.0"
        self._is_bodiless = self._is_chunked = self._complete = False
        self._left: int | None = None  # bytes of the response body, if it has a Content-Length
        self._task: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None

    # -- for the app: the request

    def take(self, limit_bytes: int) -> bytes | None:
        """Return the unread rest of the request body if all of it is here, and no longer than that,
        else None.
        """
        if self._is_offer():
            return b""
        return None if self.more or self.held_bytes > limit_bytes else self._taken()

    async def read(self) -> bytes:
        """Return the next piece of the request body; empty at its end.

        Of a client that has left it never returns.
        """
        if self._is_offer():
            return b""
        if self.expects and not self.started:
            self.expects = False
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
        while self.more and not self._body:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._taken()

    def _is_offer(self) -> bool:
        """Return whether it is an offer to switch that was not accepted: what is held then is not a
        body.
        """
        return self.upgrade is not None and not self.is_switched

    def _taken(self) -> bytes:
        pieces, self._body, self.held_bytes = self._body, [], 0
        self._connection.taken()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # -- for the app: the response

    def start(
        self, status: int, headers: Headers, *, reason: bytes | None = None, first: bytes = b""
    ) -> None:
        """Send the head, and `first` of the body with it.

        Without a reason phrase it is that of the standard.

        A 101 switches, also where the client did not offer it: then what it pipelined is not
        answered any more. Raises `ValueError`, and sends nothing, if a header has what none can
        have.
        """
        head = self._head(status, headers, _PHRASES.get(status, b"") if reason is None else reason)
        self.started = True
        if status == SWITCHING:
            self.is_switched = self.more = True
            self.expects = False
            self._connection.switched(self)
        self._send(head + self._framed(first) if first else head)

    def write(self, data: bytes) -> None:
        """Send a piece of the body.

        Does not raise. A body that is longer than its Content-Length is cut off.
        """
        if data:
            self._send(self._framed(data))

    def finish(self, last: bytes = b"") -> None:
        """Send the last piece, and the end.

        A body that is shorter than its Content-Length has none.

        After a 101 the end is a FIN; the client's direction goes on, for as long as the app reads
        it.
        """
        data = self._framed(last) if last else b""
        if self.is_switched:
            self._send(data)
            self._complete = True
            if not self._connection.transport.is_closing():
                self._connection.transport.write_eof()
            return
        if self._is_chunked:
            data += b"0\r\n\r\n"
        if data:
            self._send(data)
        if not self._left:
            self._complete = True
            behind = b"".join(self._body) if self._is_offer() else b""
            self._body, self.held_bytes = [], 0
            self._connection.answered(closes=self.closes, behind=behind)

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response with its length."""
        self.start(status, [*headers, (b"content-length", b"%d" % len(body))], first=body)
        self.finish()

    def reset(self) -> None:
        """Break off as an upstream does that breaks down: what was sent is all that there is."""
        self._connection.reset()

    def _head(self, status: int, headers: Headers, reason: bytes) -> bytes:
        for name, value in headers:
            if not _NAME.fullmatch(name) or _NOT_IN_VALUES.search(value):
                raise ValueError("a header of the response has a character that none can have")
        if _NOT_IN_VALUES.search(reason):
            raise ValueError("the reason phrase of the response has a character that none can have")
        known = {name.lower(): value for name, value in headers}
        if self.added and self.added[0][0] not in known:
            headers = [*headers, *self.added]
        lines = [
            b"HTTP/1.1 %d %b\r\n" % (status, reason),
            *[b"%b: %b\r\n" % header for header in headers],
        ]
        if status != SWITCHING:
            lines += self._framing(status, known)
        return b"".join([*lines, b"\r\n"])

    def _framing(self, status: int, known: dict[bytes, bytes]) -> list[bytes]:
        """Choose how the body ends; return the lines of the head that say so, besides those in
        `known`.
        """
        lines = []
        if self.method == "HEAD" or status in _BODILESS:
            self._is_bodiless = True
        elif b"content-length" in known:
            self._left = int(known[b"content-length"])
        elif self._is_old:
            self.closes = True  # which is the end of the body
        else:
            self._is_chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if b"close" in known.get(b"connection", b"").lower():
            self.closes = True
        elif self.closes or self.expects:
            # who waits for that word, and hears another, sends the body or does not
            self.closes = True
            lines.append(b"connection: close\r\n")
        return lines

    def _framed(self, data: bytes) -> bytes:
        if self._is_chunked:
            return b"%x\r\n%b\r\n" % (len(data), data)
        if self._is_bodiless:
            return b""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._connection.transport.abort()
                return b""
        return data

    def _send(self, data: bytes) -> None:
        transport = self._connection.transport
        if not transport.is_closing():
            transport.write(data)

    # -- for the connection

    def feed(self, data: bytes) -> None:
        """Take a piece of the request body, or raw bytes; after the response they are dropped."""
        if not self._complete or self.is_switched:
            self._body.append(data)
            self.held_bytes += len(data)
            self._wake()

    def end(self) -> None:
        """Note that the request body is whole, or that the client has ended its direction."""
        self.more = self.expects = False
        self._wake()

    def lost(self) -> None:
        """Cancel the app: the client has left."""
        self.gone = True
        if self._task is not None:
            self._task.cancel()

    async def answer(self, app: App) -> None:
        """Call the app. It must run in a separate task."""
        self._task = asyncio.current_task()
        # it left before its turn came; the app is called all the same
        if self.gone and self._task is not None:
            self._task.cancel()
        try:
            await app(self)
        except Exception as error:
            log.error("a request could not be answered: %s", type(error).__name__, exc_info=error)
            if not self.started:
                self.respond(500, [(b"connection", b"close")], b"Internal Server Error")
        finally:
            self._task = None
            if not self._complete and not self.gone:
                self._break_off()
            elif self.is_switched and not self.gone:
                self._connection.over()

    def _break_off(self) -> None:
        if self.started and self._left is None and not self._is_chunked and not self._is_bodiless:
            # closing would be the end of that body, or of what follows a 101
            self._connection.reset()
        else:
            self._connection.transport.close()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


App = Callable[[ServerExchange], Awaitable[None]]
"""Answers a request. One that returns, or raises, without having finished breaks the response off.
"""
