"""`recorder show --cache`: why the provider's prompt cache missed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click
import msgspec
from sqlalchemy import select as select_rows

from recorder.commands.terminal.output import echo, is_plain, seconds, write_document, write_line
from recorder.commands.terminal.recordings import say_if_stale, selected
from recorder.commands.terminal.table import Column, Number, write_table
from recorder.errors import NotFoundError
from recorder.model.events import Session
from recorder.model.text import safe_text
from recorder.projections.rows import PromptRow
from recorder.recordings.cache import (
    CacheTurn,
    cache_summary,
    difference_lines,
    prompt_in,
    turns_of,
)
from recorder.recordings.selection import Numbered
from recorder.store.queries.costs import exchange_costs
from recorder.store.queries.reader import LogReader
from recorder.store.schema import tables_of
from recorder.store.sql import of_session
from recorder.wire.dialects.prompt import Prompt

_COLUMNS = [name for name in PromptRow.__struct_fields__ if name not in ("digests", "places")]
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
        raise NotFoundError(f"{safe_text(name)} has no request that a model answered, of an API with a known cache.")
    if format == "json":
        session = {"session_id": session_id, "name": name}
        write_document({"session": session, "turns": [turn.document() for turn in turns]})
    else:
        _write(turns)
    return any(turn.is_avoidable for turn in turns)


async def _turns(db: str | None, ref: str) -> tuple[str, str | None, list[CacheTurn]]:
    async with selected(db, ref) as (log, session, exchanges):
        await say_if_stale(log)
        return session.name, session.session_id, await _of_log(log, session, exchanges)


async def _of_log(log: LogReader, session: Session, exchanges: Sequence[Numbered]) -> list[CacheTurn]:
    """Return the turns of a session of a log, of those exchanges that got a response."""
    rows = await _prompts(log, session.session_id)
    apis = {row.exchange_id: row.api for row in rows}
    targets = {exchange.exchange_id: exchange.target for _, exchange in exchanges}
    numbers = {exchange.exchange_id: number for number, exchange in exchanges}

    async def load_prompt(exchange_id: str) -> Prompt | None:
        events = log.events(session.session_id, exchange_id, kinds=("request",))
        body = b"".join([event.raw async for event in events if event.pos])
        return prompt_in(apis[exchange_id], targets[exchange_id], body)

    costs = await exchange_costs(log, session.session_id)
    turns = []
    for turn in await turns_of(rows, numbers, load_prompt):
        cost = costs.get(turn.row.exchange_id)
        turns.append(turn if cost is None else turn._replace(cost_usd=cost.missed_usd(turn.row.missed_tokens)))
    return turns


async def _prompts(log: LogReader, session_id: str) -> list[PromptRow]:
    """Return the rows of a session without their digests, which only the fold needs."""
    prompts = tables_of["prompts"]
    columns = [prompts.c[name] for name in _COLUMNS]
    selected = await log.rows(select_rows(*columns).where(of_session(prompts)), session_id=session_id)
    found = [dict(zip(_COLUMNS, row, strict=True), digests=b"", places=b"") for row in selected]
    return msgspec.convert(found, list[PromptRow], strict=False)


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
    return turn.number, row.cache_class, *counts, seconds(row.since_use_ns), turn.previous_number, path
