"""The proxy that refuses, in a thread with an event loop of its own: for a test, whose clients may be of any kind.

Where tests may make no sockets (pytest-socket forbids them with a `RuntimeError`) there is none, and nobody gets out.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Thread

from recorder.replay.egress_guard import Refused, RefusingProxy


def guard() -> Guard | None:
    """Return the proxy at work, or None where no socket can be made for it or for a client."""
    try:
        socket.socket().close()
    except RuntimeError:
        return None
    return Guard()


class Guard:
    """The proxy, from the beginning until `close`."""

    def __init__(self) -> None:
        self._proxy = RefusingProxy()
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = Thread(target=self._run, name="recorder-guard", daemon=True)
        self._thread.start()
        self._loop = self._started.result()

    def variables(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return what has clients come to the proxy."""
        return self._proxy.variables(given)

    def refused(self) -> Refused:
        """Return who was asked for so far."""
        return self._proxy.refused()

    def close(self) -> None:
        """Stop. Again: nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # whoever waits for the start must not wait for ever

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        await self._proxy.start()
        self._started.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        self._proxy.stop()
