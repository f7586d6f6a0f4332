"""The load: upstream and clients of many streams, in this process.

It does nothing but write prepared bytes and look for the time in what comes back, so that it costs
less than what is between. Each event carries the monotonic time at which it was written.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from benchmarks.traffic import BODY, COMPLETED, FRAME

PATIENCE_S = 30.0  # for streams to begin, and to end: a run that takes longer has broken

_STAMP = b'"timestamp":"0'  # the digits begin with a zero until a machine has been up for 31 years
_DIGITS_AT = len(_STAMP) - 1
_DIGITS = 19
_DIGITS_END = _DIGITS_AT + _DIGITS
_NO_STAMP = b"-" * _DIGITS
_LAST_CHUNK = b"0\r\n\r\n"
_NUMBER = re.compile(rb"x-stream: (\d+)", re.IGNORECASE)

_REQUEST = (
    b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer benchmark\r\n"
    b"Content-Type: application/json\r\nAccept: text/event-stream\r\nUser-Agent: benchmark/1.0\r\n"
    b"X-Recorder-Session: benchmark\r\nX-Stream: %d\r\nContent-Length: %d\r\n\r\n%b"
)
_RESPONSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
    b"X-Request-Id: req_benchmark\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_FIRST = 1_000_000  # sequence numbers of one width, so that all events are of one size


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Wire(NamedTuple):
    """How events are carried: a request, and what answers it."""

    request: Callable[[int, int], bytes]  # of a port and the number of a stream
    is_last: bytes  # what a request ends with
    response: bytes
    event: bytes  # of a sequence number and a time
    end: bytes
    tail: bytes  # what `end` ends with


_SIZE = len(FRAME % (_FIRST, _NO_STAMP))
_EVENT = b"%x\r\n%b\r\n" % (_SIZE, FRAME.replace(b"%b", b"%019d"))
_END = _chunk(COMPLETED % _FIRST) + _LAST_CHUNK
_OFFER = (
    b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer benchmark\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nUser-Agent: benchmark/1.0\r\n"
    b"X-Recorder-Session: benchmark\r\nX-Stream: %d\r\n\r\n"
)
_SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
_PAYLOAD = FRAME.partition(b"data: ")[2].removesuffix(b"\n\n")
_MESSAGE = (
    b"\x81\x7e"
    + len(_PAYLOAD % (_FIRST, _NO_STAMP)).to_bytes(2)
    + _PAYLOAD.replace(b"%b", b"%019d")
)
_CLOSE = b"\x88\x02\x03\xe8"

SSE = Wire(
    lambda port, number: _REQUEST % (port, number, len(BODY), BODY),
    BODY,
    _RESPONSE,
    _EVENT,
    _END,
    _LAST_CHUNK,
)
WEBSOCKET = Wire(
    lambda port, number: _OFFER % (port, number), b"\r\n\r\n", _SWITCHED, _MESSAGE, _CLOSE, _CLOSE
)

BATCH = 16
_BATCH_REST = b"".join(FRAME % (_FIRST, _NO_STAMP) for _ in range(BATCH - 1)) + b"\r\n"
_BATCH_HEAD = b"%x\r\n" % (_SIZE * BATCH)


class Pace(Protocol):
    """When events are written."""

    batch: int  # events a write

    def start(self, stream: Stream) -> None:
        """The stream may have events from now on."""

    def arrived(self, stream: Stream) -> None:
        """The client has an event."""

    def stop(self) -> None:
        """No more events."""


class Stream(asyncio.Protocol):
    """One request of a client, and the upstream's answer to it."""

    def __init__(self, run: Run, number: int) -> None:
        self._run, self._number = run, number
        self._pace, self._wire = run.pace, run.wire
        self._tail = b""
        self._asked_ns = 0
        self.sent = 0
        self.ended = self.finished = False
        self.transport: asyncio.Transport
        self.upstream: Upstream | None = None

    # -- the client's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._asked_ns = time.monotonic_ns()
        self.transport.write(self._wire.request(self._run.port, self._number))

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        at = data.find(_STAMP)
        if at >= 0 and self._asked_ns:
            self._run.first_ns.append(now_ns - self._asked_ns)
            self._asked_ns = 0
        while at >= 0:
            digits = data[at + _DIGITS_AT : at + _DIGITS_END]
            # else a read, or a chunk of the proxy's own, has cut it
            if len(digits) == _DIGITS and digits.isdigit():
                self._run.latencies_ns.append(now_ns - int(digits))
            self._run.arrived += self._pace.batch
            self._pace.arrived(self)
            at = data.find(_STAMP, at + _DIGITS_END)
        self._tail = data[-5:] if len(data) >= 5 else (self._tail + data)[-5:]
        if self._tail.endswith(self._wire.tail):
            self.ended = True
            self.transport.close()
            self._run.on_ended(self._number)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended:
            self._run.broken += 1
            self._run.on_ended(self._number)

    # -- the upstream's side

    def send(self) -> None:
        """One event."""
        assert self.upstream is not None
        self.sent += 1
        self._run.sent += 1
        self.upstream.transport.write(self._wire.event % (_FIRST + self.sent, time.monotonic_ns()))

    def send_batch(self) -> None:
        """Events in one chunk; the first has the time."""
        assert self.upstream is not None
        self.sent += BATCH
        self._run.sent += BATCH
        first = FRAME % (_FIRST, b"%019d" % time.monotonic_ns())
        self.upstream.transport.write(_BATCH_HEAD + first + _BATCH_REST)

    def finish(self) -> None:
        """The response is complete."""
        if not self.finished and self.upstream is not None:
            self.finished = True
            self.upstream.transport.write(self._wire.end)


