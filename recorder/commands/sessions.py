"""`recorder sessions`: what was recorded, the last used first."""

from __future__ import annotations

import asyncio
import datetime
from typing import get_args

import click
import msgspec

from recorder.commands.behind import current_url, nothing_yet, wait_option
from recorder.commands.database import database_option
from recorder.commands.output import echo, seconds, with_json, write_json
from recorder.commands.selection import say_if_stale
from recorder.commands.table import Column, short_ids, write_table
from recorder.commands.times import between, check_order
from recorder.errors import NotFoundError
from recorder.events import Status
from recorder.listing import OPEN, UNKNOWN, SessionRow, Wanted
from recorder.log import Log

_COLUMNS = (
    Column("session"),
    Column("name", least=20),
    Column("title", cap=40, goes=5),
    Column("last"),
    Column("started", goes=1),
    Column("lasted", right=True, goes=8),
    Column("exchanges", right=True),
    Column("turns", right=True, goes=9),
    Column("model", cap=24, goes=10),
    Column("tokens", right=True, goes=11),
    Column("tools", right=True, goes=7),
    Column("events", right=True, goes=6),
    Column("size", right=True, goes=4),
    Column("status"),
    Column("errors", right=True, goes=12, rare=True),
    Column("origin", goes=6, rare=True),
    Column("api", cap=24, goes=3),
    Column("client", cap=16, goes=2),
)
_STATUSES = (OPEN, *(status for part in get_args(Status) for status in get_args(part) or (part,)), UNKNOWN)


@click.command()
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, newest first."
)
@click.option("--model", metavar="TEXT", help="Only those with an exchange of a model that has this in its name.")
@click.option("--client", metavar="TEXT", help="Only those with an exchange of a client that has this in its name.")
@click.option(
    "--status",
    type=click.Choice(_STATUSES),
    metavar="STATUS",
    help="Only those with an exchange that ended so (completed, failed, truncated, …), or is open.",
)
@between
@click.option(
    "--query",
    "-q",
    metavar="WORDS",
    help="Only those in which all these words occur in one message, piece of reasoning, or arguments of a tool; "
    "`wea*` is any word that begins so.",
)
@with_json
@wait_option
@database_option
def command(
    db: str | None,
    limit: int,
    model: str | None,
    client: str | None,
    status: str | None,
    since: int | None,
    until: int | None,
    query: str | None,
    json: bool,
    jsonl: bool,
) -> None:
    """List the sessions, the last used first, those that still stream included.

    Of several filters all must hold. --model and -q look at exchanges that have ended.

    \b
    recorder sessions
    recorder sessions --jsonl | head -1
    recorder sessions --model gpt-5 --since 7d --status failed
    recorder sessions -q 'weather paris'
    """
    check_order(since, until)
    wanted = Wanted(model, client, status, since, until, query)
    rows = asyncio.run(_rows(db, limit, wanted))
    if json or jsonl:
        write_json((msgspec.structs.asdict(row) for row in rows), lines=jsonl)
    elif not rows:
        raise NotFoundError(_nothing(wanted))
    else:
        ids = short_ids([row.session_id for row in rows])
        write_table(_COLUMNS, [(each, *_cells(row)) for each, row in zip(ids, rows, strict=True)])
        if len(rows) == limit:
            echo(f"The newest {limit}; --limit shows more.")


async def _rows(db: str | None, limit: int, wanted: Wanted) -> list[SessionRow]:
    async with await Log.open(current_url(db)) as log:
        await say_if_stale(log)
        return await log.sessions(limit, wanted)


_OPTIONS = {
    "model": "--model",
    "client": "--client",
    "status": "--status",
    "since_ns": "--since",
    "until_ns": "--until",
    "words": "-q",
}


_SEARCHED = (
    "-q finds whole words in messages and reasoning of models and in arguments of tools, not in questions or names of "
    "tools; `wea*` finds those that begin so."
)


def _nothing(wanted: Wanted) -> str:
    given = {_OPTIONS[name]: value for name, value in msgspec.structs.asdict(wanted).items() if value is not None}
    if not given:
        return nothing_yet("Nothing is recorded yet: start `recorder serve` and point a client at it.")
    said = [f"{option} {value!r}" if isinstance(value, str) else option for option, value in given.items()]
    searched = "" if wanted.words is None else f" {_SEARCHED}"
    return f"No session matches {' and '.join(said)}.{searched}"


def _cells(row: SessionRow) -> tuple[object, ...]:
    status = f"{row.status}, gaps" if row.gaps else row.status
    tokens = None if row.input_tokens is None and row.output_tokens is None else _tokens(row)
    said = (row.turns or None, ", ".join(row.models), tokens, row.tool_calls or None)
    times = (_when(row.used_ns), _when(row.started_ns), seconds(row.duration_ns))
    origin = None if row.origin == "live" else row.origin
    rest = (row.events, row.bytes, status, row.errors or None, origin, ", ".join(row.apis), ", ".join(row.clients))
    return row.name, row.title, *times, row.exchanges, *said, *rest


def _tokens(row: SessionRow) -> str:
    """In and out."""
    return "/".join("?" if count is None else f"{count:,}" for count in (row.input_tokens, row.output_tokens))


def _when(wall_ns: int) -> str:
    """A time of this day by the clock, any other with its date."""
    at = datetime.datetime.fromtimestamp(wall_ns / 1e9)
    return at.strftime("%H:%M:%S" if at.date() == datetime.date.today() else "%Y-%m-%d %H:%M")
