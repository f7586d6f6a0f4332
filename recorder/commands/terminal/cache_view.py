"""`recorder show --cache`: why the provider's prompt cache missed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from recorder.commands.terminal.output import echo, is_plain, seconds, write_document, write_line
from recorder.commands.terminal.recordings import say_if_stale, selected
from recorder.commands.terminal.table import Column, Number, write_table
from recorder.errors import NotFoundError, UsageError
from recorder.model.text import safe_text
from recorder.recordings.cache import CacheTurn, cache_summary, difference_lines
from recorder.recordings.logged_cache import cache_of_log

_TABLE = (
    Number("number"),
    Column("class"),
    Number("input", goes=2),
    Number("could"),
    Number("cached"),
    Number("missed"),
    Number("cost_usd", goes=4),
    Number("since_use", goes=3),
    Number("than", goes=1),
    Column("path", least=24),
)


def write_cache(db: str | None, ref: str, format: str) -> bool:
    """Write the turns of a session or a file; return whether a miss could have been avoided."""
    name, session_id, turns = asyncio.run(_turns(db, ref))
    if not turns:
        raise NotFoundError(
            f"{safe_text(name)} has no request that a model answered, of an API with a known cache."
        )
    if format == "json":
        session = {"session_id": session_id, "name": name}
        write_document({"session": session, "turns": [turn.document() for turn in turns]})
    else:
        _write(turns)
    return any(turn.is_avoidable for turn in turns)


async def _turns(db: str | None, ref: str) -> tuple[str, str | None, list[CacheTurn]]:
    async with selected(db, ref) as (log, session, exchanges, exchange):
        if exchange is not None:
            raise UsageError(
                f"--cache is about all requests of a session: leave :{safe_text(exchange)} out."
            )
        await say_if_stale(log)
        return session.name, session.session_id, await cache_of_log(log, session, exchanges)


def _write(turns: Sequence[CacheTurn]) -> None:
    has_costs = any(turn.cost_usd is not None for turn in turns)
    shown = [n for n, column in enumerate(_TABLE) if has_costs or column.name != "cost_usd"]
    rows = [_row(turn) for turn in turns]
    write_table([_TABLE[n] for n in shown], ([row[n] for n in shown] for row in rows))
    for turn in turns:
        if turn.difference is not None:
            head, *lines = difference_lines(turn)
            for line in ("", head if is_plain() else click.style(head, bold=True), *lines):
                write_line(line)
    echo(f"{cache_summary(turns)}.")


def _row(turn: CacheTurn) -> Sequence[object]:
    row = turn.row
    sign = "~" if row.is_estimate and row.could_tokens is not None else ""
    could = None if row.could_tokens is None else f"{sign}{row.could_tokens}"
    path = row.path if turn.difference is None else turn.difference.path
    counts = (row.input_tokens, could, row.cached_tokens, row.missed_tokens, turn.cost_usd)
    return (
        turn.number,
        row.cache_class,
        *counts,
        seconds(row.since_use_ns),
        turn.previous_number,
        path,
    )
