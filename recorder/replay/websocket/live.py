"""A WebSocket connection to an upstream, as its client: messages out, messages in, and how it ends.

It is opened through a transport, so whoever records that has every byte of it. Rules of this file:

* No compression is offered, and each frame has a mask of its own (RFC 6455 section 5.3).
* Pings and a Close of the upstream are answered. Messages pass as they came, whatever rule they
  break.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator

import msgspec

from recorder.errors import UpstreamError
from recorder.model.events import SWITCHED
from recorder.proxy.http.messages import RawHeaders, Request, Response, Transport
from recorder.replay.transport import origin_of
from recorder.wire.framing.websocket import (
    Damage,
    Message,
    MessageParser,
    close_of,
    encode_close,
    encode_frame,
)
from recorder.wire.turns import PROTOCOL
from recorder.wire.websocket_endpoint import KEY_BYTES, VERSION

OUTGOING = 32
"""Frames that wait for an upstream that reads slowly: as many as a connection may have requests.
With more there, whoever has one more waits, too."""

_OF_THIS_CONNECTION = (b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions")
"""Headers of a handshake that are not those of the client's own."""


class LiveConnection:
    """A connection that the upstream has accepted."""

    def __init__(self, request: Request, response: Response, frames: _Frames) -> None:
        self._request, self._response, self._frames = request, response, frames

    @classmethod
    async def open(cls, upstream: Transport, client: Request) -> LiveConnection | Response:
        """Open a connection to where a client's handshake goes; return the answer of an upstream
        that refuses.

        Raises `UpstreamError` if there is none.
        """
        frames = _Frames()
        request = _handshake(client, frames)
        response = await upstream.handle_async_request(request)
        return cls(request, response, frames) if response.status_code == SWITCHED else response

    async def send(self, payload: bytes) -> None:
        await self._frames.put(encode_frame("text", payload, mask=os.urandom(4)))

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the messages of the upstream.

        Raises `UpstreamError` where the connection ends, however it does.
        """
        parser = MessageParser(from_client=False)
        async for data in self._response.stream:
            for part in parser.feed(data):
                if isinstance(part, Damage):
                    raise UpstreamError(
                        f"the upstream's frames cannot be read: {part.reason}", "upstream_reset"
                    )
                if not isinstance(part, Message):
                    continue
                if part.opcode in ("text", "binary"):
                    yield part
                else:
                    await self._control(part)
            if not data:
                break
        raise UpstreamError("the upstream ended the connection without a Close", "truncated")

    async def _control(self, frame: Message) -> None:
        if frame.opcode == "ping":
            await self._frames.put(encode_frame("pong", frame.payload, mask=os.urandom(4)))
        elif frame.opcode == "close":
            code, reason = close_of(frame.payload)
            await self._frames.put(encode_close(code, mask=os.urandom(4)))
            close = None if code is None else (code, reason or "")
            raise UpstreamError(
                f"the upstream closed the connection ({code})", "truncated", close=close
            )

    async def aclose(self, client: Request) -> None:
        """End the connection, with the outcome that the client's has, if somebody has set one."""
        if "outcome" in client.extensions:
            self._request.extensions["outcome"] = client.extensions["outcome"]
        await self._response.stream.aclose()


class _Frames:
    """What goes up after the 101, frame by frame."""

    def __init__(self) -> None:
        self._waiting = asyncio.Queue[bytes](OUTGOING)

    async def put(self, frame: bytes) -> None:
        await self._waiting.put(frame)

    def take(self) -> None:
        return None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._waiting.get()


def _handshake(client: Request, frames: _Frames) -> Request:
    """Return a handshake of our own, with the client's other headers."""
    origin = origin_of(client)
    extensions = client.extensions.copy()
    extensions["upgrade"] = PROTOCOL.encode()
    extensions["recorder"] = msgspec.structs.replace(origin, headers=own_handshake(origin.headers))
    return Request(client.method, client.url, own_handshake(client.headers.raw), frames, extensions)


def own_handshake(headers: RawHeaders) -> RawHeaders:
    """Return the headers of a handshake with a key of its own, and no extension."""
    own = [
        (b"sec-websocket-version", VERSION.encode()),
        (b"sec-websocket-key", b64encode(os.urandom(KEY_BYTES))),
    ]
    return [*(each for each in headers if each[0].lower() not in _OF_THIS_CONNECTION), *own]
