"""`recorder db recover`: ends the exchanges that killed recorders left open."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
from sqlalchemy import URL

from recorder.archive.place import chosen_url
from recorder.commands.ops.journals import GONE_NS, journals
from recorder.commands.terminal.options import database_option
from recorder.commands.terminal.output import echo
from recorder.commands.terminal.rules import redactor
from recorder.commands.terminal.times import SPAN
from recorder.errors import UsageError
from recorder.ingest.ingester import recover
from recorder.ingest.recovery import Unfinished, end_silent, has_journal, unfinished
from recorder.model.text import counted, enumerated, safe_text, span_text
from recorder.store.engine import address_of
from recorder.store.location import journal_root
from recorder.store.write.writer import Store

NAMED = 5  # machines that a line names


@click.command("recover")
@click.option(
    "--gone-after",
    type=SPAN,
    metavar="1h",
    help="On PostgreSQL: treat a recorder without a journal on this machine as gone after this long without a sign of "
    "life. Time in which the server was down does not count. [default: 1h]",
)
@database_option
def recover_command(db: str | None, gone_after: int | None) -> None:
    """Ingest the journals of killed recorders. `recorder serve` does so by itself.

    On PostgreSQL this also ends the open exchanges of recorders on other machines that gave no sign
    of life for long: with a gap, and as `recorder_crash`. Exchanges of recorders that run are not
    touched.

    \b
    recorder db recover
    recorder db recover --gone-after 10m
    """
    url = chosen_url(db)
    address = address_of(url)
    if gone_after is not None and address.is_local:
        raise UsageError(
            "--gone-after is for PostgreSQL: for a file, locks show which recorders run."
        )
    if not journal_root(url).exists():
        address.require(url)
    with Store(url) as store:
        found = _recover(store, url)
        lines = [f"{counted(found, 'journal')} recovered."] if found else []
        if not address.is_local:
            lines += _others(store, url, GONE_NS if gone_after is None else gone_after)
    for line in lines or ["There is nothing to recover."]:
        echo(line)


def recover_left(url: URL) -> None:
    """Ingest the journals of killed recorders on this machine, in this process, if there are any."""
    if any(journals(journal_root(url))):
        with Store(url) as store:
            _recover(store, url)


def _recover(store: Store, url: URL) -> int:
    store.require_rights()
    return recover(store, journal_root(url), _wait, redactor())


def _others(store: Store, url: URL, after_ns: int) -> list[str]:
    """Return the lines about recorders that have no journal here."""
    root = journal_root(url)
    ended = end_silent(store, root, after_ns)
    left = [each for each in unfinished(store) if not has_journal(root, each)]
    lines = []
    if ended:
        lines.append(f"{of_recorders(ended)} ended: no sign of life for {span_text(after_ns)}.")
    if left:
        last = span_text(min(each.silent_ns for each in left))
        lines.append(f"{of_recorders(left)} left open: the last sign of life was {last} ago.")
    return lines


def of_recorders(found: Sequence[Unfinished]) -> str:
    """Return the numbers of open exchanges and recorders, with their machines."""
    hosts = sorted({each.host or "a machine unknown" for each in found})
    exchanges = counted(sum(each.exchanges for each in found), "exchange")
    return safe_text(
        f"{exchanges} of {counted(len(found), 'recorder')} elsewhere ({enumerated(hosts, NAMED)})"
    )


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False
