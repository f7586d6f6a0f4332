"""Commands that read a log which is behind the journals on this machine: they wait a moment, and report what is
missing.

Rules of this file:

* Where nothing waits, it costs a look at the folder of the journals: `recorder.commands.terminal.behind` has the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from sqlalchemy import URL

from recorder.archive.place import chosen_url, database_of, is_missing
from recorder.commands.terminal.output import echo
from recorder.errors import NotFoundError
from recorder.program import load
from recorder.store.location import journal_root

if TYPE_CHECKING:
    from recorder.commands.terminal.behind import Behind
    from recorder.store.queries.reader import LogReader

WAIT_S = 2.0  # an ingester that is well takes a quarter of a second, on a busy machine some of them
ALL_BEHIND = "The log is empty: the recording is still in a journal."
KEY = "recorder.behind"  # of what the context of a command knows


class _Waited:
    """The state of the wait in one command: it waits once, however often it opens the log."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s, self.until_s = wait_s, time.monotonic() + wait_s
        self.behind: list[Behind] | None = None


def wait_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--wait` to a command that reads the log; `current_url` uses it."""

    @wraps(function)
    def decorated(*arguments: Any, wait: float, **options: Any) -> Any:
        click.get_current_context().meta.setdefault(KEY, _Waited(wait))
        return function(*arguments, **options)

    return click.option(
        "--wait",
        type=click.FloatRange(min=0),
        default=WAIT_S,
        metavar="SECONDS",
        help="Wait up to this long for earlier recordings if the log is behind; 0 does not wait.",
    )(decorated)


def current_url(db: str | None) -> URL:
    """Return the URL that `--db` names, after a wait for everything that was in a journal before.

    Raises `NotFoundError` if there is no log yet, and a journal has what is to be in it.
    """
    url = chosen_url(db)
    waited = _waited()
    if waited.behind is None:
        waited.behind = []
        if _may_have_journals(url):
            journals = load("recorder.commands.terminal.behind")
            waited.behind = journals.caught_up(url, waited.until_s)
            for each in waited.behind:
                echo(journals.sentence(each))
    if waited.behind and is_missing(url):
        raise NotFoundError(nothing_yet(""))
    return url


async def open_current(db: str | None) -> LogReader:
    """Open the log that `--db` names after that wait."""
    log: LogReader = await load("recorder.archive.opening:open_log")(current_url(db))
    return log


def chosen_wait_s() -> float:
    """Return the seconds of `--wait`, for a command that reads the log again and again and waits each time."""
    return _waited().wait_s


def nothing_yet(otherwise: str) -> str:
    """Return the message about an empty log; another one if the log is only behind."""
    return ALL_BEHIND if _waited().behind else otherwise


def other_killed(url: URL) -> list[str]:
    """Return sentences about journals of killed recorders that were not reported as missing in the log."""
    named = {each.directory for each in _waited().behind or ()}
    sentences: list[str] = load("recorder.commands.terminal.behind:killed_recorders")(url, named)
    return sentences


def _may_have_journals(url: URL) -> bool:
    try:
        return any(journal_root(database_of(url)).iterdir())
    except OSError:
        return False  # there is no folder, or one of somebody else: what cannot be seen cannot be waited for


def _waited() -> _Waited:
    context = click.get_current_context(silent=True)
    if context is None:
        return _Waited(WAIT_S)
    waited: _Waited = context.meta.setdefault(KEY, _Waited(WAIT_S))
    return waited
