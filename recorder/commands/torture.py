"""`recorder torture`: proves a client, by a fault at every boundary of the streams that it asks
for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Container, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from recorder.cassettes import SUFFIX
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.commands.clients import child
from recorder.commands.clients.codex import named
from recorder.commands.clients.presets import refuse_undecided
from recorder.commands.clients.shim import codex_providers
from recorder.commands.replay import speed_option
from recorder.commands.serving.answering import Answering
from recorder.commands.serving.replaying import ReplayTerms, replaying
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import FILE, format_option, log_options
from recorder.commands.terminal.output import FOUND, echo, log_to_stderr, write_json
from recorder.commands.terminal.progress import progress_bar
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.rules import match_rules
from recorder.commands.terminal.table import Column, write_table
from recorder.commands.terminal.with_words import WithWords
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.files import save
from recorder.model.events import LATEST, Recording, Session, WebSocketTurn
from recorder.model.text import counted, safe_text
from recorder.proxy.app import Proxy
from recorder.proxy.http import server
from recorder.proxy.http.messages import Transport
from recorder.proxy.http.server_capacity import raise_limit
from recorder.recordings.session import require_whole
from recorder.replay.matching.noise import Rules
from recorder.replay.matching.rules import How
from recorder.torture.faulty import recorded_again
from recorder.torture.plan import PlannedFault, plan
from recorder.torture.report import is_bad, junit_text, row, summary
from recorder.torture.requests import NotingTransport
from recorder.torture.verdict import CommandRun, JudgedFault, judged
from recorder.wire.turns import is_connection, is_prewarm, is_turn, was_asked_for

TIMEOUT_S = 30.0
# of the timeout, which a run without a fault may take: one beside others takes longer
CLEAN_SHARE = 0.5

_COLUMNS = (
    Column("exchange", right=True, goes=2),
    Column("fault"),
    Column("place", goes=1),
    Column("verdict"),
    Column("why", least=20),
)


class _Torture(NamedTuple):
    """All that the runs of a command share."""

    words: Sequence[str]
    names: dict[str, str]
    rules: Rules
    seconds: float
    descriptors: int
    websocket: bool = False  # whether turns over it were recorded: else CMD is to ask over HTTP


@click.command(cls=WithWords, words_metavar="-- CMD [ARG]...")
@click.argument(
    "ref", metavar="[SESSION|FILE]", required=False, default=LATEST, shell_complete=session_names
)
@speed_option("A factor on the original speed of what is not a fault, or max.", default="max")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=TIMEOUT_S,
    metavar="SECONDS",
    help="End a run that takes longer: CMD hung. A run without a fault may take half of it.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run CMD so many times at once. [default: as many as the machine has cores]",
)
@click.option(
    "--cassettes",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a cassette for each fault, with what CMD was answered: `recorder run --replay FILE -- CMD` shows the "
    "verdict again.",
)
@click.option(
    "--junit", metavar="FILE", type=FILE, help="Also write the result as JUnit's XML, for a CI."
)
@format_option(
    *("json", "jsonl"),
    json="an array of faults: exchange, fault, place, verdict, why, exit_code, requests, cassette",
)
@log_options
def command(
    db: str | None,
    ref: str,
    words: tuple[str, ...],
    speed: float | None,
    timeout: float,
    jobs: int | None,
    cassettes: Path | None,
    junit: Path | None,
    format: str,
) -> None:
    """Prove a client: run CMD once for each fault at each boundary of the recorded streams, and
    judge what it does.

    CMD is answered from a recording, as by `recorder run --replay`: first without a fault, then
    with one, which strikes once. It is judged by its exit code, its stdout and its requests:
    survived, retried, reported, took it for success, hung, did it twice. CMD must end with 0 and
    print the same in each run without a fault.

    The exit code is 4 if CMD took a fault for success, hung, or did something twice; 0 if not; 3 if
    there was nothing to judge.

    \b
    recorder torture -- python app.py
    recorder torture latest --timeout 10 --junit torture.xml -- python app.py
    recorder torture run.sse.jsonl --cassettes faults -- python app.py
    """
    log_to_stderr(logging.ERROR)  # a miss, which is a warning, is part of a verdict
    if not words:
        raise UsageError(f"Which command? `recorder torture {safe_text(ref)} -- python app.py`.")
    if (code := child.refusal(words, os.environ)) is not None:
        sys.exit(code)
    refuse_undecided(words, os.environ)
    if cassettes is not None:  # which is said before minutes of runs, not after them
        _make(cassettes)
    names, _ = named((), (), codex_providers(words))
    torture = _Torture(words, names, match_rules("position"), timeout, raise_limit())
    began_s = time.monotonic()
    session, found = server.run(_tortured(db, ref, torture, speed, jobs or os.cpu_count() or 1))
    files = _written(cassettes, session, found) if cassettes is not None else [None] * len(found)
    verdicts = [each.judged for each in found]
    if junit is not None:
        _save(junit, [junit_text(ref, verdicts, time.monotonic() - began_s)])
    rows = [row(each, file) for each, file in zip(verdicts, files, strict=True)]
    if format != "table":
        write_json(rows, format)
    else:
        write_table(_COLUMNS, [[each[column.name] for column in _COLUMNS] for each in rows])
        echo(summary(verdicts))
    sys.exit(FOUND if is_bad(verdicts) else 0)


class _Ended(NamedTuple):
    """A run that has ended: what a verdict looks at, the recordings that answered it, and how long
    it took.
    """

    run: CommandRun
    held: Sequence[Recording]
    seconds: float


class _Found(NamedTuple):
    """A fault with its verdict, and the recordings that show it."""

    judged: JudgedFault
    held: Sequence[Recording]


async def _tortured(
    db: str | None, ref: str, torture: _Torture, speed: float | None, jobs: int
) -> tuple[Session, list[_Found]]:
    """Run the command with each fault, some at once; return the session, and what was found, as
    planned.
    """
    recorded = await loader(db).find(ref)
    turns = [each for each in require_whole(recorded.recordings) if not is_connection(each)]
    playable = [
        each
        for each in turns
        if not is_turn(each) or was_asked_for(each.request.target, each.request_body)
    ]
    torture = torture._replace(websocket=any(map(is_turn, playable)))
    _say_left_out(recorded.recordings, playable)
    held: list[Recording] = []
    for each in playable:
        held += await recorded_again(each, (), speed)
    clean, torture = await _clean(held, torture, ref)
    known = {each.exchange.exchange_id: each for each in held}
    faults = await plan(known[exchange_id] for exchange_id in dict.fromkeys(clean.answered))
    if not faults:
        raise NotFoundError(
            "None of the answers that CMD asked for can be struck: there is no stream or document."
        )
    slots = asyncio.Semaphore(jobs)
    with progress_bar("Torturing", len(faults)) as move:

        async def strike(fault: PlannedFault) -> _Found:
            async with slots:
                found = await _struck(fault, held, clean, torture, speed)
            move(advance=1)
            return found

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(strike(fault)) for fault in faults]
    return recorded.session, [task.result() for task in tasks]


def _say_left_out(recordings: Sequence[Recording], playable: Sequence[Recording]) -> None:
    """Say how many connections have messages that are not turns, or were refused: they are not
    played.
    """
    on = {
        each.request.websocket.connection
        for each in playable
        if isinstance(each.request.websocket, WebSocketTurn)
    }
    others = [
        each for each in recordings if is_connection(each) and each.exchange.exchange_id not in on
    ]
    if others:
        echo(f"Left out, without turns: {counted(len(others), 'connection')}.")


async def _struck(
    fault: PlannedFault,
    held: Sequence[Recording],
    clean: CommandRun,
    torture: _Torture,
    speed: float | None,
) -> _Found:
    """Run the command with one fault, whose recording stands before the one without it."""
    faulty = await recorded_again(fault.exchange, (fault.form,), speed)
    place = held.index(fault.exchange)
    ended = await _run([*held[:place], *faulty, *held[place:]], torture, fault.exchange)
    return _Found(judged(fault, ended.run, clean, faulty[-1].exchange.exchange_id), ended.held)


async def _clean(
    held: Sequence[Recording], torture: _Torture, ref: str
) -> tuple[CommandRun, _Torture]:
    """Run the command twice without a fault; return the first run, and what finds all of its
    answers.

    Requests are compared as strictly as the command allows: a fault shows in what the command asks
    next.
    """
    ended = await _run(held, torture._replace(rules=_until(torture.rules, "noise")))
    if _misses(ended.run):
        ended = await _run(held, torture)
    else:
        torture = torture._replace(rules=_until(torture.rules, "noise"))
    again = await _run(held, torture)
    for each in (ended, again):
        _refuse_useless(each, torture.seconds, ref)
    if ended.run.out != again.run.out:
        raise RecorderError(
            "CMD printed something else on stdout when it ran again without a fault, so its output proves nothing: let "
            "it print no times, ids or names that change."
        )
    return ended.run, torture


def _until(rules: Rules, how: How) -> Rules:
    return Rules(rules.rules, how, rules.redactor)


def _misses(run: CommandRun) -> bool:
    return any(each.is_missed for each in run.requests)


def _refuse_useless(ended: _Ended, seconds: float, ref: str) -> None:
    """Raise `RecorderError` if a run without a fault is not one to compare with."""
    run = ended.run
    replay = f"`recorder run --replay {safe_text(ref)} -- CMD` shows why"
    if run.code is None or ended.seconds > seconds * CLEAN_SHARE:
        took = f"CMD took {ended.seconds:.1f} s without a fault"
        raise RecorderError(f"{took}: give a --timeout of more than twice that, not {seconds:g}.")
    if _misses(run):
        raise RecorderError(f"CMD asked without a fault for what is not recorded: {replay}.")
    if run.code != 0:
        raise RecorderError(f"CMD exited with {run.code} without a fault: {replay}.")
    if not run.answered:
        raise NotFoundError(
            "CMD asked for no recorded answer, so there was nothing to judge: `recorder env CLIENT` shows how to point "
            "a client here."
        )


async def _run(
    held: Sequence[Recording], torture: _Torture, struck: Recording | None = None
) -> _Ended:
    """Run the command once, answered with these recordings; `struck` is the one that has a fault."""
    noted: list[NotingTransport] = []

    def wrap(transport: Transport) -> Transport:
        noted.append(NotingTransport(transport, struck, held))
        return noted[0]

    make_proxy = partial(Proxy, websocket=torture.websocket)
    answering = Answering(held, torture.rules, make_proxy=make_proxy, wrap=wrap)
    terms = ReplayTerms(torture.names, websocket=torture.websocket)
    async with replaying(torture.words, held, answering.proxy, terms) as (ready, _):
        began_s = time.monotonic()
        ended = await child.captured(
            ready.words, ready.environment, seconds=torture.seconds, descriptors=torture.descriptors
        )
        took_s = time.monotonic() - began_s
    prewarms = {
        each.exchange.exchange_id
        for each in held
        if is_prewarm(each.request.target, each.request_body)
    }
    posts = [
        each.exchange_id
        for each in answering.seen()
        if each.exchange_id is not None and each.method == "POST"
    ]
    answered = [exchange_id for exchange_id in posts if exchange_id not in prewarms]
    run = CommandRun(ended.code, ended.out, ended.err, noted[0].requests, answered)
    return _Ended(run, _used(held, {each.exchange_id for each in answering.seen()}), took_s)


def _used(held: Sequence[Recording], answered: Container[str | None]) -> list[Recording]:
    """Return the recordings that answered, and the connections of those that are turns."""
    wanted: set[str] = set()
    for each in held:
        if each.exchange.exchange_id in answered:
            wanted.add(each.exchange.exchange_id)
            if isinstance(each.request.websocket, WebSocketTurn):
                wanted.add(each.request.websocket.connection)
    return [each for each in held if each.exchange.exchange_id in wanted]


def _written(folder: Path, session: Session, found: Sequence[_Found]) -> list[str | None]:
    """Write a cassette for each fault; return their paths."""
    paths: list[str | None] = []
    for each in found:
        fault = each.judged.fault
        name = f"{fault.exchange.number}-{fault.form.replace('@', '-').replace(':', '-')}{SUFFIX}"
        lines = cassette_lines(session, ((held.exchange, held.events) for held in each.held))
        _save(folder / name, lines)
        paths.append(str(folder / name))
    return paths


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _save(path: Path, lines: Iterable[bytes]) -> None:
    try:
        save(path, lines)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> RecorderError:
    return RecorderError(f"{path} cannot be written: {error.strerror}. Give another place.")
