"""Recording: a transport that wraps another one and journals what passes.

Rules of this file:

* A chunk is in the journal before it is handed on.
* Recording (`recorder.proxy.exchange_recorder`) raises nothing: no exception of ours reaches what passes.
* It knows no HTTP library: only the seam (`recorder.proxy.http.messages`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import cast

import msgspec

from recorder.errors import UpstreamError
from recorder.model.events import Outcome
from recorder.model.ids import uuid7
from recorder.model.payloads import RequestHead, ResponseHead
from recorder.proxy.exchange_recorder import ExchangeJournal, ExchangeRecorder
from recorder.proxy.http.messages import BodyStream, Flow, Request, Response, Sink, Transport, Upload, WholeUpload
from recorder.proxy.routing import Origin
from recorder.wire.redaction.headers import redact_headers, redact_target


def new_id() -> str:
    return uuid7(time.time_ns(), os.urandom(10))


class RecordingTransport:
    """A transport that journals every exchange that passes through `inner`."""

    def __init__(
        self,
        inner: Transport,
        journal: ExchangeJournal,
        *,
        labels: str | msgspec.UnsetType = msgspec.UNSET,
        wall_ns: Callable[[], int] = time.time_ns,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        make_id: Callable[[], str] = new_id,
    ) -> None:
        """`labels` are those of each session that begins here, as a JSON object."""
        self._inner, self._journal, self._labels = inner, journal, labels
        self._wall_ns, self._clock_ns, self._make_id = wall_ns, clock_ns, make_id

    async def handle_async_request(self, request: Request) -> Response:
        recorder = ExchangeRecorder(self._journal, self._clock_ns)
        body = request.stream.take()
        if "upgrade" in request.extensions:
            recorder.whole_request(lambda: self._request_head(request), b"")
            request.stream = _RecordedClient(request.stream, recorder)
        elif body is not None:
            request.stream = WholeUpload(body)
            recorder.whole_request(lambda: self._request_head(request), body)
        else:
            recorder.request_head(lambda: self._request_head(request))
            length = _declared_length(request)
            request.stream = _RecordedUpload(request.stream, recorder, length)
            if length == 0:
                recorder.request_end(complete=True)
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException as error:
            recorder.end(*_ending(error, request))
            raise
        recorder.request_end(complete=False)
        begun = response.stream.begun()
        recorder.response(lambda: _response_head(response), begun)
        response.stream = _RecordedBody(response.stream, recorder, request, begun)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _request_head(self, request: Request) -> RequestHead:
        origin = request.extensions.get("recorder")
        if not isinstance(origin, Origin):  # it came through no proxy
            origin = Origin(request.url.host, request.url.raw_path.decode("ascii"), request.headers.raw)
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
            labels=self._labels,
            session_fields=origin.session_fields or msgspec.UNSET,
        )


class _RecordedUpload:
    """A request body on its way up that is recorded chunk by chunk."""

    def __init__(self, inner: Upload, recorder: ExchangeRecorder, length: int | None) -> None:
        self._inner, self._recorder, self._length = inner, recorder, length

    def take(self) -> None:
        return None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = 0
        async for chunk in self._inner:
            self._recorder.request_chunk(chunk)
            size_bytes += len(chunk)
            if self._length is not None and size_bytes >= self._length:
                self._recorder.request_end(complete=True)  # a quick upstream answers before anybody asks for the end
            yield chunk
        self._recorder.request_end(complete=True)


class _RecordedClient:
    """What a client sends after a 101 on its way up, recorded chunk by chunk, and its end, an empty one."""

    def __init__(self, inner: Upload, recorder: ExchangeRecorder) -> None:
        self._inner, self._recorder = inner, recorder

    def take(self) -> None:
        return None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._recorder.client_chunk(chunk)
            yield chunk
        self._recorder.client_chunk(b"")


class _RecordedBody:
    """A response body on its way down that is recorded chunk by chunk. What has `begun` is in the journal already."""

    def __init__(self, inner: BodyStream, recorder: ExchangeRecorder, request: Request, begun: bytes) -> None:
        self._inner, self._recorder, self._request, self._begun = inner, recorder, request, begun

    def begun(self) -> bytes:
        begun, self._begun = self._begun, b""
        return begun

    async def pump(self, sink: Sink, flow: Flow) -> bytes:
        if self._begun:
            sink(self.begun())
        try:
            last = await self._inner.pump(self._recorder.recording_sink(sink), flow)
        except Exception as error:  # upstream breaks
            self._recorder.end(*_ending(error, self._request))
            raise
        self._recorder.end("eof", last=last)
        return last

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._begun:
            yield self.begun()
        try:
            async for chunk in self._inner:
                self._recorder.chunk(chunk)
                yield chunk
        except Exception as error:  # upstream breaks
            self._recorder.end(*_ending(error, self._request))
            raise
        self._recorder.end("eof")

    async def aclose(self) -> None:
        """Close the response. If its body was not read to the end, the client leaves."""
        self._recorder.end(*_abandoned(self._request))
        await self._inner.aclose()


def _ending(error: BaseException, request: Request) -> tuple[Outcome, str | None]:
    """Return the outcome, and what is known of it, of an exchange that an exception ended."""
    match error:
        case UpstreamError():
            return cast(Outcome, error.outcome), str(error)
        case asyncio.CancelledError() | GeneratorExit():
            return _abandoned(request)
        case _:
            return "upstream_reset", type(error).__name__


def _abandoned(request: Request) -> tuple[Outcome, str | None]:
    """Return the outcome, and what is known of it, of an exchange that was broken off; who did so may have set both."""
    extensions = request.extensions
    return cast(Outcome, extensions.get("outcome", "client_disconnect")), extensions.get("error")


def _declared_length(request: Request) -> int | None:
    """Return the length of the request body in bytes; None if only its end will show it."""
    if "transfer-encoding" in request.headers:
        return None
    length = request.headers.get("content-length")
    if length is None:
        return 0
    return int(length) if length.isdigit() else None


def _response_head(response: Response) -> ResponseHead:
    extensions = response.extensions
    return ResponseHead(
        status=response.status_code,
        reason=extensions.get("reason_phrase", b"").decode("latin-1"),
        headers=redact_headers(response.headers.raw),
        http_version=extensions.get("http_version", b"HTTP/1.1").decode("ascii").removeprefix("HTTP/"),
    )
