"""The real upstream: an httpx transport over aiohttp.

aiohttp is told to add nothing, follow nothing, decode nothing, keep no cookie, wait for ever and try once. Headers go
out and come back as bytes in the order they had; the URL goes out as it is. What ends a body other than HTTP's own end
of it is an `UpstreamError`, never an end. Foreign exceptions are translated in this file only, and without their text:
aiohttp writes whole URLs into it.
"""

from __future__ import annotations

import asyncio
import errno
import os
from functools import partial
from typing import Any

import httpx
from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientError,
    ClientHandlerType,
    ClientPayloadError,
    ClientRequest,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    DummyCookieJar,
    StreamReader,
    TCPConnector,
)
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from yarl import URL

from recorder.errors import UpstreamError, UsageError

CONNECT_TIMEOUT_S = 30.0  # the only timeout: a model may think for an hour, a TCP handshake may not
READ_BYTES = 64 * 2**10  # aiohttp holds up to twice this a stream, then stops reading: 64 MiB at 500 stalled clients
HEAD_BYTES = 256 * 2**10  # names and values of a response head, as in Chrome: all of it is recorded and sent at once
HEAD_LINE_BYTES = 64 * 2**10  # one of its lines; cookies and reports of gateways come near aiohttp's own 8 KiB
HEAD_LINES = 1000
IDLE_S = 15.0  # how long a connection is kept for the next request: under what servers do, so that we let go first

_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_NOT_SENT = frozenset({"transfer-encoding"})  # aiohttp frames the body anew


class UpstreamTransport(httpx.AsyncBaseTransport):
    """Sends requests to where their URL says. Raises `UpstreamError`; `UsageError` if a request cannot be sent at all.

    A request has a body if it has a Content-Length or Transfer-Encoding header. `extensions["target"]`, if present, is
    the request target as bytes; an `httpx.URL` may not keep it as it was.
    """

    def __init__(self) -> None:
        self._session: ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        response = await self._open().request(
            request.method,
            _url(request),
            headers=_sendable(request.headers.raw),
            data=request.stream if has_body else None,
            allow_redirects=False,
        )
        assert isinstance(response, _Response)
        version = response.version
        return httpx.Response(
            response.status,
            headers=list(response.raw_headers),
            stream=_Body(response),
            extensions={
                "http_version": f"HTTP/{version[0]}.{version[1]}".encode() if version else b"HTTP/1.1",
                "reason_phrase": (response.reason or "").encode("utf-8", "surrogateescape"),
            },
        )

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> ClientSession:
        """The session; it belongs to the event loop that asks first."""
        if self._session is None:
            self._session = ClientSession(
                connector=_Connector(limit=0, keepalive_timeout=IDLE_S),
                cookie_jar=DummyCookieJar(),
                skip_auto_headers=_AUTOMATIC,
                auto_decompress=False,
                trust_env=False,
                timeout=ClientTimeout(total=None, sock_read=None, sock_connect=CONNECT_TIMEOUT_S),
                read_bufsize=READ_BYTES,
                max_line_size=HEAD_LINE_BYTES,
                max_field_size=HEAD_LINE_BYTES,
                max_headers=HEAD_LINES,
                response_class=_Response,
                middlewares=[_once],
            )
        return self._session


class _Handler(ResponseHandler):
    """A connection that stops reading heads without an end, informational ones included: aiohttp bounds lines only."""

    _awaits_head = False
    _received_bytes = 0

    def set_response_params(self, **params: Any) -> None:
        self._awaits_head, self._received_bytes = True, 0
        super().set_response_params(**params)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """A head is whole."""
        self._awaits_head = data[0].code < 200
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._awaits_head:
            self._received_bytes += len(data)
            if self._received_bytes > 2 * HEAD_BYTES and self.transport is not None:  # what stands between counts here
                self.set_exception(_head_too_long())
                self.transport.close()


