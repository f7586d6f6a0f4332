"""`recorder sessions`: what was recorded, newest first."""

from __future__ import annotations

import asyncio
import datetime

import click
import msgspec

from recorder.commands.database import chosen_url, database_option
from recorder.commands.output import echo, seconds, with_json, write_json, write_table
from recorder.errors import NotFoundError
from recorder.log import Log, SessionRow


@click.command()
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, newest first."
)
@with_json
@database_option
def command(database: str | None, limit: int, as_json: bool, as_jsonl: bool) -> None:
    """List the sessions, newest first, those that still stream included.

    \b
    recorder sessions
    recorder sessions --jsonl | head -1
    """
    rows = asyncio.run(_rows(database, limit))
    if as_json or as_jsonl:
        write_json((msgspec.structs.asdict(row) for row in rows), lines=as_jsonl)
    elif not rows:
        raise NotFoundError("Nothing is recorded yet: start `recorder serve` and point a client at it.")
    else:
        columns = ("session", "name", "started", "lasted", "exchanges", "events", "size", "status", "api", "client")
        write_table(columns, map(_cells, rows), right=("lasted", "exchanges", "events", "size"))
        if len(rows) == limit:
            echo(f"The newest {limit}; --limit shows more.")


async def _rows(database: str | None, limit: int) -> list[SessionRow]:
    async with await Log.open(chosen_url(database)) as log:
        return await log.sessions(limit)


def _cells(row: SessionRow) -> tuple[object, ...]:
    started = datetime.datetime.fromtimestamp(row.created_ns / 1e9).strftime("%Y-%m-%d %H:%M:%S")
    lasted = seconds(row.last_ns - row.first_ns)
    apis, clients = ", ".join(row.apis), ", ".join(row.clients)
    return row.session_id, row.name, started, lasted, row.exchanges, row.events, row.bytes, row.status, apis, clients
