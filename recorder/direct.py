"""What the server offers an app besides ASGI: both bodies and the end of the client, without a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Connection(Protocol):
    """A client's."""

    answering: Direct | None  # what is told when the client has gone


class Direct:
    """A `recorder.proxy.Direct`: the ways around a request of uvicorn's that take no task."""

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self._connection, self._cycle = connection, cycle
        self._on_gone: Callable[[], None] | None = None
        self.flow = cycle.flow

    def whole_body(self, limit_bytes: int) -> bytes | None:
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or len(cycle.body) > limit_bytes:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        self.listen()
        return body

    def listen(self) -> None:
        """uvicorn does not read on while it holds a large body: nobody would know of a client that leaves."""
        self.flow.resume_reading()

    def when_gone(self, callback: Callable[[], None] | None) -> None:
        self._on_gone = callback
        if callback is not None:
            self._connection.answering = self
            if self._cycle.disconnected:
                callback()
        elif self._connection.answering is self:
            self._connection.answering = None

    def lost(self) -> None:
        """The client has gone. uvicorn says so to the request that came last, which may be waiting for this one."""
        self._cycle.disconnected = True
        self._cycle.message_event.set()
        if self._on_gone is not None:
            self._on_gone()

    def write(self, data: bytes) -> None:
        """A response that is longer than its Content-Length is cut off."""
        cycle = self._cycle
        if cycle.disconnected or cycle.transport.is_closing():
            return
        if cycle.chunked_encoding:
            cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        elif len(data) <= cycle.expected_content_length:
            cycle.expected_content_length -= len(data)
            cycle.transport.write(data)
        else:
            cycle.transport.abort()
