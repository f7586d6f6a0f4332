"""The library requests: an adapter for its sessions, over the core that the transports of other
libraries have, too.

    session ⇄ face ⇄ core (replay, faults, recording) ⇄ back ⇄ the library's own adapter

Rules of this file:

* `requests.adapters.BaseAdapter` is the seam. Nothing of requests, urllib3 and http.client is
  replaced: a face writes a response as a server would, and they read it. So chunks come as they
  came, and errors are those of a broken connection.
* urllib3 alone has no such seam. Its clients get the server.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPResponse, RemoteDisconnected
from itertools import chain
from typing import Any, NamedTuple, cast

import httpx
import requests
import urllib3
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3.exceptions import IncompleteRead, ProtocolError, ReadTimeoutError

from recorder.errors import UpstreamError
from recorder.model.events import as_sent
from recorder.proxy.http.messages import (
    BodyStream,
    IteratedBody,
    IteratedUpload,
    Request,
    RequestExtensions,
    Response,
    Transport,
    Upload,
    WholeUpload,
)
from recorder.testing.libraries import SyncStream, Unsync, run

READ_BYTES = 64 * 2**10  # of a response at once, at most: less if less has come

_OPTIONS = "requests"  # an extension of a request: what the session has called its adapter with
_BODILESS = frozenset({204, 304})


class _Options(NamedTuple):
    """A request as the session has sent it, and how its own adapter would be called."""

    prepared: requests.PreparedRequest
    how: Mapping[str, Any]


class ReplayAdapter(BaseAdapter):
    """A core as an adapter, to be mounted in a session."""

    def __init__(self, core: Transport) -> None:
        super().__init__()
        self._core = core

    def send(self, request: requests.PreparedRequest, *args: Any, **how: Any) -> requests.Response:
        """Return the response as soon as its head is there. Raises the exceptions of requests."""
        __tracebackhide__ = True
        how = (
            dict(zip(("stream", "timeout", "verify", "cert", "proxies"), args, strict=False)) | how
        )
        try:
            response = run(self._core.handle_async_request(_request(_Options(request, how))))
        except UpstreamError as error:
            raise _raised(error, request) from None
        return HTTPAdapter().build_response(request, _read(response, str(request.method)))

    def close(self) -> None:
        run(self._core.aclose())


class AdapterBack:
    """The adapter of the library, for a core to wrap that is run."""

    def __init__(self) -> None:
        self._adapter = HTTPAdapter()

    async def handle_async_request(self, request: Request) -> Response:
        options = cast(dict[str, _Options], request.extensions)[_OPTIONS]
        prepared = options.prepared.copy()
        body = b"".join([piece async for piece in request.stream])
        # one that was iterated is used up
        prepared.body = body if options.prepared.body is not None else None
        with _translated():
            response = self._adapter.send(prepared, **{**options.how, "stream": True})
        raw = response.raw
        chunks = iter(lambda: raw.read1(READ_BYTES, decode_content=False), b"")
        stream = IteratedBody(Unsync(chunks, response.close, _translated))
        reason = (response.reason or "").encode("latin-1")
        return Response(response.status_code, reason, as_sent(raw.headers.items()), stream)

    async def aclose(self) -> None:
        self._adapter.close()


# -- the request, from the session to the core


def _request(options: _Options) -> Request:
    prepared = options.prepared
    url = httpx.URL(str(prepared.url))
    headers = [(_bytes(name), _bytes(value)) for name, value in prepared.headers.items()]
    if "host" not in prepared.headers:
        headers.insert(0, (b"host", url.netloc))
    extensions = {"timeout": {"read": _patience_s(options.how.get("timeout"))}, _OPTIONS: options}
    return Request(
        str(prepared.method),
        url,
        headers,
        _upload(prepared.body),
        cast(RequestExtensions, extensions),
    )


def _bytes(value: str | bytes, encoding: str = "latin-1") -> bytes:
    return value.encode(encoding) if isinstance(value, str) else value


def _upload(body: Any) -> Upload:
    if body is None or isinstance(body, str | bytes):
        return WholeUpload(_bytes(body or b"", "utf-8"))
    return IteratedUpload(Unsync(_bytes(each, "utf-8") for each in body))


def _patience_s(timeout: Any) -> float | None:
    """Return the read timeout of a client, in one of the forms that requests takes."""
    if isinstance(timeout, urllib3.Timeout):
        return (
            None
            if not isinstance(timeout.read_timeout, int | float)
            else float(timeout.read_timeout)
        )
    read = timeout[1] if isinstance(timeout, tuple) else timeout
    return None if read is None else float(read)


def _raised(error: UpstreamError, request: requests.PreparedRequest) -> requests.RequestException:
    """Return the exception of requests for a failure before the response."""
    if isinstance(error.__cause__, requests.RequestException):
        return error.__cause__
    if error.outcome == "timeout":
        return requests.ReadTimeout(str(error), request=request)
    if error.outcome == "upstream_unreachable":
        return requests.ConnectionError(str(error), request=request)
    broken = _reset(error) if error.outcome == "upstream_reset" else RemoteDisconnected(str(error))
    return requests.ConnectionError(ProtocolError("Connection aborted.", broken), request=request)


def _reset(error: UpstreamError) -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, str(error))


# -- the response, from the core to the session


def _read(response: Response, method: str) -> urllib3.HTTPResponse:
    """Return a response as urllib3 reads it from a connection."""
    original = HTTPResponse(cast(Any, _ResponseSocket(response)), method=method)
    original.begin()
    return urllib3.HTTPResponse(
        body=cast(Any, original),
        headers=urllib3.HTTPHeaderDict(original.headers.items()),
        status=original.status,
        version=original.version,
        reason=original.reason,
        preload_content=False,
        decode_content=False,
        original_response=original,
        request_method=method,
    )


class _ResponseSocket:
    """A connection with a response on it, as http.client opens it."""

    def __init__(self, response: Response) -> None:
        self._response = response

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Wire(self._response))


class _Wire(io.RawIOBase):
    """The bytes of a response, each read as long as its next chunk takes."""

    def __init__(self, response: Response) -> None:
        self._stream: BodyStream = response.stream
        self._pieces = _written(response)
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._left = self._left or next(self._pieces, b"")
        size = min(len(self._left), len(buffer))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        if not self.closed:
            run(self._stream.aclose())
        super().close()


def _written(response: Response) -> Iterator[bytes]:
    """Yield a response as a server writes it: without a length, in chunks of HTTP.

    One that breaks off has no end.
    """
    headers = [each for each in response.headers.raw if each[0].lower() != b"transfer-encoding"]
    is_chunked = "content-length" not in response.headers and response.status_code not in _BODILESS
    if is_chunked:
        headers.append((b"transfer-encoding", b"chunked"))
    reason = response.extensions.get("reason_phrase", b"")
    lines = [
        b"HTTP/1.1 %d %b" % (response.status_code, reason),
        *(b"%b: %b" % each for each in headers),
    ]
    yield b"\r\n".join([*lines, b"", b""])
    try:
        for chunk in SyncStream(response.stream):
            if chunk:
                yield b"%x\r\n%b\r\n" % (len(chunk), chunk) if is_chunked else chunk
    except UpstreamError as error:
        if error.outcome == "timeout":
            raise TimeoutError(str(error)) from None
        if error.outcome == "upstream_reset":
            raise _reset(error) from None
        return
    if is_chunked:
        yield b"0\r\n\r\n"


@contextmanager
def _translated() -> Iterator[None]:
    """Raise an `UpstreamError` in place of an exception of requests, or of urllib3 while a body is
    read.
    """
    try:
        yield
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise UpstreamError(str(error) or type(error).__name__, _outcome(error)) from error


def _outcome(error: Exception) -> Any:
    if isinstance(error, requests.ReadTimeout | ReadTimeoutError):
        return "timeout"
    causes = [
        error,
        *error.args,
        *chain.from_iterable(getattr(each, "args", ()) for each in error.args),
    ]
    if any(isinstance(each, IncompleteRead | RemoteDisconnected) for each in causes):
        return "truncated"
    if any(isinstance(each, ProtocolError | ConnectionResetError) for each in causes):
        return "upstream_reset"
    return "upstream_unreachable"
