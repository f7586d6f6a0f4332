"""`recorder bisect`: which recorded answer makes a check fail, by forks of the recording that ask
for the rest.
"""

from __future__ import annotations

import logging
import os
import sys
from decimal import Decimal

import click
from sqlalchemy import URL

from recorder.commands.clients import child
from recorder.commands.clients.presets import refuse_undecided
from recorder.commands.replay import speed_option
from recorder.commands.serving.bisecting import (
    INFIX,
    Bisect,
    EndedRun,
    Sought,
    run_once,
    unanswered,
)
from recorder.commands.serving.listening import upstream_option
from recorder.commands.serving.network import network_settings
from recorder.commands.serving.resending import Budget, prices_of
from recorder.commands.serving.running import destinations
from recorder.commands.terminal.bisect_report import announcement, run_line, write_report
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import database_option, flag, format_option
from recorder.commands.terminal.output import dollars, echo, log_to_stderr, write_line
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.with_words import WithWords
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.model.events import LATEST, Recording
from recorder.model.fork import parent_of
from recorder.model.text import safe_text
from recorder.proxy.http import server
from recorder.proxy.http.network import Network
from recorder.proxy.http.server_capacity import raise_limit
from recorder.proxy.routing import Upstream
from recorder.recordings.names import is_file
from recorder.recordings.session import RecordedSession
from recorder.replay.bisect import Search
from recorder.replay.fork import is_agent_turn
from recorder.store.location import chosen_url

NAME_LIMIT = 120  # characters of the parent's name in those of its runs

EXIT_CODES = {"step": 0, "always passes": 3, "not in the model's answers": 3, "undecided": 1}


@click.command(cls=WithWords, words_metavar="-- PROGRAM [ARG]...")
@click.argument("source", metavar="SESSION|FILE", shell_complete=session_names)
@click.option(
    "--check",
    metavar="CMD",
    required=True,
    help="A command of the shell that exits with 0 if all is well. It gets what PROGRAM printed on stdin, and the "
    "session of the run in RECORDER_SESSION.",
)
@click.option(
    "--model", metavar="NAME", help="The model of the live requests, in place of PROGRAM's own."
)
@click.option(
    "--passes",
    metavar="N",
    type=click.IntRange(min=0),
    help="Known: CMD passes with turns 1 to N recorded, with 0 if all are live. That is not run again.",
)
@click.option(
    "--fails",
    metavar="N",
    type=click.IntRange(min=1),
    help="Known: CMD fails with turns 1 to N recorded. That is not run again.",
)
@click.option(
    "--limit",
    metavar="USD",
    type=click.FloatRange(min=0, min_open=True),
    help="Ask for nothing more when the answers have cost this, and begin no run that is likely to pass it.",
)
@flag("--dry-run", help="Only print how many runs there would be, and what they may cost.")
@speed_option("A factor on the original speed of what is recorded, or max.", default="max")
@format_option("json", json="an object: verdict, turn, exchange, question, answer, and the runs")
@upstream_option
@network_settings
@database_option
def command(
    db: str | None,
    network: Network,
    source: str,
    words: tuple[str, ...],
    check: str,
    model: str | None,
    passes: int | None,
    fails: int | None,
    limit: float | None,
    dry_run: bool,
    speed: float | None,
    format: str,
    upstream: list[Upstream],
) -> None:
    """Find the recorded answer that makes CMD fail: with turns 1 to N recorded and the others live
    it fails, with one turn less it passes.

    Each run starts PROGRAM as `recorder run --replay SESSION --until N --then live` does, then CMD.
    The first has all turns recorded, the second none; then the turns between are halved. Live
    requests cost what they cost: the most that is likely is said before. Each run is a session of
    its own.

    The exit code is 0 if a step is named; 3 if there is none, as CMD passes with all turns
    recorded, or fails with all of them live; 1 if it is not decided.

    \b
    recorder bisect latest --check 'grep -q Paris' --dry-run -- python app.py
    recorder bisect latest --check 'recorder lint "$RECORDER_SESSION"' --dry-run
    recorder bisect latest --check 'python check.py' --passes 0 --dry-run
    """
    # a request that differs, which is a warning, is what a live turn is
    log_to_stderr(logging.ERROR)
    if model is not None and not model.strip():
        raise UsageError(
            "--model needs the name of a model: leave it out to keep that of the requests."
        )
    url = chosen_url(db)
    parent = _parent(db, source)
    sought = _sought(url, parent, model, limit, passes, fails)
    (write_line if dry_run else echo)(announcement(sought))
    if dry_run:
        return
    if not words:
        raise UsageError(
            "Which program? The log does not keep the command that was recorded: give it after --."
        )
    if (code := child.refusal(words, os.environ)) is not None:
        sys.exit(code)
    refuse_undecided(words, os.environ)
    places = destinations(words, upstream, network)
    for line in places.lines:
        echo(line)
    ref = source if is_file(source) else parent.session.session_id  # `latest` is another one soon
    name = parent.session.name[:NAME_LIMIT]
    shared = (words, check, places, network, sought.budget, speed, raise_limit())
    runs = server.run(_bisected(sought, Bisect(url, db, ref, is_file(source), name, *shared)))
    write_report(sought, runs, format)
    sys.exit(EXIT_CODES[sought.search.verdict or "undecided"])


