"""Forwarding of heads: end-to-end headers go further, those of one connection do not."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from recorder.proxy.http.messages import Request, RequestExtensions, Upload
from recorder.proxy.http.network import PORTS, UNIX, socket_path
from recorder.proxy.http.server_exchange import Headers, ServerExchange
from recorder.proxy.routing import SESSION_HEADER, Route

HOP_BY_HOP = frozenset(
    b"connection keep-alive te trailer transfer-encoding upgrade "
    b"proxy-authenticate proxy-authorization proxy-connection".split()
)
_NOT_FORWARDED = HOP_BY_HOP | {b"expect", b"host", SESSION_HEADER}


class Address(NamedTuple):
    """A URL, as a transport reads it. On a Unix socket, the host is the path of the socket."""

    scheme: str
    host: str
    port: int | None  # None is that of the scheme
    netloc: bytes  # as it is sent in Host
    raw_path: bytes = b""


@lru_cache(maxsize=256)  # a client asks the same few, again and again
def address(text: str) -> Address:
    """Return the address of an absolute URL of http, https or http+unix; what comes after it does not matter."""
    parts = urlsplit(text)
    if parts.scheme == UNIX:  # other clients send localhost, for a path would be none
        return Address(UNIX, socket_path(parts.netloc) or "/", None, b"localhost")
    host, port = parts.hostname or "", parts.port
    if port == PORTS.get(parts.scheme):
        port = None
    shown = f"[{host}]" if ":" in host else host
    return Address(parts.scheme, host, port, f"{shown}:{port}".encode() if port is not None else shown.encode())


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
    if any(key == b"transfer-encoding" for key, _, _ in lower):
        dropped = {*dropped, b"content-length"}  # which does not count then (RFC 9112 section 6.3)
    nominated: set[bytes] = set()
    for key, _, value in lower:
        if key == b"connection":
            nominated.update(token.strip().lower() for token in value.split(b","))
    return [(name, value) for key, name, value in lower if key not in dropped and key not in nominated]
