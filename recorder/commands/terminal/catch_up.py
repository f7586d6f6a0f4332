"""Commands that read a log which is behind the journals on this machine: they wait a moment, and report what is
missing.

Rules of this file:

* Where nothing waits, it costs a look at the folder of the journals.
* What was journaled before a command was called is waited for, not what comes meanwhile: a busy recorder is never done.
* No command waits for a recorder that was killed: what it left is brought in by `recorder db recover`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import click
from sqlalchemy import URL

from recorder.archive.place import chosen_url, database_of, is_missing
from recorder.commands.ops import niceness
from recorder.commands.ops.journals import journals, killed, state
from recorder.commands.terminal.output import echo
from recorder.errors import NotFoundError
from recorder.journal.reader import ingested, ingester_pid, waiting
from recorder.model.text import safe_text
from recorder.store.location import journal_root

WAIT_S = 2.0  # an ingester that is well takes a quarter of a second, on a busy machine some of them
POLL_S = 0.02
RECENT_S = 1.0  # what is younger is on its way, and not worth a word
ALL_BEHIND = "The log is empty: the recording is still in a journal."
KEY = "recorder.behind"  # of what the context of a command knows

F = TypeVar("F", bound=Callable[..., Any])


class Behind(NamedTuple):
    """A journal that holds what is not in the log."""

    directory: Path
    size_bytes: int
    since_s: float  # the age of the oldest of it
    is_left: bool  # by a recorder that was killed


class _Waited:
    """The state of the wait in one command: it waits once, however often it opens the log."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s, self.until_s = wait_s, time.monotonic() + wait_s
        self.behind: list[Behind] | None = None


def wait_option(function: F) -> F:
    """Add the option `--wait` to a command that reads the log; `current_url` uses it."""

    @wraps(function)
    def decorated(*arguments: Any, wait: float, **options: Any) -> Any:
        click.get_current_context().meta.setdefault(KEY, _Waited(wait))
        return function(*arguments, **options)

    return click.option(
        "--wait",
        type=click.FloatRange(min=0),
        default=WAIT_S,
        show_default=True,
        metavar="SECONDS",
        help="Wait up to this long for earlier recordings if the log is behind; 0 does not wait.",
    )(cast(F, decorated))


def current_url(db: str | None) -> URL:
    """Return the URL that `--db` names, after a wait for everything that was in a journal before.

    Raises `NotFoundError` if there is no log yet, and a journal has what is to be in it.
    """
    url = chosen_url(db)
    waited = _waited()
    if waited.behind is None:
        waited.behind = caught_up(url, waited.until_s)
        for each in waited.behind:
            echo(sentence(each))
    if waited.behind and is_missing(url):
        raise NotFoundError(nothing_yet(""))
    return url


def caught_up(url: URL, until_s: float) -> list[Behind]:
    """Wait for the journals of a log until a time (monotonic); return what is still missing and worth a word."""
    root = journal_root(database_of(url))
    wait_for(root, until_s)
    return [each for each in behind(root) if each.is_left or each.since_s > RECENT_S]


def chosen_wait_s() -> float:
    """Return the seconds of `--wait`, for a command that reads the log again and again and waits each time."""
    return _waited().wait_s


def nothing_yet(otherwise: str) -> str:
    """Return the message about an empty log; another one if the log is only behind."""
    return ALL_BEHIND if _waited().behind else otherwise


def wait_for(root: Path, until_s: float) -> None:
    """Wait until the journals of running recorders are in the log, or until a time (monotonic)."""
    ends = {each: found.end for each in _journals(root) if (found := waiting(each)).size_bytes}
    with ExitStack() as lent:
        while time.monotonic() < until_s:
            ends = {each: end for each, end in ends.items() if each.is_dir() and ingested(each) < end}
            alive = [each for each in ends if state(each) == "alive"]
            if not alive:
                return
            for each in alive:
                _lend(each, lent)
            time.sleep(POLL_S)


def _lend(directory: Path, lent: ExitStack) -> None:
    """Raise the priority of an ingester while somebody waits for it: on a busy machine it may otherwise stop for
    seconds. It takes that back by itself if this process cannot.
    """
    pid = ingester_pid(directory)
    if pid is not None and (group := niceness.group(pid)) in (niceness.NICENESS, niceness.FAR_NICENESS):
        niceness.set_group(0, pid)
        lent.callback(niceness.set_group, group, pid)


def behind(root: Path) -> list[Behind]:
    """Return the journals with records that are not in the log."""
    found = [(each, waiting(each)) for each in _journals(root)]
    return [
        Behind(each, waits.size_bytes, waits.since_s or 0.0, state(each) != "alive")
        for each, waits in found
        if waits.size_bytes
    ]


def sentence(each: Behind) -> str:
    """Return what is missing, with the remedy."""
    if each.is_left:
        return safe_text(f"{killed(each.directory)} What it left is not in the log.")
    size = f"{-(-each.size_bytes // 1024):,} KiB"
    since = f"the oldest for {each.since_s:.0f} s"
    return f"{size} of a running recorder are not in the log yet, {since}: `--wait SECONDS` waits longer."


def other_killed(url: URL) -> list[str]:
    """Return sentences about journals of killed recorders that were not reported as missing in the log: even if all is
    ingested, exchanges may still be open.
    """
    named = {each.directory for each in _waited().behind or ()}
    others = (each for each in _journals(journal_root(database_of(url))) if each not in named)
    return [safe_text(killed(each)) for each in others if state(each) != "alive"]


def _journals(root: Path) -> list[Path]:
    try:
        return list(journals(root))
    except OSError:
        return []  # of somebody else: what cannot be seen cannot be waited for


def _waited() -> _Waited:
    context = click.get_current_context(silent=True)
    if context is None:
        return _Waited(WAIT_S)
    waited: _Waited = context.meta.setdefault(KEY, _Waited(WAIT_S))
    return waited
