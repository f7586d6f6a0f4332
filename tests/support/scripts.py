"""An upstream and clients that play scripts, hundreds at once, and keep the books of every stream.

A stream has an id, and a request names it: `POST …/v1/responses/ID`, or
`POST …/v1/messages?beta=ID`, a parameter whose value is kept. The upstream plays the script of that
id, the client behaves as it was told; what either has seen is kept under the id, for
`tests.support.scripts` to compare with the log.

    async with Upstream(script_of) as upstream:                     # script_of(id) → actions
        received = await ask(port, "a1", LeaveAfter(5_000))
        upstream.sent["a1"]                                         # how many bytes of the body it has sent

For a script of raw bytes, one connection at a time, see `tests.support.sockets`: here HTTP is
spoken as it should be, but for where it breaks off.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import URL

from recorder.model.events import BODY_KINDS
from tests.support.logbook import Ask, asking
from tests.support.sockets import LAST_CHUNK, STREAM_HEAD, chunked
from tests.support.sockets import Reset as Reset
from tests.support.sockets import Sleep as Sleep
from tests.support.sockets import Stall as Stall

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


class End(NamedTuple):
    """End the body as HTTP ends it."""


class Fin(NamedTuple):
    """End the connection with a FIN, the body being as whole as it is."""


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

    async def _play(
        self, id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.requests[id] = self.requests.get(id, 0) + 1
        self.sent.setdefault(id, 0)
        head = STREAM_HEAD
        for action in self._script_of(id):
            match action:
                case Chunk(data):
                    # before the wait: it may be cut off there, with the bytes on their way
                    self.sent[id] += len(data)
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
    """Ask for a stream and take of it what the behaviour says.

    Never raises: how it ended is part of the answer.

    `prefix` goes before the path, which for other APIs is `/v1/messages` and the like; after
    `patience_s` a client leaves whatever it wanted.
    """
    client = _Client(behaviour)
    try:
        async with asyncio.timeout(patience_s):
            ending = await client.run(
                port, prefix + (f"{PATH}{id}" if path is None else f"{path}?beta={id}"), body
            )
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
        self._limit = (
            behaviour.size_bytes if isinstance(behaviour, LeaveAfter | ResetAfter) else None
        )

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
        return (
            max(1, int(self._behaviour.bytes_per_s / 10))
            if isinstance(self._behaviour, Slow)
            else BUFFER_BYTES
        )

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


# -- The history checker: what clients received, what the upstream sent, and what the log has,
# against each other


Sent = Callable[[str], bytes]
"""What the upstream sent of the body of an id."""


class Logged(NamedTuple):
    """An exchange as the log has it."""

    exchange_id: str
    events: Sequence[tuple[int, str, bytes]]  # position, kind, raw


class Report(NamedTuple):
    """What a check has found. Findings are sentences; none means that nothing was lost silently."""

    findings: list[str]
    streams: int
    exchanges: int
    received_bytes: int
    stored_bytes: int
    gap_bytes: int
    outcomes: Mapping[str, int]


def check(database: Path | URL, received: Sequence[Received], sent: Sent) -> Report:
    """Compare a database that nobody writes to any more."""
    findings: list[str] = []
    outcomes: Counter[str] = Counter()
    stored = gaps = 0
    with asking(database) as ask:
        ids = _exchange_ids(ask)
        for stream in received:
            logged = [_read(ask, *each) for each in ids.get(stream.id, ())]
            findings += [
                f"{stream.id}: {finding}" for finding in judge(stream, logged, sent(stream.id))
            ]
            for each in logged:
                end = _end(each)
                outcomes[end.get("outcome", "none")] += 1
                stored += sum(len(raw) for _, kind, raw in each.events if kind in BODY_KINDS)
                gaps += end.get("gap_bytes", 0)
    exchanges = sum(map(len, ids.values()))
    received_bytes = sum(each.size_bytes for each in received)
    return Report(findings, len(received), exchanges, received_bytes, stored, gaps, dict(outcomes))


def judge(stream: Received, logged: Sequence[Logged], sent: bytes) -> Iterator[str]:
    """What contradicts the equations in one stream."""
    if len(logged) > 1:
        yield f"{len(logged)} exchanges in the log for one request"
    if not logged:
        if stream.status == 200:
            yield f"the client saw an answer and {stream.size_bytes} bytes, the log has no exchange"
        return
    (exchange, *_) = logged
    kinds = [kind for _, kind, _ in exchange.events]
    if [pos for pos, _, _ in exchange.events] != list(range(len(exchange.events))):
        yield "its positions have a hole"
    if kinds.count("end") != 1 or kinds[-1] != "end":
        yield f"it has {kinds.count('end')} ends, and its last event is {kinds[-1] if kinds else 'none'}"
        return
    covered, contradiction = _cover(exchange, sent)
    if contradiction is not None:
        yield contradiction
        return
    if stream.size_bytes > covered:
        yield f"the client received {stream.size_bytes} bytes, the log has {covered}, gaps included"
    elif sha256(sent[: stream.size_bytes]).hexdigest() != stream.sha256:
        yield "the client received other bytes than the upstream sent"
    yield from _sums(_end(exchange), exchange, covered, len(sent))


def _cover(exchange: Logged, sent: bytes) -> tuple[int, str | None]:
    """How far the log covers what was sent, and where it contradicts that."""
    at = 0
    for pos, kind, raw in exchange.events:
        if kind in BODY_KINDS:
            if sent[at : at + len(raw)] != raw:
                return at, f"event {pos} is not what was sent at byte {at}"
            at += len(raw)
        elif kind == "gap" and (gap := msgspec.json.decode(raw))["of"] == "response":
            lost = sent[at : at + gap["size_bytes"]]
            if len(lost) != gap["size_bytes"] or (
                gap["sha256"] and sha256(lost).hexdigest() != gap["sha256"]
            ):
                return at, f"the gap at event {pos} is not what was sent at byte {at}"
            at += len(lost)
    return at, None


def _sums(end: Mapping[str, Any], exchange: Logged, covered: int, sent: int) -> Iterator[str]:
    gaps = [msgspec.json.decode(raw) for _, kind, raw in exchange.events if kind == "gap"]
    counted = [(gap["chunks"], gap["size_bytes"]) for gap in gaps if gap["of"] == "response"]
    if (end["gap_chunks"], end["gap_bytes"]) != (
        sum(each for each, _ in counted),
        sum(each for _, each in counted),
    ):
        yield "its end counts other gaps than it has"
    if end["wire_bytes"] != covered:
        yield f"its end counts {end['wire_bytes']} bytes, its events have {covered}"
    if end["lossless"] and gaps:
        yield "it says that it is whole, and has a gap"
    if end["outcome"] == "eof" and covered != sent:
        yield f"it ended well after {covered} bytes of {sent}"


def _end(exchange: Logged) -> dict[str, Any]:
    raw = next((raw for _, kind, raw in exchange.events if kind == "end"), b"{}")
    return dict(msgspec.json.decode(raw))


def _exchange_ids(ask: Ask) -> dict[str, list[tuple[str, str]]]:
    """The exchanges of each stream."""
    found: dict[str, list[tuple[str, str]]] = {}
    for session_id, exchange_id, target in ask(
        "SELECT session_id, exchange_id, target FROM exchanges"
    ):
        found.setdefault(id_of(target), []).append((session_id, exchange_id))
    return found


def _read(ask: Ask, session_id: str, exchange_id: str) -> Logged:
    sql = "SELECT pos, kind, raw FROM events WHERE session_id = ? AND exchange_id = ? ORDER BY pos"
    return Logged(exchange_id, ask(sql, session_id, exchange_id))
