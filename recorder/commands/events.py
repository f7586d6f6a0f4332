"""`recorder events`: the log of a session, row by row, as it was written."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import click
import msgspec

from recorder.archive.opening import open_log
from recorder.commands.terminal.catch_up import current_url, wait_option
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.output import JsonRows, with_json, write_bytes
from recorder.commands.terminal.selection import EXCHANGE_HELP, select
from recorder.commands.terminal.table import SIZED_ROWS, Column, Table, say_hidden
from recorder.errors import UsageError
from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.recordings.preview import PREVIEW, Previews
from recorder.store.queries.reader import LogReader

FOLLOW_S = 0.1  # how often a followed session is looked at: a person does not see less
SAMPLED_BYTES = 2**24  # of the events whose rows say how wide the table is: they are held
HIDDEN = "--json has every column, --raw the bytes"
_COLUMNS = (
    Column("exchange", right=True),
    Column("pos", right=True, usual=4),
    Column("t_ms", right=True, usual=8),
    Column("type", cap=42, least=38, usual=38),
    Column("seq", right=True, goes=3, usual=4),
    Column("item_id", cap=12, goes=1, usual=12),
    Column("index", right=True, goes=2),
    Column("bytes", right=True, goes=4),
    Column("text", least=16, usual=PREVIEW),
)

Numbered = tuple[int, Exchange, Event]  # with the number of the exchange in its session


@click.command()
@click.argument("session", shell_complete=session_names)
@click.option("--exchange", metavar="N|ID", help=EXCHANGE_HELP)
@click.option("--raw", is_flag=True, help="The response bodies as they were received, decoded, and no more.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many events.")
@click.option("--follow", is_flag=True, help="Go on as events come in, until interrupted.")
@with_json()
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

    The column text has what a delta adds, in quotes, and how any other event begins; in a pipe, all of it.

    \b
    recorder events latest
    recorder events latest --exchange 1 --raw
    recorder events latest --follow --jsonl
    """
    if follow and json:
        raise UsageError("A JSON array has an end and --follow has none: use --jsonl.")
    show = _raw if raw else _json_lines if jsonl else _json if json else _growing if follow else _table
    asyncio.run(_show(show, db, session, exchange, limit, follow))


async def _show(show: Any, db: str | None, session: str, exchange: str | None, limit: int | None, follow: bool) -> None:
    async with await open_log(current_url(db)) as log:
        events = _events(log, session, exchange, follow)
        await show(events if limit is None else _first(limit, events))


async def _first(limit: int, events: AsyncIterator[Numbered]) -> AsyncIterator[Numbered]:
    async for numbered in events:
        yield numbered
        limit -= 1
        if not limit:
            return


async def _events(log: LogReader, session: str, exchange: str | None, follow: bool) -> AsyncIterator[Numbered]:
    """Yield the events with their exchange; with `follow`, those that come later too."""
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
                yield number, each, event
        if not follow:
            return
        await asyncio.sleep(FOLLOW_S)
        found, chosen = await select(log, found.session_id, exchange)


async def _raw(events: AsyncIterator[Numbered]) -> None:
    async for _, _, event in events:
        if event.kind in BODY_KINDS:
            write_bytes(event.raw)


async def _json(events: AsyncIterator[Numbered]) -> None:
    await _write_json(events, JsonRows(lines=False))


async def _json_lines(events: AsyncIterator[Numbered]) -> None:
    await _write_json(events, JsonRows(lines=True))


async def _write_json(events: AsyncIterator[Numbered], out: JsonRows) -> None:
    async for _, _, event in events:
        out.write(_row(event))
    out.close()


async def _table(events: AsyncIterator[Numbered]) -> None:
    """Write a table as wide as its first rows need; the others are written as they are read."""
    previews, sample, table = _previews(), list[tuple[object, ...]](), None
    sampled_bytes = 0
    async for numbered in events:
        cells = _cells(previews, *numbered)
        if table is not None:
            table.write(cells)
            continue
        sample.append(cells)
        sampled_bytes += len(numbered[2].raw)
        if len(sample) == SIZED_ROWS or sampled_bytes > SAMPLED_BYTES:
            table = Table(_COLUMNS, sample)
    say_hidden(table or Table(_COLUMNS, sample), HIDDEN)


async def _growing(events: AsyncIterator[Numbered]) -> None:
    previews, table = _previews(), Table(_COLUMNS, None)
    say_hidden(table, HIDDEN)
    async for numbered in events:
        table.write(_cells(previews, *numbered))


def _previews() -> Previews:
    """Return previews for a person, or for a pipe the events whole."""
    return Previews() if sys.stdout.isatty() else Previews(None)


def _row(event: Event) -> dict[str, Any]:
    return {**msgspec.structs.asdict(event), "hash": event.hash.hex()}


def _cells(previews: Previews, number: int, exchange: Exchange, event: Event) -> tuple[object, ...]:
    """Return the cells of an event: for a frame its type is enough, others have their kind."""
    type = (event.type if event.kind == "frame" else " ".join(filter(None, (event.kind, event.type)))) or event.kind
    key = (type, event.sequence_number, event.item_id, event.output_index)
    return number, event.pos, f"{event.t_ns / 1e6:.1f}", *key, len(event.raw), previews.of(exchange.api, event)
