"""A scripted upstream and a scripted client on raw sockets: exactly these bytes, in these pieces,
ended like this.

    async with ScriptedUpstream([Send(b"HTTP/1.1 200 OK\\r\\n…"), Reset()]) as upstream: …

Plain non-blocking sockets, no transports: nothing is buffered, and a reset is a reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple

from tests.support.event_loop import DEADLINE_S, POLL_S, STOOD

_LENGTH = re.compile(rb"^content-length:\s*(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding:.*chunked\s*$", re.IGNORECASE | re.MULTILINE)

LAST_CHUNK = b"0\r\n\r\n"
KERNEL_BYTES = 96 * 2**20
"""More than the kernel holds on a way of two connections, whose buffers grow: some let them reach
32 MiB for receiving and 4 for sending."""
# at once: a flood of small sends would take the loop that the tests share with what they test
FLOOD_BYTES = 64 * 2**10


class Send(NamedTuple):
    """Send bytes in one piece."""

    data: bytes


class Sleep(NamedTuple):
    """Do nothing for a while."""

    seconds: float


class Wait(NamedTuple):
    """Do nothing until the test says so."""

    event: asyncio.Event


class Stall(NamedTuple):
    """Send nothing more, and wait until the other side is gone."""


class Flood(NamedTuple):
    """Send the same bytes again and again until the other side is gone."""

    data: bytes


class Reset(NamedTuple):
    """End the connection with a RST."""


class Close(NamedTuple):
    """End the connection with a FIN."""


Action = Send | Sleep | Wait | Stall | Flood | Reset | Close
Script = Sequence[Action]


def chunked(*chunks: bytes) -> bytes:
    """Chunks in chunked transfer coding, without the last chunk."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)


def head(*headers: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"", b""])


STREAM_HEAD = head(b"Content-Type: text/event-stream", b"Transfer-Encoding: chunked")


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> list[Action]:
    """A whole response with a Content-Length."""
    return [Send(head(b"Content-Length: %d" % len(body), *headers, status=status) + body)]


