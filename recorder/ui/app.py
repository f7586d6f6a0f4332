"""The application of the viewer: its door, its files, its API.

Rules of this file:

* Nothing recorded is answered before the door has admitted it, and every answer has the headers of
  `HEADERS`.
* A port on localhost is open to every web page of the user's browser, and to other users of the
  machine. So the API wants a token always, and Host and the browser's own headers are checked
  before it. The pages are those of the package: they have nothing to hide, and show nothing without
  the API.
* There is no cookie: a browser sends it to every port of the machine, and so to whoever else
  listens on one.
* Behind named tokens any machine may ask, by TLS alone: a proxy has that, and says so.
* A GET leaks here, for all of the API reads: reading is checked as strictly as anything else.
* No answer ever has a CORS header, and no redirect has a target from a request.
* Files come from the package, by a table that is made once: no path of a request is ever a path of
  the disk.
* An answer is encoded in a thread if it is big, so that one does not stop the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any, Never

import msgspec
from sqlalchemy import URL

from recorder.errors import NotFoundError, RecorderError, StoreError, UsageError
from recorder.proxy.admission import ANY_HOST, TOKEN_HEADER, Refusal, is_local
from recorder.proxy.http.server_exchange import Bearer, Headers, ServerExchange
from recorder.replay.matching.noise import DEFAULT_RULES, Rules
from recorder.store.queries.reader import LogReader
from recorder.ui import api
from recorder.ui.owners import Owners
from recorder.ui.sql import Questions

HERE = Path(__file__).parent
FOLDERS = ("static", "vendor")
HIDDEN = frozenset({"jsconfig.json", "types.d.ts"})  # for tools that check the sources
TYPES: Mapping[str, bytes] = {  # our own: a system may call JavaScript plain text
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
}
JSON = b"application/json"
NO_STORE = (b"cache-control", b"no-store")
# at once, of an owner: each looks at the log several times a second
STREAMS = 16
REVOKED_S = 1.0  # between two looks whether the tokens are valid of what is open

STATUSES: Mapping[type[Exception], tuple[int, str]] = {
    UsageError: (400, "usage"),
    NotFoundError: (404, "not_found"),
    StoreError: (503, "store"),
    RecorderError: (400, "failed"),
}
"""The status and type of a failure, by the first class in this order that it is of."""

log = logging.getLogger(__name__)

TOKEN_BYTES = 24  # of chance, which nobody guesses
SITES = (b"none", b"same-origin")  # Sec-Fetch-Site of a request that no other page caused
BODY_LIMIT_BYTES = 2**20  # of a POST: SQL that somebody typed

HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
"""Headers of every answer, errors too."""

NO_TOKEN = Refusal(
    401,
    "token_required",
    "This viewer wants its token: open the URL that `recorder ui` printed, or send X-Recorder-Token.",
)


NO_NAMED_TOKEN = Refusal(
    401,
    "token_required",
    "This viewer wants your token: open its address with #token=TOKEN after it, or send X-Recorder-Token.",
)
NO_TLS = Refusal(
    403,
    "tls_required",
    "This viewer is behind TLS: open it by https://, through a proxy which sets X-Forwarded-Proto.",
)


class Guard:
    """The token of a viewer, and the check of a request.

    With `bearer_of`, which says whose a token is, it lets in whoever shows one of those instead,
    from any machine, as long as a proxy in front says that it came by TLS.
    """

    def __init__(self, bearer_of: Callable[[bytes], Bearer | None] | None = None) -> None:
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.port = 0  # where the viewer listens; nobody has the token before it is known
        self._bearer_of = bearer_of or self._own_bearer
        self._is_for_all = bearer_of is not None
        self.no_token = NO_NAMED_TOKEN if self._is_for_all else NO_TOKEN

    def refusal(self, method: str, path: bytes, headers: Headers) -> Refusal | None:
        """Return why a request is refused before anybody asks for its token, or None.

        Names are in lower case.
        """
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1:
            return Refusal(400, "bad_request", "A request needs exactly one Host header.")
        if not is_local(hosts[0], (ANY_HOST,) if self._is_for_all else ()):
            return Refusal(
                403, "host_not_allowed", "This Host is not one of ours: use 127.0.0.1 or localhost."
            )
        forwarded = [value for name, value in headers if name == b"x-forwarded-proto"]
        if self._is_for_all and forwarded != [b"https"]:
            return NO_TLS
        scheme = b"https://" if self._is_for_all else b"http://"
        origins = {value for name, value in headers if name == b"origin"}
        if not origins <= {scheme + hosts[0]}:
            return Refusal(403, "origin_not_allowed", "Requests from other web pages are refused.")
        sites = {value for name, value in headers if name == b"sec-fetch-site"}
        if path != b"/" and not sites <= set(SITES):  # a link to the page itself may be anywhere
            return Refusal(403, "origin_not_allowed", "Requests from other web pages are refused.")
        return _size_refusal(method, headers)

    def bearer(self, headers: Headers) -> Bearer | None:
        """Return who shows a token of this viewer; None if a request shows none."""
        shown = [value for name, value in headers if name == TOKEN_HEADER]
        return self._bearer_of(shown[0]) if len(shown) == 1 else None

    def _own_bearer(self, token: bytes) -> Bearer | None:
        return Bearer() if compare_digest(token, self.token.encode()) else None


class Viewer:
    """The application: an `App` of `recorder.proxy.http`."""

    def __init__(self, owners: Owners | None = None) -> None:
        """With `owners`, let in people with tokens of their own; `end_revoked` is to run then."""
        self._owners = owners
        self.guard = Guard(None if owners is None else owners.bearer_of)
        self.why_closed = "The log is not open yet: try again in a moment."
        self._context: api.Context | None = None
        self._files = _files()
        self._open: dict[asyncio.Task[Any], Bearer] = {}
        self._streams: set[asyncio.Task[Any]] = set()

    def show(self, log: LogReader, url: URL, rules: Rules = DEFAULT_RULES) -> None:
        """Answer from this log from now on. `rules` are those by which requests are compared."""
        self._context = api.Context(log, url, Questions(url), rules)

    def entrance(self, fragment: str = "") -> str:
        """Return the URL that a person opens."""
        return f"http://127.0.0.1:{self.guard.port}/?token={self.guard.token}{fragment}"

    def shut_down(self) -> None:
        """End all streams, which have no end of their own, and stop all questions."""
        for task in self._streams:
            task.cancel()
        if self._context is not None:
            self._context.questions.close()
        if self._owners is not None:
            self._owners.stop()

    async def end_revoked(self) -> Never:
        """End what is open of tokens that are not valid any more, for ever.

        Only of those that were not valid a look before, either: a file of tokens that an editor is
        just writing must not end all.
        """
        doubted: set[Bearer] = set()
        while True:
            await asyncio.sleep(REVOKED_S)
            invalid = {bearer for bearer in self._open.values() if not bearer.is_valid()}
            for task, bearer in self._open.items():
                if bearer in invalid & doubted:
                    task.cancel()
            doubted = invalid

    async def __call__(self, incoming: ServerExchange) -> None:
        refused = self.guard.refusal(incoming.method, incoming.path, incoming.headers)
        if refused is not None:
            _refuse(incoming, refused)
            return
        if not incoming.path.startswith(b"/api/"):
            self._send_file(incoming)
            return
        bearer = self.guard.bearer(incoming.headers)
        if bearer is None:
            _refuse(incoming, self.guard.no_token)
            return
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = bearer
        try:
            await self._ask(incoming, bearer)
        finally:
            del self._open[task]

    def _send_file(self, incoming: ServerExchange) -> None:
        path = self._files.get(incoming.path)
        if path is None or incoming.method == "POST":
            _refuse(incoming, Refusal(404, "not_found", "The viewer has no such page."))
            return
        data = path.read_bytes()
        tag = b'"%b"' % sha256(data).hexdigest()[:32].encode()
        headers = [
            (b"content-type", TYPES[path.suffix]),
            (b"cache-control", b"no-cache"),
            (b"etag", tag),
        ]
        if dict(incoming.headers).get(b"if-none-match") == tag:
            # with no length: it would be taken for that of the file
            incoming.start(304, [*headers, *HEADERS])
            incoming.finish()
        else:
            _respond(incoming, 200, headers, data)

    async def _ask(self, incoming: ServerExchange, bearer: Bearer) -> None:
        """Answer a request for the API."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                context = await stack.enter_async_context(self._opened(bearer))
                answer = await self._answer(incoming, context)
            except RecorderError as error:
                status, type = next(
                    found for kind, found in STATUSES.items() if isinstance(error, kind)
                )
                answer = Refusal(status, type, str(error))
            except Exception as error:
                name = type_name(error)
                log.error("a page of the viewer could not be answered: %s", name, exc_info=error)
                answer = Refusal(500, "internal", f"The viewer failed ({name}): that is a bug.")
            if isinstance(answer, api.Streamed):
                await self._stream(incoming, answer)
            elif not isinstance(answer, Refusal):
                data = await asyncio.to_thread(msgspec.json.encode, answer)
                _respond(incoming, 200, [(b"content-type", JSON), NO_STORE], data)
            else:
                _refuse(incoming, answer)

    @contextlib.asynccontextmanager
    async def _opened(self, bearer: Bearer) -> AsyncIterator[api.Context | None]:
        """Give the log as the bearer may read it. Raise `RecorderError`."""
        if self._owners is None:
            yield self._context
        else:
            async with self._owners.context(bearer) as context:
                yield context

    async def _answer(self, incoming: ServerExchange, context: api.Context | None) -> Any:
        """Return the answer of the route. Raise `RecorderError`."""
        is_post = incoming.method == "POST"
        endpoint, values = api.find(incoming.path)
        if is_post != (endpoint.method == "POST"):
            use = "GET" if is_post else "POST, with a JSON body"
            return Refusal(405, "method_not_allowed", f"Use {use} for this.")
        if context is None:
            raise StoreError(self.why_closed)
        query = api.query_of(endpoint, incoming.query)
        body = None
        if is_post:
            data = await _body(incoming)
            if data is None:
                return Refusal(
                    413, "request_too_large", f"The body is over {BODY_LIMIT_BYTES >> 20} MiB."
                )
            body = api.body_of(data)
        return await endpoint.handler(context, api.Parameters(values, query, body))

    async def _stream(self, incoming: ServerExchange, answer: api.Streamed) -> None:
        """Send the parts as they come, no faster than the client takes them."""
        task = asyncio.current_task()
        assert task is not None
        owner = self._open[task].owner
        if [self._open[each].owner for each in self._streams].count(owner) >= STREAMS:
            _refuse(
                incoming,
                Refusal(
                    503, "too_many", f"This viewer follows {STREAMS} things: close some pages."
                ),
            )
            return
        self._streams.add(task)
        try:
            async with contextlib.aclosing(answer.chunks) as chunks:
                headers = [
                    (b"content-type", answer.content_type),
                    NO_STORE,
                    *answer.headers,
                    *HEADERS,
                ]
                incoming.start(200, headers)
                if incoming.method != "HEAD":
                    async for chunk in chunks:
                        incoming.write(chunk)
                        if incoming.flow.write_paused:
                            await incoming.flow.drain()
                incoming.finish()
        finally:
            self._streams.discard(task)


