"""Recording: a transport that wraps another one and journals what passes.

Rules of this file:

* A chunk is in the journal before it is handed on.
* Whatever goes wrong in here stays in here: no exception of ours reaches the request or the response that passes. The
  journal itself counts what it has no room for; should it ever raise, the rest of the response is counted here.
* It knows no HTTP library. Requests, responses and streams are whatever has the attributes that httpx gives them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Protocol, cast

import msgspec

from recorder import redaction
from recorder.errors import UpstreamError
from recorder.events import Outcome, uuid7
from recorder.heads import ExchangeEnd, RequestEnd, RequestHead, ResponseHead
from recorder.records import Gap, Mark
from recorder.routing import Origin

log = logging.getLogger(__name__)


class Tape(Protocol):
    """Where the records of one exchange go: `recorder.journal.JournalExchange`, which has a `later` too."""

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None: ...

    def end(self, t_ns: int, payload: bytes) -> None: ...


class Journal(Protocol):
    """What makes a tape for each exchange: `recorder.journal.Journal`, which has a `flush` for what is for later."""

    def exchange(self) -> Tape: ...


Sink = Callable[[bytes], None]


class Transport(Protocol):
    """What is wrapped: `httpx.AsyncBaseTransport` and its like."""

    async def handle_async_request(self, request: Any) -> Any: ...

    async def aclose(self) -> None: ...


def new_id() -> str:
    return uuid7(time.time_ns(), os.urandom(10))


class RecordingTransport:
    """Journals every exchange that passes through `inner`."""

    def __init__(
        self,
        inner: Transport,
        journal: Journal,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        make_id: Callable[[], str] = new_id,
    ) -> None:
        self._inner, self._journal = inner, journal
        self._wall_ns, self._clock_ns, self._make_id = wall_ns, clock_ns, make_id

    async def handle_async_request(self, request: Any) -> Any:
        recording = _Recording(self._journal, self._clock_ns)
        recording.head(Mark.REQUEST, lambda: self._request_head(request))
        length = _declared_length(request)
        request.stream = _RequestBody(request.stream, recording, length)
        if length == 0:
            recording.request_end(complete=True)
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException as error:
            recording.end(*_ending(error, request))
            raise
        recording.request_end(complete=False)
        recording.head(Mark.RESPONSE, lambda: _response_head(response))
        kept = _PumpedBody if hasattr(response.stream, "pump") else _ResponseBody
        response.stream = kept(response.stream, recording, request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _request_head(self, request: Any) -> RequestHead:
        origin = request.extensions.get("recorder") or _origin(request)
        return RequestHead(
            exchange_id=self._make_id(),
            session_id=self._make_id(),
            started_ns=self._wall_ns(),
            method=request.method,
            target=redaction.target(origin.target),
            upstream=origin.upstream,
            headers=redaction.headers(origin.headers),
            session=origin.session,
            session_source=origin.session_source,
        )


class _RequestBody:
    """A request body on its way up."""

    def __init__(self, inner: Any, recording: _Recording, length: int | None) -> None:
        self._inner, self._recording = inner, recording
        self._left = length
        self._chunks: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> _RequestBody:
        self._chunks = self._inner.__aiter__()
        return self

    async def __anext__(self) -> bytes:
        assert self._chunks is not None
        try:
            chunk = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._recording.request_end(complete=True)
            raise
        self._recording.keep_request(chunk)
        if self._left is not None:
            self._left -= len(chunk)
            if self._left <= 0:  # a quick upstream answers before anybody asks for the end of the body
                self._recording.request_end(complete=True)
        return chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _ResponseBody:
    """A response body on its way down."""

    def __init__(self, inner: Any, recording: _Recording, request: Any) -> None:
        self._inner, self._recording, self._request = inner, recording, request
        self._chunks: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> _ResponseBody:
        self._chunks = self._inner.__aiter__()
        return self

    async def __anext__(self) -> bytes:
        assert self._chunks is not None
        try:
            chunk = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._recording.end("eof")
            raise
        except Exception as error:
            self._recording.end(*_ending(error, self._request))
            raise
        self._recording.keep_response(chunk)
        return chunk

    async def aclose(self) -> None:
        """Close the response; if its body was not read to the end, whoever closes it has left."""
        self._recording.end(*_abandoned(self._request))
        await self._inner.aclose()


class _PumpedBody(_ResponseBody):
    """One that comes by itself."""

    async def pump(self, sink: Sink, flow: Any) -> None:
        """Have each chunk handed to `sink` when it is in the journal, those of one turn of the loop together."""
        try:
            await self._inner.pump(partial(self._recording.pass_on, sink), flow)
        except Exception as error:
            self._recording.end(*_ending(error, self._request))
            raise
        self._recording.end("eof")


class _Recording:
    """What is kept of one exchange. None of its methods raises."""

    def __init__(self, journal: Journal, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._tape: Tape | None = None
        self._lost_chunks = self._lost_bytes = 0
        self._failure: str | None = None
        self._request_ended = self._ended = False
        self._later: Callable[[int, bytes, Sink], bool] | None = None
        self._flush: Callable[[], None] | None = None
        try:
            self._tape = journal.exchange()
            self._later = getattr(self._tape, "later", None)
            self._flush = getattr(journal, "flush", None)
        except Exception as error:
            self._fail(error)

    def head(self, mark: Mark, build: Callable[[], msgspec.Struct]) -> None:
        """Keep a record of which there is one."""
        self._write(mark, lambda: msgspec.json.encode(build()))

    def keep_request(self, data: bytes) -> None:
        """Keep a chunk of the request body. If that fails, the body counts as incomplete."""
        if not self._request_ended:
            self._write(Mark.REQUEST_BODY, lambda: data)

    def keep_response(self, data: bytes) -> None:
        """Keep a chunk of the response body. After the first that was lost, the others are counted only."""
        if self._lost_chunks or not self._write(Mark.CHUNK, lambda: data):
            self._lost_chunks += 1
            self._lost_bytes += len(data)

    def pass_on(self, sink: Sink, data: bytes) -> None:
        """Keep a chunk of the response body, and hand it on then."""
        if self._later is None or self._flush is None or self._lost_chunks:
            self.keep_response(data)
            sink(data)
        elif self._later(self._clock_ns(), data, sink):
            asyncio.get_running_loop().call_soon(self._flush)

    def request_end(self, *, complete: bool) -> None:
        """The request body is over; whatever comes of it later, after the response began, is not part of the record."""
        if not self._request_ended:
            self._request_ended = True
            self.head(Mark.REQUEST_END, lambda: RequestEnd(complete and self._failure is None))

    def end(self, outcome: Outcome, error: str | None = None) -> None:
        """The exchange is over. Only the first call counts."""
        if self._ended:
            return
        self._ended = True
        self.request_end(complete=False)
        try:
            assert self._tape is not None
            now_ns = self._clock_ns()
            if self._lost_chunks:
                gap = Gap(Mark.CHUNK, self._lost_chunks, self._lost_bytes, "", now_ns, now_ns, self._failure or "")
                self._tape.write(Mark.GAP, now_ns, msgspec.json.encode(gap))
            self._tape.end(now_ns, msgspec.json.encode(ExchangeEnd(outcome, error or self._failure)))
        except Exception as error_here:
            self._fail(error_here)

    def _write(self, mark: Mark, payload: Callable[[], bytes]) -> bool:
        try:
            assert self._tape is not None
            self._tape.write(mark, self._clock_ns(), payload())
        except Exception as error:
            self._fail(error)
            return False
        return True

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            log.error("recording of an exchange failed: %s", type(error).__name__)
            self._failure = f"The recording of this exchange failed: {type(error).__name__}."


def _ending(error: BaseException, request: Any) -> tuple[Outcome, str | None]:
    """How an exchange that an exception ended has ended."""
    match error:
        case UpstreamError():
            return cast(Outcome, error.outcome), str(error)
        case asyncio.CancelledError() | GeneratorExit():
            return _abandoned(request)
        case _:
            return "upstream_reset", type(error).__name__


def _abandoned(request: Any) -> tuple[Outcome, str | None]:
    """How an exchange ended that was let go of; whoever did so may have said why."""
    return cast(Outcome, request.extensions.get("outcome", "client_disconnect")), request.extensions.get("error")


def _declared_length(request: Any) -> int | None:
    """How long the request body is, in bytes; `None` if it says so only by ending."""
    if "transfer-encoding" in request.headers:
        return None
    length: str = request.headers.get("content-length", "0")
    return int(length) if length.isdigit() else None


def _origin(request: Any) -> Origin:
    """The origin of a request that came through no proxy."""
    return Origin(request.url.host, request.url.raw_path.decode("ascii"), request.headers.raw)


def _response_head(response: Any) -> ResponseHead:
    version = response.extensions.get("http_version", b"HTTP/1.1")
    return ResponseHead(
        status=int(response.status_code),
        reason=response.extensions.get("reason_phrase", b"").decode("latin-1"),
        headers=redaction.headers(response.headers.raw),
        http_version=version.decode("ascii").removeprefix("HTTP/"),
    )
