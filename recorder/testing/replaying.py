"""Replays and faults as transports of an HTTP library.

Recording in the process of a client, without a proxy: a transport that journals what passes through
the library's.

An ingester process follows the journal, as beside a proxy. All of it is in the database when the
transport is closed, as its client does. If the process dies before, the ingester brings in the
rest. The fixture records into memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from recorder.model.events import Recording
from recorder.model.text import limited
from recorder.program import load
from recorder.proxy.http.messages import Request, Response, Transport
from recorder.proxy.recording import ExchangeJournal, RecordingTransport
from recorder.proxy.routing import Origin
from recorder.recordings.session import require_whole
from recorder.replay.faults.forms import parse_fault
from recorder.replay.faults.transport import FaultTransport
from recorder.replay.matching import Matcher, Seen
from recorder.replay.matching.noise import DEFAULT_RULES, Rules
from recorder.replay.pace import LOOP, THREAD, Clock
from recorder.replay.transport import MISS_STATUS, ReplayTransport, origin_of
from recorder.testing.libraries import (
    AsyncBack,
    AsyncFace,
    Library,
    Side,
    SyncBack,
    SyncFace,
    library_for,
)

NAMED = 10  # of the unused recordings, in the message that says so


class UnusedRecordingsError(AssertionError):
    """Some recordings were not requested."""


class _Replay(Side):
    """The requests and recordings of a replay, as a test looks at them."""

    def __init__(self, core: Any, library: Library, matcher: Matcher) -> None:
        super().__init__(core, library)
        self._matcher = matcher

    @property
    def requests(self) -> list[Seen]:
        """Return the requests in order, each with how it was answered."""
        return self._matcher.seen()

    def unused(self) -> list[Recording]:
        """Return the recordings that have answered nothing."""
        return self._matcher.unused()

    def assert_all_used(self) -> None:
        """Raise `UnusedRecordingsError`, which lists them, if recordings have answered nothing."""
        __tracebackhide__ = True
        if unused := self.unused():
            requests = [
                f"  {each.request.method} {each.request.target} ({each.request.upstream})"
                for each in unused
            ]
            count = "1 recording was" if len(unused) == 1 else f"{len(unused)} recordings were"
            raise UnusedRecordingsError(
                "\n".join([f"{count} not asked for:", *limited(requests, NAMED)])
            )


class SyncReplay(_Replay, SyncFace):
    """A replay for the library's Client."""


class AsyncReplay(_Replay, AsyncFace):
    """A replay for the library's AsyncClient."""


def replay_transport(
    recordings: Sequence[Recording],
    *,
    speed: float | None = None,
    reads: bool = True,
    rules: Rules = DEFAULT_RULES,
    strict: bool = True,
    otherwise: Any = MISS_STATUS,
    faults: Sequence[str] = (),
    seed: int = 0,
    clock: Clock = THREAD,
    library: Library | None = None,
) -> Any:
    """Return a transport for a Client that answers from recordings: a `SyncReplay`.

    `speed` is a factor on the recorded times, or `None` for no pauses; with `reads` a body comes in
    the pieces that were read, else event by event. `strict` gives each recording once, else equal
    ones again in the same order. `otherwise` is what answers a miss: an error of that status, a
    transport of the library, or `None` to raise. `faults` are forms of
    `recorder.replay.faults.forms`. A `clock` of your own must not suspend in `sleep_until`. Raises
    `RecorderError` if bytes are missing in a recording.
    """
    library, matcher = (
        library_for(library),
        Matcher(require_whole(recordings), rules, strict=strict),
    )
    if not isinstance(otherwise, int | None):
        otherwise = SyncBack(otherwise, library)
    core = ReplayTransport(matcher, speed=speed, reads=reads, otherwise=otherwise, clock=clock)
    return SyncReplay(_faulty(core, faults, seed, clock), library, matcher)