def _size_refusal(method: str, headers: Headers) -> Refusal | None:
    """Return why a request is refused for its method or its body."""
    if method not in ("GET", "HEAD", "POST"):
        return Refusal(405, "method_not_allowed", "The viewer is for reading: use GET or HEAD.")
    known = dict(headers)
    if method != "POST":
        has_body = b"transfer-encoding" in known or known.get(b"content-length", b"0") != b"0"
        return Refusal(400, "bad_request", f"A {method} has no body here.") if has_body else None
    if known.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        return Refusal(
            415, "not_json", "The body must be JSON: send content-type: application/json."
        )
    length = known.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > BODY_LIMIT_BYTES:
        return Refusal(
            413, "request_too_large", f"The body is over the limit of {BODY_LIMIT_BYTES >> 20} MiB."
        )
    return None


async def _body(incoming: ServerExchange) -> bytes | None:
    """Return the body of a request, or None if it is too large."""
    data = bytearray()
    while part := await incoming.read():
        data += part
        if len(data) > BODY_LIMIT_BYTES:
            return None
    return bytes(data)


def type_name(error: BaseException) -> str:
    return type(error).__name__


def _files() -> dict[bytes, Path]:
    """Return the files that are served, by their path in a URL."""
    served = {b"/": HERE / "static" / "index.html"}
    for folder in FOLDERS:
        for path in (HERE / folder).rglob("*"):
            if path.suffix in TYPES and path.name not in HIDDEN:
                served[f"/{path.relative_to(HERE).as_posix()}".encode()] = path
    return served


def _respond(incoming: ServerExchange, status: int, headers: Headers, body: bytes) -> None:
    incoming.respond(status, [*headers, *HEADERS], body)


def _refuse(incoming: ServerExchange, refused: Refusal) -> None:
    """Answer with an error: JSON for a program, a page for a person."""
    if incoming.path.startswith(b"/api/"):
        content_type = JSON
        body = msgspec.json.encode({"error": {"message": refused.message, "type": refused.type}})
    else:
        content_type = TYPES[".html"]
        body = _PAGE.format(message=html.escape(refused.message)).encode()
    headers = [(b"content-type", content_type), NO_STORE]
    if incoming.more:
        headers.append((b"connection", b"close"))  # the rest of the request is not read
    _respond(incoming, refused.status, headers, body)


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>recorder</title>
<h1>recorder</h1><p>{message}</p></html>
"""
