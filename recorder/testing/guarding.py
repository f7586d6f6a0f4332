"""The proxy that refuses, in a thread with an event loop of its own: for a test, whose clients may be of any kind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Thread

from recorder.refusing import Refused, RefusingProxy


class Guard:
    """The proxy, from the beginning until `close`."""

    def __init__(self) -> None:
        self._proxy = RefusingProxy()
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = Thread(target=asyncio.run, args=(self._serve(),), name="recorder-guard", daemon=True)
        self._thread.start()
        self._loop = self._started.result()

    def variables(self, given: Mapping[str, str]) -> dict[str, str]:
        return self._proxy.variables(given)

    def refused(self) -> Refused:
        return self._proxy.refused()

    def close(self) -> None:
        """Stop. Again: nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        try:
            await self._proxy.start()
        except OSError as error:
            self._started.set_exception(error)
            return
        self._started.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        self._proxy.stop()