def async_replay_transport(
    recordings: Sequence[Recording],
    *,
    speed: float | None = None,
    reads: bool = True,
    rules: Rules = DEFAULT_RULES,
    strict: bool = True,
    otherwise: Any = MISS_STATUS,
    faults: Sequence[str] = (),
    seed: int = 0,
    clock: Clock = LOOP,
    library: Library | None = None,
) -> Any:
    """Return the same as `replay_transport`, for an AsyncClient: an `AsyncReplay`."""
    library, matcher = (
        library_for(library),
        Matcher(require_whole(recordings), rules, strict=strict),
    )
    if not isinstance(otherwise, int | None):
        otherwise = AsyncBack(otherwise, library)
    core = ReplayTransport(matcher, speed=speed, reads=reads, otherwise=otherwise, clock=clock)
    return AsyncReplay(_faulty(core, faults, seed, clock), library, matcher)


def fault_transport(
    inner: Any, *faults: str, seed: int = 0, clock: Clock = THREAD, library: Library | None = None
) -> Any:
    """Return a transport for a Client that does the faults to what passes through another one of
    the library.
    """
    library = library_for(library)
    return SyncFace(_faulty(SyncBack(inner, library), faults, seed, clock), library)


def async_fault_transport(
    inner: Any, *faults: str, seed: int = 0, clock: Clock = LOOP, library: Library | None = None
) -> Any:
    """Return the same as `fault_transport`, for an AsyncClient."""
    library = library_for(library)
    return AsyncFace(_faulty(AsyncBack(inner, library), faults, seed, clock), library)


def _faulty(core: Any, faults: Sequence[str], seed: int, clock: Clock) -> Any:
    parsed = [parse_fault(fault) for fault in faults]
    return FaultTransport(core, parsed, seed=seed, clock=clock) if parsed else core


Wait = Callable[[Callable[[], None]], Awaitable[None]]  # runs work that takes a while


def recording_transport(
    database: str | Path,
    *,
    session: str | None = None,
    inner: Any = None,
    library: Library | None = None,
) -> Any:
    """Return a transport for a Client that records into a database.

    `inner` is what it sends through, an HTTPTransport of the library unless given. Without a name
    for the session, grouping finds one as for a proxy.
    """
    library = library_for(library)
    back = SyncBack(inner or library.HTTPTransport(), library)
    return SyncFace(_DatabaseRecording(database, back, session, _at_once), library)


def async_recording_transport(
    database: str | Path,
    *,
    session: str | None = None,
    inner: Any = None,
    library: Library | None = None,
) -> Any:
    """Return the same as `recording_transport`, for an AsyncClient."""
    library = library_for(library)
    back = AsyncBack(inner or library.AsyncHTTPTransport(), library)
    return AsyncFace(_DatabaseRecording(database, back, session, asyncio.to_thread), library)


async def _at_once(work: Callable[[], None]) -> None:
    work()


class JournalRecording:
    """A transport that records into a journal.

    It names the upstream of a request, whose host is recorded too: not ours, where we are between
    the two.
    """

    def __init__(self, inner: Transport, journal: ExchangeJournal) -> None:
        self._recording = RecordingTransport(inner, journal)

    def origin(self, request: Request) -> Origin:
        """Return the request as it is recorded."""
        origin = origin_of(request)
        if "recorder" not in request.extensions:
            return origin
        headers: list[tuple[bytes, bytes]] = []
        for name, value in origin.headers:
            headers.append((name, request.url.netloc if name.lower() == b"host" else value))
        return msgspec.structs.replace(origin, headers=headers)

    async def handle_async_request(self, request: Request) -> Response:
        request.extensions["recorder"] = self.origin(request)
        return await self._recording.handle_async_request(request)

    async def aclose(self) -> None:
        await self._recording.aclose()


class _DatabaseRecording(JournalRecording):
    """The core of a transport that records: its journal and its ingester."""

    def __init__(
        self, database: str | Path, inner: Transport, session: str | None, wait: Wait
    ) -> None:
        self._session, self._wait = session, wait
        self._ingestion = load("recorder.testing.ingestion:Ingestion")(database)
        super().__init__(inner, self._ingestion)

    def origin(self, request: Request) -> Origin:
        source = "header" if self._session is not None else None
        return msgspec.structs.replace(
            origin_of(request), session=self._session, session_source=source
        )

    async def aclose(self) -> None:
        await super().aclose()
        await self._wait(self._ingestion.close)
