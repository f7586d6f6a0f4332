"""Servers on free ports of this machine, in threads with separate event loops, for clients of any
kind: one that answers with recordings, one that refuses what goes past them.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from recorder.errors import RecorderError, UpstreamError
from recorder.proxy.admission import ANY_HOST
from recorder.proxy.app import Proxy
from recorder.proxy.http.messages import BodyStream, IteratedBody, Request, Response, Transport
from recorder.proxy.http.server import Server, run
from recorder.proxy.http.server_exchange import ServerExchange
from recorder.proxy.routing import HostRoutes, Routes
from recorder.replay.egress_guard import RefusingProxy

HOST = "127.0.0.1"
SENT_S = 0.05  # for a client to read what was sent: a reset discards what it has not read yet

# of the connection that a request came by
_reset: ContextVar[Callable[[], None]] = ContextVar("reset")


class _Served(ABC):
    """A server in a thread of its own, from the beginning until `close`."""

    def __init__(self, name: str) -> None:
        self._started = Future[None]()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        try:
            self._started.result()
        except RecorderError as error:
            # whoever reads it knows nothing of the thread
            raise error.with_traceback(None) from None

    @abstractmethod
    async def _begin(self) -> None:
        """Listen."""

    @abstractmethod
    async def _end(self, grace_s: float) -> None:
        """Stop."""

    def close(self, grace_s: float = 0.0) -> None:
        """Stop; requests that are not answered yet have `grace_s` seconds, then they are cut.

        Does nothing if called again.
        """
        if self._thread.is_alive():
            self._grace_s = grace_s
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # whoever waits for the start must not wait for ever

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await self._begin()
        self._started.set_result(None)
        await self._stop.wait()
        await self._end(self._grace_s)


class Loopback(_Served):
    """The proxy over a transport."""

    def __init__(
        self, transport: Transport, routes: Routes, bound: socket.socket | None = None
    ) -> None:
        """Listen, at `bound` if it is given. Raises `RecorderError` if that cannot be."""
        self._transport, self._routes, self._bound = transport, routes, bound
        super().__init__("recorder-loopback")
        self.url = f"http://{HOST}:{self._server.port}"

    async def _begin(self) -> None:
        # no web page reaches a socket of this process
        hosts = () if self._bound is None else (ANY_HOST,)
        proxy = Proxy(_Resetting(self._transport), self._routes, hosts=hosts)

        async def app(incoming: ServerExchange) -> None:
            _reset.set(incoming.reset)
            await proxy(incoming)

        self._server = Server(app, HOST, 0, on_drain=proxy.shutdown)
        await self._server.start(self._bound)

    async def _end(self, grace_s: float) -> None:
        await self._server.stop(grace_s)
        await self._transport.aclose()


class UnixLoopback:
    """The proxy over a transport, at a Unix socket that only this user can reach.

    Its clients name hosts, not ports.
    """

    def __init__(self, transport: Transport, routes: HostRoutes) -> None:
        """Listen. Raises `RecorderError` if the path is too long for a Unix socket."""
        self._folder = TemporaryDirectory(prefix="recorder-")
        self.path = Path(self._folder.name, "s")
        bound = socket.socket(socket.AF_UNIX)
        try:
            bound.bind(str(self.path))
        except OSError as error:
            bound.close()
            self._folder.cleanup()
            raise RecorderError(
                f"{self.path} cannot be a Unix socket ({error}): set TMPDIR to a shorter path."
            ) from None
        self._server = Loopback(transport, routes, bound)

    def close(self, grace_s: float = 0.0) -> None:
        """Stop, as `Loopback.close` does, and remove the socket."""
        self._server.close(grace_s)
        self._folder.cleanup()


class _Resetting:
    """A transport whose resets reach the client: an upstream that breaks down does not close
    properly.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: Request) -> Response:
        try:
            response = await self._inner.handle_async_request(request)
        except UpstreamError as error:
            await _break_off(error)
            raise
        response.stream = IteratedBody(_ResettingChunks(response.stream))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _ResettingChunks:
    """A response body whose failures reset the connection."""

    def __init__(self, inner: BodyStream) -> None:
        self._inner = inner

    def __aiter__(self) -> _ResettingChunks:
        self._chunks = aiter(self._inner)
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._chunks)
        except UpstreamError as error:
            await _break_off(error)
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _break_off(error: UpstreamError) -> None:
    if error.outcome == "upstream_reset":
        await asyncio.sleep(SENT_S)
        _reset.get()()


def guard() -> Guard | None:
    """Return the proxy that refuses what goes past a replay, or None where tests may make no
    sockets.

    pytest-socket forbids them with a `RuntimeError`; then no client gets out anyway.
    """
    try:
        socket.socket().close()
    except RuntimeError:
        return None
    return Guard()


class Guard(_Served):
    """The proxy that refuses."""

    def __init__(self) -> None:
        self.proxy = RefusingProxy()
        super().__init__("recorder-guard")

    async def _begin(self) -> None:
        await self.proxy.start()

    async def _end(self, grace_s: float) -> None:
        self.proxy.stop()
