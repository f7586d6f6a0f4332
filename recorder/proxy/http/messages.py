"""A request and a response between transports, and the protocols of the seam: what a transport and
its bodies must do.

A transport turns a `Request` into a `Response`; a body passes through it as it comes. Every
transport and every body of ours implements its whole protocol, so callers use it without checking
for methods. What another library gives is adapted where it enters, by `IteratedBody` and
`IteratedUpload`.

Requests and responses have as much of httpx's as transports read, and nothing that takes long to
make.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol, TypedDict

RawHeaders = list[tuple[bytes, bytes]]

Sink = Callable[[bytes], None]
"""Takes a chunk of a body, and does not raise."""


class Flow(Protocol):
    """The back-pressure of the receiver of a body: `write_paused` while it can take no more."""

    write_paused: bool

    async def drain(self) -> None:
        """Wait until it can take more."""


class BodyStream(Protocol):
    """A response body on its way down: iterated or pumped, once and by one task, then closed.

    Both ways raise `UpstreamError` where the body breaks off, after all that had arrived. After a
    101 the body is all that the upstream sends, raw: its end (a FIN) is an empty chunk, and the
    body is over when the other direction, the request's `Upload`, has ended too.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def begun(self) -> bytes:
        """Return what came together with the head; may be empty. It is not pumped again."""

    async def pump(self, sink: Sink, flow: Flow) -> bytes:
        """Hand each chunk to `sink` as it comes, if possible from the read of the socket itself.

        Returns the chunk that came with the end, which may be empty. While `flow` is paused no more
        is read.
        """

    async def aclose(self) -> None:
        """Let go of the body, read to its end or not. May be called again."""


class Upload(Protocol):
    """A request body on its way up: taken, or else iterated, once.

    That of an offer to switch (`RequestExtensions.upgrade`) is what the client sends after a 101,
    raw, up to its FIN: it cannot be taken, and is iterated only then.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def take(self) -> bytes | None:
        """Return the whole body if all of it is there already, else None."""


class Transport(Protocol):
    """Where requests are sent: the upstream itself, or a wrapper of another transport."""

    async def handle_async_request(self, request: Request) -> Response:
        """Return the response as soon as its head has come; `stream` of it is to be closed by the
        caller.

        Raises `UpstreamError` without a response, `UsageError` if the request cannot be sent at
        all. `request` is the callee's from now on: it may change it.
        """

    async def aclose(self) -> None:
        """Let go of what the transport holds, and of what it wraps."""


class Url(Protocol):
    """As much of `httpx.URL` as a transport reads."""

    @property
    def scheme(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int | None: ...

    @property
    def netloc(self) -> bytes: ...

    @property
    def raw_path(self) -> bytes: ...


class RequestExtensions(TypedDict, total=False):
    """Further data of a request for a transport."""

    recorder: object  # `recorder.proxy.routing.Origin`, if it came through the proxy
    target: bytes  # the request target to send, where the URL may not keep it as it was
    is_message: bool  # it stands for a message over WebSocket
    upgrade: bytes  # the protocol that the request offers to switch to, if it does: `websocket`
    timeout: Mapping[str, float | None]  # httpx's: `read` is the client's patience in seconds
    outcome: str  # how the exchange ended, set by who breaks it off
    error: str  # why


class ResponseExtensions(TypedDict, total=False):
    """What else is known of a response, in httpx's names."""

    http_version: bytes
    reason_phrase: bytes
    # of a replay: its faults at the frames of a message's number
    frames: Callable[[int, Sequence[Any]], Sequence[Any]]
    # messages that come so many seconds after it, and after each other
    followed_by: Sequence[tuple[float, bytes]]
    # the server ends the connection so many seconds after it: code and reason
    hang_up: tuple[float, int | None, str]


class Headers:
    """As much of `httpx.Headers` as a transport reads.

    `raw` has names and values as bytes, in their order.
    """

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of that name, in any case."""
        wanted = name.lower().encode()
        for key, value in self.raw:
            if key.lower() == wanted:
                return value.decode("latin-1")
        return default

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __setitem__(self, name: str, value: str) -> None:
        """Replace all values of that name."""
        set_ = name.lower().encode()
        self.raw = [
            *(header for header in self.raw if header[0].lower() != set_),
            (set_, value.encode("latin-1")),
        ]


class Request:
    """A request on its way through transports.

    It has a body if it has a Content-Length or Transfer-Encoding.
    """

    def __init__(
        self,
        method: str,
        url: Url,
        headers: RawHeaders,
        stream: Upload,
        extensions: RequestExtensions,
    ) -> None:
        self.method, self.url, self.headers, self.stream = method, url, Headers(headers), stream
        self.extensions = extensions

    async def aread(self) -> bytes:
        """Return the whole body; `stream` still gives it, too."""
        body = b"".join([piece async for piece in self.stream])
        self.stream = WholeUpload(body)
        return body


class Response:
    """A response on its way back through transports, from its head on."""

    def __init__(
        self,
        status: int,
        reason: bytes,
        headers: RawHeaders,
        stream: BodyStream,
        version: str = "1.1",
    ) -> None:
        self.status_code, self.headers, self.stream = status, Headers(headers), stream
        self.extensions: ResponseExtensions = {
            "http_version": f"HTTP/{version}".encode(),
            "reason_phrase": reason,
        }


class WholeUpload:
    """A request body that is there."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def take(self) -> bytes:
        return self._body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class IteratedUpload:
    """The adapter for a request body that can only be iterated."""

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks

    def take(self) -> None:
        return None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._chunks)


class IterableBody(Protocol):
    """A response body that can only be iterated: a generator, a stream of httpx."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class IteratedBody:
    """The adapter for a response body that can only be iterated, as a `BodyStream`."""

    def __init__(self, chunks: IterableBody) -> None:
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._chunks)

    def begun(self) -> bytes:
        return b""

    async def pump(self, sink: Sink, flow: Flow) -> bytes:
        async for chunk in self._chunks:
            sink(chunk)
            await flow.drain()
        return b""

    async def aclose(self) -> None:
        await self._chunks.aclose()
