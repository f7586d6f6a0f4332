"""The real upstream: a transport over connections of our own (`recorder.proxy.http.client_connection`).

Nothing is added, followed, decoded or tried again, no cookie is kept, and nothing times out but connecting. Headers go
out and come back as bytes in the order they had; the target goes out as it is. What ends a body other than HTTP's own
end of it is an `UpstreamError`, never an end. Foreign exceptions are translated in this file only, and without their
text: it may have whole URLs in it.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence
from functools import partial
from typing import Any

from aiohappyeyeballs import start_connection

from recorder.errors import UpstreamError, UsageError
from recorder.proxy.http.client_connection import Connection
from recorder.proxy.http.client_response import Headers, Reply
from recorder.proxy.http.messages import Flow, Request, Response, Sink
from recorder.proxy.pool import Endpoint, Pool

CONNECT_TIMEOUT_S = 30.0  # the only timeout: a model may think for an hour, a TCP handshake may not
SECOND_ADDRESS_S = 0.25  # for the first address of a name to answer before the next is tried too (RFC 8305)
CLOSED_S = 0.05  # for connections that are dropped: some turns of the loop
PORTS = {"http": 80, "https": 443}

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})  # no descriptor is left
_NOT_SENT = frozenset({b"transfer-encoding"})  # the body is framed anew


class UpstreamTransport:
    """Sends requests to where their URL says. Raises `UpstreamError`; `UsageError` if a request cannot be sent at all.

    `extensions["target"]`, if present, is sent as the request target in place of the URL's.
    """

    def __init__(self) -> None:
        self._pool = Pool()
        self._tls: ssl.SSLContext | None = None

    async def handle_async_request(self, request: Request) -> Response:
        url = request.url
        endpoint = Endpoint(url.scheme, url.host, url.port or PORTS[url.scheme])
        chunked = "transfer-encoding" in request.headers
        body = request.stream if chunked or "content-length" in request.headers else None
        head = _head(request, chunked=chunked)
        key = self._pool.key(endpoint, request.headers.raw, _target(request))
        connection = self._pool.take(key)
        if connection is None:
            connection = await self._connect(endpoint)
            connection.on_idle = partial(self._pool.keep, key)
        reply = connection.begin(head, body, chunked=chunked, is_head=request.method == "HEAD")
        try:
            await reply.head()
        except BaseException:
            reply.close()
            raise
        return Response(reply.status, reply.reason, reply.headers, _Body(reply), reply.version)

    async def aclose(self) -> None:
        self._pool.close()

    async def _connect(self, endpoint: Endpoint) -> Connection:
        loop = asyncio.get_running_loop()
        is_tls = endpoint.scheme == "https"
        if is_tls and self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                connected = await start_connection(
                    await _addresses(endpoint), happy_eyeballs_delay=SECOND_ADDRESS_S, interleave=1
                )
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                try:
                    _, connection = await loop.create_connection(
                        partial(Connection, connected),
                        sock=connected,
                        ssl=self._tls if is_tls else None,
                        server_hostname=endpoint.host if is_tls else None,
                    )
                except BaseException:
                    connected.close()
                    raise
        except (OSError, UnicodeError) as error:  # that of a name that cannot be one
            if isinstance(error, OSError) and error.errno in _EXHAUSTED and self._pool.drop_all():
                await asyncio.sleep(CLOSED_S)  # those that waited have the descriptors until they are closed
                return await self._connect(endpoint)
            raise _unreachable(error) from None
        return connection


class _Body:
    """A response body, read by read."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        data = await self._reply.read()
        if not data:
            raise StopAsyncIteration
        return data

    def begun(self) -> bytes:
        return self._reply.begun()

    async def pump(self, sink: Sink, flow: Flow) -> bytes:
        return await self._reply.pump(sink, flow)

    async def aclose(self) -> None:
        """Let go of the connection: kept for the next request if the body was read to its end, else closed."""
        self._reply.close()


async def _addresses(endpoint: Endpoint) -> Sequence[Any]:
    host, port = endpoint.host, endpoint.port
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]


def _unreachable(error: Exception) -> UpstreamError:
    match error:
        case TimeoutError():
            message = f"no connection within {CONNECT_TIMEOUT_S:g} s"
        case socket.gaierror() | UnicodeError():
            message = "its name cannot be resolved"
        case ssl.SSLError():
            message = "its TLS certificate or handshake was not accepted"
        case OSError(errno=number) if number in _EXHAUSTED:
            return UpstreamError(f"{os.strerror(number)}: raise ulimit -n", "upstream_unreachable", status=503)
        case OSError(errno=int(number)):
            message = os.strerror(number)
        case _:
            message = "connection failed"
    return UpstreamError(message, "upstream_unreachable")


def _target(request: Request) -> bytes:
    return request.extensions.get("target", request.url.raw_path)


def _head(request: Request, *, chunked: bool) -> bytes:
    """The head of the request as it goes out. Raises `UsageError` if it would not be read as it is meant."""
    target = _target(request)
    headers: Headers = [header for header in request.headers.raw if header[0].lower() not in _NOT_SENT]
    if chunked:
        headers.append((b"transfer-encoding", b"chunked"))
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), target), *map(b": ".join, headers), b"", b""]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head or b" " in target:
        raise UsageError("The request has a line break or a space where none can be, and cannot be forwarded.")
    return head
