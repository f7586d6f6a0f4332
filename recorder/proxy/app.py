"""The proxy: an app that sends each request through a transport and each chunk of the response
straight back.

Rules of this file:

* Bytes are passed on as they come, and only when the client takes them: nothing is parsed, joined,
  kept or timed out.
* Of the heads, only what concerns one connection is changed: hop-by-hop headers, Host, and our own
  session header.
* It does not know what is recorded, or whether anything is.
* A response that broke off is never ended properly: the client must see that it is not whole.
* After a 101 of the upstream, and never before, both directions are raw bytes
  (`recorder.proxy.tunnel`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from recorder.errors import NotFoundError, UpstreamError, UsageError
from recorder.proxy.admission import (
    BROWSER_REFUSED,
    BUDGET_HEADER,
    TOKEN_HEADER,
    Overspent,
    Refusal,
    is_preflight,
    page_hint,
    preflight_answer,
    refusal,
    shared_with,
    too_large,
)
from recorder.proxy.http.hints import Hints
from recorder.proxy.http.messages import Request, RequestExtensions, Response, Transport, Upload
from recorder.proxy.http.network import PORTS, UNIX, socket_path
from recorder.proxy.http.server_exchange import SWITCHING, Bearer, Headers, ServerExchange
from recorder.proxy.routing import SESSION_HEADER, TAGS_HEADER, Route, Routes
from recorder.proxy.tunnel import Tunnel
from recorder.wire.dialects import error_body

log = logging.getLogger(__name__)

# above any API's own limit (OpenAI 50 MB files, Anthropic and Gemini 32 and 20 MB)
BODY_LIMIT_BYTES = 64 * 2**20

FORBIDDEN, TOO_MANY = 403, 429
_AWS_ERROR = b"x-amzn-errortype"  # as InvalidSignatureException

HEALTH = "/_recorder/healthz"
OWN_PREFIX = "/_recorder/"

HOP_BY_HOP = frozenset(
    b"connection keep-alive te trailer transfer-encoding upgrade "
    b"proxy-authenticate proxy-authorization proxy-connection".split()
)
_ENDED_HERE = ("recorder_shutdown", "token_revoked")
# A token is of whoever gave it, also where this recorder wants none: no provider is to have it.
_NOT_FORWARDED = HOP_BY_HOP | {b"expect", b"host", SESSION_HEADER, TAGS_HEADER, TOKEN_HEADER}


OwnAnswer = tuple[int, bytes, Headers]


class OpenExchange(NamedTuple):
    """A request that is being forwarded, and who sent it."""

    request: Request
    bearer: Bearer | None


class Proxy:
    """The app (`recorder.proxy.http.server_exchange.App`).

    `stop` asks what would never end by itself to end, `shutdown` ends what is still open, and
    `end_revoked` what is open of a token that was revoked.
    """

    def __init__(
        self,
        transport: Transport,
        routes: Routes,
        *,
        hosts: Collection[str] = (),
        origins: Collection[bytes] = (),
        body_limit_bytes: int = BODY_LIMIT_BYTES,
        websocket: bool = True,
        overspent: Callable[[Bearer], Overspent | None] = lambda _: None,
    ) -> None:
        """`hosts` are names of this machine, besides the loopback ones, that a request may have in
        `Host`; `origins` are those of web pages that may send requests.

        Without `websocket` an offer to switch to it is refused with 426. `overspent` returns a
        budget of which a bearer has nothing left.
        """
        self._transport, self._routes = transport, routes
        self._hosts, self._origins = frozenset(host.lower() for host in hosts), frozenset(origins)
        self._body_limit_bytes, self._websocket, self._overspent = (
            body_limit_bytes,
            websocket,
            overspent,
        )
        self._tunnels: set[Tunnel] = set()
        self._is_stopping = False
        self._hints = Hints()
        self._open: dict[asyncio.Task[None], OpenExchange] = {}
        self._doubted: set[Bearer] = set()  # whose tokens were not valid at the last look
        self.forwarded = 0  # requests that went through the transport
        # those that did not: type → how many, and the first message
        self.refused: dict[str, tuple[int, str]] = {}

    async def __call__(self, incoming: ServerExchange) -> None:
        answer = self._own_answer(incoming)
        if answer is not None:
            _respond(incoming, *answer)
            return
        try:
            path, query = incoming.path, incoming.query
            target = path + b"?" + query if query else path
            route = self._routes.route(target.decode("latin-1"), incoming.headers, incoming.bearer)
        except UsageError as error:
            _respond(incoming, *self._refuse(Refusal(400, "bad_request", str(error))))
            return
        except NotFoundError as error:
            _respond(incoming, *self._refuse(Refusal(404, "unknown_path", str(error))))
            return
        refused = (
            None
            if incoming.bearer is None
            else self._refused_bearer(incoming, route, incoming.bearer)
        )
        if refused is not None:
            _respond(incoming, *refused)
            return
        self.forwarded += 1
        await self._exchange(incoming, route)

    def _refused_bearer(
        self, incoming: ServerExchange, route: Route, bearer: Bearer
    ) -> OwnAnswer | None:
        """Return the refusal of a request whose token may not make it.

        Note a budget of which nothing is left.
        """
        if not bearer.may_use(route.upstream):
            sentence = f"This token may not use the upstream {route.upstream}: ask whoever gave it."
            return self._refuse(Refusal(FORBIDDEN, "upstream_not_allowed", sentence))
        budget = self._overspent(bearer)
        if budget is None:
            return None
        incoming.added = [*incoming.added, (BUDGET_HEADER, budget.note)]
        if not budget.refuses:
            return None
        status, _, headers = self._refuse(Refusal(TOO_MANY, "budget_exceeded", budget.sentence))
        asked = incoming.method, route.target, route.upstream
        body = error_body(*asked, status, budget.sentence, "budget_exceeded")
        # SDKs try a 429 again, and none is let in
        return status, body, [*headers, (b"x-should-retry", b"false")]

    async def _exchange(self, incoming: ServerExchange, route: Route) -> None:
        """Forward a request, unless the client leaves, sends too much, or the recorder is shut
        down.
        """
        task = asyncio.current_task()
        assert task is not None

        def refuse() -> None:
            # for the record, before its end
            request.extensions["error"] = too_large(self._body_limit_bytes).message
            task.cancel()

        body = _BoundedUpload(incoming, self._body_limit_bytes, refuse)
        tunnel = None if incoming.upgrade is None else Tunnel(incoming)
        request = onward(incoming, route, tunnel or body)
        self._open[task] = OpenExchange(request, incoming.bearer)
        if tunnel is not None:
            self._tunnels.add(tunnel)
            if self._is_stopping:  # its request had come, but not its turn
                tunnel.stop()
        try:
            await self._forward(request, route, incoming, tunnel)
        except asyncio.CancelledError:
            if body.is_too_large:
                if not incoming.started:
                    _respond(incoming, *_error(too_large(self._body_limit_bytes)))
            elif incoming.gone:
                # client leaves: this was cancelled wherever it waited, and has closed the upstream
                log.debug("%s %s: the client left", request.method, route.upstream)
            elif request.extensions.get("outcome") not in _ENDED_HERE:
                raise
        finally:
            del self._open[task]
            if tunnel is not None:
                self._tunnels.discard(tunnel)

    async def _forward(
        self, request: Request, route: Route, incoming: ServerExchange, tunnel: Tunnel | None
    ) -> None:
        """Send the request up, and the response down as it comes."""
        try:
            upstream = await self._transport.handle_async_request(request)
        except UsageError as error:
            _respond(incoming, *_error(Refusal(400, "bad_request", str(error))))
            return
        except UpstreamError as error:  # upstream breaks, or cannot be reached
            log.warning("%s to upstream %r failed: %s", request.method, route.upstream, error)
            _respond(incoming, *_unreachable(route, error))
            return
        if upstream.status_code == FORBIDDEN:
            self._hint_at_signature(upstream, route)
        try:
            # store is slow, store fails: no branch. The transport has a chunk in the journal before
            # it comes here, and what the journal cannot take is counted
            # (`recorder.proxy.recording`).
            await _pass_on(upstream, incoming, tunnel)
        except UpstreamError as error:
            # upstream breaks: no end is sent, and the server cuts the client off
            log.warning("a response of upstream %r broke off: %s", route.upstream, error)
            # for the record, if it has no end yet
            request.extensions.setdefault("outcome", error.outcome)
            if not incoming.started:
                _respond(incoming, *_unreachable(route, error))
        else:
            return
        finally:
            await upstream.stream.aclose()
        if incoming.is_switched:
            incoming.reset()

    def _hint_at_signature(self, upstream: Response, route: Route) -> None:
        """Say what to do where AWS refuses a signature: its own message says nothing of a host."""
        if any(
            name.lower() == _AWS_ERROR and b"Signature" in value
            for name, value in upstream.headers.raw
        ):
            self._hints.give(
                "signature",
                f"Upstream {route.upstream!r} refused a signature: clients of AWS sign for the host that they ask, "
                "which is the recorder. Have boto3 sign for AWS with what `recorder env boto3` prints, or use a bearer "
                "key with what `recorder env bedrock` prints.",
            )

    def stop(self, _open: int = 0) -> None:
        """Ask the clients of tunnels to close: without that they would go on for hours."""
        self._is_stopping = True
        for tunnel in self._tunnels:
            tunnel.stop()

    def shutdown(self) -> None:
        """End every open exchange, incomplete, with the outcome `recorder_shutdown`."""
        for task, exchange in self._open.items():
            exchange.request.extensions["outcome"] = "recorder_shutdown"
            task.cancel()

    def end_revoked(self) -> None:
        """End the open exchanges whose token is not valid, as a shutdown does, with the outcome
        `token_revoked`.

        Only those whose token was not valid when this was called before, either: a file of tokens
        that an editor is just writing must not end every stream.
        """
        bearers = {
            exchange.bearer for exchange in self._open.values() if exchange.bearer is not None
        }
        invalid = {bearer for bearer in bearers if not bearer.is_valid()}
        revoked, self._doubted = invalid & self._doubted, invalid
        for task, (request, bearer) in self._open.items():
            if bearer in revoked and "outcome" not in request.extensions:
                request.extensions["outcome"] = "token_revoked"
                request.extensions["error"] = "The token of this request was revoked."
                task.cancel()

    def _own_answer(self, incoming: ServerExchange) -> OwnAnswer | None:
        """Return our own answer: a refusal, or one of our pages.

        None if the request is to be forwarded.
        """
        headers = dict(incoming.headers)
        incoming.added = shared_with(headers, self._origins)
        refused = refusal(
            incoming.method,
            incoming.headers,
            self._hosts,
            self._body_limit_bytes,
            websocket=self._websocket,
            origins=self._origins,
        )
        if refused is not None:
            if refused.type == BROWSER_REFUSED:
                self._hints.give(refused.type, page_hint(headers))
            return self._refuse(refused)
        if is_preflight(incoming.method, headers):
            return 200, b"", preflight_answer(headers)
        path = path_of(incoming)
        if path == HEALTH:
            return 200, b'{"status":"ok"}', []
        if path.startswith(OWN_PREFIX):
            return self._refuse(Refusal(404, "not_found", "The recorder has no such page."))
        if path == "/" and incoming.method in ("GET", "HEAD"):
            return _front_page(self._routes)
        return None

    def _refuse(self, refused: Refusal) -> OwnAnswer:
        """Count a request that no upstream hears of, and return the error for it."""
        count, message = self.refused.get(refused.type, (0, refused.message))
        self.refused[refused.type] = (count + 1, message)
        return _error(refused)


class Address(NamedTuple):
    """A URL, as a transport reads it. On a Unix socket, the host is the path of the socket."""

    scheme: str
    host: str
    port: int | None  # None is that of the scheme
    netloc: bytes  # as it is sent in Host
    raw_path: bytes = b""


@lru_cache(maxsize=256)  # a client asks the same few, again and again
def address(text: str) -> Address:
    """Return the address of an absolute URL of http, https or http+unix; what comes after it does
    not matter.
    """
    parts = urlsplit(text)
    if parts.scheme == UNIX:  # other clients send localhost, for a path would be none
        return Address(UNIX, socket_path(parts.netloc) or "/", None, b"localhost")
    host, port = parts.hostname or "", parts.port
    if port == PORTS.get(parts.scheme):
        port = None
    shown = f"[{host}]" if ":" in host else host
    return Address(
        parts.scheme, host, port, f"{shown}:{port}".encode() if port is not None else shown.encode()
    )


def onward(incoming: ServerExchange, route: Route, body: Upload) -> Request:
    """Return the request as it goes to the upstream."""
    target = route.url_target
    url = address(route.url.removesuffix(target))._replace(raw_path=target.encode("ascii"))
    headers = [(b"host", url.netloc), *end_to_end(route.headers, _NOT_FORWARDED)]
    if any(name == b"transfer-encoding" for name, _ in route.headers):
        headers.append((b"transfer-encoding", b"chunked"))
    extensions: RequestExtensions = {"recorder": route, "target": url.raw_path}
    if incoming.upgrade is not None:
        extensions["upgrade"] = incoming.upgrade
    return Request(incoming.method, url, headers, body, extensions)


def path_of(incoming: ServerExchange) -> str:
    """Return the path with its percent-encoding undone."""
    path = incoming.path
    return (unquote_to_bytes(path) if b"%" in path else path).decode("utf-8", "replace")


def end_to_end(headers: Headers, dropped: Collection[bytes]) -> Headers:
    """Return the headers that go further than one connection, in their order (RFC 9110 section
    7.6.1).
    """
    lower = [(name.lower(), name, value) for name, value in headers]
    if any(key == b"transfer-encoding" for key, _, _ in lower):
        dropped = {*dropped, b"content-length"}  # which does not count then (RFC 9112 section 6.3)
    nominated: set[bytes] = set()
    for key, _, value in lower:
        if key == b"connection":
            nominated.update(token.strip().lower() for token in value.split(b","))
    return [
        (name, value) for key, name, value in lower if key not in dropped and key not in nominated
    ]


async def _pass_on(upstream: Response, incoming: ServerExchange, tunnel: Tunnel | None) -> None:
    """Send the response to the client: the head with what came of the body, then each chunk as it
    comes.
    """
    body = upstream.stream
    reason = upstream.extensions.get("reason_phrase", b"")
    if upstream.status_code == SWITCHING:
        # without an offer only the upstream has switched: nothing goes up
        tunnel = tunnel or Tunnel(incoming)
        try:
            tunnel.open(upstream.headers.raw, reason, body.begun())
        except ValueError as error:
            raise UpstreamError(str(error), "upstream_reset") from None
        await body.pump(tunnel.write, incoming.flow)
        return
    headers = end_to_end(upstream.headers.raw, HOP_BY_HOP)
    try:
        incoming.start(upstream.status_code, headers, reason=reason, first=body.begun())
    except ValueError as error:
        raise UpstreamError(str(error), "upstream_reset") from None
    incoming.finish(await body.pump(incoming.write, incoming.flow))


class _BoundedUpload:
    """The request body, read from the client as fast as the upstream takes it, up to a limit."""

    def __init__(
        self, incoming: ServerExchange, limit_bytes: int, refuse: Callable[[], None]
    ) -> None:
        """`refuse` is called over the limit, and ends the exchange."""
        self._incoming, self._limit_bytes, self._refuse = incoming, limit_bytes, refuse
        self._size_bytes = 0
        self.is_too_large = False

    def take(self) -> bytes | None:
        return self._incoming.take(self._limit_bytes)

    def __aiter__(self) -> _BoundedUpload:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece.

        Over the limit, after a 101, or without a client, there is none: who waits for it is
        cancelled.
        """
        piece = await self._incoming.read()
        if not piece and not self._incoming.is_switched:
            raise StopAsyncIteration
        self._size_bytes += len(piece)
        # after a 101 that nobody asked for it is raw, with the next requests
        is_body = not self._incoming.is_switched
        if is_body and self._size_bytes <= self._limit_bytes:
            return piece
        if is_body:
            self.is_too_large = True
            self._refuse()
        never: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        return await never


