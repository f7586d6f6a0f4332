"""The part of `recorder db purge` that is about archives: sessions that are in one, and an archive as `--db`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain

from sqlalchemy import URL

from recorder.archive.place import database_name
from recorder.archive.purge import purge_archive, sessions_there
from recorder.archive.registry import archives_of
from recorder.commands.terminal.output import echo
from recorder.commands.terminal.progress import progress_bar
from recorder.errors import RecorderError
from recorder.model.text import counted, safe_text
from recorder.store.maintain.purge.tombstone import Tombstone


def purge_in(archive: URL, session_ids: Sequence[str], reason: str) -> None:
    """Purge sessions in an archive, and what is left of them there, and print what was done."""
    with progress_bar("Rewriting the archive"):
        done = purge_archive(archive, session_ids, reason, time.time_ns())
    name = safe_text(database_name(archive))
    if done:
        events, size_bytes = (sum(getattr(each, noun) for each in done) for noun in ("events", "bytes"))
        of = f"{counted(events, 'event')}, {counted(size_bytes, 'byte')}"
        echo(f"{counted(len(done), 'session')} purged in {name}: {of}.")
    echo(f"Files, snapshots and catalog of {name} have no byte of it any more. Copies of them are not touched.")


def purge_archived(log: URL, found: Sequence[Tombstone], reason: str) -> set[str]:
    """Purge the archived ones of some sessions that are not in the log any more. Return their ids.

    Raise `RecorderError` if the archive of one is not attached to the log.
    """
    due: dict[str, list[str]] = {}
    for tombstone in found:
        if tombstone.archive is not None:
            due.setdefault(tombstone.archive, []).append(tombstone.session_id)
    attached = {database_name(archive): archive for archive in archives_of(log)} if due else {}
    for name, session_ids in due.items():
        if name not in attached:
            raise RecorderError(
                f"Session {session_ids[0]} is in the archive {name}, which is not attached to the log: "
                f"run `recorder db purge {session_ids[0]} --db {name}`."
            )
        purge_in(attached[name], session_ids, reason)
    return set(chain.from_iterable(due.values()))


def purge_copies(log: URL, session_ids: Sequence[str], reason: str) -> None:
    """Purge sessions that have just been purged in a log in its archives: an archiver that was interrupted left them in
    both, and one that runs may have copied them meanwhile.

    Raise `RecorderError` if an archive cannot be searched for them.
    """
    failed = ""
    for archive in archives_of(log) if session_ids else ():
        try:
            there = sessions_there(archive, session_ids)
            if there:
                purge_in(archive, sorted(there), reason)
        except RecorderError as error:
            failed = failed or str(error)
    if failed:
        raise RecorderError(
            f"{failed} An archive may have a copy of what was purged: run `recorder db purge {session_ids[0]}` again, "
            "or `recorder db archive --detach` the archive if it is gone."
        )


def say_not_among(log: URL) -> None:
    """Print which archives a choice by age or size is not about."""
    for archive in archives_of(log):
        name = safe_text(database_name(archive))
        echo(f"Sessions that are in {name} are not among these: choose them with --db {name}.")
