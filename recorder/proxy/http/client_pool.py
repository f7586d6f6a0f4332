"""The client's connections: new ones, and those that wait for their next request.

Rules of this file:

* A connection is used again only for the same endpoint and the same credentials: whatever an upstream mixes up on it,
  no client gets the response of another one.
* It is used again only while it is silent. A byte that answers no request closes it, and so does its end.
* The number of those that wait is bounded, and so is their time.
* Nothing times out but connecting. Errors of sockets, names and TLS become `UpstreamError`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from functools import partial
from hashlib import blake2b

from recorder.proxy.http.client_connection import ClientConnection
from recorder.proxy.http.client_response import Headers
from recorder.proxy.http.connecting import EXHAUSTED, connect, unreachable
from recorder.proxy.http.network import DIRECT, Endpoint, Network

CLOSED_S = 0.05  # for connections that are dropped: some turns of the loop
IDLE_S = 15.0  # how long a connection is kept for the next request: under what servers do, so that we let go first
IDLE = 100  # connections that are kept, as in Go's client: each is a descriptor, and every new key would leave one

_PARAMETER = re.compile(rb"[?&;]([^=&;]*)=([^&;#]*)")  # also where the `?` was forgotten


Key = tuple[Endpoint, bytes]
"""An endpoint, and a digest of credentials: requests with the same key share connections."""


class Pool:
    """The connections that wait. As many are open as there are requests at once, and these.

    `is_credential` decides by the name of a header or of a query parameter whether it may identify the sender of a
    request, `network` how connections are made.
    """

    def __init__(self, is_credential: Callable[[bytes], bool], network: Network = DIRECT) -> None:
        """Raises `UsageError` for files of the network that cannot be used."""
        self._is_credential, self._network = is_credential, network
        self._idle: dict[Key, dict[ClientConnection, None]] = {}
        self._timers: dict[ClientConnection, tuple[Key, asyncio.TimerHandle]] = {}  # the one that waits longest first
        self._secret = os.urandom(32)  # the key of the digests: no credential is a key of a dictionary in here
        self._tls = network.tls() if network.has_files else None  # a file that cannot be used is an error at the start
        self._closed = False

    async def connection(self, endpoint: Endpoint, headers: Headers, target: bytes) -> ClientConnection:
        """Return a connection for this request: one that waits, else a new one. Raises `UpstreamError`."""
        key = self.key(endpoint, headers, target)
        connection = self._take(key)
        if connection is None:
            connection = await self._connect(endpoint)
            connection.on_idle = partial(self._keep, key)
        return connection

    def key(self, endpoint: Endpoint, headers: Headers, target: bytes) -> Key:
        """Return the key of a request: its endpoint, and a digest of its keys, tokens and cookies."""
        is_credential = self._is_credential
        found = [b"%b:%d:%b" % (name.lower(), len(value), value) for name, value in headers if is_credential(name)]
        if b"=" in target:
            found += [
                b"?%b:%d:%b" % (name, len(value), value)
                for name, value in _PARAMETER.findall(target)
                if is_credential(name)
            ]
        return endpoint, blake2b(b"".join(found), digest_size=16, key=self._secret).digest()

    def close(self) -> None:
        """Close those that wait, and from now on every connection when its response is whole."""
        self._closed = True
        self._drop_all()

    def _take(self, key: Key) -> ClientConnection | None:
        """Return the waiting connection that was used last and is fit for use, if there is one."""
        while key in self._idle:
            connection = next(reversed(self._idle[key]))
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
        self._idle.setdefault(key, {})[connection] = None

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
        key, timer = self._timers.pop(connection)
        timer.cancel()
        waiting = self._idle[key]
        del waiting[connection]
        if not waiting:
            del self._idle[key]

    async def _connect(self, endpoint: Endpoint) -> ClientConnection:
        is_tls = endpoint.scheme == "https"
        if is_tls and self._tls is None:
            self._tls = self._network.tls()
        proxy = self._network.proxy_for(endpoint)
        try:
            return await connect(endpoint, proxy, self._tls if is_tls else None)
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be one
            if isinstance(error, OSError) and error.errno in EXHAUSTED and self._drop_all():
                await asyncio.sleep(CLOSED_S)  # those that waited have the descriptors until they are closed
                return await self._connect(endpoint)
            raise unreachable(error, proxy) from None