class ScriptedUpstream:
    """Plays a script to each request, the next one of `scripts` each time, the last one from then
    on.
    """

    def __init__(self, *scripts: Script, read_request: bool = True) -> None:
        self._scripts = list(scripts)
        self._read_request = read_request
        self._tasks = asyncio.TaskGroup()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.requests: list[bytes] = []  # heads and bodies, as they came
        self.connections = 0
        self.sent_bytes = 0
        self.gone = asyncio.Event()  # a peer has left

    async def __aenter__(self) -> ScriptedUpstream:
        await self._tasks.__aenter__()
        self._accepting = self._tasks.create_task(self._accept())
        self._playing: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in [self._accepting, *self._playing]:
            task.cancel()
        await self._tasks.__aexit__(None, None, None)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(self._listener)
            connection.setblocking(False)
            self.connections += 1
            self._playing.add(self._tasks.create_task(self._serve(connection)))

    async def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionError):
            received = b""
            while True:
                if self._read_request:
                    request, received = await _read_message(connection, received)
                    if not request:
                        self.gone.set()
                        return
                    self.requests.append(request)
                script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
                for action in script:
                    await self._act(connection, action)
                    if connection.fileno() < 0:
                        return

    async def _act(self, connection: socket.socket, action: Action) -> None:
        loop = asyncio.get_running_loop()
        match action:
            case Send(data):
                await loop.sock_sendall(connection, data)
                self.sent_bytes += len(data)
            case Flood(data):
                await self._flood(connection, data)
            case Sleep(seconds):
                await asyncio.sleep(seconds)
            case Wait(event):
                await event.wait()
            case Stall():
                with contextlib.suppress(ConnectionError):
                    while await loop.sock_recv(connection, 65536):
                        pass
                self.gone.set()
                connection.close()
            case Reset():
                reset(connection)
            case Close():
                connection.close()

    async def _flood(self, connection: socket.socket, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        many = data * max(1, FLOOD_BYTES // len(data))
        try:
            while True:
                await loop.sock_sendall(connection, many)
                self.sent_bytes += len(many)
        except ConnectionError:
            self.gone.set()
            connection.close()


class RawResponse(NamedTuple):
    """What a client got.

    `ending` says whether HTTP saw its end, or how the connection broke before.
    """

    status: bytes  # the status line without the version
    headers: list[tuple[bytes, bytes]]  # names in lower case
    body: bytes
    ending: Literal["complete", "closed", "reset"]

    def header(self, name: bytes) -> bytes | None:
        return dict(self.headers).get(name)


class RawClient:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = bytearray()

    @classmethod
    async def connect(cls, port: int, *, receive_buffer: int | None = None) -> RawClient:
        connection = socket.socket()
        connection.setblocking(False)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        except OSError:
            connection.close()
            raise
        return cls(connection)

    async def __aenter__(self) -> RawClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.socket.close()

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def flood(self, limit: int) -> int:
        """Send zeros, that many or until no more are taken for a while; return how many were."""
        sent = stood = 0
        while sent < limit and stood < STOOD:
            try:
                sent += self.socket.send(bytes(min(FLOOD_BYTES, limit - sent)))
                stood = 0
            except BlockingIOError:
                stood += 1
            await asyncio.sleep(POLL_S if stood else 0)
        return sent

    def is_silent(self) -> bool:
        """Whether nothing has come, no end either."""
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self._received
        return False

    async def read(self, limit: int = 65536) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.get_running_loop().sock_recv(self.socket, limit)

    async def read_until(self, end: bytes) -> bytes:
        """All that comes, up to and with `end`."""
        # what was looked through is not looked through again: a test may wait for 100 MB
        searched = 0
        while (found := self._received.find(end, searched)) < 0:
            searched = max(0, len(self._received) - len(end) + 1)
            data = await self.read()
            if not data:
                raise ConnectionError(
                    f"closed before {end!r}, after {bytes(self._received[-200:])!r}"
                )
            self._received += data
        return self._cut(found + len(end))

    async def exactly(self, size: int) -> bytes:
        """The next bytes, that many."""
        found = b""
        while len(found) < size:
            found += await self._take(size - len(found))
        return found

    async def rest(self) -> bytes:
        """All that comes, up to the FIN."""
        found = [self._cut(len(self._received))]
        while data := await self.read():
            found.append(data)
        return b"".join(found)

    async def response(self, *, to_head: bool = False) -> RawResponse:
        """Read a response. `to_head`: it answers a HEAD request, so it has no body."""
        start = (await self.read_until(b"\r\n\r\n")).removesuffix(b"\r\n\r\n").split(b"\r\n")
        headers = [
            (name.lower(), value.strip())
            for name, _, value in (line.partition(b":") for line in start[1:])
        ]
        status = start[0].partition(b" ")[2]
        if to_head or status[:3] in (b"204", b"304"):
            return RawResponse(status, headers, b"", "complete")
        body = bytearray()
        ending: Literal["complete", "closed", "reset"] = "complete"
        try:
            async for piece in self._body(dict(headers)):
                body += piece
        except EOFError:
            ending = "closed"
        except ConnectionError:
            ending = "reset"
        return RawResponse(status, headers, bytes(body), ending)

    async def _body(self, headers: dict[bytes, bytes]) -> AsyncIterator[bytes]:
        if headers.get(b"transfer-encoding") != b"chunked":
            left = int(headers.get(b"content-length", b"0"))
            while left:
                piece = await self._take(left)
                left -= len(piece)
                yield piece
            return
        while size := int(await self._line(), 16):
            while size:
                piece = await self._take(size)
                size -= len(piece)
                yield piece
            await self._line()
        await self._line()

    async def _line(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            self._received += await self._more()
        return self._cut(end + 2)[:end]

    async def _take(self, limit: int) -> bytes:
        if not self._received:
            self._received += await self._more()
        return self._cut(limit)

    def _cut(self, size: int) -> bytes:
        """What was received first."""
        piece = bytes(self._received[:size])
        del self._received[:size]
        return piece

    async def _more(self) -> bytes:
        data = await self.read()
        if not data:
            raise EOFError
        return data


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that answers as `serve` does; its URL.

    At the end its connections are aborted, and `serve` is done.
    """
    writers: set[asyncio.StreamWriter] = set()
    tasks: set[asyncio.Task[None]] = set()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        finally:
            writer.close()
            writers.discard(writer)
            tasks.discard(task)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        while tasks:
            await asyncio.wait(tasks)


def reset(connection: socket.socket) -> None:
    """Close with a RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


async def _read_message(connection: socket.socket, received: bytes) -> tuple[bytes, bytes]:
    """One request, head and body as they came, and what was received after it."""
    while (end := _end_of_message(received)) is None:
        data = await asyncio.get_running_loop().sock_recv(connection, 2**20)
        if not data:
            return b"", b""
        received += data
    return received[:end], received[end:]


def _end_of_message(data: bytes) -> int | None:
    if (end := data.find(b"\r\n\r\n") + 4) < 4:
        return None
    if _CHUNKED.search(data, 0, end):
        last = data.find(LAST_CHUNK, end)
        return last + len(LAST_CHUNK) if last >= 0 else None
    length = _LENGTH.search(data.replace(b"\r\n", b"\n"), 0, end)
    end += int(length[1]) if length else 0
    return end if len(data) >= end else None
