"""The report of `recorder run` on what it recorded: the session, its tokens, and the cassette that
was asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.commands.serving.forking import Fork
from recorder.commands.terminal.output import echo
from recorder.errors import NotFoundError, RecorderError
from recorder.files import save
from recorder.model.events import WHOLE, Exchange, MemoryBudget, Session, has_ended
from recorder.model.text import counted, safe_text
from recorder.recordings.loader import load_exchanges
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.store.queries.usage import Summed, Tally, together, usage

IN_LIMIT = 10_000
"""Exchanges that are named in one statement: SQLite and PostgreSQL take some 32,000 parameters."""


def say(line: str) -> None:
    """Print on stderr if possible: a failure must not change the exit code, which is the command's."""
    with contextlib.suppress(OSError):
        echo(line)


class EndedCommand(NamedTuple):
    """A command that has ended: the session it was recorded into, since when, how many requests,
    and its exit code.
    """

    session: str
    began_ns: int
    requests: int
    code: int


class RecordedCommand(NamedTuple):
    """The recording of one command.

    The tokens are those that were paid for: of a fork, those of its live part.
    """

    session: Session
    exchanges: Sequence[Exchange]
    used: Tally | None


async def report(url: URL, ended: EndedCommand, cassette: Path | None, fork: Fork | None) -> int:
    """Say what was recorded of a command, and write the cassette. Returns the exit code."""
    async with await open_log(url) as log:
        run = await _recorded(log, ended, fork)
        if run is None:
            say(
                f"Requests: {ended.requests}. None is in the database, see above; `recorder db recover` looks again."
            )
            return ended.code or 1
        say(_summary(run, fork))
        if cassette is not None and not await write_cassette(log, run, cassette, ended.code):
            return ended.code or 1
    return ended.code


async def _recorded(
    log: LogReader, ended: EndedCommand, fork: Fork | None
) -> RecordedCommand | None:
    try:
        session = await session_named(log, ended.session)
    except NotFoundError:
        return None
    exchanges = [
        each
        for each in await log.exchanges(session.session_id)
        if each.started_ns >= ended.began_ns
    ]
    paid = [Summed(ended.began_ns)]
    if fork is not None:
        live = [each.exchange_id for each in exchanges if fork.is_live(each)]
        paid = [
            Summed(exchange_ids=live[start : start + IN_LIMIT])
            for start in range(0, len(live), IN_LIMIT)
        ]
    sums: list[Tally] = []
    for part in paid:
        sums += [
            each
            for each in await usage(log, ("session",), part)
            if each.key[0] == session.session_id
        ]
    used = together(sums) if sums else None
    return RecordedCommand(session, exchanges, used) if exchanges else None


def _summary(run: RecordedCommand, fork: Fork | None) -> str:
    """Return one line with the session and the tokens."""
    name, count = safe_text(run.session.name), counted(len(run.exchanges), "exchange")
    line = f"Recorded session {name} ({run.session.session_id}): {count}"
    if fork is not None:
        live = sum(map(fork.is_live, run.exchanges))
        line += (
            f", of which {len(run.exchanges) - live} replayed from {fork.parent} and {live} live"
        )
        if not live:
            return f"{line}."
    used = run.used
    if used is None or used.total_tokens is None:
        return f"{line}, no usage reported."
    return (
        f"{line}, {used.input_tokens or 0:,} input tokens{_part(used.cache_read_input_tokens, 'cached')}, "
        f"{used.output_tokens or 0:,} output tokens{_part(used.reasoning_output_tokens, 'reasoning')}."
    )


def _part(count: int | None, what: str) -> str:
    return f" ({count:,} {what})" if count else ""


async def write_cassette(log: LogReader, run: RecordedCommand, path: Path, code: int) -> bool:
    """Write the cassette; return whether it was written.

    An existing one is only replaced by a complete recording.
    """
    export = f"`recorder export {run.session.session_id} --format cassette`"
    name = safe_text(str(path))
    again, budget = (
        f"{export} writes what was recorded.",
        MemoryBudget("it takes", f"{export} writes it in parts"),
    )
    try:
        recordings = await load_exchanges(log, run.session, enumerate(run.exchanges, 1), budget)
    except RecorderError as error:
        say(f"{name} is not written: {error}")
        return False
    if not all(has_ended(each.events) for each in recordings):
        say(
            f"{name} is not written: not all is in the database yet. After `recorder db recover`, {again}"
        )
        return False
    broken = sum(each.end is None or each.end.outcome not in WHOLE for each in recordings)
    if path.exists() and (code or broken):
        why = (
            f"the command failed ({code})"
            if code
            else f"{broken} of {len(recordings)} exchanges broke off"
        )
        say(f"{name} stays as it was: {why}. {again}")
        return True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(
            path, cassette_lines(run.session, ((each.exchange, each.events) for each in recordings))
        )
    except OSError as error:
        say(f"The cassette {name} cannot be written: {error.strerror}. {again}")
        return False
    say(f"Written to {name}.")
    return True