def _parent(db: str | None, source: str) -> RecordedSession:
    """Return the recording. Raises `UsageError` if it is a run of a bisect by accident."""
    parent = server.run(loader(db).find(source))
    first = parent_of(parent.session)
    if source == LATEST and first is not None and INFIX in parent.session.name:
        raise UsageError(
            f"latest is now {safe_text(parent.name)}, a run of a bisect: name {safe_text(first.name)}."
        )
    return parent


def _sought(
    url: URL,
    parent: RecordedSession,
    model: str | None,
    limit: float | None,
    passes: int | None,
    fails: int | None,
) -> Sought:
    """Return what is searched. Raises `UsageError` if there is a limit and no price."""
    turns = [each for each in parent.recordings if is_agent_turn(each)]
    if not turns:
        raise NotFoundError(
            f"{safe_text(parent.name)} has no turn: there is no answer to search for."
        )
    limit_usd = None if limit is None else Decimal(str(limit))
    budget = Budget(limit_usd, server.run(prices_of(url, turns, model)), model)
    sought = Sought(parent, turns, passes, fails, Search(len(turns), passes, fails), budget)
    if limit_usd is not None and sought.cost_usd(0) is None:
        raise UsageError(
            "--limit needs the price of each model and the tokens of each recorded answer: `recorder prices update` "
            "brings in prices, `recorder prices list` shows them."
        )
    return sought


async def _bisected(sought: Sought, bisect: Bisect) -> list[EndedRun]:
    """Run the program as often as it takes. Raises `RecorderError` where a run proves nothing."""
    search, runs = sought.search, list[EndedRun]()
    spent_usd = Decimal()
    while search.verdict is None:
        until = search.until
        _require_room(sought, until, spent_usd)
        ended = await run_once(bisect, until, spent_usd)
        spent_usd += ended.cost_usd
        _require_proof(sought, ended)
        runs.append(ended)
        echo(run_line(ended))
        search.take(ended.run)
    return runs


def _require_room(sought: Sought, until: int, spent_usd: Decimal) -> None:
    """Raise `RecorderError` if the next run is likely to pass the limit."""
    limit_usd = sought.budget.limit_usd
    if limit_usd is not None and spent_usd + (sought.cost_usd(until) or Decimal()) > limit_usd:
        raise RecorderError(
            f"The next run may pass the limit of ${limit_usd}: about {dollars(str(spent_usd), is_partial=False)} are "
            f"spent. {_go_on(sought, 'a higher --limit')}"
        )


def _require_proof(sought: Sought, ended: EndedRun) -> None:
    """Raise `RecorderError` if a run says nothing about the recorded answers."""
    run, session = ended.run, safe_text(ended.session)
    if ended.is_limited:
        raise RecorderError(
            f"The limit was reached in this run. {_go_on(sought, 'a higher --limit')}"
        )
    if run.until and not run.recorded and not run.live:
        raise NotFoundError(
            "PROGRAM sent no request here, so there is nothing to bisect: `recorder env CLIENT` shows how to point a "
            "client here."
        )
    if run.until == len(sought.turns) and not run.recorded:
        raise RecorderError(
            "PROGRAM asked for none of the recorded turns: is it the command that was recorded? "
            f"`recorder diff {safe_text(sought.parent.name)} {session}` shows what differs."
        )
    failed = unanswered(ended.live)
    if failed is not None and not run.passes:
        raise RecorderError(
            f"This run proves nothing: a live request {_failure(failed)}, and `recorder show {session}` has it. "
            f"{_go_on(sought)}"
        )


def _failure(failed: Recording) -> str:
    if failed.response is None:
        return "got no answer"
    status = failed.response.status
    return f"was answered with status {status}" if status >= 400 else "got an answer that broke off"


def _go_on(sought: Sought, more: str | None = None) -> str:
    """Return how the search goes on from what is known."""
    options = zip(("--passes", "--fails"), sought.search.known, strict=True)
    words = [f"{name} {number}" for name, number in options if number is not None]
    words += [more] if more else []
    return (
        f"The same command with {' and '.join(words)} goes on."
        if words
        else "The same command begins again."
    )
