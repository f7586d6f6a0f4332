"""The forwarding path as `recorder serve` wires it, around a test: server, proxy, recording,
upstream, journal.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
import msgspec

from recorder.journal.format import Mark
from recorder.journal.reader import JournalReader
from recorder.journal.writer import LIMIT_BYTES, Journal
from recorder.proxy.app import BODY_LIMIT_BYTES, Proxy
from recorder.proxy.durable import DurableTransport
from recorder.proxy.http.messages import IteratedUpload, Request
from recorder.proxy.http.network import DIRECT, Network
from recorder.proxy.http.server import Server
from recorder.proxy.http.server_exchange import App
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Routes, Upstream
from recorder.proxy.upstream import UpstreamTransport
from recorder.testing.libraries import adapted_request
from tests.support.event_loop import eventually
from tests.support.sockets import RawClient, RawResponse


class Tape:
    """What the journal holds of one exchange."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.request_body = self.body = self.sent = b""
        self.fins: list[Mark] = []  # the directions that ended, in order
        self.json: dict[Mark, Any] = {}

    def add(self, mark: Mark, payload: bytes) -> None:
        if not self.marks or self.marks[-1] is not mark:
            self.marks.append(mark)
        if mark in (Mark.CHUNK, Mark.CLIENT_CHUNK) and not payload:
            self.fins.append(mark)
        if mark is Mark.REQUEST_BODY:
            self.request_body += payload
        elif mark is Mark.CLIENT_CHUNK:
            self.sent += payload
        elif mark is Mark.CHUNK:
            self.body += payload
        else:
            self.json[mark] = msgspec.json.decode(payload)

    @property
    def outcome(self) -> str | None:
        end = self.json.get(Mark.END)
        return end["outcome"] if end else None


class Proxied:
    """A running proxy, its journal, and the way to both."""

    def __init__(self, server: Server, proxy: Proxy, journal: Path) -> None:
        self.server, self.proxy, self._journal = server, proxy, journal

    async def connect(self, **options: Any) -> RawClient:
        return await RawClient.connect(self.server.port, **options)

    async def ask(self, request: bytes) -> RawResponse:
        """One request on a connection of its own."""
        async with await self.connect() as client:
            await client.send(request)
            return await client.response()

    def reader(self) -> JournalReader:
        """A reader of the journal from its beginning."""
        return JournalReader(self._journal)

    async def ended(self) -> Tape:
        """What the journal holds of the only exchange, when that has ended."""
        await eventually(lambda: self.tapes()[0].outcome is not None)
        (tape,) = self.tapes()
        return tape

    def tapes(self) -> list[Tape]:
        """What the journal holds, exchange by exchange."""
        reader, tapes = self.reader(), dict[int, Tape]()
        while records := reader.read(2**24, writer_is_dead=True):
            for record in records:
                tapes.setdefault(record.exchange, Tape()).add(Mark(record.mark), record.payload)
        return list(tapes.values())


def get(
    target: str = "/v1/models", *headers: bytes, method: str = "GET", body: bytes = b""
) -> bytes:
    """A request as a client sends it."""
    length = [b"Content-Length: %d" % len(body)] if body else []
    start = f"{method} {target} HTTP/1.1".encode()
    return b"\r\n".join([start, b"Host: 127.0.0.1:8787", *headers, *length, b"", b""]) + body


def rss_bytes() -> int:
    """The memory that this process has: the proxy's, and what a test keeps."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@asynccontextmanager
async def served(app: App, on_drain: Callable[[], None] = lambda: None) -> AsyncIterator[Server]:
    """A server with that app; when it has stopped, nobody is connected."""
    server = Server(app, "127.0.0.1", 0, on_drain=on_drain)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)
    assert server.open == 0


@asynccontextmanager
async def client_of(app: App) -> AsyncIterator[RawClient]:
    """A client of a server with that app."""
    async with served(app) as server, await RawClient.connect(server.port) as client:
        yield client


@asynccontextmanager
async def proxied(
    folder: Path,
    base: str,
    *,
    more: Iterable[Upstream] = (),
    body_limit_bytes: int = BODY_LIMIT_BYTES,
    journal_bytes: int = LIMIT_BYTES,
    strict: bool = False,
    websocket: bool = True,
    origins: Collection[bytes] = (),
    clock_ns: Callable[[], int] | None = None,
    network: Network = DIRECT,
) -> AsyncIterator[Proxied]:
    """A proxy before the upstream at `base`, recording into `folder`; by a clock of its own, unless
    one is given.
    """
    journal = Journal(folder / "journal", "recorder", limit_bytes=journal_bytes, durable=strict)
    upstream = UpstreamTransport(network)
    options: dict[str, Any] = {} if clock_ns is None else {"clock_ns": clock_ns}
    recording: Any = RecordingTransport(upstream, journal, **options)
    if strict:
        recording = DurableTransport(recording, journal)
    routes = Routes([Upstream("openai", base), *more])
    proxy = Proxy(
        recording, routes, origins=origins, body_limit_bytes=body_limit_bytes, websocket=websocket
    )
    server = Server(proxy, "127.0.0.1", 0, on_drain=proxy.shutdown, on_stop=proxy.stop)
    await server.start()
    try:
        yield Proxied(server, proxy, journal.directory)
    finally:
        await server.stop(0)
        await recording.aclose()
        journal.close()


# -- Requests for our transports, made as a client of httpx makes them, and the transport to an
# upstream


def request_for(method: str, url: str, **how: Any) -> Request:
    """Return the request that `httpx.Request` makes of the same arguments; its body can only be
    iterated.
    """
    made = httpx.Request(method, url, **how)
    return adapted_request(made, IteratedUpload(cast(AsyncIterable[bytes], made.stream)))


@asynccontextmanager
async def upstream_transport(network: Network = DIRECT) -> AsyncIterator[UpstreamTransport]:
    """The transport to upstreams that the proxy has."""
    transport = UpstreamTransport(network)
    try:
        yield transport
    finally:
        await transport.aclose()


# -- A WebSocket connection through a recorder with a raw socket on either side: exactly these
# bytes, ended like this


OFFER = (
    *(b"Connection: keep-alive, Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"),
    *(
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        b"Sec-WebSocket-Extensions: permessage-deflate",
    ),
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
        return await self.proxy.ended()

    async def end(self) -> None:
        """End both directions, the client's first; neither side has anything more to say."""
        for one, other in ((self.client, self.upstream), (self.upstream, self.client)):
            one.socket.shutdown(1)
            assert await other.rest() == b""


async def switched(
    proxy: Proxied, listener: Listener, *, early: bytes = b"", first: bytes = b""
) -> Tunnel:
    """Connect through a recorder. `early` is sent with the request, `first` with the 101."""
    client = await proxy.connect()
    await client.send(get("/v1/responses", *OFFER) + early)
    upstream = await listener.accept()
    head = await upstream.read_until(b"\r\n\r\n")
    await upstream.send(SWITCHED + first)
    assert await client.read_until(b"\r\n\r\n") == SWITCHED
    return Tunnel(proxy, client, upstream, head)


@asynccontextmanager
async def tunnelled(
    folder: Path, *, early: bytes = b"", first: bytes = b"", **options: Any
) -> AsyncIterator[Tunnel]:
    """Run a recorder, and connect through it."""
    async with Listener() as listener, proxied(folder, listener.base, **options) as proxy:
        tunnel = await switched(proxy, listener, early=early, first=first)
        async with tunnel.client, tunnel.upstream:
            yield tunnel
