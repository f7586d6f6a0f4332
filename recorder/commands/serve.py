"""`recorder serve`: record what passes, until told to stop."""

from __future__ import annotations

import logging
import shlex
import sys

import click

from recorder import server
from recorder.commands.database import chosen_url, database_option
from recorder.commands.env import DEFAULT_URL
from recorder.commands.listening import address, listening_options, refuse_itself
from recorder.commands.output import echo
from recorder.commands.recording import describe, recording
from recorder.proxy import BODY_LIMIT_BYTES
from recorder.routing import Routes, Upstream


@click.command()
@listening_options
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
    refuse_itself(Routes(upstreams).upstreams, port, hosts)

    def ready(bound_port: int) -> None:
        here = address(host, bound_port)
        for line in describe(url, here, Routes(upstreams).upstreams):
            echo(line)
        elsewhere = "" if here == DEFAULT_URL else f" --url {shlex.quote(here)}"
        echo(f'Point a client here: eval "$(recorder env CLIENT{elsewhere})"')

    async with recording(url, upstreams, hosts=hosts, body_limit_bytes=max_body * 2**20) as proxy:
        await server.serve(proxy, host, port, on_ready=ready, on_stop=_say_stopping, on_drain=proxy.shutdown)


def _say_stopping(streams: int) -> None:
    if streams:
        echo(f"Stopping: open streams ({streams}) have {server.GRACE_S:g} s to end; Ctrl-C again ends them now.")
