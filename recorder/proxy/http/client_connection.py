"""One connection to an upstream: a request goes up, its response comes down, perhaps the next one
follows.

A request is sent once. A connection is kept for the next one only in a state that is known: it is
read, and nothing is left over on it, in either direction. What comes before the next one closes it.
One that was switched by a 101 is never kept: each direction ends with a FIN of its own, and it is
reset if one has not when the response is let go.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Callable
from typing import Any

from recorder.proxy.http.client_response import ClientResponse
from recorder.proxy.http.messages import Upload

LAST_CHUNK = b"0\r\n\r\n"


class ClientConnection(asyncio.Protocol):
    """A connection to an upstream, with one exchange at a time."""

    def __init__(self, connected: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived = select.poll()
        self._arrived.register(connected, select.POLLIN)
        self._transport: Any = None
        self._response: ClientResponse | None = None
        self._behind: Upload | None = None  # what goes up after a 101
        self._writable: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        # bytes that came before the first request; `None` from that one on
        self._early: bytes | None = b""
        self._spoke_first = False
        self.closed = False
        # called when a response is whole
        self.on_idle: Callable[[ClientConnection], None] = ClientConnection.close

    def begin(
        self,
        head: bytes,
        body: Upload | None,
        *,
        chunked: bool,
        is_head: bool,
        behind: Upload | None = None,
    ) -> ClientResponse:
        """Send a request, its body in chunked coding or as it is; one that is there already goes up
        with the head.

        `behind` is what goes up as it is if the answer is a 101, and its end is a FIN.
        """
        self._response = response = ClientResponse(self, is_head)
        self._behind = behind
        early, self._early = self._early, None
        if early:
            self._spoke_first = True
            self.resume()
            response.feed(early)  # which may pause it again
        if self.closed:
            response.on_lost(self._lost)
            return response
        whole = body.take() if body is not None else None
        if whole is not None:
            self._transport.write(head + (_chunk(whole) + LAST_CHUNK if chunked else whole))
        else:
            self._transport.write(head)
            if body is not None:
                response.upload = self._loop.create_task(self._send(body, chunked, response))
        return response

    def is_silent(self) -> bool:
        """Return whether the next request can be sent: it is open, and no byte or end has come that
        is not read.
        """
        return not self.closed and not self._transport.is_closing() and not self._arrived.poll(0)

    def close(self) -> None:
        """Close it at once, whatever is on the way."""
        if not self.closed:
            self.closed = True
            self._transport.abort()

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        if not self.closed:
            self._transport.resume_reading()

    def switched(self, response: ClientResponse) -> None:
        behind, self._behind = self._behind, None
        if behind is not None:
            response.is_tunnel = True
            response.upload = self._loop.create_task(self._send_raw(behind, response))

    def release(self, response: ClientResponse) -> None:
        """Keep the connection for the next request if that response left it clean, else close it."""
        if self._response is response:
            self._response = self._behind = None
            if response.is_reusable() and self._is_reusable():
                self.on_idle(self)
            elif response.is_switched and not self.closed:
                self._leave(response.is_over())
            else:
                self.close()

    def _leave(self, is_over: bool) -> None:
        """Close a connection that was switched: when all is sent if both directions have ended,
        else with a RST.
        """
        self.closed = True
        if is_over:
            self._transport.close()
        else:
            connected = self._transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _is_reusable(self) -> bool:
        """Return whether it has nothing left to send, and never received a byte before its first
        request.
        """
        is_open = not self.closed and not self._transport.is_closing()
        return is_open and not self._spoke_first and self._transport.get_write_buffer_size() == 0

    async def _send(self, body: Upload, chunked: bool, response: ClientResponse) -> None:
        try:
            async for piece in body:
                if self.closed:
                    return
                if piece:
                    self._transport.write(_chunk(piece) if chunked else piece)
                if self._writable is not None:
                    await self._writable
            if chunked:
                self._transport.write(LAST_CHUNK)
            response.sent = True
        except Exception as error:  # raised by the body: the request cannot be finished
            response.fail(error)
            self.close()

    async def _send_raw(self, data: Upload, response: ClientResponse) -> None:
        """Send what follows a 101, and its end.

        An upstream that has closed does not get it, and it is taken all the same: the exchange is
        over when both directions are.
        """
        try:
            async for piece in data:
                if self._lost is not None:
                    return
                if not self.closed:
                    self._transport.write(piece)
                if self._writable is not None:
                    await self._writable
            if self._transport.can_write_eof() and not self.closed:
                self._transport.write_eof()
            else:  # TLS, which ends both directions at once
                self._transport.close()
            response.upload_ended()
        except Exception as error:  # raised by `data`
            response.fail(error)
            self.close()

    # -- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._response is not None:
            self._response.feed(data)
        elif self._early is not None:
            self._early += data
            self.pause()
        else:  # no request is under way
            self.close()

    def eof_received(self) -> bool:
        """Keep a connection open that was switched: the upstream has ended one of two directions."""
        if (
            self._response is None
            or not self._response.is_switched
            or not self._transport.can_write_eof()
        ):
            return False
        self._response.end()
        return True

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        # the task that waited may have been cancelled
        if writable is not None and not writable.done():
            writable.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed, self._lost = True, exc
        self.resume_writing()
        if self._response is not None:
            self._response.on_lost(exc)
        self.on_idle = ClientConnection.close


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
