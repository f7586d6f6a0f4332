"""A tunnel: what a client and an upstream send each other after a 101, as it comes.

Rules of this file:

* Nothing is changed, added or timed out on the way, and a half-close ends one direction only.
* When the recorder stops, the client gets a Close frame between two frames of the upstream, and
  nothing after it.
"""

from __future__ import annotations

import asyncio

from recorder.proxy.http.server_exchange import SWITCHING, Headers, ServerExchange

# a Close frame with 1012: clients connect again (RFC 6455 section 7.4.1, IANA)
SERVICE_RESTART = b"\x88\x02\x03\xf4"
_CLOSE = 0x8  # opcode
_SHORT, _LONG = 126, 127  # the length follows in 2 bytes, in 8 bytes


class Tunnel:
    """The two directions of one connection. To the upstream it is the `Upload` of the request."""

    def __init__(self, incoming: ServerExchange) -> None:
        self._incoming = incoming
        self._opened = asyncio.Event()
        self._boundary = FrameBoundary()
        self._is_stopping = self._is_shut = False  # `_is_shut`: no byte goes to the client any more

    # -- up

    def take(self) -> None:
        return None

    def __aiter__(self) -> Tunnel:
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes of the client, once it has its 101."""
        await self._opened.wait()
        piece = await self._incoming.read()
        if not piece:
            raise StopAsyncIteration
        return piece

    # -- down

    def open(self, headers: Headers, reason: bytes, first: bytes) -> None:
        """Pass the 101 on, and what came after it.

        Raises `ValueError` like `ServerExchange.start`.
        """
        self._incoming.start(SWITCHING, headers, reason=reason, first=first)
        self._boundary.feed(first)
        self._opened.set()
        self._shut_if_due()

    def write(self, data: bytes) -> None:
        """Pass on what the upstream sends; empty: its end.

        After our own Close frame only the end is passed on.
        """
        if not data:
            self._is_shut = True
            self._incoming.finish()
        elif not self._is_stopping:
            self._boundary.feed(data)
            self._incoming.write(data)
        elif not self._is_shut:
            self._incoming.write(data[: self._boundary.feed(data, to_next=True)])
            self._shut_if_due()

    def stop(self) -> None:
        """Send the client a Close frame as soon as no frame is under way, unless the upstream has
        sent one.
        """
        self._is_stopping = True
        if self._opened.is_set():
            self._shut_if_due()

    def _shut_if_due(self) -> None:
        if self._is_stopping and not self._is_shut and self._boundary.is_here:
            self._is_shut = True
            if not self._boundary.has_closed:
                self._incoming.write(SERVICE_RESTART)


class FrameBoundary:
    """The boundaries between the frames of a WebSocket stream (RFC 6455 section 5.2): lengths only,
    no payload is read.

    For damaged frames the boundaries are wherever their lengths say. `has_closed`: there was a
    Close frame.
    """

    def __init__(self) -> None:
        self._left = 0  # bytes to the end of the frame under way
        self._begun = b""  # of a header that does not show the length of its frame yet
        self.has_closed = False

    @property
    def is_here(self) -> bool:
        """True between two frames, and before the first."""
        return not self._left and not self._begun

    def feed(self, data: bytes, *, to_next: bool = False) -> int:
        """Advance over `data`; with `to_next` at most to the next boundary.

        Return how many bytes that was.
        """
        begun = len(self._begun)
        if begun:
            data, self._begun = self._begun + data, b""
        end, size = self._left, len(data)
        while end < size:
            if to_next and end:
                self._left = 0
                return end - begun
            length = self._frame_bytes(data, end, size)
            if not length:
                self._left, self._begun = 0, data[end:]
                return size - begun
            end += length
        self._left = end - size
        return size - begun

    def _frame_bytes(self, data: bytes, at: int, size: int) -> int:
        """Return the length of the frame that begins at `at`, header included; 0 if that cannot be
        seen yet.
        """
        if size - at < 2:
            return 0
        second = data[at + 1]
        length = second & 0x7F
        header = 2
        if length >= _SHORT:
            header = 4 if length < _LONG else 10
            if size - at < header:
                return 0
            length = int.from_bytes(data[at + 2 : at + header])
        if data[at] & 0xF == _CLOSE:
            self.has_closed = True
        return header + length + (4 if second & 0x80 else 0)  # the masking key
