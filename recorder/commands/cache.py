"""`recorder cache`: why the provider's prompt cache missed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from recorder.commands.terminal.catch_up import current_url, wait_option
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.output import echo, is_plain, seconds, write_document, write_line
from recorder.commands.terminal.selection import say_if_stale, select
from recorder.commands.terminal.table import Column, write_table
from recorder.errors import NotFoundError
from recorder.model.text import counted, safe_text
from recorder.recordings.cache import CacheTurn, cache_of_log, cache_of_recordings
from recorder.recordings.files import is_file, load_file
from recorder.store.reader import LogReader

FOUND = 4  # exit code: an avoidable miss

_COLUMNS = (
    Column("number", right=True),
    Column("class"),
    Column("input", right=True, goes=2),
    Column("could", right=True),
    Column("cached", right=True),
    Column("missed", right=True),
    Column("since_use", right=True, goes=3),
    Column("than", right=True, goes=1),
    Column("path", least=24),
)


@click.command()
@click.argument("session")
@click.option("--json", is_flag=True, help="A JSON object: session, and turns with all columns; see docs/formats.md.")
@wait_option
@database_option
def command(db: str | None, session: str, json: bool) -> None:
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
    if json:
        about = {"session_id": session_id, "name": name}
        write_document({"session": about, "turns": [each.document() for each in turns]})
    else:
        _write(turns)
    sys.exit(FOUND if any(each.is_avoidable for each in turns) else 0)


async def _turns(db: str | None, ref: str) -> tuple[str, str | None, list[CacheTurn]]:
    if is_file(ref):
        found = load_file(Path(ref))
        return found.name, None, await cache_of_recordings(found)
    async with await LogReader.open(current_url(db)) as log:
        session, exchanges = await select(log, ref, None)
        await say_if_stale(log)
        return session.name, session.session_id, await cache_of_log(log, session, exchanges)


def _write(turns: Sequence[CacheTurn]) -> None:
    write_table(_COLUMNS, map(_row, turns))
    for turn in turns:
        for line in _details(turn):
            write_line(line)
    counts = Counter(str(turn.row.cache_class) for turn in turns)
    missed = sum(turn.row.missed_tokens or 0 for turn in turns)
    avoidable = sum(turn.row.missed_tokens or 0 for turn in turns if turn.is_avoidable)
    classes = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    echo(f"{counted(len(turns), 'turn')}: {classes}; {missed} tokens missed, {avoidable} of them avoidable.")


def _row(turn: CacheTurn) -> Sequence[object]:
    row = turn.row
    sign = "~" if row.is_estimate and row.could_tokens is not None else ""
    could = None if row.could_tokens is None else f"{sign}{row.could_tokens}"
    path = row.path if turn.difference is None else turn.difference.path
    counts = (row.input_tokens, could, row.cached_tokens, row.missed_tokens)
    return turn.number, row.cache_class, *counts, seconds(row.since_use_ns), turn.previous_number, path


def _details(turn: CacheTurn) -> Iterator[str]:
    """Yield the first character that differs, between what stands around it in both requests."""
    found = turn.difference
    if found is None:
        return
    head = f"exchange {turn.number}, {turn.row.cache_class}: {found.path or turn.row.path}"
    yield ""
    yield _bold(safe_text(head))
    for number, sign, text in ((turn.previous_number, "-", found.before), (turn.number, "+", found.after)):
        shown, rest = _flat(text[: found.offset]), _flat(text[found.offset :])
        yield f"  {sign} {number}: {shown}{_bold(rest)}"


def _flat(text: str) -> str:
    return safe_text(text).replace("\n", "⏎").replace("\t", " ")


def _bold(text: str) -> str:
    return text if is_plain() else click.style(text, bold=True)
