"""The HTTP libraries that a transport is for: httpx and httpx2, sync and async, from one asynchronous core.

    client ⇄ face ⇄ core (replay, faults, recording) ⇄ back ⇄ the library's own transport

A face gives a core the library's shape: its stream classes, and its own exceptions where the core raises an
`UpstreamError`. A back does the reverse for a transport of the library that the core wraps.

The core is asynchronous, and what it awaits without an event loop never suspends (`recorder.replay.pace`): the sync
faces run it as it is. The library is an argument, and imported by nobody but the caller and `library_for`.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache, partial
from types import TracebackType
from typing import Any, Self, TypeVar

from recorder.errors import UpstreamError

T = TypeVar("T")
Library = Any  # the module httpx, or httpx2

LIBRARIES = ("httpx2", "httpx")  # the SDKs have moved to the first

_RAISED: Mapping[str, str] = {
    "upstream_unreachable": "ConnectError",
    "upstream_reset": "ReadError",
    "timeout": "ReadTimeout",
}
_RAISED_ELSE = "RemoteProtocolError"  # the connection was closed, properly, before the response was whole

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
    """Return the given library, or the first of `LIBRARIES` that is installed. Raises `ImportError` if none is."""
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


class _AsyncStream:
    """A body as it passes a face or a back; `guard` translates what it raises."""

    def __init__(self, inner: Any, guard: Guard = contextlib.nullcontext) -> None:
        self._inner, self._guard = inner, guard

    def __aiter__(self) -> Self:
        self._chunks = self._inner.__aiter__()
        return self

    async def __anext__(self) -> bytes:
        __tracebackhide__ = True
        with self._guard():
            chunk: bytes = await anext(self._chunks)
        return chunk

    async def aclose(self) -> None:
        if hasattr(self._inner, "aclose"):
            await self._inner.aclose()


class _SyncStream:
    """An asynchronous body, run."""

    def __init__(self, inner: Any, guard: Guard = contextlib.nullcontext) -> None:
        self._inner, self._guard = inner, guard

    def __iter__(self) -> Self:
        self._chunks = self._inner.__aiter__()
        return self

    def __next__(self) -> bytes:
        __tracebackhide__ = True
        with self._guard():
            try:
                chunk: bytes = run(anext(self._chunks))
            except StopAsyncIteration:
                raise StopIteration from None
        return chunk

    def close(self) -> None:
        if hasattr(self._inner, "aclose"):
            run(self._inner.aclose())


class _Unsync:
    """A sync body as an asynchronous one, which never suspends."""

    def __init__(self, inner: Any, guard: Guard = contextlib.nullcontext) -> None:
        self._inner, self._guard = inner, guard

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
        if hasattr(self._inner, "close"):
            self._inner.close()


@cache
def _of(library: Library, kind: type, base: str) -> Any:
    """Return `kind` as a subclass of the library's class: its clients insist on theirs."""
    return type(kind.__name__, (kind, getattr(library, base)), {})


class AsyncFace:
    """A core as a transport for the library's AsyncClient."""

    def __init__(self, core: Any, library: Library) -> None:
        self._core, self._library = core, library
        self._stream = _of(library, _AsyncStream, "AsyncByteStream")

    async def handle_async_request(self, request: Any) -> Any:
        __tracebackhide__ = True
        guard = partial(_raising, self._library, request)
        with guard():
            response = await self._core.handle_async_request(_copy(self._library, request, request.stream))
        return _response(self._library, response, self._stream(response.stream, guard))

    async def aclose(self) -> None:
        await self._core.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class SyncFace:
    """A core as a transport for the library's Client."""

    def __init__(self, core: Any, library: Library) -> None:
        self._core, self._library = core, library
        self._stream = _of(library, _SyncStream, "SyncByteStream")

    def handle_request(self, request: Any) -> Any:
        __tracebackhide__ = True
        guard = partial(_raising, self._library, request)
        with guard():
            copy = _copy(self._library, request, _Unsync(request.stream))
            response = run(self._core.handle_async_request(copy))
        return _response(self._library, response, self._stream(response.stream, guard))

    def close(self) -> None:
        run(self._core.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncBack:
    """An asynchronous transport of the library, for a core to wrap."""

    def __init__(self, transport: Any, library: Library) -> None:
        self._transport, self._library = transport, library
        self._stream = _of(library, _AsyncStream, "AsyncByteStream")

    async def handle_async_request(self, request: Any) -> Any:
        guard = partial(_translated, self._library)
        request.stream = self._stream(request.stream)
        with guard():
            response = await self._transport.handle_async_request(request)
        response.stream = _AsyncStream(response.stream, guard)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class SyncBack:
    """A sync transport of the library, for a core to wrap that is run."""

    def __init__(self, transport: Any, library: Library) -> None:
        self._transport, self._library = transport, library
        self._stream = _of(library, _SyncStream, "SyncByteStream")

    async def handle_async_request(self, request: Any) -> Any:
        guard = partial(_translated, self._library)
        request.stream = self._stream(request.stream)
        with guard():
            response = self._transport.handle_request(request)
        response.stream = _Unsync(response.stream, guard)
        return response

    async def aclose(self) -> None:
        self._transport.close()


def _copy(library: Library, request: Any, stream: Any) -> Any:
    """Return a copy of the request, for a core to change: the client may send its own again."""
    return library.Request(
        request.method, request.url, headers=request.headers, stream=stream, extensions=request.extensions
    )


def _response(library: Library, response: Any, stream: Any) -> Any:
    return library.Response(
        response.status_code, headers=response.headers.raw, stream=stream, extensions=response.extensions
    )
