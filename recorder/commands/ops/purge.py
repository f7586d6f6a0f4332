"""`recorder db purge`: deletes sessions for good, from every file."""

from __future__ import annotations

import asyncio
import datetime
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
from sqlalchemy import URL

from recorder.archive.opening import open_alone, open_log
from recorder.archive.place import chosen_url, database_name, is_archive, require
from recorder.archive.registry import archives_of
from recorder.archive.upkeep import purge_archive, sessions_there
from recorder.commands.ops.journals import journals
from recorder.commands.ops.recover import recover_left
from recorder.commands.ops.writers import writer_at
from recorder.commands.terminal.options import Parsed, database_option, flag, format_option
from recorder.commands.terminal.output import echo, write_json
from recorder.commands.terminal.progress import Update, progress_bar
from recorder.commands.terminal.recordings import select
from recorder.commands.terminal.table import Column, Number, short_ids, write_table
from recorder.commands.terminal.times import INSTANT
from recorder.errors import NotFoundError, RecorderError, StoreError, UsageError
from recorder.journal.format import START, Position
from recorder.journal.scrub import scrub_exchanges
from recorder.journal.unreadable import folder, forget
from recorder.model.events import LATEST
from recorder.model.text import counted, safe_text
from recorder.store.engine import address_of
from recorder.store.location import journal_root
from recorder.store.maintain.purge.delete import being_recorded, purge, sweep
from recorder.store.maintain.purge.tombstone import Counts, Tombstone
from recorder.store.queries.reader import LogReader
from recorder.store.queries.retention import (
    RetentionPolicy,
    SessionSize,
    expired,
    holdings,
    recorders_of_open,
)
from recorder.store.queries.session_named import session_named, tombstone_of
from recorder.store.write.writer import Store

