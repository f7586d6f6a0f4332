"""An upstream and clients that play scripts, hundreds at once, and keep the books of every stream.

A stream has an id, and a request names it: `POST …/v1/responses/ID`, or `POST …/v1/messages?beta=ID`, a parameter whose
value is kept. The upstream plays the script of that id, the client behaves as it was told; what either has seen is kept
under the id, for `tests.support.history` to compare with the log.

    async with Upstream(script_of) as upstream:                     # script_of(id) → actions
        received = await ask(port, "a1", LeaveAfter(5_000))
        upstream.sent["a1"]                                         # how many bytes of the body it has sent

For a script of raw bytes, one connection at a time, see `tests.support.sockets`: here HTTP is spoken as it should be,
but for where it breaks off.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

from tests.support.sockets import LAST_CHUNK, STREAM_HEAD, chunked

PATH = "/v1/responses/"
RESET = struct.pack("ii", 1, 0)  # for SO_LINGER: a close is a RST
BUFFER_BYTES = 16 * 2**10  # what a client's end holds: a slow reader is felt soon

_ID = re.compile(r"(?:/v1/responses/|\?beta=)([\w.-]+)$")
_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)


def id_of(target: str) -> str:
    """The id that a request names; empty if it names none."""
    found = _ID.search(target)
    return found[1] if found else ""


# -- the upstream


class Chunk(NamedTuple):
    """Send a piece of the body in one chunk; the head goes before the first."""

    data: bytes


class Sleep(NamedTuple):
    """Do nothing for a while."""

    seconds: float


class End(NamedTuple):
    """End the body as HTTP ends it."""


class Reset(NamedTuple):
    """End the connection with a RST."""


class Fin(NamedTuple):
    """End the connection with a FIN, the body being as whole as it is."""


class Stall(NamedTuple):
    """Send nothing more until the other side is gone."""


Action = Chunk | Sleep | End | Reset | Fin | Stall
Script = Sequence[Action]


def body_of(script: Script) -> bytes:
    """What a script sends if nobody disturbs it."""
    return b"".join(action.data for action in script if isinstance(action, Chunk))


class Upstream:
    """Plays to each request the script of its id."""

    def __init__(self, script_of: Callable[[str], Script]) -> None:
        self._script_of = script_of
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.sent: dict[str, int] = {}  # bytes of each body that were handed to the socket
        self.requests: dict[str, int] = {}  # how often each id was asked for
        self.port = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Upstream:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(length[1]) if (length := _LENGTH.search(head)) else 0)
                id = id_of(head.split(b" ", 2)[1].decode())
                assert id, head[:100]
                await self._play(id, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _play(self, id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests[id] = self.requests.get(id, 0) + 1
        self.sent.setdefault(id, 0)
        head = STREAM_HEAD
        for action in self._script_of(id):
            match action:
                case Chunk(data):
                    self.sent[id] += len(data)  # before the wait: it may be cut off there, with the bytes on their way
                    await _send(writer, head + chunked(data))
                    head = b""
                case End():
                    await _send(writer, head + LAST_CHUNK)
                case Sleep(seconds):
                    await asyncio.sleep(seconds)
                    if reader.at_eof():
                        raise ConnectionResetError
                case Stall():
                    await reader.read(1)
                    raise ConnectionResetError
                case Reset():
                    reset(writer)
                case Fin():
                    writer.close()


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    if writer.is_closing():
        raise ConnectionResetError
    writer.write(data)
    await writer.drain()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a RST, unless the other side was first."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


# -- the clients


class ReadAll(NamedTuple):
    """Read to the end, as fast as it comes."""


class Slow(NamedTuple):
    """Read to the end, at so many bytes a second."""

    bytes_per_s: float


class LeaveAfter(NamedTuple):
    """Close the connection after so many bytes of the body."""

    size_bytes: int


class ResetAfter(NamedTuple):
    """The same with a RST."""

    size_bytes: int


Behaviour = ReadAll | Slow | LeaveAfter | ResetAfter
Ending = Literal["complete", "left", "broken", "impatient", "refused"]


class Received(NamedTuple):
    """What a client got of a stream."""

    id: str
    status: int | None  # `None` if no head came
    size_bytes: int  # of the body
    sha256: str
    ending: Ending


async def ask(
    port: int,
    id: str,
    behaviour: Behaviour,
    *,
    prefix: str = "",
    path: str | None = None,
    body: bytes = b"{}",
    patience_s: float = 60.0,
) -> Received:
    """Ask for a stream and take of it what the behaviour says. Never raises: how it ended is part of the answer.

    `prefix` goes before the path, which for other APIs is `/v1/messages` and the like; after `patience_s` a client
    leaves whatever it wanted.
    """
    client = _Client(behaviour)
    try:
        async with asyncio.timeout(patience_s):
            ending = await client.run(port, prefix + (f"{PATH}{id}" if path is None else f"{path}?beta={id}"), body)
    except TimeoutError:
        ending = "impatient"
    except (OSError, EOFError):
        ending = "broken" if client.connected else "refused"
    finally:
        client.close()
    return Received(id, client.status, client.size_bytes, client.digest.hexdigest(), ending)


class _Client:
    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._writer: asyncio.StreamWriter | None = None
        self.connected = False
        self.status: int | None = None
        self.size_bytes, self.digest = 0, sha256()
        self._limit = behaviour.size_bytes if isinstance(behaviour, LeaveAfter | ResetAfter) else None

    async def run(self, port: int, target: str, body: bytes) -> Ending:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", port, limit=BUFFER_BYTES)
        self.connected = True
        if isinstance(self._behaviour, Slow):
            buffer = self._writer.get_extra_info("socket")
            buffer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        lines = (f"POST {target} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}")
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        self.status = int(head.split(b" ", 2)[1])
        if b"transfer-encoding: chunked" not in head.lower():
            return "complete"  # an answer of the recorder itself
        return await self._body(reader)

    async def _body(self, reader: asyncio.StreamReader) -> Ending:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            while size:
                piece = await reader.read(min(size, self._appetite()))
                if not piece:
                    raise EOFError
                size -= len(piece)
                if not await self._take(piece):
                    return "left"
            await reader.readexactly(2)
        await reader.readexactly(2)
        return "complete"

    def _appetite(self) -> int:
        """How many bytes to read at once."""
        return max(1, int(self._behaviour.bytes_per_s / 10)) if isinstance(self._behaviour, Slow) else BUFFER_BYTES

    async def _take(self, piece: bytes) -> bool:
        """Note a piece; returns whether to go on."""
        self.size_bytes += len(piece)
        self.digest.update(piece)
        if isinstance(self._behaviour, Slow):
            await asyncio.sleep(len(piece) / self._behaviour.bytes_per_s)
        return self._limit is None or self.size_bytes < self._limit

    def close(self) -> None:
        if self._writer is None:
            return
        if isinstance(self._behaviour, ResetAfter):
            with contextlib.suppress(OSError):
                reset(self._writer)
        self._writer.transport.abort() if self._writer.is_closing() else self._writer.close()
