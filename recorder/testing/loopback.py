"""A server on a free port of this machine, in a thread with an event loop of its own, for clients of any kind."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from threading import Thread
from typing import Any

from recorder.proxy import Proxy
from recorder.routing import Routes
from recorder.server import Server, run

HOST = "127.0.0.1"


class Loopback:
    """The proxy over a transport. It listens from the beginning until `close`."""

    def __init__(self, transport: Any, routes: Routes) -> None:
        """Raises what keeps the server from listening."""
        self._transport, self._routes = transport, routes
        self._started: Future[int] = Future()
        self._thread = Thread(target=self._run, name="recorder-loopback", daemon=True)
        self._thread.start()
        self.url = f"http://{HOST}:{self._started.result()}"

    def close(self, grace_s: float = 0.0) -> None:
        """Stop; requests that are not answered yet have `grace_s`, then they are broken off. Again: nothing."""
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
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        proxy = Proxy(self._transport, self._routes)
        server = Server(proxy, HOST, 0, on_drain=proxy.shutdown)
        await server.start()
        self._started.set_result(server.port)
        await self._stop.wait()
        await server.stop(self._grace_s)
        await self._transport.aclose()
