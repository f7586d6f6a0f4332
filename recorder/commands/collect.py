"""`recorder collect`: takes the segments that edges ship into the log, until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import click

from recorder.commands.serving.admin import admin_port_option, pages
from recorder.commands.serving.collecting import Collecting
from recorder.commands.terminal.options import Parsed, database_option
from recorder.commands.terminal.output import echo, log_to_stderr
from recorder.commands.terminal.rules import declare_dialects, redactor
from recorder.errors import UsageError
from recorder.shipping.bucket import Bucket, Prefix, parse_prefix
from recorder.store.location import chosen_url, database_name

PREFIX = Parsed("url", parse_prefix)


@click.command()
@click.argument("prefix", metavar="URL", type=PREFIX)
@click.option(
    "--keep",
    metavar="URL",
    type=PREFIX,
    help="Move segments that are in the log there, as they were shipped. [default: they are deleted]",
)
@admin_port_option
@database_option
def command(db: str | None, prefix: Prefix, keep: Prefix | None, admin_port: int | None) -> None:
    """Take into the log what edges ship: those are recorders without a database,
    `recorder serve --ship URL`.

    URL is s3://, gs:// or az://BUCKET/PREFIX, or file:FOLDER. Several collectors share the edges,
    and take over those of one that died. Stop with Ctrl-C: what was taken is in the log, the rest
    waits. It needs the extra ship.

    \b
    recorder collect s3://bucket/edges --db postgresql://me@db.example/recordings
    recorder collect s3://bucket/edges --keep s3://bucket/collected
    recorder collect file:/mnt/edges --admin-port 9187  # lag for Prometheus
    """
    log_to_stderr()
    declare_dialects()
    if keep is not None and f"{keep.url}/".startswith(f"{prefix.url}/"):
        raise UsageError(
            f"{keep.url} is where segments come from: give --keep a place outside of {prefix.url}."
        )
    kept = None if keep is None else Bucket(keep, "collect")
    collecting = Collecting(Bucket(prefix, "collect"), kept, chosen_url(db), redactor())
    asyncio.run(_collect(collecting, admin_port))


async def _collect(collecting: Collecting, admin_port: int | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, collecting.stop)
    async with contextlib.AsyncExitStack() as stack:
        if admin_port is not None:
            echo(
                f"Metrics and health on {await stack.enter_async_context(pages(collecting.look, admin_port))}"
            )
        echo(f"Collecting from {collecting.status.url} into {database_name(collecting.url)}")
        await asyncio.to_thread(collecting.run)
