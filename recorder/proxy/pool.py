"""Connections that wait for their next request.

Rules of this file:

* A connection is used again only for the same endpoint and the same credentials: whatever an upstream mixes up on it,
  nobody gets what belongs to somebody else.
* It is used again only while it is silent. A byte that nobody asked for closes it, and so does its end.
* How many wait is bounded, and for how long.
"""

from __future__ import annotations

import asyncio
import os
import re
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from recorder.proxy.http.client_connection import Connection
from recorder.proxy.http.client_response import Headers
from recorder.wire.redaction.headers import NEVER

IDLE_S = 15.0  # how long a connection is kept for the next request: under what servers do, so that we let go first
IDLE = 100  # connections that are kept, as in Go's client: each is a descriptor, and every new key would leave one

_PARAMETER = re.compile(rb"[?&;]([^=&;]*)=([^&;#]*)")  # also where the `?` was forgotten


class Endpoint(NamedTuple):
    """Where connections go."""

    scheme: str
    host: str
    port: int


Key = tuple[Endpoint, bytes]
"""Who shares connections: an endpoint, and a digest of credentials."""


class Pool:
    """The connections that wait. As many are open as there are requests at once, and these."""

    def __init__(self) -> None:
        self._idle: dict[Key, dict[Connection, None]] = {}
        self._timers: dict[Connection, tuple[Key, asyncio.TimerHandle]] = {}  # who waits longest comes first
        self._secret = os.urandom(32)  # what credentials are digested with: none is a key of a dictionary in here
        self._closed = False

    def key(self, endpoint: Endpoint, headers: Headers, target: bytes) -> Key:
        """Whose connections a request may use: those of its endpoint, and of its keys, tokens and cookies."""
        said = [b"%b:%d:%b" % (name.lower(), len(value), value) for name, value in headers if _is_credential(name)]
        if b"=" in target:
            said += [
                b"?%b:%d:%b" % (name, len(value), value)
                for name, value in _PARAMETER.findall(target)
                if _is_credential(name)
            ]
        return endpoint, blake2b(b"".join(said), digest_size=16, key=self._secret).digest()

    def take(self, key: Key) -> Connection | None:
        """The one that was used last, if one waits that is fit for use."""
        while key in self._idle:
            connection = next(reversed(self._idle[key]))
            self._remove(connection)
            if connection.is_silent():
                return connection
            connection.close()
        return None

    def keep(self, key: Key, connection: Connection) -> None:
        """Let it wait for the next request."""
        if self._closed:
            connection.close()
            return
        if len(self._timers) >= IDLE:
            self._drop(next(iter(self._timers)))
        timer = asyncio.get_running_loop().call_later(IDLE_S, self._drop, connection)
        self._timers[connection] = key, timer
        self._idle.setdefault(key, {})[connection] = None

    def drop_all(self) -> bool:
        """Close those that wait; return whether there were any."""
        waiting = list(self._timers)
        for connection in waiting:
            self._drop(connection)
        return bool(waiting)

    def close(self) -> None:
        self._closed = True
        self.drop_all()

    def _drop(self, connection: Connection) -> None:
        self._remove(connection)
        connection.close()

    def _remove(self, connection: Connection) -> None:
        key, timer = self._timers.pop(connection)
        timer.cancel()
        waiting = self._idle[key]
        del waiting[connection]
        if not waiting:
            del self._idle[key]


@lru_cache(maxsize=256)
def _is_credential(name: bytes) -> bool:
    """Whether a header or a query parameter of that name may say who sends a request."""
    text = unquote_to_bytes(name).decode("latin-1").lower()
    return text == "key" or NEVER.search(text) is not None