class _Connector(TCPConnector):
    """Connections are `_Handler`s."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        handler: type[ResponseHandler] = _Handler
        self._factory = partial(handler, self._loop)


class _Response(ClientResponse):
    """A response that remembers the connection it came on, which knows how it was lost.

    It also ends its body with the connection, if nothing else does: aiohttp leaves a reader waiting for ever when the
    chunked coding of a body makes no sense.
    """

    handler: ResponseHandler

    async def start(self, connection: Connection) -> ClientResponse:
        assert connection.protocol is not None
        self.handler = connection.protocol
        await super().start(connection)
        if sum(len(name) + len(value) for name, value in self.raw_headers) > HEAD_BYTES:
            raise _head_too_long()
        if (closed := self.handler.closed) is not None:
            closed.add_done_callback(self._on_closed)
        return self

    def close(self) -> None:
        if (closed := self.handler.closed) is not None:
            closed.remove_done_callback(self._on_closed)
        super().close()

    def _on_closed(self, closed: asyncio.Future[None]) -> None:
        closed.exception()  # known from the handler; not asked for, it would be reported as lost
        if not self.content.is_eof() and self.content.exception() is None:
            self.content.set_exception(ClientPayloadError())


class _Body(httpx.AsyncByteStream):
    """A response body, read by read. Iterated once, by one task."""

    def __init__(self, response: _Response) -> None:
        self._response = response
        self._ends_with_connection = not {"content-length", "transfer-encoding"} & {
            name.lower() for name in response.headers
        }

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._response.content.readany()
        except ClientError:
            if data := self._left_over():
                return data
            raise self._broken() from None
        if data:
            return data
        if self._ends_with_connection and isinstance(self._response.handler.exception(), OSError):
            raise self._broken()  # a reset is no end, though aiohttp takes it for one
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Let go of the connection: kept for the next request if the body was read to its end, else closed."""
        self._response.close()

    def _left_over(self) -> bytes:
        """What had arrived when the connection broke: aiohttp would drop it."""
        return self._response.content._read_nowait(-1)

    def _broken(self) -> UpstreamError:
        lost = self._response.handler.exception()
        if isinstance(lost, OSError):
            return _reset(lost, "in mid-response")
        return UpstreamError("the upstream closed the connection in mid-response", "truncated")


async def _once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Send a request and translate what goes wrong.

    As a middleware this stands inside aiohttp's own retry on lost connections, which knows aiohttp's exceptions only: a
    request is never sent twice.
    """
    try:
        return await handler(request)
    except (ClientError, OSError) as error:
        raise _unanswered(error) from None


def _unanswered(error: Exception) -> UpstreamError:
    match error:
        case ConnectionTimeoutError():
            message = f"no connection within {CONNECT_TIMEOUT_S:g} s"
        case ClientConnectorDNSError():
            message = "its name cannot be resolved"
        case ClientConnectorCertificateError() | ClientConnectorSSLError():
            message = "its TLS certificate or handshake was not accepted"
        case ClientConnectorError():
            message = os.strerror(error.os_error.errno) if error.os_error.errno else "connection failed"
        case ClientResponseError():
            return UpstreamError("the upstream did not answer in HTTP", "upstream_reset")
        case OSError():
            return _reset(error, "before it answered")
        case _:
            return UpstreamError("the upstream closed the connection before it answered", "truncated")
    return UpstreamError(message, "upstream_unreachable")


def _head_too_long() -> UpstreamError:
    return UpstreamError(f"the head of the upstream's response is over {HEAD_BYTES // 2**10} KiB", "upstream_reset")


def _reset(error: OSError, when: str) -> UpstreamError:
    reason = os.strerror(error.errno) if error.errno else "connection lost"
    outcome = "timeout" if error.errno == errno.ETIMEDOUT else "upstream_reset"
    return UpstreamError(f"the upstream's connection broke {when}: {reason}", outcome)


def _url(request: httpx.Request) -> URL:
    target: bytes | Any = request.extensions.get("target", request.url.raw_path)
    origin = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
    return URL(origin + target.decode("ascii"), encoded=True)


def _sendable(headers: list[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Headers as aiohttp takes them: it encodes as UTF-8, so that decoding as UTF-8 keeps every byte."""
    try:
        decoded = [(name.decode("ascii"), value.decode("utf-8")) for name, value in headers]
    except UnicodeDecodeError:
        raise UsageError("A header of the request is not UTF-8 and cannot be forwarded.") from None
    return [header for header in decoded if header[0].lower() not in _NOT_SENT]
