"""The admin port: `/metrics` and `/healthz` of a recorder, for programs on this machine.

Who may ask is decided as for the proxy (`recorder.proxy.admission`), and nothing that is asked here goes to an
upstream.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import NamedTuple

import click
import msgspec

from recorder.commands.serving.health_snapshot import HealthSnapshot, reasons
from recorder.commands.serving.listening import HOST, refuse
from recorder.commands.serving.meter import Meter
from recorder.commands.serving.metrics import CONTENT_TYPE, exposition
from recorder.errors import RecorderError
from recorder.proxy.admission import ANY_HOST, Refusal, refusal
from recorder.proxy.forwarding import path_of
from recorder.proxy.http import server
from recorder.proxy.http.server_exchange import ServerExchange

METRICS, HEALTH = "/metrics", "/healthz"
METHODS = ("GET", "HEAD")
JSON = b"application/json"
NO_STORE = (b"cache-control", b"no-store")

admin_port_option = click.option(
    "--admin-port",
    type=click.IntRange(0, 65535),
    help=f"Serve {METRICS} and {HEALTH} on this port of 127.0.0.1; 0 takes a free one. [default: do not]",
)


class Page(NamedTuple):
    """A page."""

    status: int
    content_type: bytes
    body: bytes


class Admin:
    """The application of the admin port."""

    def __init__(self, health: Callable[[], Awaitable[HealthSnapshot]], hosts: Collection[str] = ()) -> None:
        """Admit `hosts` as further names of this machine, as the proxy does."""
        self._health = health
        self._hosts = frozenset(host.lower() for host in hosts) - {ANY_HOST}  # that is for who asks for a token

    async def __call__(self, incoming: ServerExchange) -> None:
        refused = self._refusal(incoming)
        if refused is not None:
            refuse(incoming, refused, [NO_STORE])
            return
        page = PAGES[path_of(incoming)](await self._health())
        incoming.respond(page.status, [(b"content-type", page.content_type), NO_STORE], page.body)

    def _refusal(self, incoming: ServerExchange) -> Refusal | None:
        refused = refusal(incoming.method, incoming.headers, self._hosts, body_limit_bytes=0)
        if refused is None and path_of(incoming) not in PAGES:
            return Refusal(404, "not_found", f"There is {METRICS} and {HEALTH} here, and nothing else.")
        if refused is None and incoming.method not in METHODS:
            return Refusal(405, "method_not_allowed", "This page is for reading: use GET or HEAD.")
        return refused


def _metrics(health: HealthSnapshot) -> Page:
    return Page(200, CONTENT_TYPE, exposition(health))


def _health(health: HealthSnapshot) -> Page:
    found = reasons(health)
    if not found:
        return Page(200, JSON, b'{"status":"ok"}')
    return Page(503, JSON, msgspec.json.encode({"status": "unwell", "reasons": found}))


PAGES: dict[str, Callable[[HealthSnapshot], Page]] = {METRICS: _metrics, HEALTH: _health}


@contextlib.asynccontextmanager
async def administered(meter: Meter, port: int, hosts: Collection[str]) -> AsyncIterator[str]:
    """Serve the admin port during the block; give its URL. Raise `RecorderError` if the port is taken.

    It is on loopback wherever the proxy listens: who sees its pages knows who talks to whom, and how much.
    """
    front = server.Server(Admin(meter.health, hosts), HOST, port, on_drain=lambda: None)
    try:
        await front.start()
    except RecorderError as error:
        raise RecorderError(str(error).replace("--port", "--admin-port")) from None
    try:
        yield f"http://{HOST}:{front.port}"
    finally:
        await front.stop(grace_s=0)
