"""The HTTP server: an ASGI app on uvicorn, on one port of this machine, until it is told to stop.

Only uvicorn's protocol is used, not its `Server`: that one polls, owns the signals and waits for ever for open streams.
Stopping has three steps: no new connections; `grace_s` for streams to end by themselves; then `on_drain` ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import signal
import socket
import struct
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from recorder.direct import Direct
from recorder.errors import RecorderError
from recorder.proxy import DIRECT

T = TypeVar("T")

GRACE_S = 5.0
LAST_WORDS_S = 1.0  # for ended streams to be recorded and their connections to close
HEAD_BYTES = 64 * 2**10  # of a request's line and headers: Codex sends about 4 KiB, httpx takes a URL of 64
HEADERS = 100  # of a request: SDKs send about 25
HEAD_S = 10.0  # from the first byte of a request to the last one of its head, which clients send in one piece
BACKLOG = 1024  # connections that wait to be accepted: a burst of agents, not a queue
RESET = "recorder.reset"  # an extension of ASGI for an app that is to break off as an upstream did
GARBAGE = 10_000  # objects between two collections, a few MiB: a request leaves some thirty behind
KEEP_ALIVE_S = 75.0  # longer than clients keep an idle connection, so that they let go first


class Server:
    """An app on a port. `start`, then `stop`."""

    def __init__(self, app: Any, host: str, port: int, *, on_drain: Callable[[], None]) -> None:
        self._host, self._wanted_port = host, port
        self._on_drain = on_drain
        self._state = ServerState()
        self._config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(KEEP_ALIVE_S),
        )
        self._listener: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises `RecorderError` if the port cannot be had."""
        self._config.load()
        listener = _bind(self._host, self._wanted_port)
        self.port = listener.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: _Protocol(self._config, self._state, {}, loop), sock=listener, backlog=BACKLOG
        )

    @property
    def open(self) -> int:
        """How many requests are not answered yet."""
        return len(self._state.tasks)

    async def stop(self, grace_s: float = GRACE_S, now: asyncio.Event | None = None) -> None:
        """Stop. Open streams have `grace_s` to end by themselves, unless `now` is set before."""
        assert self._listener is not None
        self._listener.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._finished(grace_s, now)
        self._on_drain()
        await self._finished(LAST_WORDS_S, None)
        for connection in list(self._state.connections):
            assert isinstance(connection, _Protocol)
            connection.transport.abort()
        await self._finished(LAST_WORDS_S, None)

    async def _finished(self, timeout_s: float, now: asyncio.Event | None) -> None:
        """Wait until every request is answered, but no longer than `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._state.tasks or self._state.connections:
                    if now is not None and now.is_set():
                        return
                    await asyncio.sleep(0.01)


async def serve(
    app: Any,
    host: str,
    port: int,
    *,
    on_ready: Callable[[int], None],
    on_stop: Callable[[int], None],
    on_drain: Callable[[], None],
    on_hurry: Callable[[], None] = lambda: None,
    grace_s: float = GRACE_S,
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the grace of open streams at once.

    `on_ready` is given the port, `on_stop` how many requests are open when stopping begins. `on_hurry` is called for
    every further signal, also for those that come when nothing is open any more.
    """
    server = Server(app, host, port, on_drain=on_drain)
    await server.start()
    stop, now = asyncio.Event(), asyncio.Event()

    def signalled() -> None:
        if stop.is_set():
            now.set()
            on_hurry()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    on_ready(server.port)
    await stop.wait()
    on_stop(server.open)
    await server.stop(grace_s, now)


