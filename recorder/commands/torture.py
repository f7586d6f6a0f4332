"""`recorder torture`: proves a client, by a fault at every boundary of the streams that it asks for."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence
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
from recorder.model.events import LATEST, Recording, Session
from recorder.model.text import counted, safe_text
from recorder.proxy.app import Proxy
from recorder.proxy.http import server
from recorder.proxy.http.messages import Transport
from recorder.proxy.http.server_capacity import raise_limit
from recorder.proxy.routing import Routes
from recorder.recordings.session import require_whole
from recorder.replay.matching.noise import Rules
from recorder.replay.matching.rules import How
from recorder.torture.faulty import with_faults
from recorder.torture.plan import PlannedFault, plan
from recorder.torture.report import is_bad, junit_text, row, summary
from recorder.torture.requests import NotingTransport
from recorder.torture.verdict import CommandRun, JudgedFault, judged

TIMEOUT_S = 30.0
CLEAN_SHARE = 0.5  # of the timeout, which a run without a fault may take: one beside others takes longer

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


@click.command(cls=WithWords, words_metavar="-- CMD [ARG]...")
@click.argument("ref", metavar="[SESSION|FILE]", required=False, default=LATEST, shell_complete=session_names)
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
@click.option("--junit", metavar="FILE", type=FILE, help="Also write the result as JUnit's XML, for a CI.")
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
    """Prove a client: run CMD once for each fault at each boundary of the recorded streams, and judge what it does.

    CMD is answered from a recording, as by `recorder run --replay`: first without a fault, then with one, which
    strikes once. It is judged by its exit code, its stdout and its requests: survived, retried, reported, took it for
    success, hung, did it twice. CMD must end with 0 and print the same in each run without a fault.

    The exit code is 4 if CMD took a fault for success, hung, or did something twice; 0 if not; 3 if there was nothing
    to judge.

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
    """A run that has ended: what a verdict looks at, the recordings that answered it, and how long it took."""

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
    """Run the command with each fault, some at once; return the session, and what was found, as planned."""
    recorded = await loader(db).find(ref)
    over_http = [each for each in require_whole(recorded.recordings) if not each.is_switched]
    if left_out := len(recorded.recordings) - len(over_http):
        echo(f"Left out, over WebSocket: {counted(left_out, 'exchange')}. `recorder run --no-websocket` records HTTP.")
    held = [await with_faults(each, (), speed) for each in over_http]
    clean, torture = await _clean(held, torture, ref)
    known = {each.exchange.exchange_id: each for each in held}
    faults = await plan(known[exchange_id] for exchange_id in dict.fromkeys(clean.answered))
    if not faults:
        raise NotFoundError("None of the answers that CMD asked for can be struck: there is no stream or document.")
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


async def _struck(
    fault: PlannedFault, held: Sequence[Recording], clean: CommandRun, torture: _Torture, speed: float | None
) -> _Found:
    """Run the command with one fault, whose recording stands before the one without it."""
    faulty = await with_faults(fault.exchange, (fault.form,), speed)
    place = held.index(fault.exchange)
    ended = await _run([*held[:place], faulty, *held[place:]], torture, fault.exchange)
    return _Found(judged(fault, ended.run, clean, faulty.exchange.exchange_id), ended.held)


async def _clean(held: Sequence[Recording], torture: _Torture, ref: str) -> tuple[CommandRun, _Torture]:
    """Run the command twice without a fault; return the first run, and what finds all of its answers.

    Requests are compared as strictly as the command allows: a fault shows in what the command asks next.
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


async def _run(held: Sequence[Recording], torture: _Torture, struck: Recording | None = None) -> _Ended:
    """Run the command once, answered with these recordings; `struck` is the one that has a fault."""
    noted: list[NotingTransport] = []

    def make_proxy(transport: Transport, routes: Routes) -> Proxy:
        noted.append(NotingTransport(transport, struck, held))
        return Proxy(noted[0], routes, websocket=False)

    answering = Answering(held, torture.rules, make_proxy=make_proxy)
    terms = ReplayTerms(torture.names, websocket=False)
    async with replaying(torture.words, held, answering.proxy, terms) as (ready, _):
        began_s = time.monotonic()
        ended = await child.captured(
            ready.words, ready.environment, seconds=torture.seconds, descriptors=torture.descriptors
        )
        took_s = time.monotonic() - began_s
    seen = answering.seen()
    answered = [each.exchange_id for each in seen if each.exchange_id is not None and each.method == "POST"]
    used = {each.exchange_id for each in seen}
    run = CommandRun(ended.code, ended.out, ended.err, noted[0].requests, answered)
    return _Ended(run, [each for each in held if each.exchange.exchange_id in used], took_s)


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