_COLUMNS = (
    Column("session"),
    Column("name", least=20),
    Column("last"),
    Number("exchanges"),
    Number("events", goes=1),
    Number("bytes"),
)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def _size(text: str) -> int:
    """Return a number of bytes from a text as 500M."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size: give 500M, 1G or a number of bytes.")
    return int(float(found[1]) * 2 ** _UNITS[found[2].upper()])


SIZE = Parsed("SIZE", _size)


class Chosen(NamedTuple):
    """The sessions to delete, and purged ones whose remains must be removed again."""

    holdings: list[SessionSize]
    purged: list[Tombstone]

    @property
    def ids(self) -> list[str]:
        return [
            *(each.session_id for each in self.holdings),
            *(each.session_id for each in self.purged),
        ]

    @property
    def has_content(self) -> bool:
        """Return whether there is anything that a user may miss: of purged sessions there is not."""
        return bool(self.holdings) or any(each.archive is not None for each in self.purged)


@click.command("purge")
@click.argument("sessions", metavar="[SESSION]…", nargs=-1)
@click.option(
    "--older-than", type=INSTANT, metavar="30d|DATE", help="All sessions last used before then."
)
@click.option(
    "--larger-than", type=SIZE, metavar="SIZE", help="All sessions larger than this: 500M, 1G."
)
@click.option(
    "--keep",
    type=SIZE,
    metavar="SIZE",
    help="The longest unused, until the others take no more than this.",
)
@click.option(
    "--reason",
    metavar="TEXT",
    help="What the tombstone says. [default: the condition that chose it]",
)
@flag("--dry-run", help="Only list the sessions that would be deleted.")
@flag("--yes", "-y", help="Do not ask.")
@click.option(
    "--vacuum/--no-vacuum",
    default=True,
    show_default=False,
    help="Rewrite the file: it gets smaller, and no deleted byte stays in it. On PostgreSQL, VACUUM the tables.",
)
@format_option("json", json="the deleted sessions, as one array")
@database_option
def purge_command(
    db: str | None,
    sessions: tuple[str, ...],
    older_than: int | None,
    larger_than: int | None,
    keep: int | None,
    reason: str | None,
    dry_run: bool,
    yes: bool,
    vacuum: bool,
    format: str,
) -> None:
    """Delete sessions for good: each SESSION, or all that are old or large.

    A session must meet all conditions.

    Nothing of them stays in the database, its WAL or its journals; a tombstone keeps the time, the
    reason and the size. A SESSION that is in an archive of the log is purged there; with an archive
    as --db, all conditions are for it. Recorders can continue: while the database is rewritten,
    their journals keep all chunks. Backups, exports and cassettes are not touched. To finish an
    incomplete purge, run it again with the same id.

    On PostgreSQL only the owner of the schema can purge. The sessions are unreadable then, but
    their bytes stay in the WAL, and in the tables until the server reuses the space. Other
    machines' recorders delete their own journals.

    \b
    recorder db purge latest --reason "a password in it"
    recorder db purge --older-than 30d --yes
    recorder db purge --keep 20G --dry-run
    """
    limits = RetentionPolicy(older_than, larger_than, keep)
    if bool(sessions) == (limits != RetentionPolicy()):
        raise UsageError(
            "Choose what to delete: sessions by name, or by --older-than, --larger-than and --keep."
        )
    url = chosen_url(db)
    require(url)
    if not (dry_run or yes or (sys.stdin.isatty() and sys.stderr.isatty() and format != "json")):
        raise UsageError(
            "A purge cannot be undone: give --yes, or --dry-run to see what it would delete."
        )
    if not (dry_run or is_archive(url)):
        recover_left(url)  # it would come once the session is gone
    found = asyncio.run(_chosen(url, sessions, limits))
    if not (found.holdings or found.purged):
        echo("There is nothing to purge.")
    elif (dry_run or not yes) and format != "json":
        _show(found.holdings, found.purged)
    if not dry_run and (found.holdings or found.purged):
        if not yes and found.has_content:
            click.confirm("Delete them? This cannot be undone", abort=True, err=True)
        _carry_out(url, found, reason or _by(sessions, limits), vacuum)
    if format == "json":
        write_json(msgspec.structs.asdict(each) for each in found.holdings)


def _by(sessions: Sequence[str], limits: RetentionPolicy) -> str:
    given = {
        "by name": sessions,
        "by age": limits.before_ns,
        "by size": limits.over_bytes,
        "for room": limits.keep_bytes,
    }
    return ", ".join(word for word, value in given.items() if value not in ((), None))


async def _chosen(url: URL, sessions: Sequence[str], limits: RetentionPolicy) -> Chosen:
    async with await open_alone(url) as log:
        writer = writer_at(url)
        recording = set()
        for session_id, recorders in (await recorders_of_open(log)).items():
            if any(writer(each) == "alive" for each in recorders):
                recording.add(session_id)
        if sessions:
            return await _named(log, sessions, recording)
        held = await holdings(log)
        spared = sum(each.session_id in recording for each in expired(held, limits))
        if spared:
            verb = "is" if spared == 1 else "are"
            echo(f"{counted(spared, 'session')} of these {verb} being recorded, and not purged.")
        if not is_archive(url):
            _say_not_among(url)
        return Chosen(expired(held, limits, recording), [])


async def _named(log: LogReader, refs: Sequence[str], recording: Collection[str]) -> Chosen:
    """Find sessions by name; for a purged one, its tombstone."""
    ids, purged = [], []
    for ref in refs:
        try:
            session, _ = await select(log, ref, None)
        except NotFoundError:
            tombstone = await tombstone_of(log, ref) or await _archived(log, ref)
            if tombstone is None:
                raise
            purged.append(tombstone)
            continue
        if session.session_id in recording:
            raise being_recorded(safe_text(session.name))
        ids.append(session.session_id)
    return Chosen(await holdings(log, ids) if ids else [], purged)


async def _archived(log: LogReader, ref: str) -> Tombstone | None:
    """Return the tombstone of a session that is in an archive of the log, found there by its name."""
    if ref == LATEST:
        return None
    try:
        async with await open_log(log.url) as both:
            return await tombstone_of(log, (await session_named(both, ref)).session_id)
    except NotFoundError:
        return None


def _show(held: Sequence[SessionSize], purged: Sequence[Tombstone]) -> None:
    for tombstone in purged:
        if tombstone.archive is not None:
            echo(safe_text(f"Session {tombstone.session_id} is in {tombstone.archive}."))
    if not held:
        return
    ids = short_ids([each.session_id for each in held])
    rows = []
    for id, row in zip(ids, held, strict=True):
        used = datetime.datetime.fromtimestamp(row.used_ns / 1e9)
        rows.append((id, row.name, f"{used:%Y-%m-%d %H:%M}", row.exchanges, row.events, row.bytes))
    write_table(_COLUMNS, rows)
    echo(f"{counted(len(held), 'session')}, {_sums(held)}.")


def _sums(held: Sequence[SessionSize | Counts]) -> str:
    exchanges = counted(sum(each.exchanges for each in held), "exchange")
    events = counted(sum(each.events for each in held), "event")
    return f"{exchanges}, {events}, {counted(sum(each.bytes for each in held), 'byte')}"


def _carry_out(url: URL, found: Chosen, reason: str, vacuum: bool) -> None:
    ids = found.ids
    if is_archive(url):
        _purge_in(url, ids, reason)
    else:
        _purge(url, found, reason, vacuum)
        archived = _purge_archived(url, found.purged, reason)
        _purge_copies(url, [each for each in ids if each not in archived], reason)


def _purge(url: URL, found: Chosen, reason: str, vacuum: bool) -> None:
    """Delete the sessions and vacuum.

    Raise `RecorderError` if a later purge must finish the work.
    """
    root, late = journal_root(url), LateJournals()
    again = (found.purged or found.holdings)[0].session_id
    for tombstone in found.purged:
        late.add(tombstone.late)
    with Store(url) as store:
        with progress_bar("Purging", len(found.holdings)) as move:
            done = _delete(store, found.holdings, reason, move, late)
        is_blank = late.blank(store, root)
    unknown = _forget(root, found.ids)
    with progress_bar("Sweeping up"):
        try:
            is_swept = sweep(url, vacuum=vacuum)
        except StoreError as error:
            raise RecorderError(
                f"{error} Then run `recorder db purge {again}`: pieces are still in the {address_of(url).purged_from}."
            ) from error
    echo(
        f"{counted(len(done), 'session')} purged: {_sums(done)}."
        if done
        else "Removed what was left of it."
    )
    if unknown:
        echo(
            f"{counted(unknown, 'piece')} of journals that could not be read may have been of it, and went too."
        )
    address = address_of(url)
    if address.purge_notice:
        echo(address.purge_notice)
    if not address.is_local:
        late.report_elsewhere(root)
    if not is_swept:
        raise RecorderError(
            f"A program that reads {database_name(url)} keeps what was deleted in the {address.purged_from}: "
            f"when it is done, run `recorder db purge {again}`."
        )
    if not is_blank:
        raise RecorderError(
            "A journal still holds what was deleted, as it does while a stream is open that began before: when all "
            f"have ended, run `recorder db purge {again}`."
        )


def _forget(root: Path, session_ids: Collection[str]) -> int:
    """Delete unreadable pieces of journals; return how many may have belonged to other sessions."""
    try:
        return forget(root, session_ids)
    except OSError as error:
        message = (
            f"{folder(root)} cannot be emptied: {error.strerror}. Delete it, then purge again."
        )
        raise RecorderError(message) from error


def _delete(
    store: Store, held: Sequence[SessionSize], reason: str, move: Update, late: LateJournals
) -> list[Counts]:
    writer, there = (
        writer_at(store.url),
        {directory.name for directory in journals(journal_root(store.url))},
    )
    done: list[Counts] = []
    try:
        for each in held:
            counts = purge(
                store,
                each.session_id,
                reason,
                time.time_ns(),
                there,
                lambda name: writer(name) == "alive",
            )
            if counts is not None:
                done.append(counts)
                late.add(counts.late)
            move(advance=1)
    except BaseException:
        if done:
            echo(
                f"{counted(len(done), 'session')} purged so far: the next purge removes what is left of them."
            )
        raise
    return done


class LateJournals:
    """The exchanges that journals may still hold, by recorder."""

    def __init__(self) -> None:
        self._ids: dict[str, set[str]] = {}

    def add(self, late: Mapping[str, Sequence[str]]) -> None:
        for recorder_id, exchange_ids in late.items():
            self._ids.setdefault(recorder_id, set()).update(exchange_ids)

    def blank(self, store: Store, root: Path) -> bool:
        """Overwrite them; returns whether none is left."""
        there = [directory for directory in journals(root) if directory.name in self._ids]
        return all([self._blank(store, directory) for directory in there])

    def report_elsewhere(self, root: Path) -> None:
        """Recorders on other machines delete their own journals, each segment when it is in the
        log.
        """
        elsewhere = self._ids.keys() - {directory.name for directory in journals(root)}
        if elsewhere:
            count = "a journal" if len(elsewhere) == 1 else f"{len(elsewhere):,} journals"
            echo(f"What {count} on other machines may still hold of it, their recorders delete.")

    def _blank(self, store: Store, directory: Path) -> bool:
        with store.transaction():
            place = store.offset(directory.name)
        try:
            return scrub_exchanges(
                directory, Position(*place) if place else START, self._ids[directory.name]
            )
        except (OSError, RecorderError) as error:
            echo(safe_text(f"The journal {directory} cannot be overwritten: {error}"))
            return False


def _purge_in(archive: URL, session_ids: Sequence[str], reason: str) -> None:
    """Purge sessions in an archive, and what is left of them there, and print what was done."""
    with progress_bar("Rewriting the archive"):
        done = purge_archive(archive, session_ids, reason, time.time_ns())
    name = safe_text(database_name(archive))
    if done:
        events, size_bytes = (
            sum(getattr(each, noun) for each in done) for noun in ("events", "bytes")
        )
        of = f"{counted(events, 'event')}, {counted(size_bytes, 'byte')}"
        echo(f"{counted(len(done), 'session')} purged in {name}: {of}.")
    echo(
        f"Files, snapshots and catalog of {name} have no byte of it any more. Copies of them are not touched."
    )


def _purge_archived(log: URL, found: Sequence[Tombstone], reason: str) -> set[str]:
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
        _purge_in(attached[name], session_ids, reason)
    return set(chain.from_iterable(due.values()))


def _purge_copies(log: URL, session_ids: Sequence[str], reason: str) -> None:
    """Purge sessions that have just been purged in a log in its archives: an archiver that was
    interrupted left them in both, and one that runs may have copied them meanwhile.

    Raise `RecorderError` if an archive cannot be searched for them.
    """
    failed = ""
    for archive in archives_of(log) if session_ids else ():
        try:
            there = sessions_there(archive, session_ids)
            if there:
                _purge_in(archive, sorted(there), reason)
        except RecorderError as error:
            failed = failed or str(error)
    if failed:
        raise RecorderError(
            f"{failed} An archive may have a copy of what was purged: run `recorder db purge {session_ids[0]}` again, "
            "or `recorder db archive --detach` the archive if it is gone."
        )


def _say_not_among(log: URL) -> None:
    """Print which archives a choice by age or size is not about."""
    for archive in archives_of(log):
        name = safe_text(database_name(archive))
        echo(f"Sessions that are in {name} are not among these: choose them with --db {name}.")
