"""`recorder events`: the log of a session, row by row, as it was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import click
import msgspec

from recorder.commands.database import chosen_url, database_option
from recorder.commands.output import safe_text, with_json, write_bytes, write_json, write_table
from recorder.commands.selection import EXCHANGE_HELP, select
from recorder.errors import UsageError
from recorder.events import BODY_KINDS, Event
from recorder.log import Log

FOLLOW_S = 0.1  # how often a followed session is looked at: a person does not see less
PREVIEW = 120  # characters of an event in the table
_COLUMNS = ("exchange", "pos", "t_ms", "kind", "type", "seq", "item_id", "index", "bytes", "raw")
_RIGHT = ("exchange", "pos", "t_ms", "seq", "index", "bytes")


@click.command()
@click.argument("session")
@click.option("--exchange", metavar="N|ID", help=EXCHANGE_HELP)
@click.option("--raw", "as_raw", is_flag=True, help="The response bodies as they were received, decoded, and no more.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many events.")
@click.option("--follow", is_flag=True, help="Go on as events come in, until interrupted.")
@with_json
@database_option
def command(
    database: str | None,
    session: str,
    exchange: str | None,
    as_raw: bool,
    limit: int | None,
    follow: bool,
    as_json: bool,
    as_jsonl: bool,
) -> None:
    """Show the events of SESSION (an id, the beginning of one, a name, or `latest`), exchange by exchange.

    \b
    recorder events latest
    recorder events latest --exchange 1 --raw
    recorder events latest --follow --jsonl
    """
    if as_raw and (as_json or as_jsonl):
        raise UsageError("--raw is bytes, --json and --jsonl are JSON: choose one.")
    if follow and as_json:
        raise UsageError("A JSON array has an end and --follow has none: use --jsonl.")
    show = _raw if as_raw else _json_lines if as_jsonl else _json if as_json else _lines if follow else _table
    asyncio.run(_show(show, database, session, exchange, limit, follow))


async def _show(
    show: Any, database: str | None, session: str, exchange: str | None, limit: int | None, follow: bool
) -> None:
    async with await Log.open(chosen_url(database)) as log:
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
    write_table(_COLUMNS, [_cells(number, event) async for number, event in events], right=_RIGHT)


async def _lines(events: AsyncIterator[tuple[int, Event]]) -> None:
    async for number, event in events:
        cells = ("" if cell is None else str(cell) for cell in _cells(number, event))
        click.echo(safe_text("  ".join(cells)))


def _row(event: Event) -> dict[str, Any]:
    return {**msgspec.structs.asdict(event), "hash": event.hash.hex()}


def _cells(number: int, event: Event) -> tuple[object, ...]:
    text = event.raw[: PREVIEW * 4].decode("utf-8", "replace").strip().replace("\n", " ")[:PREVIEW]
    t_ms = f"{event.t_ns / 1e6:.1f}"
    key = (event.type, event.sequence_number, event.item_id, event.output_index)
    return number, event.pos, t_ms, event.kind, *key, len(event.raw), text