def _front_page(routes: Routes) -> OwnAnswer:
    """Return the page that describes the server, for a person with a browser, or a client that
    checks.
    """
    names = ", ".join(f"/{each.name}" for each in routes.upstreams)
    text = (
        "This is recorder. It stands between a client and a streaming API, and records or replays what passes.\n"
        "Set the base URL of a client to this address: `recorder env CLIENT` prints how.\n"
        f"Upstreams can be named in the path: {names}.\n"
    )
    return 200, text.encode(), [(b"content-type", b"text/plain; charset=utf-8")]


def _respond(incoming: ServerExchange, status: int, body: bytes, headers: Headers) -> None:
    """Send an answer of our own, whole: JSON, unless `headers` has another type."""
    has_type = any(name == b"content-type" for name, _ in headers)
    incoming.respond(
        status, headers if has_type else [(b"content-type", b"application/json"), *headers], body
    )


def _error(refused: Refusal) -> OwnAnswer:
    """Return an error in the shape of the APIs' own.

    The rest of the request is not read: the connection closes.
    """
    error = {"message": refused.message, "type": refused.type, "code": refused.type}
    return refused.status, msgspec.json.encode({"error": error}), [(b"connection", b"close")]


def _unreachable(route: Route, error: UpstreamError) -> OwnAnswer:
    what = "could not be reached" if error.outcome == "upstream_unreachable" else "failed"
    message = f"recorder: upstream {route.upstream!r} ({route.base}) {what}: {error}."
    return _error(Refusal(error.status, error.outcome, message))
