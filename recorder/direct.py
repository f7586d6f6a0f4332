"""What the server offers an app besides ASGI: both bodies and the end of the client, without a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Connection(Protocol):
    """A client's."""

    on_gone: Callable[[], None] | None


class Direct:
    """A `recorder.proxy.Direct`: the ways around a request of uvicorn's that take no task."""

    def __init__(self, protocol: Connection, cycle: RequestResponseCycle) -> None:
        self._protocol, self._cycle = protocol, cycle
        self.flow = cycle.flow

    def whole_body(self, limit_bytes: int) -> bytes | None:
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or len(cycle.body) > limit_bytes:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def when_gone(self, callback: Callable[[], None] | None) -> None:
        self._protocol.on_gone = callback
        if self._cycle.disconnected and callback is not None:
            callback()

    def write(self, data: bytes) -> None:
        """A response that is longer than its Content-Length is cut off."""
        cycle = self._cycle
        if cycle.disconnected:
            return
        if cycle.chunked_encoding:
            cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        elif len(data) <= cycle.expected_content_length:
            cycle.expected_content_length -= len(data)
            cycle.transport.write(data)
        else:
            cycle.transport.abort()
