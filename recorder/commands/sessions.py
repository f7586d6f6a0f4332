"""`recorder sessions`: what was recorded, the last used first."""

from __future__ import annotations

import asyncio
import datetime

import click
import msgspec

from recorder.commands.database import chosen_url, database_option
from recorder.commands.output import echo, seconds, with_json, write_json
from recorder.commands.table import Column, short_ids, write_table
from recorder.errors import NotFoundError
from recorder.log import Log, SessionRow

_COLUMNS = (
    Column("session"),
    Column("name", least=20),
    Column("last"),
    Column("started", goes=1),
    Column("lasted", right=True, goes=5),
    Column("exchanges", right=True),
    Column("events", right=True, goes=6),
    Column("size", right=True, goes=4),
    Column("status"),
    Column("api", cap=24, goes=3),
    Column("client", cap=16, goes=2),
)


@click.command()
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, newest first."
)
@with_json
@database_option
def command(db: str | None, limit: int, json: bool, jsonl: bool) -> None:
    """List the sessions, the last used first, those that still stream included.

    \b
    recorder sessions
    recorder sessions --jsonl | head -1
    """
    rows = asyncio.run(_rows(db, limit))
    if json or jsonl:
        write_json((msgspec.structs.asdict(row) for row in rows), lines=jsonl)
    elif not rows:
        raise NotFoundError("Nothing is recorded yet: start `recorder serve` and point a client at it.")
    else:
        ids = short_ids([row.session_id for row in rows])
        write_table(_COLUMNS, [(each, *_cells(row)) for each, row in zip(ids, rows, strict=True)])
        if len(rows) == limit:
            echo(f"The newest {limit}; --limit shows more.")


async def _rows(db: str | None, limit: int) -> list[SessionRow]:
    async with await Log.open(chosen_url(db)) as log:
        return await log.sessions(limit)


def _cells(row: SessionRow) -> tuple[object, ...]:
    status = f"{row.status}, gaps" if row.gaps else row.status
    lasted = seconds(row.last_ns - row.first_ns)
    counts = (row.exchanges, row.events, row.bytes)
    apis, clients = ", ".join(row.apis), ", ".join(row.clients)
    return row.name, _when(row.used_ns), _when(row.created_ns), lasted, *counts, status, apis, clients


def _when(wall_ns: int) -> str:
    """A time of this day by the clock, any other with its date."""
    at = datetime.datetime.fromtimestamp(wall_ns / 1e9)
    return at.strftime("%H:%M:%S" if at.date() == datetime.date.today() else "%Y-%m-%d %H:%M")
