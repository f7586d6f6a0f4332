"""Recording: a transport that wraps another one and journals what passes.

Rules of this file:

* A chunk is in the journal before it is handed on.
* Whatever goes wrong in recording stays in it: no exception of ours reaches the request or the
  response that passes. The journal itself counts what it has no room for; should it ever raise, the
  rest of the response is counted here.
* It knows no HTTP library: only the seam (`recorder.proxy.http.messages`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Protocol, cast

import msgspec

from recorder.errors import UpstreamError
from recorder.journal.format import Gap, Mark
from recorder.model.events import ExchangeEnd, Outcome, RequestEnd, RequestHead, ResponseHead
from recorder.model.ids import uuid7
from recorder.proxy.http.messages import (
    BodyStream,
    Flow,
    Request,
    Response,
    Sink,
    Transport,
    Upload,
    WholeUpload,
)
from recorder.proxy.routing import Origin
from recorder.wire.redaction.headers import redact_headers, redact_record, redact_target
from recorder.wire.upstreams import KNOWN

log = logging.getLogger(__name__)


class RecordWriter(Protocol):
    """The records of one exchange on their way into a journal:
    `recorder.journal.writer.ExchangeWriter`, or memory.
    """

    def write(self, mark: Mark, t_ns: int, payload: bytes, /) -> None:
        """Append a record."""

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        """Append several records."""

    @property
    def later(self) -> Callable[[int, bytes, Sink], bool]:
        """Append a chunk at `t_ns` at the latest with the next `flush` of the journal, and hand it
        to the sink then.

        Returns whether that `flush` is to be called. If it raises, the sink does not have the
        chunk.
        """

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        """Append the last chunk of the response body, if there is one, and the last record."""


class ExchangeJournal(Protocol):
    """A journal that exchanges are recorded into: `recorder.journal.writer.Journal`, or one around
    it.
    """

    def exchange(self) -> RecordWriter:
        """Return the writer of a new exchange."""

    def flush(self) -> None:
        """Append the chunks that wait, and hand each on."""


_COMPLETE = (Mark.REQUEST_END, msgspec.json.encode(RequestEnd(complete=True)))


class ExchangeRecorder:
    """Records one exchange. None of its methods raises."""

    def __init__(self, journal: ExchangeJournal, clock_ns: Callable[[], int]) -> None:
        self._journal, self._clock_ns = journal, clock_ns
        self._writer: RecordWriter | None = None
        self._lost_chunks = self._lost_bytes = 0
        self._lost_client_chunks = self._lost_client_bytes = 0
        self._failure: str | None = None
        self._request_ended = self._ended = False
        try:
            self._writer = journal.exchange()
        except Exception as error:
            self._fail(error)

    # -- the request

    def whole_request(self, build_head: Callable[[], RequestHead], body: bytes) -> None:
        """Record a request that has come whole."""
        self._request_ended = True
        bodies = [(Mark.REQUEST_BODY, body)] if body else []
        self._write_all(lambda: [(Mark.REQUEST, redact_record(build_head())), *bodies, _COMPLETE])

    def request_head(self, build: Callable[[], RequestHead]) -> None:
        """Record the head of a request whose body is still to come."""
        self._write(Mark.REQUEST, lambda: redact_record(build()))

    def request_chunk(self, data: bytes) -> None:
        """Record a chunk of the request body. If that fails, the body counts as incomplete."""
        if not self._request_ended:
            self._write(Mark.REQUEST_BODY, lambda: data)

    def request_end(self, *, complete: bool) -> None:
        """Record that the request body has ended; what comes of it after the response began is not
        recorded.
        """
        if not self._request_ended:
            self._request_ended = True
            self._write(
                Mark.REQUEST_END,
                lambda: redact_record(RequestEnd(complete and self._failure is None)),
            )

    def client_chunk(self, data: bytes) -> None:
        """Record what the client sent after a 101; empty: its FIN.

        After the first that was lost, they are counted.
        """
        if self._ended:
            return
        if self._lost_client_chunks or not self._write(Mark.CLIENT_CHUNK, lambda: data):
            self._lost_client_chunks += 1
            self._lost_client_bytes += len(data)

    # -- the response

    def response(self, build_head: Callable[[], ResponseHead], begun: bytes) -> None:
        """Record the head of a response, and what of its body came with it."""
        chunks = [(Mark.CHUNK, begun)] if begun else []
        if (
            not self._write_all(lambda: [(Mark.RESPONSE, redact_record(build_head())), *chunks])
            and begun
        ):
            self._lose(begun)

    def chunk(self, data: bytes) -> None:
        """Record a chunk of the response body.

        After the first that was lost, the others are counted only.
        """
        if self._lost_chunks or not self._write(Mark.CHUNK, lambda: data):
            self._lose(data)

    def recording_sink(self, sink: Sink) -> Sink:
        """Return a sink that records a chunk of the response body, and hands it to `sink` when it
        is in the journal.

        This is the hot path: all that a recorder does with a chunk. The chunks of one turn of the
        event loop, those of other exchanges too, are written by one `flush`.
        """
        flush, clock_ns, call_soon = (
            self._journal.flush,
            self._clock_ns,
            asyncio.get_running_loop().call_soon,
        )
        later = self._count if self._writer is None or self._lost_chunks else self._writer.later

        def pass_on(data: bytes) -> None:
            nonlocal later
            try:
                is_due = later(clock_ns(), data, sink)
            except Exception as error:
                # store fails, by a fault of ours; `sink` does not have the chunk yet
                self._fail(error)
                self._lose(data)
                later = self._count  # what comes now would stand in the log before the gap
                sink(data)
                return
            if is_due:
                call_soon(flush)

        return pass_on

    def _count(self, _t_ns: int, data: bytes, sink: Sink) -> bool:
        self._lose(data)
        sink(data)
        return False

    def end(self, outcome: Outcome, error: str | None = None, last: bytes = b"") -> None:
        """Record the end of the exchange, with `last` of the response body.

        Only the first call counts.
        """
        if self._ended:
            return
        self._ended = True
        self.request_end(complete=False)
        if last and self._lost_chunks:
            self._lose(last)
            last = b""
        try:
            assert self._writer is not None
            now_ns = self._clock_ns()
            for mark, chunks, size_bytes in (
                (Mark.CHUNK, self._lost_chunks, self._lost_bytes),
                (Mark.CLIENT_CHUNK, self._lost_client_chunks, self._lost_client_bytes),
            ):
                if chunks:
                    gap = Gap(mark, chunks, size_bytes, "", now_ns, now_ns, self._failure or "")
                    self._writer.write(Mark.GAP, now_ns, msgspec.json.encode(gap))
            self._writer.end(
                now_ns, redact_record(ExchangeEnd(outcome, error or self._failure)), last
            )
        except Exception as error_here:
            self._fail(error_here)

    # -- the journal

    def _write(self, mark: Mark, build: Callable[[], bytes]) -> bool:
        """Append a record; return whether that worked."""
        try:
            assert self._writer is not None
            self._writer.write(mark, self._clock_ns(), build())
        except Exception as error:
            self._fail(error)
            return False
        return True

    def _write_all(self, build: Callable[[], list[tuple[Mark, bytes]]]) -> bool:
        """Append several records; return whether that worked."""
        try:
            assert self._writer is not None
            self._writer.write_all(self._clock_ns(), build())
        except Exception as error:
            self._fail(error)
            return False
        return True

    def _lose(self, data: bytes) -> None:
        self._lost_chunks += 1
        self._lost_bytes += len(data)

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            log.error("recording of an exchange failed: %s", type(error).__name__, exc_info=error)
            self._failure = f"The recording of this exchange failed: {type(error).__name__}."


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
        choose: Callable[[Request], ExchangeJournal] | None = None,
    ) -> None:
        """`labels` are those of each session that begins here, as a JSON object.

        `choose` gives another journal for some requests."""
        self._inner, self._labels = inner, labels
        self._choose = choose or (lambda request: journal)
        self._wall_ns, self._clock_ns, self._make_id = wall_ns, clock_ns, make_id

    def begin(self, request: Request) -> ExchangeRecorder:
        """Return the recorder of a request without a body, for an owner that knows what passes
        after it.
        """
        recorder = ExchangeRecorder(self._choose(request), self._clock_ns)
        recorder.whole_request(lambda: self._request_head(request), b"")
        return recorder

    async def handle_async_request(self, request: Request) -> Response:
        recorder = ExchangeRecorder(self._choose(request), self._clock_ns)
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
        recorder.response(lambda: response_head(response), begun)
        response.stream = _RecordedBody(response.stream, recorder, request, begun)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _request_head(self, request: Request) -> RequestHead:
        origin = request.extensions.get("recorder")
        if not isinstance(origin, Origin):  # it came through no proxy
            origin = Origin(
                request.url.host, request.url.raw_path.decode("ascii"), request.headers.raw
            )
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
            base_url=msgspec.UNSET
            if origin.base in (None, KNOWN.get(origin.upstream))
            else origin.base,
            attribution=origin.attribution or msgspec.UNSET,
        )


class _RecordedUpload:
    """A request body on its way up that is recorded chunk by chunk."""

    def __init__(
        self, inner: Upload, recorder: ExchangeRecorder, length: int | None = None
    ) -> None:
        self._inner, self._recorder, self._length = inner, recorder, length

    def take(self) -> None:
        return None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = 0
        async for chunk in self._inner:
            self._recorder.request_chunk(chunk)
            size_bytes += len(chunk)
            if self._length is not None and size_bytes >= self._length:
                # a quick upstream answers before anybody asks for the end
                self._recorder.request_end(complete=True)
            yield chunk
        self._recorder.request_end(complete=True)


class _RecordedClient(_RecordedUpload):
    """What a client sends after a 101 on its way up, recorded chunk by chunk, and its end, an empty
    one.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._recorder.client_chunk(chunk)
            yield chunk
        self._recorder.client_chunk(b"")


class _RecordedBody:
    """A response body on its way down that is recorded chunk by chunk.

    What has `begun` is in the journal already.
    """

    def __init__(
        self, inner: BodyStream, recorder: ExchangeRecorder, request: Request, begun: bytes
    ) -> None:
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
    """Return the outcome, and what is known of it, of an exchange that was broken off; who did so
    may have set both.
    """
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


def response_head(response: Response) -> ResponseHead:
    """Return the head of a response as it is recorded."""
    extensions = response.extensions
    return ResponseHead(
        status=response.status_code,
        reason=extensions.get("reason_phrase", b"").decode("latin-1"),
        headers=redact_headers(response.headers.raw),
        http_version=extensions.get("http_version", b"HTTP/1.1")
        .decode("ascii")
        .removeprefix("HTTP/"),
    )
