"""The HTTP server: an ASGI app on uvicorn, on one port of this machine, until it is told to stop.

Only uvicorn's protocol is used, not its `Server`: that one polls, owns the signals and waits for ever for open streams.
Stopping has three steps: no new connections; `grace_s` for streams to end by themselves; then `on_drain` ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from recorder.errors import RecorderError

T = TypeVar("T")

GRACE_S = 5.0
LAST_WORDS_S = 1.0  # for ended streams to be recorded and their connections to close
HEAD_BYTES = 60 * 2**10  # of a request's line and headers: Codex sends about 4 KiB, httpx takes a URL of 64
BACKLOG = 1024  # connections that wait to be accepted: a burst of agents, not a queue
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
    grace_s: float = GRACE_S,
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the grace of open streams at once.

    `on_ready` is given the port, `on_stop` how many requests are open when stopping begins.
    """
    server = Server(app, host, port, on_drain=on_drain)
    await server.start()
    stop, now = asyncio.Event(), asyncio.Event()
    with _signals(lambda: (now if stop.is_set() else stop).set()):
        on_ready(server.port)
        await stop.wait()
        on_stop(server.open)
        await server.stop(grace_s, now)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on the fastest event loop there is."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # Windows
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


@contextlib.contextmanager
def _signals(handler: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


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
    """uvicorn's protocol with a limit to the head of a request; it has none of its own."""

    _head_bytes = 0

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("the head of the request is too large")  # which httptools makes a 400 of


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


_NO_NEWS = ("without completing response", "pgrade request", "WebSocket library")


def _is_news(record: logging.LogRecord) -> bool:
    """Not what uvicorn says of a response that was broken off on purpose, or of an upgrade that was refused."""
    return not any(
        part in record.msg for part in ("without completing response", "pgrade request", "WebSocket library")
    )


logging.getLogger("uvicorn.error").addFilter(_is_news)
