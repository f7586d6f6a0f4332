"""The journals on this machine that hold what a log does not have yet.

Rules of this file:

* What was journaled before a command was called is waited for, not what comes meanwhile: a busy
  recorder is never done.
* No command waits for a recorder that was killed: what it left is brought in by
  `recorder db recover`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL

from recorder.archive.place import database_of
from recorder.commands.ops import niceness
from recorder.commands.ops.journals import journals, killed, state
from recorder.journal.reader import Waiting, ingested, ingester_pid, waiting
from recorder.model.text import safe_text
from recorder.store.location import journal_root

POLL_S = 0.02
RECENT_S = 1.0  # what is younger is on its way, and not worth a word


class Behind(NamedTuple):
    """A journal that holds what is not in the log."""

    directory: Path
    size_bytes: int
    since_s: float  # the age of the oldest of it
    is_left: bool  # by a recorder that was killed


def caught_up(url: URL, until_s: float) -> list[Behind]:
    """Wait for the journals of a log until a time (monotonic); return what is still missing and
    worth a word.
    """
    root = journal_root(database_of(url))
    wait_for(root, until_s)
    return [each for each in behind(root) if each.is_left or each.since_s > RECENT_S]


def wait_for(root: Path, until_s: float) -> None:
    """Wait until the journals of running recorders are in the log, or until a time (monotonic)."""
    missing = {journal: waits.end for journal, waits in _waiting(root)}
    with ExitStack() as lent:
        while time.monotonic() < until_s:
            missing = {
                journal: end
                for journal, end in missing.items()
                if journal.is_dir() and ingested(journal) < end
            }
            alive = [journal for journal in missing if state(journal) == "alive"]
            if not alive:
                return
            for journal in alive:
                _lend(journal, lent)
            time.sleep(POLL_S)


def _lend(directory: Path, lent: ExitStack) -> None:
    """Raise the priority of an ingester while somebody waits for it: on a busy machine it may
    otherwise stop for seconds. It takes that back by itself if this process cannot.
    """
    pid = ingester_pid(directory)
    if pid is not None and (group := niceness.group(pid)) in (
        niceness.NICENESS,
        niceness.FAR_NICENESS,
    ):
        niceness.set_group(0, pid)
        lent.callback(niceness.set_group, group, pid)


def behind(root: Path) -> list[Behind]:
    """Return the journals with records that are not in the log."""
    return [
        Behind(journal, waits.size_bytes, waits.since_s or 0.0, state(journal) != "alive")
        for journal, waits in _waiting(root)
    ]


def _waiting(root: Path) -> Iterator[tuple[Path, Waiting]]:
    """Yield the journals with records that are not in the log, and what of them is not."""
    for journal in _journals(root):
        waits = waiting(journal)
        if waits.size_bytes:
            yield journal, waits


def sentence(each: Behind) -> str:
    """Return what is missing, with the remedy."""
    if each.is_left:
        return safe_text(f"{killed(each.directory)} What it left is not in the log.")
    size = f"{-(-each.size_bytes // 1024):,} KiB"
    since = f"the oldest for {each.since_s:.0f} s"
    return f"{size} of a running recorder are not in the log yet, {since}: `--wait SECONDS` waits longer."


def killed_recorders(url: URL, named: Collection[Path]) -> list[str]:
    """Return sentences about journals of killed recorders but for those that are named already:
    even if all is ingested, exchanges may still be open.
    """
    others = (each for each in _journals(journal_root(database_of(url))) if each not in named)
    return [safe_text(killed(each)) for each in others if state(each) != "alive"]


def _journals(root: Path) -> list[Path]:
    try:
        return list(journals(root))
    except OSError:
        return []  # of somebody else: what cannot be seen cannot be waited for
