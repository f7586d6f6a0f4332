"""`recorder events`: the log of a session, row by row, as it was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import click
import msgspec

from recorder.commands.behind import current_url, wait_option
from recorder.commands.database import database_option
from recorder.commands.output import with_json, write_bytes, write_json
from recorder.commands.selection import EXCHANGE_HELP, select
from recorder.commands.table import Column, growing_table, write_table
from recorder.errors import UsageError
from recorder.events import BODY_KINDS, Event
from recorder.log import Log

FOLLOW_S = 0.1  # how often a followed session is looked at: a person does not see less
PREVIEW = 120  # characters of an event in the table
_COLUMNS = (
    Column("exchange", right=True),
    Column("pos", right=True, usual=4),
    Column("t_ms", right=True, usual=8),
    Column("kind", usual=8),
    Column("type", cap=30, usual=26),
    Column("seq", right=True, goes=3, usual=4),
    Column("item_id", cap=12, goes=1, usual=12),
    Column("index", right=True, goes=2),
    Column("bytes", right=True, goes=4),
    Column("raw", least=16, usual=PREVIEW),
)


@click.command()
@click.argument("session")
@click.option("--exchange", metavar="N|ID", help=EXCHANGE_HELP)
@click.option("--raw", is_flag=True, help="The response bodies as they were received, decoded, and no more.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many events.")
@click.option("--follow", is_flag=True, help="Go on as events come in, until interrupted.")
@with_json
@wait_option
@database_option
def command(
    db: str | None,
    session: str,
    exchange: str | None,
    raw: bool,
    limit: int | None,
    follow: bool,
    json: bool,
    jsonl: bool,
) -> None:
    """Show the events of SESSION (an id, the beginning of one, a name, or `latest`), exchange by exchange.

    \b
    recorder events latest
    recorder events latest --exchange 1 --raw
    recorder events latest --follow --jsonl
    """
    if raw and (json or jsonl):
        raise UsageError("--raw is bytes, --json and --jsonl are JSON: choose one.")
    if follow and json:
        raise UsageError("A JSON array has an end and --follow has none: use --jsonl.")
    show = _raw if raw else _json_lines if jsonl else _json if json else _growing if follow else _table
    asyncio.run(_show(show, db, session, exchange, limit, follow))


async def _show(show: Any, db: str | None, session: str, exchange: str | None, limit: int | None, follow: bool) -> None:
    async with await Log.open(current_url(db)) as log:
        events = _events(log, session, exchange, follow)
        await show(events if limit is None else _first(limit, events))


async def _first(limit: int, events: AsyncIterator[tuple[int, Event]]) -> AsyncIterator[tuple[int, Event]]:
    async for numbered in events:
        yield numbered
        limit -= 1
        if not limit:
            return


async def _events(log: Log, session: str, exchange: str | None, follow: bool) -> AsyncIterator[tuple[int, Event]]:
    """The events with the number of their exchange; with `follow`, those that come later too."""
    seen: dict[str, int] = {}
    ended: set[str] = set()
    found, chosen = await select(log, session, exchange)
    while True:
        for number, each in chosen:
            if each.exchange_id in ended:
                continue
            async for event in log.events(found.session_id, each.exchange_id, after=seen.get(each.exchange_id, -1)):
                seen[each.exchange_id] = event.pos
                if event.kind == "end":
                    ended.add(each.exchange_id)
                yield number, event
        if not follow:
            return
        await asyncio.sleep(FOLLOW_S)
        found, chosen = await select(log, found.session_id, exchange)


async def _raw(events: AsyncIterator[tuple[int, Event]]) -> None:
    async for _, event in events:
        if event.kind in BODY_KINDS:
            write_bytes(event.raw)


async def _json(events: AsyncIterator[tuple[int, Event]]) -> None:
    write_json([_row(event) async for _, event in events])


async def _json_lines(events: AsyncIterator[tuple[int, Event]]) -> None:
    async for _, event in events:
        write_json([_row(event)], lines=True)


async def _table(events: AsyncIterator[tuple[int, Event]]) -> None:
    write_table(_COLUMNS, [_cells(number, event) async for number, event in events])


async def _growing(events: AsyncIterator[tuple[int, Event]]) -> None:
    write_row = growing_table(_COLUMNS)
    async for number, event in events:
        write_row(_cells(number, event))


def _row(event: Event) -> dict[str, Any]:
    return {**msgspec.structs.asdict(event), "hash": event.hash.hex()}


def _cells(number: int, event: Event) -> tuple[object, ...]:
    text = event.raw[: PREVIEW * 4].decode("utf-8", "replace").strip().replace("\n", " ")[:PREVIEW]
    t_ms = f"{event.t_ns / 1e6:.1f}"
    key = (event.type, event.sequence_number, event.item_id, event.output_index)
    return number, event.pos, t_ms, event.kind, *key, len(event.raw), text
