"""The HTTP libraries that a transport is for: httpx and httpx2, sync and async, from one
asynchronous core.

    client ⇄ face ⇄ core (replay, faults, recording) ⇄ back ⇄ the library's own transport

A face gives a core the library's shape: its stream classes, and its own exceptions where the core
raises an `UpstreamError`. A back does the reverse for a transport of the library that the core
wraps.

The core is asynchronous, and what it awaits without an event loop never suspends
(`recorder.replay.pace`): the sync faces run it as it is. The library is an argument, and imported
only by the caller and `library_for`.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Self, TypeVar, cast

from recorder.errors import UpstreamError
from recorder.proxy.http.messages import (
    IterableBody,
    IteratedBody,
    IteratedUpload,
    Request,
    RequestExtensions,
    Response,
    Upload,
)

T = TypeVar("T")
Library = Any  # the module httpx, or httpx2

LIBRARIES = ("httpx2", "httpx")  # the SDKs have moved to the first

_RAISED: Mapping[str, str] = {
    "upstream_unreachable": "ConnectError",
    "upstream_reset": "ReadError",
    "timeout": "ReadTimeout",
}
# the connection was closed, properly, before the response was whole
_RAISED_ELSE = "RemoteProtocolError"

_MEANT: Mapping[str, str] = {
    "ConnectError": "upstream_unreachable",
    "ConnectTimeout": "upstream_unreachable",
    "PoolTimeout": "upstream_unreachable",
    "ReadTimeout": "timeout",
    "WriteTimeout": "timeout",
    "RemoteProtocolError": "truncated",
}
_MEANT_ELSE = "upstream_reset"


def library_for(library: Library | None) -> Library:
    """Return the given library, or the first of `LIBRARIES` that is installed.

    Raises `ImportError` if none is.
    """
    if library is not None:
        return library
    for name in LIBRARIES:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ImportError("A transport needs httpx2 or httpx: install one of them.")


def run(awaitable: Awaitable[T]) -> T:
    """Return the result of a coroutine that never suspends."""
    __tracebackhide__ = True
    steps: Any = awaitable.__await__()
    try:
        while True:
            waited_for = next(steps)
            assert waited_for is None, "a sync transport has waited for an event loop"
    except StopIteration as done:
        result: T = done.value
        return result


@contextlib.contextmanager
def _raising(library: Library, request: Any) -> Iterator[None]:
    """Raise the exception of the library in place of an `UpstreamError` of the core."""
    __tracebackhide__ = True
    try:
        yield
    except UpstreamError as error:
        if isinstance(error.__cause__, library.TransportError):
            raise error.__cause__ from None
        kind = getattr(library, _RAISED.get(error.outcome, _RAISED_ELSE))
        raise kind(str(error), request=request) from None


@contextlib.contextmanager
def _translated(library: Library) -> Iterator[None]:
    """Raise an `UpstreamError` in place of an exception of the library."""
    try:
        yield
    except library.TransportError as error:
        raise UpstreamError(
            str(error) or type(error).__name__, _MEANT.get(type(error).__name__, _MEANT_ELSE)
        ) from error


Guard = Callable[[], contextlib.AbstractContextManager[None]]


async def _nothing() -> None:
    """Close what needs no closing: a request body."""


class _Body:
    """A body as it passes a face or a back; `guard` translates what it raises."""

    def __init__(
        self,
        chunks: Any,
        close: Callable[[], Any] = _nothing,
        guard: Guard = contextlib.nullcontext,
    ) -> None:
        self._inner, self._close, self._guard = chunks, close, guard


class _AsyncStream(_Body):
    """An asynchronous body."""

    base = "AsyncByteStream"

    def __aiter__(self) -> Self:
        self._chunks: AsyncIterator[bytes] = aiter(self._inner)
        return self

    async def __anext__(self) -> bytes:
        __tracebackhide__ = True
        with self._guard():
            return await anext(self._chunks)

    async def aclose(self) -> None:
        await self._close()


class SyncStream(_Body):
    """An asynchronous body, run."""

    base = "SyncByteStream"

    def __iter__(self) -> Self:
        self._chunks: AsyncIterator[bytes] = aiter(self._inner)
        return self

    def __next__(self) -> bytes:
        __tracebackhide__ = True
        with self._guard():
            try:
                return run(anext(self._chunks))
            except StopAsyncIteration:
                raise StopIteration from None

    def close(self) -> None:
        run(self._close())


class Unsync(_Body):
    """A sync body as an asynchronous one, which never suspends."""

    def __aiter__(self) -> Self:
        self._chunks = iter(self._inner)
        return self

    async def __anext__(self) -> bytes:
        with self._guard():
            chunk = next(self._chunks, None)
        if chunk is None:
            raise StopAsyncIteration
        return bytes(chunk)

    async def aclose(self) -> None:
        self._close()


@cache
def _of(library: Library, kind: Any) -> Any:
    """Return `kind` as a subclass of the library's class: its clients insist on theirs."""
    return type(kind.__name__, (kind, getattr(library, kind.base)), {})


