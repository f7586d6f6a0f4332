"""`recorder serve`: records until it is stopped."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import click
from sqlalchemy import URL

from recorder.commands.env import DEFAULT_URL
from recorder.commands.serving.admin import admin_port_option, administered
from recorder.commands.serving.listening import (
    Token,
    address,
    entrance,
    guarded,
    listening_options,
    max_body_setting,
    names,
    refuse_itself,
    token_option,
)
from recorder.commands.serving.meter import Meter
from recorder.commands.serving.network import network_settings
from recorder.commands.serving.ready_file import announced, ready_file_option
from recorder.commands.serving.recording import (
    Durability,
    Ending,
    describe,
    durability_setting,
    recording,
    websocket_option,
)
from recorder.commands.serving.viewer import ui_port_option, viewing
from recorder.commands.terminal.options import database_option
from recorder.commands.terminal.output import echo, log_to_stderr
from recorder.proxy.http import server
from recorder.proxy.http.network import Network
from recorder.proxy.routing import Routes, Upstream
from recorder.store.location import chosen_url


class _Door(NamedTuple):
    """The addresses of a recorder, and its admission rules."""

    host: str
    port: int
    hosts: Collection[str]
    token: Token | None
    origins: Collection[bytes]
    announce: Callable[[str], None]
    admin_port: int | None
    ui_port: int | None


@click.command()
@listening_options
@token_option
@max_body_setting
@durability_setting
@websocket_option
@network_settings
@admin_port_option
@ui_port_option
@ready_file_option
@database_option
def command(
    db: str | None,
    port: int,
    host: str,
    upstream: list[Upstream],
    allow_host: tuple[str, ...],
    allow_origin: Collection[bytes],
    token: Token | None,
    max_body: int,
    durability: Durability,
    no_websocket: bool,
    admin_port: int | None,
    ui_port: int | None,
    ready_file: Path | None,
    network: Network,
) -> None:
    """Record: a proxy between clients and streaming APIs.

    Every byte passes unchanged, and is on disk before the client gets it. Name a session with a path, `/s/NAME/v1`,
    or with the header `X-Recorder-Session`. Stop with Ctrl-C: open streams have five seconds to end, and WebSocket
    clients are asked to connect again. docs/settings.md has what else can be set: proxies, TLS, durability, limits.

    \b
    recorder serve
    recorder serve --port 9000 --upstream openai=https://openrouter.ai/api/v1
    recorder serve --upstream local=http://127.0.0.1:11434/v1  # path: /local
    recorder serve --host 0.0.0.0 --token        # at http://HOST:8787/t/TOKEN
    recorder serve --admin-port 9187             # for Prometheus
    recorder serve --ui-port 8788                # with the viewer
    recorder serve --allow-origin http://localhost:5173  # for a web page
    """
    log_to_stderr()
    options: dict[str, Any] = {"body_limit_bytes": max_body * 2**20, "durability": durability, "network": network}
    options["websocket"] = not no_websocket
    with announced(ready_file) as announce:
        door = _Door(host, port, allow_host, token, allow_origin, announce, admin_port, ui_port)
        server.run(_serve(chosen_url(db), door, upstream, options))


async def _serve(url: URL, door: _Door, upstreams: list[Upstream], options: dict[str, Any]) -> None:
    for own in (door.port, door.admin_port, door.ui_port):
        if own is not None:
            refuse_itself(Routes(upstreams).upstreams, own, door.hosts)
    meter = None if door.admin_port is None else Meter(url)

    def ready(bound_port: int) -> None:
        server.settle()
        door.announce(entrance(address(door.host, bound_port), door.token))
        here = entrance(address(door.host, bound_port), door.token and door.token.as_printed())
        for line in describe(url, here, Routes(upstreams).upstreams, options["network"]):
            echo(line)
        elsewhere = "" if here == DEFAULT_URL else f" --url {shlex.quote(here)}"
        echo(f'Point a client here: eval "$(recorder env CLIENT{elsewhere})"')

    ending = Ending()

    def stopping(streams: int) -> None:
        ending.begin()
        proxy.stop()
        if streams:
            echo(f"Stopping: open streams ({streams}) have {server.GRACE_S:g} s to end; Ctrl-C again ends them now.")

    options |= {"hosts": names(door.hosts, door.token), "origins": door.origins, "ending": ending}
    async with recording(url, upstreams, meter=meter, **options) as proxy, contextlib.AsyncExitStack() as stack:
        if meter is not None and door.admin_port is not None:
            admin = await stack.enter_async_context(administered(meter, door.admin_port, door.hosts))
            echo(f"Metrics and health on {admin}")
        if door.ui_port is not None:
            echo(f"Viewer on {await stack.enter_async_context(viewing(url, door.ui_port))}")
        app = guarded(proxy, door.token, door.origins)
        await server.serve(
            app,
            *(door.host, door.port),
            on_ready=ready,
            on_stop=stopping,
            on_drain=proxy.shutdown,
            on_hurry=ending.hurry,
        )
