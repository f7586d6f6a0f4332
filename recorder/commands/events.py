"""`recorder events`: the log of a session, row by row, as it was written."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import NamedTuple

import click

from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import flag, format_option, log_options
from recorder.commands.terminal.output import JsonRows, write_bytes
from recorder.commands.terminal.recordings import Selected, exchange_option, select, selected
from recorder.commands.terminal.table import SIZED_ROWS, Column, Number, Table
from recorder.errors import UsageError
from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.model.jsonl import event_row
from recorder.recordings.names import is_file
from recorder.recordings.preview import PREVIEW, Previews
from recorder.recordings.selection import readings

FOLLOW_S = 0.1  # how often a followed session is looked at: a person does not see less
SAMPLED_BYTES = 2**24  # of the events whose rows say how wide the table is: they are held
HIDDEN = "--json has every column, --raw the bytes"
_COLUMNS = (
    Number("exchange"),
    Number("pos", usual=4),
    Number("t_ms", usual=8),
    Column("type", cap=42, least=38, usual=38),
    Number("seq", goes=3, usual=4),
    Column("item_id", cap=12, goes=1, usual=12),
    Number("index", goes=2),
    Number("bytes", goes=4),
    Column("text", least=16, usual=PREVIEW),
)


class NumberedEvent(NamedTuple):
    """An event with its exchange, and the number of that in its session."""

    number: int
    exchange: Exchange
    event: Event


@click.command()
@click.argument("session", shell_complete=session_names)
@exchange_option
@click.option("--limit", type=click.IntRange(min=1), help="At most so many events.")
@flag("--follow", help="Go on as events come in, until interrupted.")
@format_option("json", "jsonl", "raw")
@log_options
async def command(
    db: str | None,
    session: str,
    exchange: str | None,
    limit: int | None,
    follow: bool,
    format: str,
) -> None:
    """Show the events of SESSION (an id, the beginning of one, a name, or `latest`, or a file that
    `recorder import` reads), exchange by exchange.

    The column text has what a delta adds, in quotes, and how any other event begins; in a pipe, all
    of it.

    \b
    recorder events latest
    recorder events latest --exchange 1 --raw
    recorder events latest --follow --jsonl
    """
    if follow and format == "json":
        raise UsageError("A JSON array has an end and --follow has none: use --jsonl.")
    if follow and any(is_file(name) for name, _ in readings(session)):
        raise UsageError("A file has an end and --follow has none: leave it out.")
    async with selected(db, session, exchange) as found:
        events = _events(found, follow)
        if limit is not None:
            events = _first(limit, events)
        if format == "raw":
            await _write_bodies(events)
        elif format != "table":
            await _write_json(events, format)
        else:
            await _write_table(events, is_growing=follow)


async def _first(limit: int, events: AsyncIterator[NumberedEvent]) -> AsyncIterator[NumberedEvent]:
    async for numbered in events:
        yield numbered
        limit -= 1
        if not limit:
            return


async def _events(selection: Selected, follow: bool) -> AsyncIterator[NumberedEvent]:
    """Yield the events with their exchange; with `follow`, those that come later too."""
    seen: dict[str, int] = {}
    ended: set[str] = set()
    log, found, chosen, exchange = selection
    while True:
        for number, each in chosen:
            if each.exchange_id in ended:
                continue
            async for event in log.events(
                found.session_id, each.exchange_id, after=seen.get(each.exchange_id, -1)
            ):
                seen[each.exchange_id] = event.pos
                if event.kind == "end":
                    ended.add(each.exchange_id)
                yield NumberedEvent(number, each, event)
        if not follow:
            return
        await asyncio.sleep(FOLLOW_S)
        found, chosen = await select(log, found.session_id, exchange)


async def _write_bodies(events: AsyncIterator[NumberedEvent]) -> None:
    async for numbered in events:
        if numbered.event.kind in BODY_KINDS:
            write_bytes(numbered.event.raw)


async def _write_json(events: AsyncIterator[NumberedEvent], format: str) -> None:
    out = JsonRows(format)
    async for numbered in events:
        out.write(event_row(numbered.event))
    out.close()


async def _write_table(events: AsyncIterator[NumberedEvent], *, is_growing: bool) -> None:
    """Write a table as wide as its first rows need; the others are written as they are read.

    One that grows has the usual widths.
    """
    cells, table = _Cells(), None
    if is_growing:
        table = Table(_COLUMNS, None)
        table.say_hidden(HIDDEN)
    sample: list[tuple[object, ...]] = []
    sampled_bytes = 0
    async for numbered in events:
        if table is not None:
            table.write(cells.of(numbered))
            continue
        sample.append(cells.of(numbered))
        sampled_bytes += len(numbered.event.raw)
        if len(sample) == SIZED_ROWS or sampled_bytes > SAMPLED_BYTES:
            table = Table(_COLUMNS, sample)
    if not is_growing:
        (table or Table(_COLUMNS, sample)).say_hidden(HIDDEN)


class _Cells:
    """The cells of events, with a preview of each for a person; in a pipe, all of it."""

    def __init__(self) -> None:
        self._previews = Previews() if sys.stdout.isatty() else Previews(None)

    def of(self, numbered: NumberedEvent) -> tuple[object, ...]:
        event = numbered.event
        words = [event.type] if event.kind == "frame" else [event.kind, event.type]
        return (
            numbered.number,
            event.pos,
            f"{event.t_ns / 1e6:.1f}",
            " ".join(filter(None, words)) or event.kind,
            event.sequence_number,
            event.item_id,
            event.output_index,
            len(event.raw),
            self._previews.of(numbered.exchange.api, event),
        )