def settle() -> None:
    """What a process does that has come up and serves from now on: what it holds is no garbage, and it makes little.

    A look at all of it stops every stream for 50 ms and more, and each request brings on a look at the youngest.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on the fastest event loop there is."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # Windows
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


_BIND_ERRORS = {
    errno.EADDRINUSE: "Port {port} on {host} is taken: stop what listens there, or choose another one with --port.",
    errno.EACCES: "Port {port} needs rights that this user does not have: choose one above 1023 with --port.",
    errno.EADDRNOTAVAIL: "This machine has no address {host}: choose another one with --host.",
}


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        sentence = _BIND_ERRORS.get(error.errno or 0, "{host}:{port} cannot be listened on: {reason}.")
        raise RecorderError(sentence.format(host=host, port=port, reason=error.strerror)) from None


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol with limits to the head of a request: to its size, its headers, its time. It has none itself.

    A connection costs one timer, a request another; what comes after the head, in either direction, costs nothing.
    """

    _head_bytes = _headers = 0
    _waiting: asyncio.TimerHandle | None = None
    answering: Direct | None = None  # of the request that is being answered

    def connection_made(self, transport: Any) -> None:
        """Instead of uvicorn's, which asks the kernel for both addresses: nobody here wants to know them."""
        self.connections.add(self)
        self.transport, self.flow, self.scheme = transport, FlowControl(transport), "http"
        self._wait(KEEP_ALIVE_S)  # for a first request as long as for the next one

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(None)
        super().connection_lost(exc)
        if self.answering is not None:
            self.answering.lost()

    def on_message_begin(self) -> None:
        self._head_bytes = self._headers = 0
        self._wait(HEAD_S)
        super().on_message_begin()
        self._extensions: dict[str, Any] = {RESET: {"reset": self._reset}}
        self.scope["extensions"] = self._extensions

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        self._count(len(name) + len(value) + len(b": \r\n"))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._wait(None)
        if not _is_framed(self.headers, self.parser.get_http_version()):
            raise ValueError("where the request ends cannot be told for certain")
        super().on_headers_complete()
        self._extensions[DIRECT] = Direct(self, self.cycle)

    def send_400_response(self, msg: str) -> None:
        """Refuse. In the middle of a response there is no place for another one: it is cut off."""
        if self._is_answering() and self.cycle.response_started:
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def _reset(self) -> None:
        """Reset the connection, as an upstream does that breaks down: what it was sent is all that there is."""
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES or self._headers > HEADERS:
            raise ValueError("the head of the request is too large")  # which httptools makes a 400 of

    def _wait(self, seconds: float | None) -> None:
        """For a head, no longer than that; `None`: for nothing any more."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = None if seconds is None else self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        """No whole head has come. Of a request behind one that is being answered, it may take that much longer."""
        if self._is_answering():
            self._wait(HEAD_S)
        else:
            self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def _is_framed(headers: Iterable[tuple[bytes, bytes]], version: str) -> bool:
    """Whether everybody who reads these headers finds the same end of the request (RFC 9112 section 6.3).

    What httptools lets through: versions that have no headers, codings that not every server undoes or that HTTP/1.0
    has not, and names that a server with variables for headers takes for others.
    """
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    disguised = any(name in (b"transfer_encoding", b"content_length") for name, _ in headers)
    if disguised or version not in ("1.0", "1.1"):
        return False
    return not codings or (codings == [b"chunked"] and version == "1.1")


class _StatusLines(dict[int, bytes]):
    """uvicorn's table of status lines, for statuses that bring a reason phrase too.

    uvicorn knows the phrases of the standard only, and a proxy passes on the one that was sent. The table is the one
    place where it looks them up.
    """

    def __getitem__(self, status: int) -> bytes:
        reason: bytes | None = getattr(status, "reason", None)
        if reason is None:
            return super().__getitem__(status)
        return b"HTTP/1.1 %d %b\r\n" % (status, reason)


httptools_impl.STATUS_LINE = _StatusLines(httptools_impl.STATUS_LINE)


def _is_news(record: logging.LogRecord) -> bool:
    """Not what uvicorn says of a response that was broken off on purpose, or of an upgrade that was refused."""
    return not any(
        part in record.msg for part in ("without completing response", "pgrade request", "WebSocket library")
    )


logging.getLogger("uvicorn.error").addFilter(_is_news)
logging.getLogger("uvicorn.asgi").addFilter(lambda record: False)  # whole targets, with the keys that are in them
