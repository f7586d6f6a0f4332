"""`recorder serve`: record what passes, until told to stop."""

from __future__ import annotations

import logging
import shlex
import sys
from ipaddress import ip_address
from urllib.parse import urlsplit

import click

from recorder import server
from recorder.admission import is_local
from recorder.commands.database import chosen_url, database_option
from recorder.commands.env import DEFAULT_URL
from recorder.commands.output import echo
from recorder.commands.recording import describe, recording
from recorder.errors import RecorderError, UsageError
from recorder.proxy import BODY_LIMIT_BYTES
from recorder.routing import Routes, Upstream, parse_upstream


def _upstreams(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[Upstream]:
    try:
        return [parse_upstream(value) for value in values]
    except RecorderError as error:
        raise click.BadParameter(str(error)) from error


def _loopback(ctx: click.Context, param: click.Parameter, value: str) -> str:
    host = value.removeprefix("[").removesuffix("]")
    try:
        local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise click.BadParameter(
            f"{value!r} is no loopback address such as 127.0.0.1, ::1 or localhost: "
            "whoever reaches the port could use your upstreams, and asking them for a token comes in a later version."
        )
    return host


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="0 takes a free one.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    callback=_loopback,
    help="The address to listen on; a loopback one.",
)
@click.option(
    "--upstream",
    metavar="NAME=URL",
    multiple=True,
    callback=_upstreams,
    help="Where an API is: openai=, anthropic= and gemini= replace the public ones; another NAME is reachable as "
    "/NAME/…. Can be given many times.",
)
@click.option("--allow-host", metavar="NAME", multiple=True, help="A further name for this machine in Host.")
@click.option(
    "--max-body",
    metavar="MIB",
    type=click.IntRange(min=1, max=64),
    default=BODY_LIMIT_BYTES // 2**20,
    show_default=True,
    help="The largest request body that is let through.",
)
@database_option
def command(
    db: str | None, port: int, host: str, upstream: list[Upstream], allow_host: tuple[str, ...], max_body: int
) -> None:
    """Record: a proxy between clients and streaming APIs.

    Every byte goes through untouched and is on disk before the client has it. Give a session a name with a path,
    `/s/NAME/v1`, or with the header `X-Recorder-Session`. Stop with Ctrl-C: open streams have five seconds to end.

    \b
    recorder serve
    recorder serve --port 9000 --upstream openai=https://openrouter.ai/api/v1
    recorder serve --upstream local=http://127.0.0.1:11434/v1    # as http://127.0.0.1:8787/local
    """
    logging.basicConfig(stream=sys.stderr, format="recorder: %(message)s", level=logging.WARNING)
    server.run(_serve(db, port, host, upstream, allow_host, max_body))


async def _serve(
    db: str | None, port: int, host: str, upstreams: list[Upstream], hosts: tuple[str, ...], max_body: int
) -> None:
    url = chosen_url(db)
    for name, base in Routes(upstreams).upstreams:
        there = urlsplit(base)
        if there.port == port and is_local(_in_url(there.hostname or "").encode(), hosts):
            raise UsageError(f"Upstream {name} ({base}) would be this recorder itself: give another --port.")

    def ready(bound_port: int) -> None:
        address = f"http://{_in_url(host)}:{bound_port}"
        for line in describe(url, address, Routes(upstreams).upstreams):
            echo(line)
        elsewhere = "" if address == DEFAULT_URL else f" --url {shlex.quote(address)}"
        echo(f'Point a client here: eval "$(recorder env CLIENT{elsewhere})"')

    async with recording(url, upstreams, hosts=hosts, body_limit_bytes=max_body * 2**20) as proxy:
        await server.serve(proxy, host, port, on_ready=ready, on_stop=_say_stopping, on_drain=proxy.shutdown)


def _say_stopping(streams: int) -> None:
    if streams:
        echo(f"Stopping: open streams ({streams}) have {server.GRACE_S:g} s to end; Ctrl-C again ends them now.")
