"""Recording in the process of a client, without a proxy: a transport that journals what passes through the library's.

An ingester process follows the journal, as beside a proxy. All of it is in the database when the transport is closed,
as its client does. If the process dies before, the ingester brings in the rest. The fixture records into memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from recorder.errors import StoreBusyError
from recorder.journal.format import Mark
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.proxy.http.messages import Request, Response, Sink, Transport
from recorder.proxy.recording import RecordingTransport, new_id
from recorder.recordings.memory import MemoryJournal
from recorder.replay.transport import origin_of
from recorder.testing.libraries import AsyncBack, AsyncFace, Library, SyncBack, SyncFace, library_for

log = logging.getLogger(__name__)

Wait = Callable[[Callable[[], None]], Awaitable[None]]  # runs work that takes a while

DRAIN_S = 60.0  # for the ingester to commit what is left: nothing waits but what comes after the tests


def recording_transport(
    database: str | Path, *, session: str | None = None, inner: Any = None, library: Library | None = None
) -> Any:
    """Return a transport for a Client that records into a database.

    `inner` is what it sends through, an HTTPTransport of the library unless given. Without a name for the session,
    grouping finds one as for a proxy.
    """
    library = library_for(library)
    back = SyncBack(inner or library.HTTPTransport(), library)
    return SyncFace(_DatabaseRecording(database, back, session, _at_once), library)


def async_recording_transport(
    database: str | Path, *, session: str | None = None, inner: Any = None, library: Library | None = None
) -> Any:
    """Return the same as `recording_transport`, for an AsyncClient."""
    library = library_for(library)
    back = AsyncBack(inner or library.AsyncHTTPTransport(), library)
    return AsyncFace(_DatabaseRecording(database, back, session, asyncio.to_thread), library)


async def _at_once(work: Callable[[], None]) -> None:
    work()


class _DatabaseRecording:
    """The core of a transport that records: its journal and its ingester."""

    def __init__(self, database: str | Path, inner: Transport, session: str | None, wait: Wait) -> None:
        self._session, self._wait = session, wait
        self._ingestion = _Ingestion(database)
        self._recording = RecordingTransport(inner, self._ingestion)

    async def handle_async_request(self, request: Request) -> Response:
        source = "header" if self._session is not None else None
        origin = msgspec.structs.replace(origin_of(request), session=self._session, session_source=source)
        request.extensions["recorder"] = origin
        return await self._recording.handle_async_request(request)

    async def aclose(self) -> None:
        await self._recording.aclose()
        await self._wait(self._ingestion.close)


class _Ingestion:
    """A journal that threads share, and the process that brings it into the database."""

    def __init__(self, database: str | Path) -> None:
        from recorder.ingest.supervisor import IngesterSupervisor
        from recorder.store.engine import START_TIMEOUT_S
        from recorder.store.location import database_url, journal_root
        from recorder.store.write.writer import Store

        url = database_url(database)
        try:
            # What is wrong with it is said now, not when something is recorded.
            Store(url, answer_timeout_s=START_TIMEOUT_S).close()
        except StoreBusyError as error:
            log.warning("the database cannot be used yet, the journal keeps what passes: %s", error)
        self._journal = Journal(journal_root(url), new_id())
        self._lock = Lock()
        self._closed = False
        self._ingester = IngesterSupervisor(url, self._journal.directory)
        self._ingester.start()

    def exchange(self) -> _LockedWriter:
        with self._lock:
            self._journal.look()  # at its end it does so too: in between nobody has a thread for it
            return _LockedWriter(self._journal.exchange(), self._lock)

    def flush(self) -> None:
        """Do nothing: no chunk waits."""

    def close(self) -> None:
        """Wait until all is in the database. Does nothing if called again."""
        if self._closed:
            return
        self._closed = True
        self._journal.close()
        self._ingester.finish(retry=False)
        if not self._ingester.wait(DRAIN_S):
            self._ingester.stop()
        if self._journal.directory.exists():
            log.warning("not all of the journal is in the log yet: `recorder db recover` brings in the rest")


class _LockedWriter:
    """The writer of one exchange to a journal that several threads share. No chunk waits."""

    def __init__(self, inner: ExchangeWriter, lock: Lock) -> None:
        self._inner, self._lock = inner, lock

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        with self._lock:
            self._inner.write(mark, t_ns, payload)

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        with self._lock:
            self._inner.write_all(t_ns, records)

    def later(self, t_ns: int, data: bytes, then: Sink) -> bool:
        self.write(Mark.CHUNK, t_ns, data)
        then(data)
        return False

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        with self._lock:
            self._inner.end(t_ns, payload, last)


class MemoryRecording:
    """A transport that records into a journal in memory, for the fixture.

    It names the upstream of a request, whose host is recorded too: not ours, where we are between the two.
    """

    def __init__(self, inner: Transport, journal: MemoryJournal) -> None:
        self._recording = RecordingTransport(inner, journal)

    async def handle_async_request(self, request: Request) -> Response:
        origin = origin_of(request)
        if "recorder" in request.extensions:
            host = request.url.netloc
            headers = [(name, host if name.lower() == b"host" else value) for name, value in origin.headers]
            origin = msgspec.structs.replace(origin, headers=headers)
        request.extensions["recorder"] = origin
        return await self._recording.handle_async_request(request)

    async def aclose(self) -> None:
        await self._recording.aclose()
