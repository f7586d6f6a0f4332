"""Forwarding of heads: end-to-end headers go further, those of one connection do not."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import httpx

from recorder.proxy.http.messages import Request, RequestExtensions, Upload, Url
from recorder.proxy.http.network import UNIX, socket_path
from recorder.proxy.http.server_exchange import Headers, ServerExchange
from recorder.proxy.routing import SESSION_HEADER, Origin, Route

URL_LENGTH = 300  # what is longer is parsed each time, and not kept

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
        *(b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
    }
)
_NOT_FORWARDED = HOP_BY_HOP | {b"expect", b"host", SESSION_HEADER}


class _UnixUrl(NamedTuple):
    """The URL of an upstream on a Unix socket, as a transport reads it: its host is the path of the socket."""

    scheme: str
    host: str
    raw_path: bytes
    netloc: bytes = b"localhost"  # as other clients send in Host, for a path would be none
    port: int | None = None


def _url(text: str) -> Url:
    if not text.startswith(f"{UNIX}://"):
        return httpx.URL(text)
    netloc, slash, rest = text.removeprefix(f"{UNIX}://").partition("/")
    return _UnixUrl(UNIX, socket_path(netloc) or "/", f"{slash}{rest}".encode())


_usual_url = lru_cache(maxsize=256)(_url)  # a client asks for the same few, again and again


def onward(incoming: ServerExchange, route: Route, body: Upload) -> Request:
    """Return the request as it goes to the upstream."""
    came = incoming.headers
    url = (_usual_url if len(route.url) <= URL_LENGTH else _url)(route.url)
    headers = [(b"host", url.netloc), *end_to_end(came, _NOT_FORWARDED)]
    if any(name == b"transfer-encoding" for name, _ in came):
        headers.append((b"transfer-encoding", b"chunked"))
    origin = Origin(route.upstream.name, route.target, came, route.session, route.session_source)
    extensions: RequestExtensions = {"recorder": origin, "target": route.url_target.encode("ascii")}
    if incoming.upgrade is not None:
        extensions["upgrade"] = incoming.upgrade
    return Request(incoming.method, url, headers, body, extensions)


def target_of(incoming: ServerExchange) -> str:
    """Return path and query as the client sent them."""
    path, query = incoming.path, incoming.query
    return (path + b"?" + query if query else path).decode("latin-1")


def path_of(incoming: ServerExchange) -> str:
    """Return the path with its percent-encoding undone."""
    path = incoming.path
    return (unquote_to_bytes(path) if b"%" in path else path).decode("utf-8", "replace")


def end_to_end(headers: Headers, dropped: Collection[bytes]) -> Headers:
    """Return the headers that go further than one connection, in their order (RFC 9110 section 7.6.1)."""
    lower = [(name.lower(), name, value) for name, value in headers]
    nominated = {
        token.strip().lower() for key, _, value in lower if key == b"connection" for token in value.split(b",")
    }
    return [(name, value) for key, name, value in lower if key not in dropped and key not in nominated]
