"""The real upstream: a transport over connections of our own (`recorder.proxy.http`).

Rules of this file:

* Nothing is added, followed, decoded or tried again, no cookie is kept, and nothing times out but
  connecting. Headers go out and come back as bytes in the order they had; the target goes out as it
  is.
* What ends a body other than HTTP's own end of it is an `UpstreamError`, never an end. Errors of
  sockets, names and TLS become one, too.
* A connection is used again only for the same endpoint and the same credentials: whatever an
  upstream mixes up on it, no client gets the response of another one.
* It is used again only while it is silent. A byte that answers no request closes it, and so does
  its end.
* The number of those that wait is bounded, and so is their time.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import blake2b
from urllib.parse import unquote_to_bytes

from recorder.errors import UpstreamError, UsageError
from recorder.proxy.http.client_connection import ClientConnection
from recorder.proxy.http.client_response import Headers
from recorder.proxy.http.connecting import EXHAUSTED, connect, unreachable
from recorder.proxy.http.messages import Request, Response, Upload
from recorder.proxy.http.network import DIRECT, PORTS, Endpoint, Network
from recorder.wire.redaction.headers import NEVER

# for the rest of a body, on its way while the upstream was found to be away; the client waits as
# long
REST_S = 5.0
CLOSED_S = 0.05  # for connections that are dropped: some turns of the loop
# how long a connection is kept for the next request: under what servers do, so that we let go first
IDLE_S = 15.0
# connections that are kept, as in Go's client: each is a descriptor, and every new key would leave
# one
IDLE = 100

_PARAMETER = re.compile(rb"[?&;]([^=&;]*)=([^&;#]*)")  # also where the `?` was forgotten
_NOT_SENT = frozenset({b"transfer-encoding"})  # the body is framed again

Key = tuple[Endpoint, bytes]
"""An endpoint, and a digest of credentials: requests with the same key share connections."""


class UpstreamTransport:
    """Sends requests to the address in their URL, over connections as `network` wants them.

    Raises `UpstreamError`; `UsageError` if a request cannot be sent at all.

    `extensions["target"]`, if present, is sent as the request target in place of the URL's.
    """

    def __init__(self, network: Network = DIRECT) -> None:
        """Raises `UsageError` for files of the network that cannot be used."""
        self._network = network
        # the one that waits longest first
        self._timers: dict[ClientConnection, tuple[Key, asyncio.TimerHandle]] = {}
        # the key of the digests: no credential is a key of a dictionary in here
        self._secret = os.urandom(32)
        # a file that cannot be used is an error at the start
        self._tls = network.tls() if network.has_files else None
        self._closed = False

    async def handle_async_request(self, request: Request) -> Response:
        url = request.url
        endpoint = Endpoint(url.scheme, url.host, url.port or PORTS[url.scheme])
        chunked = "transfer-encoding" in request.headers
        upgrade = request.extensions.get("upgrade")
        body = (
            request.stream
            if upgrade is None and (chunked or "content-length" in request.headers)
            else None
        )
        target = request.extensions.get("target", url.raw_path)
        head = _head(request, target, chunked=chunked)
        try:
            connection = await self.connection(endpoint, request.headers.raw, target)
        except UpstreamError:
            await _read_rest(body)
            raise
        behind = None if upgrade is None else request.stream
        response = connection.begin(
            head, body, chunked=chunked, is_head=request.method == "HEAD", behind=behind
        )
        try:
            await response.head()
        except UpstreamError:
            response.close()
            await response.upload_stopped()
            await _read_rest(body)
            raise
        except BaseException:
            response.close()
            raise
        return Response(
            response.status, response.reason, response.headers, response, response.version
        )

    async def aclose(self) -> None:
        """Close the connections that wait, and from now on every one when its response is whole."""
        self._closed = True
        self._drop_all()

    async def connection(
        self, endpoint: Endpoint, headers: Headers, target: bytes
    ) -> ClientConnection:
        """Return a connection for this request: one that waits, else a new one.

        Raises `UpstreamError`.
        """
        key = self.key(endpoint, headers, target)
        connection = self._take(key)
        if connection is None:
            connection = await self._connect(endpoint)
            connection.on_idle = partial(self._keep, key)
        return connection

    def key(self, endpoint: Endpoint, headers: Headers, target: bytes) -> Key:
        """Return the key of a request: its endpoint, and a digest of its keys, tokens and cookies."""
        found = [
            b"%b:%d:%b" % (name.lower(), len(value), value)
            for name, value in headers
            if is_credential(name)
        ]
        if b"=" in target:
            found += [
                b"?%b:%d:%b" % (name, len(value), value)
                for name, value in _PARAMETER.findall(target)
                if is_credential(name)
            ]
        return endpoint, blake2b(b"".join(found), digest_size=16, key=self._secret).digest()

    def _take(self, key: Key) -> ClientConnection | None:
        """Return the waiting connection that was used last and is fit for use, if there is one."""
        for connection, (its_key, _) in reversed(list(self._timers.items())):
            if its_key == key:
                self._remove(connection)
                if connection.is_silent():
                    return connection
                connection.close()
        return None

    def _keep(self, key: Key, connection: ClientConnection) -> None:
        if self._closed:
            connection.close()
            return
        if len(self._timers) >= IDLE:
            self._drop(next(iter(self._timers)))
        timer = asyncio.get_running_loop().call_later(IDLE_S, self._drop, connection)
        self._timers[connection] = key, timer

    def _drop_all(self) -> bool:
        """Close those that wait; return whether there were any."""
        waiting = list(self._timers)
        for connection in waiting:
            self._drop(connection)
        return bool(waiting)

    def _drop(self, connection: ClientConnection) -> None:
        self._remove(connection)
        connection.close()

    def _remove(self, connection: ClientConnection) -> None:
        _, timer = self._timers.pop(connection)
        timer.cancel()

    async def _connect(self, endpoint: Endpoint) -> ClientConnection:
        is_tls = endpoint.scheme == "https"
        if is_tls and self._tls is None:
            self._tls = self._network.tls()
        proxy = self._network.proxy_for(endpoint)
        try:
            return await connect(endpoint, proxy, self._tls if is_tls else None)
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be one
            if isinstance(error, OSError) and error.errno in EXHAUSTED and self._drop_all():
                # those that waited have the descriptors until they are closed
                await asyncio.sleep(CLOSED_S)
                return await self._connect(endpoint)
            raise unreachable(error, proxy) from None


async def _read_rest(body: Upload | None) -> None:
    """Read a request body that no upstream takes: whoever records it has it then, and clients send
    it in any case.

    Its size has the limit of every body (`recorder.proxy.app`).
    """
    if body is None:
        return
    with suppress(Exception):  # the upstream's error is the one that counts
        async with asyncio.timeout(REST_S):
            async for _ in body:
                pass


def _head(request: Request, target: bytes, *, chunked: bool) -> bytes:
    """Return the head of the request as it goes out.

    Raises `UsageError` if it would be read as something else.
    """
    headers: Headers = [
        header for header in request.headers.raw if header[0].lower() not in _NOT_SENT
    ]
    if chunked:
        headers.append((b"transfer-encoding", b"chunked"))
    if "upgrade" in request.extensions:
        headers += [(b"connection", b"Upgrade"), (b"upgrade", request.extensions["upgrade"])]
    lines = [
        b"%b %b HTTP/1.1" % (request.method.encode("ascii"), target),
        *map(b": ".join, headers),
        b"",
        b"",
    ]
    head = b"\r\n".join(lines)
    if (
        head.count(b"\n") != len(lines) - 1
        or head.count(b"\r") != len(lines) - 1
        or b"\0" in head
        or b" " in target
    ):
        raise UsageError(
            "The request has a line break or a space where none can be, and cannot be forwarded."
        )
    return head


@lru_cache(maxsize=256)
def is_credential(name: bytes) -> bool:
    """Return whether a header or a query parameter of that name may identify the sender of a
    request.
    """
    text = unquote_to_bytes(name).decode("latin-1").lower()
    return text == "key" or NEVER.search(text) is not None
