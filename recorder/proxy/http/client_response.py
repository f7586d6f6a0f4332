"""A response on its way from an upstream: its head, then its body, read by read.

httptools (llhttp, the parser of Node.js) parses HTTP/1.1. Rules of this file:

* Bytes are taken as they come: each read of the socket is handed on as one piece, at once.
* Only HTTP's own end of a body is its end. Whatever else ends it is an `UpstreamError`, after all
  that had arrived.
* Heads are bounded, informational ones and trailers included; a body is held back in the kernel
  while it is not read.
* Behind a 101 nothing is HTTP: the rest of the connection is the body, and its end the FIN of the
  upstream.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator
from typing import Any, Protocol

import httptools

from recorder.errors import UpstreamError
from recorder.proxy.http.messages import Flow, Sink
from recorder.proxy.http.network import tls_failure

# of a body that is not read: then the socket is not read, and TCP holds the upstream back
HELD_BYTES = 64 * 2**10
# names and values of a response head, as in Chrome: all of it is recorded and sent at once
HEAD_BYTES = 256 * 2**10
HEAD_LINES = 1000

_LENIENCIES = dict.fromkeys(
    (
        "lenient_headers",
        "lenient_optional_cr_before_lf",
        "lenient_spaces_after_chunk_size",
        "lenient_chunked_length",
    ),
    True,
)
"""Faults of upstreams that clients read all the same. For requests they would be dangerous."""

_BODILESS = frozenset({204, 304})
_SWITCHING = 101  # Switching Protocols
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})

Headers = list[tuple[bytes, bytes]]


class Connection(Protocol):
    """The part of `recorder.proxy.http.client_connection.ClientConnection` that a response calls."""

    closed: bool

    def close(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def release(self, response: ClientResponse) -> None: ...

    def switched(self, response: ClientResponse) -> None:
        """Send what follows the request up, if anything does."""


class ClientResponse:
    """The response on its way: its head, then its body, piece by piece, a `BodyStream`.

    Read by one task.
    """

    def __init__(self, connection: Connection, is_head: bool) -> None:
        self._connection, self._is_head = connection, is_head
        self._parser: Any = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(**_LENIENCIES)
        self._reading: list[bytes] = []  # of the body, from one read of the socket
        self._held: list[bytes] = []
        self._held_bytes = self._head_lines = self._head_bytes = 0
        self._bodiless_bytes = 0  # read since there was a piece of the body: of heads, of trailers
        self._sink: Sink | None = None
        self._flow: Flow | None = None
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._ending: Exception | None = None
        self._ended = self._started = self._surplus = self._keeps_alive = False
        self._ends_with_connection = True
        self.is_switched = False  # by a 101
        self.is_tunnel = False  # and what the request had behind it goes up, with an end of its own
        self.upload: asyncio.Task[None] | None = None
        self.sent = False
        self.status = 0
        self.reason = b""
        self.version = "1.1"
        self.headers: Headers = []

    async def head(self) -> None:
        """Wait until the head is whole. Raises `UpstreamError` if it never comes."""
        while not self._started:
            if self._ending is not None:
                raise self._ending
            await self._wait()

    async def read(self) -> bytes:
        """Return what has arrived of the body; empty at its end.

        Raises `UpstreamError` if it broke off.
        """
        while not self._held:
            if self._ending is not None:
                raise self._ending
            if self._ended:
                return b""
            await self._wait()
        return self._taken()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data
        if self.is_switched:
            yield b""
        await self.uploaded()

    def _taken(self) -> bytes:
        data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        self._resume()
        return data

    def begun(self) -> bytes:
        """Return the part of the body that has arrived already; may be empty."""
        return self._taken() if self._held else b""

    async def pump(self, sink: Sink, flow: Flow) -> bytes:
        """Hand each piece of the body to `sink` as it is read from the socket. Raises like `read`.

        Returns the piece that came together with the end, which may be empty. While `flow` is
        paused nothing more is read; what one read brings is handed on whole.
        """
        if self._held and not self._ended:
            sink(self._taken())
        self._sink, self._flow = sink, flow
        while self._ending is None and not self._ended:
            if flow.write_paused:
                await flow.drain()
            else:
                self._resume()  # also where the client took it all before this task had its turn
                await self._wait()
        if self._ending is not None:
            raise self._ending
        if self.is_switched:
            return await self._end_tunnel(sink)
        return self.begun()

    async def _end_tunnel(self, sink: Sink) -> bytes:
        """Hand on the end of this direction, an empty piece, and wait for the end of the other one."""
        if self._held:
            sink(self._taken())
        sink(b"")
        await self.uploaded()
        return b""

    async def uploaded(self) -> None:
        """Wait until the other direction of a tunnel has ended.

        Raises `UpstreamError` if the connection breaks.
        """
        while self.is_tunnel and not self.sent:
            if self._ending is not None:
                raise self._ending
            await self._wait()

    def is_over(self) -> bool:
        """Return whether both directions have ended."""
        return self._ended and (self.sent or not self.is_tunnel)

    def is_reusable(self) -> bool:
        """Return whether the connection has nothing left of this exchange, in either direction, and
        is read.

        Not if a body was not allowed: whether the upstream knows that is seen only when it sends
        one.
        """
        sent = self.upload is None or self.sent
        is_taken = not self._held and not self._paused
        may_have_body = not self._is_head and self.status not in _BODILESS
        return (
            self._ended
            and sent
            and self._keeps_alive
            and not self._surplus
            and is_taken
            and may_have_body
        )

    def close(self) -> None:
        """Stop reading, and release the connection."""
        if self.upload is not None and not self.upload.done():
            self.upload.cancel()
        self._connection.release(self)
        # each of which knows this response: no garbage for the collector
        self._sink = self._flow = self._parser = None

    async def aclose(self) -> None:
        """Release the connection: kept for the next request if the body was read to its end, else
        closed.
        """
        self.close()

    # -- from the connection

    def feed(self, data: bytes) -> None:
        if self._ended:
            self._surplus = True
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._deliver()
            self._refuse(error)
        except httptools.HttpParserUpgrade as switch:
            self._parser = _RawBytes(self._reading)
            self._connection.switched(self)
            if rest := data[switch.args[0] :]:
                self.feed(rest)
        else:
            self._bodiless_bytes = 0 if self._deliver() else self._bodiless_bytes + len(data)
            if self._bodiless_bytes > 2 * HEAD_BYTES:  # with what is between names and values
                self._refuse(_HeadTooLong())
        if self._sink is None or self._ended:
            self._wake()

    def fail(self, error: Exception) -> None:
        is_over = self.is_over() if self.is_switched else self._ended
        if self._ending is None and not is_over:
            self._ending = error
            self._wake()

    def end(self) -> None:
        """End what follows a 101: the upstream has."""
        self._ended = True
        self._wake()

    async def upload_stopped(self) -> None:
        """Wait until nobody reads the request body any more, after `close`."""
        if self.upload is not None:
            await asyncio.wait((self.upload,))

    def upload_ended(self) -> None:
        """Note that all has been sent that goes up."""
        self.sent = True
        self._wake()

    def on_lost(self, exc: Exception | None) -> None:
        """End the response: the connection is lost.

        It is a correct end only if no header defines another.
        """
        if isinstance(exc, OSError):
            self.fail(_reset(exc, self._started))
        elif self._started and self._ends_with_connection:
            self._ended = True
        else:
            when = "in mid-response" if self._started else "before it answered"
            self.fail(UpstreamError(f"the upstream closed the connection {when}", "truncated"))
        self._wake()

    def _refuse(self, error: Exception) -> None:
        cause = error.__context__  # httptools wraps what a callback raised
        if isinstance(error, _HeadTooLong) or isinstance(cause, _HeadTooLong):
            message = f"the head of the upstream's response is over {HEAD_BYTES // 2**10} KiB"
            self.fail(UpstreamError(message, "upstream_reset"))
        elif self._started:
            self.fail(
                UpstreamError("the upstream's response is not HTTP from there on", "truncated")
            )
        else:
            self.fail(UpstreamError("the upstream did not answer in HTTP", "upstream_reset"))
        self._connection.close()

    def _deliver(self) -> bool:
        """Hand on what the last read had of the body; returns whether it had any."""
        pieces = self._reading
        if not pieces:
            return False
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self._sink is not None and self._flow is not None and not self._ended:
            self._sink(data)
            if self._flow.write_paused:
                self._pause()
                self._wake()
            return True
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= HELD_BYTES:
            self._pause()
        return True

    def _pause(self) -> None:
        if not self._paused and not self._connection.closed:
            self._paused = True
            self._connection.pause()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._connection.resume()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- from the parser

    def on_message_begin(self) -> None:
        if self._ended:
            self._surplus = True

    def on_status(self, status: bytes) -> None:
        if not self._ended:
            self.reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._started:
            return  # trailers are not part of the body
        self._head_lines += 1
        self._head_bytes += len(name) + len(value)
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._ended:
            return
        status = self._parser.get_status_code()
        self.is_switched = status == _SWITCHING and self._parser.should_upgrade()
        if status < 200 and not self.is_switched:
            self.headers, self.reason, self._head_bytes = [], b"", 0
            return
        if self._head_bytes > HEAD_BYTES or self._head_lines > HEAD_LINES:
            raise _HeadTooLong
        self.status, self.version = status, self._parser.get_http_version()
        framing = _FRAMING.intersection([name.lower() for name, _ in self.headers])
        # With both, clients go by the chunks (RFC 9112 section 6.3). Whoever counts the length sees
        # another end, so nothing more is asked on this connection.
        is_certain = not self.is_switched and framing != _FRAMING
        self._keeps_alive = is_certain and self._parser.should_keep_alive()
        self._ends_with_connection = self.is_switched or not framing
        self._started = True
        if self._is_head and not self.is_switched:
            self._ended = True

    def on_body(self, body: bytes) -> None:
        if not self._ended:
            self._reading.append(body)

    def on_message_complete(self) -> None:
        if self._started and not self.is_switched:
            self._ended = True


class _RawBytes:
    """The parser behind a 101."""

    def __init__(self, reading: list[bytes]) -> None:
        self.feed_data = reading.append


class _HeadTooLong(Exception):
    """A head over its limit."""


def _reset(error: OSError, started: bool) -> UpstreamError:
    reason = os.strerror(error.errno) if error.errno else "connection lost"
    if isinstance(error, ssl.SSLError):  # whose number is none of the system's
        reason = tls_failure(error)
    outcome = "timeout" if error.errno == errno.ETIMEDOUT else "upstream_reset"
    when = "in mid-response" if started else "before it answered"
    return UpstreamError(f"the upstream's connection broke {when}: {reason}", outcome)
