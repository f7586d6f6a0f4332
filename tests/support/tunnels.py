"""A WebSocket connection through a recorder with a raw socket on either side: exactly these bytes, ended like this.

async with tunnelled(tmp_path) as tunnel:
    await tunnel.client.send(b"…")
    assert await tunnel.upstream.read() == b"…"
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.event_loop import eventually
from tests.support.proxy import Proxied, Tape, get, proxied
from tests.support.sockets import RawClient

OFFER = (
    *(b"Connection: keep-alive, Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"),
    *(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Extensions: permessage-deflate"),
)
SWITCHED = (
    b"HTTP/1.1 101 Fine\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Codex-Turn-State: abc\r\n\r\n"
)


class Listener:
    """An upstream that accepts connections for the test to use."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._socket.setblocking(False)
        self.base = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    async def __aenter__(self) -> Listener:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._socket.close()

    async def accept(self) -> RawClient:
        connection, _ = await asyncio.get_running_loop().sock_accept(self._socket)
        connection.setblocking(False)
        return RawClient(connection)

    def is_silent(self) -> bool:
        """Whether nobody has connected."""
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return True
        return False


class Tunnel(NamedTuple):
    """Both ends of a connection, behind the 101. `head` is the request as the upstream had it."""

    proxy: Proxied
    client: RawClient
    upstream: RawClient
    head: bytes

    async def tape(self) -> Tape:
        """What the journal has of it, when it has ended."""
        await eventually(lambda: self.proxy.tapes()[0].outcome is not None)
        return self.proxy.tapes()[0]


async def switched(proxy: Proxied, listener: Listener, *, early: bytes = b"", first: bytes = b"") -> Tunnel:
    """Connect through a recorder. `early` is sent with the request, `first` with the 101."""
    client = await proxy.connect()
    await client.send(get("/v1/responses", *OFFER) + early)
    upstream = await listener.accept()
    head = await upstream.read_until(b"\r\n\r\n")
    await upstream.send(SWITCHED + first)
    assert await client.read_until(b"\r\n\r\n") == SWITCHED
    return Tunnel(proxy, client, upstream, head)


@asynccontextmanager
async def tunnelled(folder: Path, *, early: bytes = b"", first: bytes = b"", **options: Any) -> AsyncIterator[Tunnel]:
    """Run a recorder, and connect through it."""
    async with Listener() as listener, proxied(folder, listener.base, **options) as proxy:
        tunnel = await switched(proxy, listener, early=early, first=first)
        async with tunnel.client, tunnel.upstream:
            yield tunnel
