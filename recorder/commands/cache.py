"""`recorder cache`: why the provider's prompt cache missed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from sqlalchemy import bindparam
from sqlalchemy import select as select_rows

from recorder.archive.opening import open_log
from recorder.commands.terminal.catch_up import current_url, wait_option
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.format import format_option
from recorder.commands.terminal.output import echo, is_plain, seconds, write_document, write_line
from recorder.commands.terminal.selection import say_if_stale, select
from recorder.commands.terminal.table import Column, write_table
from recorder.errors import NotFoundError
from recorder.model.events import Session
from recorder.model.text import safe_text
from recorder.program import load
from recorder.projections.rows import PromptRow
from recorder.recordings.cache import (
    CacheTurn,
    cache_of_recordings,
    cache_summary,
    difference_lines,
    prompt_in,
    turns_of,
)
from recorder.recordings.names import is_file
from recorder.recordings.selection import Numbered
from recorder.recordings.session import RecordedSession
from recorder.store.queries.costs import exchange_costs
from recorder.store.queries.reader import LogReader
from recorder.store.schema import tables_of
from recorder.wire.dialects.prompt import Prompt

FOUND = 4  # exit code: an avoidable miss

_COLUMNS = [name for name in PromptRow.__struct_fields__ if name not in ("digests", "places")]
_TABLE = (
    Column("number", right=True),
    Column("class"),
    Column("input", right=True, goes=2),
    Column("could", right=True),
    Column("cached", right=True),
    Column("missed", right=True),
    Column("cost_usd", right=True, goes=4),
    Column("since_use", right=True, goes=3),
    Column("than", right=True, goes=1),
    Column("path", least=24),
)


@click.command()
@click.argument("session")
@format_option("json", json="an object: session, and turns with all columns; see docs/formats.md")
@wait_option
@database_option
def command(db: str | None, session: str, format: str) -> None:
    """Show for each request what the provider's prompt cache could have given, what it gave, and why it was less.

    SESSION is a session (its id, the beginning of one, its name, or `latest`), or a file that `recorder import` reads.
    A request is compared with the earlier one of which it repeats the longest beginning. Where a prompt changed, the
    first character that differs is shown in both requests.

    The exit code is 4 if a miss could have been avoided: `prefix_changed`, `other_parameters`, `not_marked`.
    docs/cost.md explains all classes.

    \b
    recorder cache latest
    recorder cache latest --json
    """
    name, session_id, turns = asyncio.run(_turns(db, session))
    if not turns:
        raise NotFoundError(f"{safe_text(name)} has no request that a model answered, of an API with a known cache.")
    if format == "json":
        about = {"session_id": session_id, "name": name}
        write_document({"session": about, "turns": [each.document() for each in turns]})
    else:
        _write(turns)
    sys.exit(FOUND if any(each.is_avoidable for each in turns) else 0)


async def _turns(db: str | None, ref: str) -> tuple[str, str | None, list[CacheTurn]]:
    if is_file(ref):
        found: RecordedSession = load("recorder.recordings.files:load_file")(Path(ref))
        return found.name, None, await cache_of_recordings(found)
    async with await open_log(current_url(db)) as log:
        session, exchanges = await select(log, ref, None)
        await say_if_stale(log)
        return session.name, session.session_id, await _of_log(log, session, exchanges)


async def _of_log(log: LogReader, session: Session, exchanges: Sequence[Numbered]) -> list[CacheTurn]:
    """Return the turns of a session of a log, of those exchanges that got a response."""
    prompts = tables_of["prompts"]
    of_session = select_rows(*(prompts.c[name] for name in _COLUMNS)).where(
        prompts.c.session_id == bindparam("session_id")
    )
    selected = await log.rows(of_session, session_id=session.session_id)
    found = [dict(zip(_COLUMNS, row, strict=True), digests=b"", places=b"") for row in selected]
    rows = msgspec.convert(found, list[PromptRow], strict=False)
    targets = {exchange.exchange_id: exchange.target for _, exchange in exchanges}

    async def load(exchange_id: str) -> Prompt | None:
        events = log.events(session.session_id, exchange_id, kinds=("request",))
        body = b"".join([event.raw async for event in events if event.pos])
        api = next(row.api for row in rows if row.exchange_id == exchange_id)
        return prompt_in(api, targets[exchange_id], body)

    turns = await turns_of(rows, {exchange.exchange_id: number for number, exchange in exchanges}, load)
    costs = await exchange_costs(log, session.session_id)
    return [
        turn._replace(cost_usd=cost.missed_usd(turn.row.missed_tokens))
        if (cost := costs.get(turn.row.exchange_id)) is not None
        else turn
        for turn in turns
    ]


def _write(turns: Sequence[CacheTurn]) -> None:
    has_costs = any(turn.cost_usd is not None for turn in turns)
    shown = [n for n, column in enumerate(_TABLE) if has_costs or column.name != "cost_usd"]
    write_table([_TABLE[n] for n in shown], ([row[n] for n in shown] for row in map(_row, turns)))
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
