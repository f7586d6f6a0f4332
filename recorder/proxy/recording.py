"""Recording: a transport that wraps another one and journals what passes.

Rules of this file:

* A chunk is in the journal before it is handed on.
* What it keeps (`recorder.proxy.exchange_recorder`) raises nothing: no exception of ours reaches what passes.
* It knows no HTTP library. Requests, responses and streams are whatever has the attributes that httpx gives them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, cast

from recorder.errors import UpstreamError
from recorder.journal.format import Mark
from recorder.model.events import Outcome
from recorder.model.ids import uuid7
from recorder.model.payloads import RequestHead, ResponseHead
from recorder.proxy.exchange_recorder import Journal, Kept, Sink
from recorder.proxy.http.messages import Whole
from recorder.proxy.routing import Origin
from recorder.wire.redaction.headers import redact_headers, redact_target


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
        recording = Kept(self._journal, self._clock_ns)
        body = request.stream.take() if hasattr(request.stream, "take") else None
        if body is not None:
            request.stream = Whole(body)
            recording.request(lambda: self._request_head(request), body)
        else:
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
        if hasattr(response.stream, "pump"):
            begun = response.stream.begun()
            recording.response(lambda: _response_head(response), begun)
            response.stream = _PumpedBody(response.stream, recording, request, begun)
        else:
            recording.head(Mark.RESPONSE, lambda: _response_head(response))
            response.stream = _ResponseBody(response.stream, recording, request)
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
            target=redact_target(origin.target),
            upstream=origin.upstream,
            headers=redact_headers(origin.headers),
            session=origin.session,
            session_source=origin.session_source,
        )


class _RequestBody:
    """A request body on its way up."""

    def __init__(self, inner: Any, recording: Kept, length: int | None) -> None:
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

    def __init__(self, inner: Any, recording: Kept, request: Any) -> None:
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
    """One that comes by itself, and has begun to."""

    def __init__(self, inner: Any, recording: Kept, request: Any, begun: bytes) -> None:
        super().__init__(inner, recording, request)
        self._begun = begun

    def begun(self) -> bytes:
        """What came with the head, and is in the journal."""
        begun, self._begun = self._begun, b""
        return begun

    async def __anext__(self) -> bytes:
        return self.begun() or await super().__anext__()

    async def pump(self, sink: Sink, flow: Any) -> bytes:
        """Have each chunk handed to `sink` when it is in the journal, those of one turn of the loop together.

        Returns what came with the end.
        """
        if self._begun:
            sink(self.begun())
        try:
            last: bytes = await self._inner.pump(self._recording.passing(sink), flow)
        except Exception as error:
            self._recording.end(*_ending(error, self._request))
            raise
        self._recording.end("eof", last=last)
        return last


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
        headers=redact_headers(response.headers.raw),
        http_version=version.decode("ascii").removeprefix("HTTP/"),
    )
