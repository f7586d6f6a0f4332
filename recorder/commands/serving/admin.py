"""The admin port: `/metrics` and `/healthz` of a recorder, for programs on this machine.

Who may ask is decided as for the proxy (`recorder.proxy.admission`), and nothing that is asked here
goes to an upstream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import click
import msgspec

from recorder.commands.serving.health_snapshot import CONTENT_TYPE, exposition, reasons
from recorder.commands.serving.listening import refuse, served
from recorder.commands.serving.meter import Meter
from recorder.proxy.admission import ANY_HOST, Refusal, refusal
from recorder.proxy.app import path_of
from recorder.proxy.http.server_exchange import ServerExchange

METRICS, HEALTH = "/metrics", "/healthz"
METHODS = ("GET", "HEAD")
NO_STORE = (b"cache-control", b"no-store")

admin_port_option = click.option(
    "--admin-port",
    type=click.IntRange(0, 65535),
    help=f"Serve {METRICS} and {HEALTH} on this port of 127.0.0.1; 0 takes a free one. [default: do not]",
)


class Look(NamedTuple):
    """What the two pages are made of."""

    metrics: bytes
    reasons: list[str]


class Admin:
    """The application of the admin port."""

    def __init__(self, look: Callable[[], Awaitable[Look]], hosts: Collection[str] = ()) -> None:
        """Admit `hosts` as further names of this machine, as the proxy does."""
        self._look = look
        # that is for who asks for a token
        self._hosts = frozenset(host.lower() for host in hosts) - {ANY_HOST}

    async def __call__(self, incoming: ServerExchange) -> None:
        refused = self._refusal(incoming)
        if refused is not None:
            refuse(incoming, refused, [NO_STORE])
            return
        body, found = await self._look()
        status, content_type = 200, CONTENT_TYPE
        if path_of(incoming) == HEALTH:
            status, content_type = (503 if found else 200), b"application/json"
            body = msgspec.json.encode(
                {"status": "unwell", "reasons": found} if found else {"status": "ok"}
            )
        incoming.respond(status, [(b"content-type", content_type), NO_STORE], body)

    def _refusal(self, incoming: ServerExchange) -> Refusal | None:
        refused = refusal(incoming.method, incoming.headers, self._hosts, body_limit_bytes=0)
        if refused is None and path_of(incoming) not in (METRICS, HEALTH):
            return Refusal(
                404, "not_found", f"There is {METRICS} and {HEALTH} here, and nothing else."
            )
        if refused is None and incoming.method not in METHODS:
            return Refusal(405, "method_not_allowed", "This page is for reading: use GET or HEAD.")
        return refused


def administered(
    meter: Meter, port: int, hosts: Collection[str]
) -> AbstractAsyncContextManager[str]:
    """Serve the admin port during the block; give its URL.

    Raise `RecorderError` if the port is taken.

    It is on loopback wherever the proxy listens: who sees its pages knows who talks to whom, and
    how much.
    """

    async def look() -> Look:
        health = await meter.health()
        return Look(exposition(health), reasons(health))

    return pages(look, port, hosts)


def pages(
    look: Callable[[], Awaitable[Look]], port: int, hosts: Collection[str] = ()
) -> AbstractAsyncContextManager[str]:
    """Serve the two pages as `administered` does."""
    return served(Admin(look, hosts), port, "--admin-port", on_drain=lambda: None)
