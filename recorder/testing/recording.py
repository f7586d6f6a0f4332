"""Recording in the process of a client, without a proxy: a transport that journals what passes through the library's.

An ingester process follows the journal, as beside a proxy. All of it is in the database when the transport is closed,
as its client does. If the process dies before, the ingester brings in the rest. The fixture records into memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from recorder.program import load
from recorder.proxy.http.messages import Request, Response, Transport
from recorder.proxy.recording import RecordingTransport
from recorder.recordings.memory import MemoryJournal
from recorder.replay.transport import origin_of
from recorder.testing.libraries import AsyncBack, AsyncFace, Library, SyncBack, SyncFace, library_for

Wait = Callable[[Callable[[], None]], Awaitable[None]]  # runs work that takes a while


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
        self._ingestion = load("recorder.testing.ingestion:Ingestion")(database)
        self._recording = RecordingTransport(inner, self._ingestion)

    async def handle_async_request(self, request: Request) -> Response:
        source = "header" if self._session is not None else None
        origin = msgspec.structs.replace(origin_of(request), session=self._session, session_source=source)
        request.extensions["recorder"] = origin
        return await self._recording.handle_async_request(request)

    async def aclose(self) -> None:
        await self._recording.aclose()
        await self._wait(self._ingestion.close)


class MemoryRecording:
    """A transport that records into a journal in memory, for the fixture.

    It names the upstream of a request, whose host is recorded too: not ours, where we are between the two.
    """

    def __init__(self, inner: Transport, journal: MemoryJournal) -> None:
        self._recording = RecordingTransport(inner, journal)

    async def handle_async_request(self, request: Request) -> Response:
        origin = origin_of(request)
        if "recorder" in request.extensions:
            headers: list[tuple[bytes, bytes]] = []
            for name, value in origin.headers:
                headers.append((name, request.url.netloc if name.lower() == b"host" else value))
            origin = msgspec.structs.replace(origin, headers=headers)
        request.extensions["recorder"] = origin
        return await self._recording.handle_async_request(request)

    async def aclose(self) -> None:
        await self._recording.aclose()
