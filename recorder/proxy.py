"""The proxy: an ASGI app that sends each request through a transport and each chunk of the response straight back.

Rules of this file:

* Bytes are passed on as they come, and only when the client takes them: nothing is parsed, joined, kept or timed out.
* Of the heads, only what concerns one connection is changed: hop-by-hop headers, Host, and our own session header.
* What it does not know: what is recorded, or whether anything is. A slow or failing store is the transport's affair;
  here there is nothing to do.
* A response that broke off is never ended properly: the client must see that it is not whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, Protocol

import msgspec

from recorder.admission import Refusal, refusal, too_large
from recorder.errors import UpstreamError, UsageError
from recorder.forwarding import HOP_BY_HOP, Headers, end_to_end, onward, target_of
from recorder.messages import Request, Response
from recorder.routing import Route, Routes

log = logging.getLogger(__name__)

BODY_LIMIT_BYTES = 64 * 2**20  # above any API's own limit (OpenAI 50 MB files, Anthropic and Gemini 32 and 20 MB)

HEALTH = "/_recorder/healthz"
OWN_PREFIX = "/_recorder/"

DIRECT = "recorder.direct"  # an extension of ASGI, which `recorder.server` has: a `Direct`

_BODILESS = frozenset({204, 304})

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Status(int):
    """A status code that brings its own reason phrase, for a server that can send it."""

    reason: bytes

    def __new__(cls, code: int, reason: bytes) -> Status:
        status = super().__new__(cls, code)
        status.reason = reason
        return status


class Transport(Protocol):
    """What requests are sent through: `httpx.AsyncBaseTransport` and its like."""

    async def handle_async_request(self, request: Any) -> Any: ...


class Direct(Protocol):
    """What a server has to offer that takes no task."""

    flow: Any  # `write_paused`, and `drain` to wait until it is not

    def whole_body(self, limit_bytes: int) -> bytes | None:
        """The request body, if all of it has come, nobody was given any of it, and it is no longer than that."""

    def listen(self) -> None:
        """The request body is taken: go on reading, so that `when_gone` is known."""

    def when_gone(self, callback: Callable[[], None] | None) -> None:
        """Call that when the client closes its connection, at once if it has; or nothing any more."""

    def write(self, data: bytes) -> None:
        """Send a piece of the response body, between its start and its end. Does not raise."""


class Proxy:
    """The ASGI app. `shutdown` ends what is still open."""

    def __init__(
        self,
        transport: Transport,
        routes: Routes,
        *,
        hosts: Collection[str] = (),
        body_limit_bytes: int = BODY_LIMIT_BYTES,
    ) -> None:
        """`hosts` are names for this machine, besides the loopback ones, that a request may have in `Host`."""
        self._transport, self._routes = transport, routes
        self._hosts = frozenset(host.lower() for host in hosts)
        self._body_limit_bytes = body_limit_bytes
        self._open: dict[asyncio.Task[Any], Request] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = self._own_answer(scope)
        if answer is not None:
            await _respond(send, *answer)
            return
        try:
            route = self._routes.route(target_of(scope), scope["headers"])
        except UsageError as error:
            await _respond(send, *_error(Refusal(400, "bad_request", str(error))))
            return
        await self._exchange(scope, route, receive, send)

    async def _exchange(self, scope: Message, route: Route, receive: Receive, send: Send) -> None:
        """Forward, unless the client leaves, sends too much, or the recorder is shut down."""
        task = asyncio.current_task()
        assert task is not None
        direct: Direct = scope["extensions"][DIRECT]

        def refuse() -> None:
            request.extensions["error"] = too_large(self._body_limit_bytes).message  # for the record, before its end
            task.cancel()

        body = _Body(receive, direct, self._body_limit_bytes, refuse)
        request = self._open[task] = onward(scope, route, body)
        is_gone = False

        def gone() -> None:
            nonlocal is_gone
            is_gone = True
            task.cancel()

        direct.when_gone(gone)
        response = _Response(scope, send, direct)
        try:
            await self._forward(request, route, response)
        except asyncio.CancelledError:
            if body.is_too_large:
                if not response.started:
                    await _respond(send, *_error(too_large(self._body_limit_bytes)))
            elif is_gone:
                log.debug("%s %s: the client left", request.method, route.upstream.name)
            elif request.extensions.get("outcome") != "recorder_shutdown":
                raise
        finally:
            direct.when_gone(None)
            del self._open[task]

    def shutdown(self) -> None:
        """End every open exchange, incomplete, with the outcome `recorder_shutdown`."""
        for task, request in self._open.items():
            request.extensions["outcome"] = "recorder_shutdown"
            task.cancel()

    async def _forward(self, request: Request, route: Route, response: _Response) -> None:
        """The way of a request up and of each chunk down.

        * client leaves: this is cancelled wherever it waits, and closes the upstream;
        * upstream breaks: no last chunk is sent, so the server cuts the client off;
        * store is slow, store fails: nothing to do, the journal stands between; what it cannot take, it counts.
        """
        try:
            upstream = await self._transport.handle_async_request(request)
        except UsageError as error:
            await _respond(response.send, *_error(Refusal(400, "bad_request", str(error))))
            return
        except UpstreamError as error:
            log.warning("%s to upstream %r failed: %s", request.method, route.upstream.name, error)
            await _respond(response.send, *_unreachable(route, error))
            return
        try:
            await response.start(upstream)
            await response.pass_on(upstream.stream)
            await response.send({"type": "http.response.body", "body": b"", "more_body": False})
        except UpstreamError as error:  # upstream breaks
            log.warning("a response of upstream %r broke off: %s", route.upstream.name, error)
        finally:
            await upstream.stream.aclose()

    def _own_answer(self, scope: Message) -> tuple[int, bytes, Headers] | None:
        """What we answer ourselves: refusals, and our own pages."""
        headers = dict(scope["headers"])
        hosts = [name for name, _ in scope["headers"]].count(b"host")
        refused = refusal(scope["method"], headers, hosts, self._hosts, self._body_limit_bytes)
        if refused is not None:
            return _error(refused)
        if scope["path"] == HEALTH:
            return 200, b'{"status":"ok"}', []
        if scope["path"].startswith(OWN_PREFIX):
            return _error(Refusal(404, "not_found", "The recorder has no such page."))
        return None


class _Body:
    """The request body, taken from the client as fast as the upstream takes it. Iterated once."""

    def __init__(self, receive: Receive, direct: Direct, limit_bytes: int, refuse: Callable[[], None]) -> None:
        """`refuse` ends the exchange."""
        self._receive, self._direct, self._refuse = receive, direct, refuse
        self._left_bytes = limit_bytes
        self._more = True
        self.is_too_large = False

    def take(self) -> bytes | None:
        """All of it, if it has come."""
        return self._direct.whole_body(self._left_bytes) if self._more else None

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        """The next piece. Over the limit, or without a client, there is none: whoever waits for it is cancelled."""
        if not self._more:
            raise StopAsyncIteration
        message = await self._receive()
        if message["type"] == "http.request":
            body: bytes = message["body"]
            self._more = message["more_body"]
            self._left_bytes -= len(body)
            if not self._more:
                self._direct.listen()
            if self._left_bytes >= 0:
                return body
            self.is_too_large = True
            self._refuse()
        never: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        return await never


class _Response:
    """The response on its way to the client."""

    def __init__(self, scope: Message, send: Send, direct: Direct) -> None:
        self._scope, self._direct = scope, direct
        self.send = send
        self.started = False

    async def pass_on(self, stream: Any) -> None:
        """Each chunk as it comes: in the moment of its arrival, where the transport can do that."""
        pump = getattr(stream, "pump", None)
        if pump is not None:
            await pump(self._direct.write, self._direct.flow)
            return
        async for chunk in stream:
            await self.send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def start(self, upstream: Response) -> None:
        self.started = True
        if upstream.status_code in _BODILESS:
            self._scope["method"] = "HEAD"  # else uvicorn waits for the body that Content-Length speaks of
        reason = upstream.extensions.get("reason_phrase", b"")
        await self.send(
            {
                "type": "http.response.start",
                "status": Status(upstream.status_code, reason),
                "headers": end_to_end(upstream.headers.raw, HOP_BY_HOP),
            }
        )


async def _respond(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """An answer of our own, whole."""
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _error(refused: Refusal) -> tuple[int, bytes, Headers]:
    """An error in the form that the APIs give theirs. The rest of the request is not read: the connection closes."""
    error = {"message": refused.message, "type": refused.type, "code": refused.type}
    return refused.status, msgspec.json.encode({"error": error}), [(b"connection", b"close")]


def _unreachable(route: Route, error: UpstreamError) -> tuple[int, bytes, Headers]:
    name, base = route.upstream
    message = f"recorder: upstream {name!r} ({base}) could not be reached: {error}."
    if error.outcome != "upstream_unreachable":
        message = f"recorder: upstream {name!r} ({base}) failed: {error}."
    return _error(Refusal(502, error.outcome, message))