class Upstream(asyncio.Protocol):
    """A connection to the upstream: requests one after another, each of them for a stream of the
    run.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._received = b""
        self.transport: asyncio.Transport
        self.writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        wire = self._load.run.wire
        if wire.is_last not in self._received:
            return
        number = _NUMBER.search(self._received)
        assert number is not None
        self._received = b""
        self.transport.write(wire.response)
        self._load.run.on_begun(int(number[1]), self)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True


class Load:
    """The upstream's port. One run at a time."""

    run: Run

    async def start(self) -> int:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Upstream(self), "127.0.0.1", 0, backlog=1024
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        self._server.close()


class Run:
    """A number of streams through one port, and what was measured of them since the last `reset`."""

    def __init__(
        self,
        load: Load,
        port: int,
        streams: int,
        pace: Pace,
        *,
        again: bool = False,
        wire: Wire = SSE,
    ) -> None:
        """With `again`, a client whose stream has ended asks for the next one, on a new connection."""
        load.run = self
        self.port, self.pace = port, pace
        self._count, self._again, self.wire = streams, again, wire
        self._streams: dict[int, Stream] = {}
        self._begun = self._ended = 0
        self._going = self._stopping = False
        self._all_begun, self._all_ended = asyncio.Event(), asyncio.Event()
        self._tasks: asyncio.TaskGroup
        self.sent = self.broken = 0
        self.reset()

    @property
    def streams(self) -> int:
        """How many are open at once."""
        return self._count

    def reset(self) -> None:
        self.arrived = self.requests = 0
        self.latencies_ns: list[int] = []
        self.first_ns: list[int] = []

    async def open(self, tasks: asyncio.TaskGroup) -> None:
        """Connect all streams, until all of them have begun."""
        self._tasks = tasks
        async with asyncio.timeout(PATIENCE_S):
            for number in range(self._count):
                await self._connect(number)
            await self._all_begun.wait()

    def go(self) -> None:
        """Let the events come."""
        self._going = True
        for stream in list(self._streams.values()):
            self.pace.start(stream)

    async def stop(self) -> None:
        """End all streams, until the clients have the end."""
        self.pace.stop()
        self._again = False
        self._stopping = True
        for stream in list(self._streams.values()):
            stream.finish()
        await self.until_ended()

    async def until_ended(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._all_ended.wait()

    def on_begun(self, number: int, upstream: Upstream) -> None:
        stream = self._streams[number]
        stream.upstream = upstream
        self._begun += 1
        if self._begun == self._count:
            self._all_begun.set()
        if self._stopping:
            stream.finish()
        elif self._going:
            self.pace.start(stream)

    def on_ended(self, number: int) -> None:
        self.requests += 1
        if self._again:
            self._tasks.create_task(self._connect(number))
            return
        self._ended += 1
        if self._ended == self._count:
            self._all_ended.set()

    async def _connect(self, number: int) -> None:
        stream = self._streams[number] = Stream(self, number)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: stream, "127.0.0.1", self.port)
