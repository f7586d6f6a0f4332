"""`recorder verify`: proves that the log is unchanged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
import msgspec
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.archive.place import database_name
from recorder.archive.registry import archives_of
from recorder.archive.verify import open_verifier
from recorder.cassettes import refused
from recorder.commands.ops.last_verify import LastVerify, keep
from recorder.commands.ops.writers import writer_at
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import (
    current_url,
    flag,
    format_option,
    log_options,
    nothing_yet,
    other_killed,
)
from recorder.commands.terminal.output import FOUND, echo, write_json, write_line
from recorder.commands.terminal.progress import progress_bar
from recorder.errors import NotFoundError, RecorderError, StoreBusyError, StoreError, UsageError
from recorder.exports.parquet.manifest import ExportedFolder
from recorder.model.ids import ID_LENGTH, ids_beginning
from recorder.model.text import counted, safe_text
from recorder.store.maintain.verify.log import LogFinding, LogVerifier, SessionReport
from recorder.store.maintain.verify.manifest import (
    FIRST_LINE,
    Mark,
    Marks,
    PurgeMark,
    difference,
    line,
    mark_of,
    purge_difference,
    read,
)
from recorder.store.queries.session_named import session_named

STALE = "The projections must be rebuilt and were not compared: run `recorder db rebuild`."


@click.command()
@click.argument("sessions", nargs=-1, metavar="[SESSION]…", shell_complete=session_names)
@flag("--manifest", help="Print a line with a digest for each session; keep it elsewhere.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="Compare with this earlier manifest, or with an export to Parquet.",
)
@format_option("json", "jsonl")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    db: str | None,
    sessions: tuple[str, ...],
    manifest: bool,
    against: Path | None,
    format: str,
) -> None:
    """Prove that SESSION, or the whole database, is unchanged since it was recorded.

    Checks hashes, order, counts and digests of every event, orphaned rows, and the projections; of
    the whole database also its pages, indexes and schema. Gaps are listed: they were counted when
    they happened, and are not failures. The exit code is 4 if there is a finding.

    \b
    recorder verify
    recorder verify latest
    recorder verify --manifest > recordings.manifest
    recorder verify --against recordings.manifest
    recorder verify --against analysis/
    """
    exported = ExportedFolder(against) if against and against.is_dir() else None
    marks = _read_manifest(against) if against and exported is None else {}
    runs = _verified(current_url(db), sessions, marks, exported)
    if manifest:
        _write_manifest(_all_sessions(runs))
    elif format != "table":
        write_json(chain.from_iterable(map(_rows, runs)), format)
    else:
        for run in runs:
            _write_lines(run)
    findings = sum(run.findings for run in runs)
    if manifest and findings:
        echo("A manifest of a damaged log proves nothing: `recorder verify` lists the findings.")
    _say_purged(runs, marks)
    _conclude(runs, exported, of_all=not sessions)
    ctx.exit(FOUND if findings else 0)


def _verified(
    url: URL, refs: Sequence[str], marks: Marks, exported: ExportedFolder | None
) -> list[_VerifyRun]:
    """Verify a log, and then each of its archives; compare all of them with an export."""
    log = _VerifyRun(url, refs, exported.sessions if exported else ())
    log.run(marks)
    archives = [_VerifyRun(archive, log.ids, is_archive=True) for archive in archives_of(url)]
    for each in archives:
        each.run(marks)
    if archives:
        there = {verified.session_id for verified in _all_sessions(archives)}
        log.leave_to(there, {"", *(each.archive for each in archives if not each.damage)})
    runs = [log, *archives]
    if exported is not None:
        log.damage += exported.changed_files()
        for verified in _all_sessions(runs):
            exported.compare(verified)
    return runs


def _all_sessions(runs: Iterable[_VerifyRun]) -> list[SessionReport]:
    return list(chain.from_iterable(run.verified for run in runs))


class _VerifyRun:
    """One verification of a database, of some sessions or of all."""

    def __init__(
        self,
        url: URL,
        refs: Sequence[str],
        exported: Collection[str] = (),
        *,
        is_archive: bool = False,
    ) -> None:
        self.url, self._refs, self._exported = url, refs, exported
        self.archive = database_name(url) if is_archive else None
        self._began_ns = time.time_ns()
        self.ids: list[str] = []  # of the sessions that the user named
        self.damage: list[str] = []
        self.verified: list[SessionReport] = []

    @property
    def findings(self) -> int:
        return len(self.damage) + sum(len(each.findings) for each in self.verified)

    def run(self, marks: Marks) -> None:
        """Verify, and keep the results. An archive that cannot be opened is a finding."""
        try:
            self.verified = list(self._all(marks))
        except RecorderError as error:
            if self.archive is None or isinstance(error, StoreBusyError):
                raise
            self.damage.append(str(error))

    def leave_to(self, session_ids: set[str], archives: set[str | None]) -> None:
        """Leave out archived sessions that an archive has.

        One that is not in its archive, of those, is a finding.
        """
        kept = []
        for each in self.verified:
            if each.archived is None or each.session_id not in session_ids:
                kept.append(each)
        self.verified = kept
        for each in kept:
            if each.archived is not None and each.archived in archives:
                each.find(
                    None, "archive", "it was archived, and no archive that is attached has it"
                )

    def _all(self, marks: Marks) -> Iterator[SessionReport]:
        """Yield every session to verify, and those that only the manifest has."""
        with open_verifier(self.url, writer_at(self.url)) as checkup:
            self.damage = [] if self._refs else checkup.whole_damage()
            try:
                yield from self._sessions(checkup, marks)
            except StoreError as error:
                if isinstance(error, StoreBusyError) or not self.damage:
                    raise

    def _sessions(self, checkup: LogVerifier, marks: Marks) -> Iterator[SessionReport]:
        if self._refs:
            self.ids = [self._found(ref, checkup) for ref in self._refs]
            there = {session_id for session_id in self.ids if checkup.has(session_id)}
        else:
            there = set(checkup.session_ids())
        wanted = self.ids if self._refs else sorted({*there, *marks, *self._exported})
        # what a log does not have is in an archive, or the other way round
        if self._refs or self.archive is not None:
            wanted = [session_id for session_id in wanted if session_id in there]
        elif not wanted:
            raise NotFoundError(nothing_yet(f"There is nothing in {checkup.name} yet."))
        is_due = checkup.rebuild_is_due()
        if is_due:
            self.damage.append(STALE)
        with progress_bar("Verifying", None if self._refs else checkup.count()) as move:
            for session_id in dict.fromkeys(wanted):
                verified = checkup.verify(
                    session_id, lambda count: move(advance=count), projections=not is_due
                )
                if session_id in marks:
                    _compare(verified, marks[session_id], session_id in there)
                yield verified

    def _found(self, ref: str, checkup: LogVerifier) -> str:
        """Return the id of a session, which may have nothing left but its tombstone."""
        if (
            len(ref) == ID_LENGTH
            and ids_beginning(ref)
            and (self.archive is not None or checkup.has(ref))
        ):
            return ref  # an archive gets the ids that were found for the log
        return asyncio.run(_session_id(self.url, ref))

    def sum(self, noun: str) -> int:
        """Return the number of exchanges or events that were read."""
        return sum(getattr(each, noun) for each in self.verified)

    def keep(self) -> None:
        """Save the time and the result for `recorder doctor`, outside of the database."""
        sums = (len(self.verified), self.sum("exchanges"), self.sum("events"), self.findings)
        keep(self.url, LastVerify(self._began_ns, time.time_ns(), *sums))


async def _session_id(url: URL, ref: str) -> str:
    async with await open_log(url) as log:
        return (await session_named(log, ref)).session_id


def _compare(verified: SessionReport, then: Mark | PurgeMark, is_there: bool) -> None:
    """Compare a session with what the manifest has of it.

    Of an archived one, the archive has the rows, or a tombstone of its own.
    """
    if isinstance(then, Mark) and verified.roots is not None:
        message = difference(then, verified.roots)
    elif isinstance(then, Mark) and is_there and verified.tombstone is None:
        message = None  # its row is missing, which is a finding already
    elif isinstance(then, PurgeMark) and verified.archived is not None:
        message = None
    else:
        message = purge_difference(then, verified.tombstone)
    if message is not None:
        verified.find(None, "manifest", message)


def _read_manifest(path: Path) -> Marks:
    try:
        return read(path.read_text().splitlines())
    except OSError as error:
        raise refused(path, error) from error
    except ValueError as error:  # what is not text is not a manifest either
        raise UsageError(
            f"{path} is not a manifest of `recorder verify --manifest`: {error}."
        ) from error


# -- what it says


def _say_purged(runs: Sequence[_VerifyRun], marks: Marks) -> None:
    """Say which sessions a manifest has, of which a log has only the tombstone.

    No log can prove who wrote that.
    """
    marked = [each for each in _all_sessions(runs) if isinstance(marks.get(each.session_id), Mark)]
    gone = [each for each in marked if each.purged and not each.findings]
    purged = [each for each in gone if each.archived is None]
    if purged:
        count = counted(len(purged), "session")
        echo(
            f"Purged after the manifest: {count}. The tombstones fit it; compare them with the purges that you know of."
        )
        for each in purged[:_NAMED]:
            echo(safe_text(f"  {each.tombstone}"))
    if len(gone) > len(purged):
        count = counted(len(gone) - len(purged), "session")
        echo(
            f"Archived after the manifest, and not compared: {count}. Attach the archive, or verify it by itself."
        )


_NAMED = 20  # purged sessions that are named: as many as are read


def _conclude(runs: Sequence[_VerifyRun], exported: ExportedFolder | None, *, of_all: bool) -> None:
    """Print the sums on stderr, and keep those of whole databases."""
    for run in runs:
        if run.verified or run.damage or of_all:
            _sum_up(run, is_named=len(runs) > 1)
        if of_all:
            run.keep()
    for sentence in exported.remarks() if exported else ():
        echo(sentence)
    for sentence in other_killed(runs[0].url) if of_all else ():
        echo(sentence)


def _write_manifest(verified: Sequence[SessionReport]) -> None:
    write_line(FIRST_LINE)
    left_out = 0
    for each in sorted(verified, key=attrgetter("session_id")):
        if each.tombstone is not None and each.archived is None:
            write_line(safe_text(line(each.session_id, mark_of(each.tombstone))))
        elif each.roots is not None and not each.purged:
            write_line(safe_text(line(each.session_id, each.roots.last)))
            left_out += each.exchanges - each.roots.last.exchanges
    if left_out:
        echo(
            f"The manifest leaves out {counted(left_out, 'exchange')}: open, or begun after an open one."
        )


def _write_lines(run: _VerifyRun) -> None:
    of_file = (f"bad     {sentence}" for sentence in run.damage)
    for text in chain(of_file, *map(_lines, run.verified)):
        write_line(safe_text(text))


def _lines(verified: SessionReport) -> Iterator[str]:
    place = verified.session_id
    for found in verified.findings:
        yield found.line(place)
    for exchange_id in verified.open:
        yield f"open    {place}/{exchange_id}: it is being recorded"
    for gap in verified.gaps:
        lost = f"{counted(gap.chunks, 'chunk')}, {counted(gap.size_bytes, 'byte')} of the {gap.of} were not kept"
        yield f"gap     {place}/{gap.exchange_id} @{gap.pos}: {lost}: {gap.reason}"
    if verified.purged and not verified.findings:
        yield f"{_state(verified):<8}{place}"


def _sum_up(run: _VerifyRun, *, is_named: bool) -> None:
    sessions = counted(len(run.verified), "session")
    checked = f"{counted(run.sum('events'), 'event')} of {counted(run.sum('exchanges'), 'exchange')} in {sessions}"
    gaps = sum(len(each.gaps) for each in run.verified)
    if gaps:
        echo(
            f"{counted(gaps, 'gap')}: the bytes were counted when they were lost; this is not a failure."
        )
    place = f"{safe_text(database_name(run.url))}: " if is_named else ""
    echo(
        f"{place}{checked}: {counted(run.findings, 'finding') if run.findings else 'all as recorded'}."
    )


def _rows(run: _VerifyRun) -> Iterator[dict[str, Any]]:
    """Yield the sessions as JSON. Damage of a database as a whole comes first, without an id."""
    sessions = run.verified
    if run.damage:
        damage = [LogFinding(None, None, "file", sentence) for sentence in run.damage]
        sessions = [SessionReport("", findings=damage), *sessions]
    for verified in sessions:
        yield {
            "session_id": verified.session_id or None,
            "name": verified.name,
            "state": _state(verified),
            "exchanges": verified.exchanges,
            "events": verified.events,
            "open": verified.open,
            "gaps": msgspec.to_builtins(verified.gaps),
            "findings": msgspec.to_builtins(verified.findings),
            "root": verified.roots.last.root if verified.roots else None,
            "archive": run.archive,
        }


def _state(verified: SessionReport) -> str:
    if verified.findings:
        return "bad"
    if verified.purged:
        return "purged" if verified.archived is None else "archived"
    return "open" if verified.open else "ok"
