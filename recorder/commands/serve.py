"""`recorder serve`: records until it is stopped."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click
from click.core import ParameterSource
from sqlalchemy import URL

from recorder.commands.serving.admin import admin_port_option, administered
from recorder.commands.serving.budgets import Spending, read_budgets
from recorder.commands.serving.listening import (
    Door,
    listening_options,
    refuse_itself,
    say_how_to_point,
    say_stopping,
)
from recorder.commands.serving.meter import Meter
from recorder.commands.serving.network import network_settings
from recorder.commands.serving.ready_file import announced
from recorder.commands.serving.recording import (
    Durability,
    Ending,
    content_option,
    describe,
    durability_setting,
    levels_of,
    recording,
    websocket_option,
)
from recorder.commands.serving.viewer import ui_port_option, viewing
from recorder.commands.terminal.options import Parsed, database_option
from recorder.commands.terminal.output import echo, log_to_stderr
from recorder.errors import UsageError
from recorder.proxy.http import server
from recorder.proxy.http.network import Network
from recorder.proxy.routing import Routes
from recorder.shipping.bucket import Bucket, Prefix, parse_prefix
from recorder.store.location import chosen_url, database_name
from recorder.wire.content import Level

log = logging.getLogger(__name__)


@click.command()
@listening_options
@durability_setting
@websocket_option
@network_settings
@admin_port_option
@ui_port_option
@click.option(
    "--ship",
    metavar="URL",
    type=Parsed("url", parse_prefix),
    help="Record without a database: ship the journal to s3://, gs:// or az://BUCKET/PREFIX, or to file:FOLDER, from "
    "where `recorder collect` takes it. It needs the extra ship.",
)
@content_option
@database_option
@click.pass_context
def command(
    ctx: click.Context,
    db: str | None,
    ship: Prefix | None,
    door: Door,
    durability: Durability,
    no_websocket: bool,
    admin_port: int | None,
    ui_port: int | None,
    network: Network,
    content: Sequence[tuple[str, Level]],
) -> None:
    """Record: a proxy between clients and streaming APIs.

    Every byte passes unchanged, and is on disk before the client gets it. Name a session with a
    path, `/s/NAME/v1`, or with the header `X-Recorder-Session`. Stop with Ctrl-C: open streams have
    five seconds to end, and WebSocket clients are asked to connect again. docs/settings.md has what
    else can be set: proxies, TLS, durability, limits.

    \b
    recorder serve
    recorder serve --port 9000 --upstream openai=https://openrouter.ai/api/v1
    recorder serve --upstream local=http://127.0.0.1:11434/v1  # path: /local
    recorder serve --host 0.0.0.0 --token        # at http://HOST:8787/t/TOKEN
    recorder serve --admin-port 9187             # for Prometheus
    recorder serve --ui-port 8788                # with the viewer
    recorder serve --content shape               # without what anybody wrote
    recorder serve --ship s3://bucket/edges      # without a database
    recorder serve --allow-origin http://localhost:5173  # for a web page
    """
    log_to_stderr()
    into = chosen_url(db) if ship is None else _shipping(ctx, ship)
    make_proxy = partial(door.make_proxy, websocket=not no_websocket)
    options: dict[str, Any] = {
        "durability": durability,
        "network": network,
        "make_proxy": make_proxy,
    }
    options["levels"] = levels_of(content)._replace(has_tokens=door.tokens is not None)
    spending = _spending(into, door)
    if spending is not None:
        options |= {
            "make_proxy": partial(make_proxy, overspent=spending.overspent),
            "beside": [spending.run],
        }
    with announced(door.ready_file) as announce:
        server.run(_serve(into, door, announce, admin_port, ui_port, options))


def _shipping(ctx: click.Context, ship: Prefix) -> Prefix:
    """Return the place to ship to. Raise `UsageError` for options that need a database."""
    for option in ("db", "ui_port"):
        if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            name = option.replace("_", "-")
            raise UsageError(
                f"With --ship there is no database here: leave --{name} out, `recorder collect` has one."
            )
    Bucket(ship, "serve --ship")  # what cannot work is said now
    return ship


def _spending(into: URL | Prefix, door: Door) -> Spending | None:
    """Return what keeps the budgets of `[budget]`, if there are any and they can be kept."""
    budgets = read_budgets()
    if budgets is None:
        return None
    if isinstance(into, Prefix):
        log.warning(
            "[budget] does nothing here: budgets need a database, and with --ship there is none."
        )
        return None
    if door.tokens is None:
        log.warning(
            "[budget] does nothing here: only the tokens of --tokens have owners and teams."
        )
        return None
    return Spending(budgets, into)


async def _serve(
    into: URL | Prefix,
    door: Door,
    announce: Callable[[str], None],
    admin_port: int | None,
    ui_port: int | None,
    options: dict[str, Any],
) -> None:
    upstreams = Routes(door.upstream).upstreams
    for port in (door.port, admin_port, ui_port):
        if port is not None:
            refuse_itself(upstreams, port, door.allow_host)
    url = into if isinstance(into, URL) else None
    meter = None if admin_port is None else Meter(url)
    name = into.url if isinstance(into, Prefix) else database_name(into)
    ending = Ending()

    def ready(port: int) -> None:
        server.settle()
        announce(door.entrance(port))
        for line in describe(name, door.printed_entrance(port), upstreams, options["network"]):
            echo(line)
        say_how_to_point(door.printed_entrance(port))

    def stopping(streams: int) -> None:
        ending.begin()
        proxy.stop()
        say_stopping(streams)

    async with contextlib.AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(
            recording(into, door.upstream, meter=meter, ending=ending, **options)
        )
        if meter is not None and admin_port is not None:
            admin = await stack.enter_async_context(
                administered(meter, admin_port, door.allow_host)
            )
            echo(f"Metrics and health on {admin}")
        if ui_port is not None and url is not None:
            echo(f"Viewer on {await stack.enter_async_context(viewing(url, ui_port))}")
        await server.serve(
            door.guarded(proxy),
            door.host,
            door.port,
            on_ready=ready,
            on_stop=stopping,
            on_drain=proxy.shutdown,
            on_hurry=ending.hurry,
        )