class Side:
    """A face or a back: the other side, and the streams that it gives to it."""

    kind: Any  # of the streams

    def __init__(self, inner: Any, library: Library) -> None:
        self._inner, self._library = inner, library
        self._stream = _of(library, self.kind)


class AsyncFace(Side):
    """A core as a transport for the library's AsyncClient."""

    kind = _AsyncStream

    async def handle_async_request(self, request: Any) -> Any:
        __tracebackhide__ = True
        guard = partial(_raising, self._library, request)
        with guard():
            response = await self._inner.handle_async_request(
                adapted_request(request, IteratedUpload(request.stream))
            )
        return _response(
            self._library, response, self._stream(response.stream, response.stream.aclose, guard)
        )

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class SyncFace(Side):
    """A core as a transport for the library's Client."""

    kind = SyncStream

    def handle_request(self, request: Any) -> Any:
        __tracebackhide__ = True
        guard = partial(_raising, self._library, request)
        with guard():
            adapted = adapted_request(request, IteratedUpload(Unsync(request.stream)))
            response: Response = run(self._inner.handle_async_request(adapted))
        return _response(
            self._library, response, self._stream(response.stream, response.stream.aclose, guard)
        )

    def close(self) -> None:
        run(self._inner.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncBack(Side):
    """An asynchronous transport of the library, for a core to wrap."""

    kind = _AsyncStream

    async def handle_async_request(self, request: Request) -> Response:
        guard = partial(_translated, self._library)
        with guard():
            response = await self._inner.handle_async_request(
                _request(self._library, request, self._stream)
            )
        return adapted_response(
            response, _AsyncStream(response.stream, response.stream.aclose, guard)
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class SyncBack(Side):
    """A sync transport of the library, for a core to wrap that is run."""

    kind = SyncStream

    async def handle_async_request(self, request: Request) -> Response:
        guard = partial(_translated, self._library)
        with guard():
            response = self._inner.handle_request(_request(self._library, request, self._stream))
        return adapted_response(response, Unsync(response.stream, response.stream.close, guard))

    async def aclose(self) -> None:
        self._inner.close()


def adapted_request(request: Any, stream: Upload) -> Request:
    """Return a copy of the request as one of ours, which a core may change: the client may send its
    own again.
    """
    return Request(
        request.method,
        request.url,
        request.headers.raw,
        stream,
        cast(RequestExtensions, dict(request.extensions)),
    )


def adapted_response(response: Any, stream: IterableBody) -> Response:
    """Return a library's response as one of ours, with all that its `extensions` have."""
    adapted = Response(response.status_code, b"", response.headers.raw, IteratedBody(stream))
    adapted.extensions = response.extensions
    return adapted


def _request(library: Library, request: Request, stream: Callable[[Upload], Any]) -> Any:
    """Return one of our requests as the library's.

    A body that is there can be read from it as `content`.
    """
    body = request.stream.take()
    adapted = library.Request(
        request.method,
        request.url,
        headers=request.headers.raw,
        stream=stream(request.stream) if body is None else library.ByteStream(body),
        extensions=request.extensions,
    )
    if body is not None:
        adapted.read()
    return adapted


def _response(library: Library, response: Response, stream: Any) -> Any:
    return library.Response(
        response.status_code,
        headers=response.headers.raw,
        stream=stream,
        extensions=response.extensions,
    )
