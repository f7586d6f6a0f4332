"""A forward proxy of a company: it opens tunnels (CONNECT), for who logs in, and knows names that
others do not.

    async with ForwardProxy({"api.corp.test": upstream_port}, login="me:secret") as proxy: …

And an authority of one's own, with certificates for servers and clients.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trustme

OPEN = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 corp\r\n\r\n"
LOGIN = b"HTTP/1.1 407 Log in\r\nProxy-Authenticate: Basic realm=corp\r\nContent-Length: 0\r\n\r\n"
NO_NAME = b"HTTP/1.1 502 No such host\r\nContent-Length: 0\r\n\r\n"


class ForwardProxy:
    """The proxy, in the loop that runs.

    `names` are the hosts that it knows, with their ports on this machine.
    """

    def __init__(self, names: Mapping[str, int], *, login: str | None = None) -> None:
        self._names = names
        self._login = None if login is None else b"Basic " + base64.b64encode(login.encode())
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked: list[bytes] = []  # the heads that came
        self.tunnels: list[str] = []  # the places that were connected to
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> ForwardProxy:
        self._server = await asyncio.start_server(self._serve, sock=self._listener)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._answer(reader, writer)
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(asked)
        method, place, _ = asked.split(b" ", 2)
        host, _, _ = place.decode().rpartition(":")
        if (
            self._login is not None
            and b"\r\nProxy-Authorization: " + self._login + b"\r\n" not in asked
        ):
            writer.write(LOGIN)
        elif method != b"CONNECT" or host.strip("[]") not in self._names:
            writer.write(NO_NAME)
        else:
            there = await asyncio.open_connection("127.0.0.1", self._names[host.strip("[]")])
            self.tunnels.append(place.decode())
            writer.write(OPEN)
            await _both_ways((reader, writer), there)
        await writer.drain()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _both_ways(here: Streams, there: Streams) -> None:
    try:
        await asyncio.gather(_copy(here[0], there[1]), _copy(there[0], here[1]))
    finally:
        there[1].transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


class Authority:
    """An authority that no system knows, and what it has signed; its files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = trustme.CA()
        self.file = folder / "authority.pem"
        self._made.cert_pem.write_to_path(str(self.file))

    def server(self, *names: str, wants_clients: bool = False) -> ssl.SSLContext:
        """The context of a server with these names; with `wants_clients` it lets in who has a
        certificate of ours.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._made.issue_cert(*names).configure_cert(context)
        if wants_clients:
            self._made.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self) -> tuple[Path, Path]:
        """A certificate for a client, and its key."""
        made = self._made.issue_cert("somebody@corp.test")
        paths = self._folder / "client.pem", self._folder / "client.key"
        paths[0].write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        paths[1].write_bytes(made.private_key_pem.bytes())
        return paths


@asynccontextmanager
async def answering(answer: bytes, *, ends: bool = False) -> AsyncIterator[int]:
    """The port of something that is not a proxy: whatever it is sent, it answers that, and closes
    or is silent.
    """
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            if ends:
                writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
