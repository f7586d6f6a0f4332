"""The forwarding path as `recorder serve` wires it, around a test: server, proxy, recording, upstream, journal."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from recorder.journal.format import Mark
from recorder.journal.reader import JournalReader
from recorder.journal.writer import LIMIT_BYTES, Journal
from recorder.proxy.app import BODY_LIMIT_BYTES, Proxy
from recorder.proxy.durable import DurableTransport
from recorder.proxy.http.network import DIRECT, Network
from recorder.proxy.http.server import Server
from recorder.proxy.http.server_exchange import App
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Routes, Upstream
from recorder.proxy.upstream import UpstreamTransport
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

    def tapes(self) -> list[Tape]:
        """What the journal holds, exchange by exchange."""
        reader, tapes = self.reader(), dict[int, Tape]()
        while records := reader.read(2**24, writer_is_dead=True):
            for record in records:
                tapes.setdefault(record.exchange, Tape()).add(Mark(record.mark), record.payload)
        return list(tapes.values())


def get(target: str = "/v1/models", *headers: bytes, method: str = "GET", body: bytes = b"") -> bytes:
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
    """A proxy before the upstream at `base`, recording into `folder`; by a clock of its own, unless one is given."""
    journal = Journal(folder / "journal", "recorder", limit_bytes=journal_bytes, durable=strict)
    upstream = UpstreamTransport(network)
    options: dict[str, Any] = {} if clock_ns is None else {"clock_ns": clock_ns}
    recording: Any = RecordingTransport(upstream, journal, **options)
    if strict:
        recording = DurableTransport(recording, journal)
    routes = Routes([Upstream("openai", base), *more])
    proxy = Proxy(recording, routes, origins=origins, body_limit_bytes=body_limit_bytes, websocket=websocket)
    server = Server(proxy, "127.0.0.1", 0, on_drain=proxy.shutdown, on_stop=proxy.stop)
    await server.start()
    try:
        yield Proxied(server, proxy, journal.directory)
    finally:
        await server.stop(0)
        await recording.aclose()
        journal.close()
