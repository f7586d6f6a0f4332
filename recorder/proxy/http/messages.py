"""A request and a response between transports: as much of httpx's as they read, and nothing that takes long to make.

A transport takes httpx's own as well: whatever has these attributes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any


class Headers:
    """As much of `httpx.Headers` as a transport's user reads. `raw` has names and values as bytes, in their order."""

    __slots__ = ("raw",)

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self.raw = raw

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of that name, in any case."""
        wanted = name.lower().encode()
        for key, value in self.raw:
            if key.lower() == wanted:
                return value.decode("latin-1")
        return default

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __setitem__(self, name: str, value: str) -> None:
        """In the place of all of that name."""
        set_ = name.lower().encode()
        self.raw = [*(header for header in self.raw if header[0].lower() != set_), (set_, value.encode("latin-1"))]


class Request:
    """As much of an `httpx.Request` as a transport reads.

    `stream` gives the body, once. It may have a `take`: the whole body, if all of it is there already, else `None`.
    """

    __slots__ = ("extensions", "headers", "method", "stream", "url")

    def __init__(
        self, method: str, url: Any, headers: list[tuple[bytes, bytes]], stream: Any, extensions: dict[str, Any]
    ) -> None:
        self.method, self.url, self.headers, self.stream = method, url, Headers(headers), stream
        self.extensions = extensions

    async def aread(self) -> bytes:
        """The whole body; `stream` still gives it, too."""
        body = b"".join([piece async for piece in self.stream])
        self.stream = Whole(body)
        return body


class Whole:
    """A body that is there."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def take(self) -> bytes:
        return self._body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class Response:
    """As much of an `httpx.Response` as a transport's user reads. `stream` is iterated once, and has `aclose`."""

    __slots__ = ("extensions", "headers", "status_code", "stream")

    def __init__(
        self, status: int, reason: bytes, headers: list[tuple[bytes, bytes]], stream: Any, version: str = "1.1"
    ) -> None:
        self.status_code, self.headers, self.stream = status, Headers(headers), stream
        self.extensions: dict[str, Any] = {"http_version": f"HTTP/{version}".encode(), "reason_phrase": reason}
