"""`recorder export`: a session on stdout, as text that can be imported again, or as its bare bodies."""

from __future__ import annotations

import asyncio

import click

from recorder.commands import replay
from recorder.commands.database import chosen_url, database_option
from recorder.commands.output import write_bytes
from recorder.commands.selection import EXCHANGE_HELP, select
from recorder.exported import event_line, exchange_line, opening_line
from recorder.log import Log


@click.command()
@click.argument("session")
@click.option(
    "--format",
    type=click.Choice(["jsonl", "sse"]),
    default="jsonl",
    show_default=True,
    help="jsonl: every row of the log, for `recorder import`. sse: the bytes of the response bodies.",
)
@click.option("--exchange", metavar="N|ID", help=EXCHANGE_HELP)
@click.option("--allow-gaps", is_flag=True, help="With sse: also bodies of which some bytes were not kept.")
@database_option
@click.pass_context
def command(
    ctx: click.Context, db: str | None, session: str, format: str, exchange: str | None, allow_gaps: bool
) -> None:
    """Write SESSION (an id, the beginning of one, a name, or `latest`) to stdout.

    \b
    recorder export latest > run.jsonl
    recorder export latest --exchange 1 --format sse > body.sse
    """
    if format == "sse":
        chosen = {"session": session, "exchange": exchange, "allow_gaps": allow_gaps}
        ctx.invoke(replay.command, db=db, speed=None, format=format, **chosen)
    else:
        asyncio.run(_export(db, session, exchange))


async def _export(db: str | None, session: str, exchange: str | None) -> None:
    async with await Log.open(chosen_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        write_bytes(opening_line(found))
        for _, each in chosen:
            write_bytes(exchange_line(each))
            async for event in log.events(each.session_id, each.exchange_id):
                write_bytes(event_line(event))
