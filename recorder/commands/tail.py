"""`recorder tail`: follows what is being recorded in all sessions, until interrupted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import click

from recorder.archive.opening import open_log
from recorder.archive.place import chosen_url
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import database_option, format_option
from recorder.commands.terminal.output import echo, write_json
from recorder.commands.terminal.table import Column, Number, Table
from recorder.model.events import BODY_KINDS, Event
from recorder.model.jsonl import event_row
from recorder.recordings.preview import PREVIEW, Previews
from recorder.store.queries.outlines import (
    BEFORE_S,
    LATE_S,
    ExchangeProgress,
    Growth,
    WatchedExchanges,
    id_ago,
)
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named

POLL_S = 0.1  # how often the log is looked at: a person does not see less
BURST = 1_000  # events of one exchange at a time, so that the others have their turn

_SHOWN = frozenset({*BODY_KINDS, "request", "response", "gap", "end", "note"})
_COLUMNS = (
    Number("t_s", usual=8),
    Column("session", cap=24, usual=18),
    Number("exchange"),
    Column("type", cap=42, usual=26),
    Column("text", least=16, usual=PREVIEW),
)


class TailedEvent(NamedTuple):
    """An event, and where it happened."""

    event: Event
    session_name: str
    number: int  # of the exchange in its session
    api: str


@click.command()
@click.option(
    "--session",
    metavar="SESSION",
    shell_complete=session_names,
    help="Only this session: an id, the beginning of one, a name, `latest`.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many events.")
@format_option("jsonl")
@database_option
async def command(db: str | None, session: str | None, limit: int | None, format: str) -> None:
    """Follow what is being recorded, in all sessions, until interrupted.

    Shows each event from now on, also of exchanges that are open, with its time since the request,
    its session, the number of its exchange there, its type, and its beginning. Imported events are
    not shown.

    \b
    recorder tail
    recorder tail --jsonl --limit 100 > events.jsonl
    """
    async with await open_log(chosen_url(db)) as log:
        only = None if session is None else (await session_named(log, session)).session_id
        following = Following(log, only, time.time_ns)
        await following.begin()
        echo("Following; Ctrl-C ends it.")
        show = _write_json if format == "jsonl" else _table()
        left = limit
        async for tailed in _endless(following):
            show(tailed)
            left = None if left is None else left - 1
            if left == 0:
                return


async def _endless(following: Following) -> AsyncIterator[TailedEvent]:
    while True:
        async for tailed in following.news():
            yield tailed
        await asyncio.sleep(POLL_S)


class Following:
    """A poll of the log for new events."""

    def __init__(self, log: LogReader, session_id: str | None, now_ns: Callable[[], int]) -> None:
        self._log, self._now_ns = log, now_ns
        self._watched = WatchedExchanges(log, session_id)
        self._numbers: dict[str, tuple[int, str]] = {}  # of exchanges, with their api

    async def begin(self) -> None:
        """Skip the events that the log has now."""
        await self._watched.news(id_ago(self._now_ns(), BEFORE_S))

    async def news(self) -> AsyncIterator[TailedEvent]:
        """Yield the events since the last poll, exchange by exchange."""
        news = await self._watched.news(id_ago(self._now_ns(), LATE_S))
        for growth in news.values():
            if growth.exchange.origin != "import":
                async for tailed in self._news_of(growth):
                    yield tailed
        self._numbers = {
            id: number for id, number in self._numbers.items() if id in self._watched.known
        }

    async def _news_of(self, growth: Growth) -> AsyncIterator[TailedEvent]:
        exchange = growth.exchange
        number, api = await self._number(exchange)
        count = 0
        async for event in self._log.events(
            exchange.session_id, exchange.exchange_id, after=growth.after
        ):
            if event.kind in _SHOWN and not (event.kind == "request" and event.type == "body"):
                yield TailedEvent(event, exchange.session_name, number, api)
            if event.pos == exchange.last_pos:
                return
            count += 1
            if count == BURST:
                self._watched.set_back(exchange, event.pos)
                return

    async def _number(self, exchange: ExchangeProgress) -> tuple[int, str]:
        if exchange.exchange_id not in self._numbers:
            for number, each in enumerate(await self._log.exchanges(exchange.session_id), 1):
                if each.exchange_id == exchange.exchange_id:
                    self._numbers[exchange.exchange_id] = number, each.api
        return self._numbers[exchange.exchange_id]


def _write_json(tailed: TailedEvent) -> None:
    place = {"session_name": tailed.session_name, "exchange_number": tailed.number}
    write_json([{**place, **event_row(tailed.event)}], "jsonl")


def _table() -> Callable[[TailedEvent], None]:
    table, previews = Table(_COLUMNS, None), Previews()

    def show(tailed: TailedEvent) -> None:
        event = tailed.event
        text = previews.of(tailed.api, event)
        table.write(
            (
                f"{event.t_ns / 1e9:.3f}",
                tailed.session_name,
                tailed.number,
                event.type or event.kind,
                text,
            )
        )

    return show
