"""The HTTP server: an app (`recorder.proxy.http.server_exchange.App`) on one port of this machine,
until it is stopped.

Stopping has three steps: no new connections, and `on_stop` asks streams to end; `grace_s` for them
to do so; then `on_drain` ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import signal
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from recorder.errors import RecorderError
from recorder.proxy.http.server_capacity import capacity, raise_limit
from recorder.proxy.http.server_connection import ServerConnection, ServerConnections
from recorder.proxy.http.server_exchange import App

T = TypeVar("T")

GRACE_S = 5.0
LAST_WORDS_S = 1.0  # for ended streams to be recorded and their connections to close
# connections that wait to be accepted: a burst of agents; when it is full, kernels reset some
BACKLOG = 1024
GARBAGE = 10_000  # objects between two collections, a few MiB: a request leaves some five behind


class Server:
    """An app on a port. `start`, then `stop`."""

    def __init__(
        self,
        app: App,
        host: str,
        port: int,
        *,
        on_drain: Callable[[], None],
        on_stop: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_stop` is called with the number of open requests when stopping begins, `on_drain`
        after the grace.
        """
        self._host, self._wanted_port = host, port
        self._on_stop, self._on_drain = on_stop, on_drain
        self._connections = ServerConnections(app, self._pause, self._resume)
        self._socket: socket.socket | None = None
        self._listener: asyncio.Server | None = None
        self._listening: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self, bound: socket.socket | None = None) -> None:
        """Listen; in place of host and port at a socket that is bound already, if there is one.

        It is the server's.

        Raises `RecorderError` if the port cannot be had. The limit of open files at this moment
        decides how many clients are served at once.
        """
        self._connections.capacity = capacity()
        self._socket = bound or _bind(self._host, self._wanted_port)
        self.port = 0 if self._socket.family == socket.AF_UNIX else self._socket.getsockname()[1]
        await self._listen()

    async def _listen(self) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        listen = (
            loop.create_unix_server if self._socket.family == socket.AF_UNIX else loop.create_server
        )
        self._listener = await listen(
            lambda: ServerConnection(self._connections, loop),
            # that one closes with the listener, and clients go on waiting at this one
            sock=self._socket.dup(),
            backlog=BACKLOG,
        )

    def _pause(self) -> None:
        """Accept no connection: new ones wait in the kernel."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _resume(self) -> None:
        """Accept again, unless the server stops."""
        if self._socket is not None and self._listener is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    @property
    def open(self) -> int:
        """Return the number of requests that are not answered yet."""
        return len(self._connections.answering)

    async def stop(self, grace_s: float = GRACE_S, now: asyncio.Event | None = None) -> None:
        """Stop. Open streams have `grace_s` to end by themselves, unless `now` is set before."""
        if self._listening is not None:
            await self._listening
        self._pause()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        for connection in list(self._connections.connections):
            connection.shut_down()
        self._on_stop(self.open)
        await self._finished(grace_s, now)
        self._on_drain()
        await self._finished(LAST_WORDS_S, None)
        self.drop_clients()
        await self._finished(LAST_WORDS_S, None)

    def drop_clients(self) -> None:
        """Close every connection at once, whatever is on the way."""
        for connection in list(self._connections.connections):
            connection.transport.abort()

    async def _finished(self, timeout_s: float, now: asyncio.Event | None) -> None:
        """Wait until every request is answered, but no longer than `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._connections.answering or self._connections.connections:
                    if now is not None and now.is_set():
                        return
                    await asyncio.sleep(0.01)


async def serve(
    app: App,
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

    `on_ready` is given the port, `on_stop` how many requests are open when stopping begins.
    `on_hurry` is called for every further signal, also for those that come when nothing is open any
    more.
    """
    raise_limit()
    server = Server(app, host, port, on_drain=on_drain, on_stop=on_stop)
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
    await server.stop(grace_s, now)


def settle() -> None:
    """Freeze what a process holds that is up and serves from now on, and collect garbage rarely.

    A look at all of it stops every stream for 50 ms and more, and each request brings on a look at
    the youngest.
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
        sentence = _BIND_ERRORS.get(
            error.errno or 0, "{host}:{port} cannot be listened on: {reason}."
        )
        raise RecorderError(sentence.format(host=host, port=port, reason=error.strerror)) from None
