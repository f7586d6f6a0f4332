"""Durability `strict`: nothing reaches the client before it is on the disk, and safe from a power
cut.

A transport around the recording one: it syncs the journal before it hands a chunk on. One sync
serves all streams that wait when it begins, so a hundred of them cost little more than one. A
failing sync is logged once, and the client gets its bytes nevertheless.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from recorder.proxy.http.messages import BodyStream, IteratedBody, Request, Response, Transport

log = logging.getLogger(__name__)


class Syncable(Protocol):
    """A journal that can be synced: `recorder.journal.writer.Journal`, made `durable`."""

    def sync(self) -> None:
        """Bring all that was written before this call onto the disk. Runs in a thread."""


class DurableTransport:
    """A transport that hands on what `inner` gives when all that `journal` has of it is on the
    disk.
    """

    def __init__(self, inner: Transport, journal: Syncable) -> None:
        self._inner, self._syncs = inner, _Syncs(journal)

    async def handle_async_request(self, request: Request) -> Response:
        try:
            response = await self._inner.handle_async_request(request)
        except Exception:
            await self._syncs.wait()  # the client will see the error
            raise
        try:
            await self._syncs.wait()
        except BaseException:  # the client has left: nobody else knows of this response
            await response.stream.aclose()
            raise
        response.stream = IteratedBody(_SyncedChunks(response.stream, self._syncs))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
        self._syncs.close()


class _SyncedChunks:
    """The chunks of a response body, each of which waits for the disk, and so does its end."""

    def __init__(self, inner: BodyStream, syncs: _Syncs) -> None:
        self._inner, self._syncs = inner, syncs
        self._chunks: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> _SyncedChunks:
        self._chunks = aiter(self._inner)
        return self

    async def __anext__(self) -> bytes:
        assert self._chunks is not None
        try:
            return await anext(self._chunks)
        finally:
            await self._syncs.wait()

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Syncs:
    """Syncs of the journal, one after another, each for all who wait when it begins."""

    def __init__(self, journal: Syncable) -> None:
        self._journal = journal
        self._thread = ThreadPoolExecutor(1, "sync")
        self._running: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None
        self._failed = self._closed = False

    async def wait(self) -> None:
        """Wait until all is on the disk that was written before this call."""
        if self._next is None:  # one that runs already may have begun before the last write
            self._next = asyncio.get_running_loop().create_future()
            if self._running is None:
                self._begin()
        await asyncio.shield(self._running if self._next is None else self._next)

    def close(self) -> None:
        """Sync no more. Callers that still wait continue when the running sync has ended."""
        self._closed = True
        self._thread.shutdown()

    def _begin(self) -> None:
        self._running, self._next = self._next, None
        if self._closed:
            asyncio.get_running_loop().call_soon(self._ended)
            return
        syncing = asyncio.get_running_loop().run_in_executor(self._thread, self._sync)
        syncing.add_done_callback(self._ended)

    def _sync(self) -> None:
        try:
            self._journal.sync()
        except Exception as error:
            if not self._failed:
                reason = error.strerror if isinstance(error, OSError) else type(error).__name__
                log.error(
                    "the journal cannot be synced (%s): a power cut may lose what clients saw",
                    reason,
                )
            self._failed = True

    def _ended(self, *_: asyncio.Future[None]) -> None:
        assert self._running is not None
        self._running.set_result(None)
        self._running = None
        if self._next is not None:
            self._begin()
