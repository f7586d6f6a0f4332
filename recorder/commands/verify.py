"""`recorder verify`: proves that the log is unchanged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import Progress

from recorder.cassettes import refused
from recorder.commands.ops.last_verify import LastVerify, keep
from recorder.commands.ops.writers import writer_at
from recorder.commands.terminal.catch_up import current_url, nothing_yet, other_killed, wait_option
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.output import can_redraw, echo, with_json, write_json, write_line
from recorder.errors import NotFoundError, StoreBusyError, StoreError, UsageError
from recorder.exports.parquet.manifest import ExportedFolder
from recorder.model.ids import ID_LENGTH, ids_beginning
from recorder.model.text import counted, safe_text
from recorder.store.reader import LogReader
from recorder.store.verify.log import LogFinding, LogVerifier, SessionReport
from recorder.store.verify.manifest import FIRST_LINE, Mark, difference, line, read

FOUND = 4  # the exit code of findings
STALE = "The projections must be rebuilt and were not compared: run `recorder db rebuild`."


@click.command()
@click.argument("sessions", nargs=-1, metavar="[SESSION]…", shell_complete=session_names)
@click.option("--manifest", is_flag=True, help="Print a line with a digest for each session; keep it elsewhere.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="Compare with this earlier manifest, or with an export to Parquet.",
)
@with_json()
@wait_option
@database_option
@click.pass_context
def command(
    ctx: click.Context,
    db: str | None,
    sessions: tuple[str, ...],
    manifest: bool,
    against: Path | None,
    json: bool,
    jsonl: bool,
) -> None:
    """Prove that SESSION, or the whole database, is unchanged since it was recorded.

    Checks hashes, order, counts and digests of every event, orphaned rows, and the projections. Gaps are listed: they
    were counted when they happened, and are not failures. The exit code is 4 if there is a finding.

    \b
    recorder verify
    recorder verify latest
    recorder verify --manifest > recordings.manifest
    recorder verify --against recordings.manifest
    recorder verify --against analysis/
    """
    exported = ExportedFolder(against) if against and against.is_dir() else None
    marks = _read_manifest(against) if against and exported is None else {}
    run = _VerifyRun(db, sessions, exported)
    verified = list(run.all(marks))
    if manifest:
        _write_manifest(verified)
    elif json or jsonl:
        write_json((_row(each) for each in _with_damage(run.damage, verified)), lines=jsonl)
    else:
        _write_lines(run.damage, verified)
    findings = len(run.damage) + sum(len(each.findings) for each in verified)
    if manifest and findings:
        echo("A manifest of a damaged log proves nothing: `recorder verify` lists the findings.")
    _sum_up(verified, findings)
    if exported is not None:
        for sentence in exported.remarks():
            echo(sentence)
    if not sessions:
        run.say_killed()
        run.keep(verified, findings)
    ctx.exit(FOUND if findings else 0)


class _VerifyRun:
    """One verification, of some sessions or of all."""

    def __init__(self, db: str | None, refs: Sequence[str], exported: ExportedFolder | None = None) -> None:
        self._url, self._refs, self._exported = current_url(db), refs, exported
        self._began_ns = time.time_ns()
        self.damage: list[str] = []

    def all(self, marks: Mapping[str, Mark]) -> Iterator[SessionReport]:
        """Yield every session to verify, and those that only the manifest has."""
        with LogVerifier.open(self._url, writer_at(self._url)) as checkup:
            self.damage = [] if self._refs else checkup.damage()
            try:
                yield from self._sessions(checkup, marks)
            except StoreBusyError:
                raise
            except StoreError:
                if not self.damage:
                    raise
        if self._exported is not None:
            self.damage += self._exported.changed_files()

    def _sessions(self, checkup: LogVerifier, marks: Mapping[str, Mark]) -> Iterator[SessionReport]:
        if self._refs:
            wanted = [self._found(ref, checkup) for ref in self._refs]
            there = {session_id for session_id in wanted if checkup.has(session_id)}
        else:
            there = set(checkup.session_ids())
            wanted = sorted({*there, *marks, *(self._exported.sessions if self._exported else ())})
        if not wanted:
            raise NotFoundError(nothing_yet(f"There is nothing in {checkup.name} yet."))
        is_due = checkup.rebuild_is_due()
        if is_due:
            self.damage.append(STALE)
        with _progress(None if self._refs else checkup.count()) as advance:
            for session_id in dict.fromkeys(wanted):
                verified = checkup.verify(session_id, advance, projections=not is_due)
                if session_id in marks and not verified.purged:
                    _compare(verified, marks[session_id], session_id in there)
                if self._exported is not None:
                    self._exported.compare(verified)
                yield verified

    def _found(self, ref: str, checkup: LogVerifier) -> str:
        """Return the id of a session, which may have nothing left but its tombstone."""
        if len(ref) == ID_LENGTH and ids_beginning(ref) and checkup.has(ref):
            return ref
        return asyncio.run(_session_id(self._url, ref))

    def say_killed(self) -> None:
        """Print the sentences of `recorder doctor` about journals."""
        for sentence in other_killed(self._url):
            echo(sentence)

    def keep(self, verified: Sequence[SessionReport], findings: int) -> None:
        """Save the time and the result for `recorder doctor`, outside of the database."""
        events, exchanges = (sum(getattr(each, name) for each in verified) for name in ("events", "exchanges"))
        keep(self._url, LastVerify(self._began_ns, time.time_ns(), len(verified), exchanges, events, findings))


async def _session_id(url: Any, ref: str) -> str:
    async with await LogReader.open(url) as log:
        return (await log.session(ref)).session_id


def _compare(verified: SessionReport, then: Mark, is_there: bool) -> None:
    message = difference(then, verified.roots) if verified.roots else None
    if not is_there:
        message = f"the manifest has it, with {then.exchanges} exchanges: the session was removed, and not by a purge"
    if message is not None:
        verified.find(None, "manifest", message)


def _read_manifest(path: Path) -> Mapping[str, Mark]:
    try:
        return read(path.read_text().splitlines())
    except OSError as error:
        raise refused(path, error) from error
    except ValueError as error:  # what is no text is no manifest either
        raise UsageError(f"{path} is not a manifest of `recorder verify --manifest`: {error}.") from error


@contextmanager
def _progress(total: int | None) -> Iterator[Any]:
    with Progress(console=Console(stderr=True), disable=not can_redraw(), transient=True) as progress:
        task = progress.add_task("Verifying", total=total)
        yield lambda count: progress.advance(task, count)


# -- what it says


def _write_manifest(verified: Sequence[SessionReport]) -> None:
    write_line(FIRST_LINE)
    left_out = 0
    for each in verified:
        if each.roots is not None and not each.purged:
            write_line(safe_text(line(each.session_id, each.roots.last)))
            left_out += each.exchanges - each.roots.last.exchanges
    if left_out:
        echo(f"The manifest leaves out {counted(left_out, 'exchange')}: open, or begun after an open one.")


def _write_lines(damage: Sequence[str], verified: Sequence[SessionReport]) -> None:
    of_file = (f"bad     {sentence}" for sentence in damage)
    for each in chain(of_file, *map(_lines, verified)):
        write_line(safe_text(each))  # ids too: whoever changed them wrote what he liked


def _lines(verified: SessionReport) -> Iterator[str]:
    place = verified.session_id
    for found in verified.findings:
        yield f"bad     {_place(place, found)}: {found.message}"
    for exchange_id in verified.open:
        yield f"open    {place}/{exchange_id}: it is being recorded"
    for gap in verified.gaps:
        lost = f"{counted(gap.chunks, 'chunk')}, {counted(gap.size_bytes, 'byte')} of the {gap.of} were not kept"
        yield f"gap     {place}/{gap.exchange_id} @{gap.pos}: {lost}: {gap.reason}"
    if verified.purged and not verified.findings:
        yield f"purged  {place}"


def _place(session_id: str, found: LogFinding) -> str:
    exchange = f"/{found.exchange_id}" if found.exchange_id else ""
    return f"{session_id}{exchange}" + (f" @{found.pos}" if found.pos is not None else "")


def _sum_up(verified: Sequence[SessionReport], findings: int) -> None:
    events, exchanges = (sum(getattr(each, name) for each in verified) for name in ("events", "exchanges"))
    checked = f"{counted(events, 'event')} of {counted(exchanges, 'exchange')} in {counted(len(verified), 'session')}"
    gaps = sum(len(each.gaps) for each in verified)
    if gaps:
        echo(f"{counted(gaps, 'gap')}: the bytes were counted when they were lost; this is not a failure.")
    echo(f"{checked}: {counted(findings, 'finding') if findings else 'all as recorded'}.")


def _with_damage(damage: Sequence[str], verified: Sequence[SessionReport]) -> Iterator[SessionReport]:
    if damage:
        yield SessionReport("", findings=[LogFinding(None, None, "file", sentence) for sentence in damage])
    yield from verified


def _row(verified: SessionReport) -> dict[str, Any]:
    """Return a session as JSON. Damage of the file as a whole comes first, without an id."""
    return {
        "session_id": verified.session_id or None,
        "name": verified.name,
        "state": _state(verified),
        "exchanges": verified.exchanges,
        "events": verified.events,
        "open": verified.open,
        "gaps": msgspec.to_builtins(verified.gaps),
        "findings": msgspec.to_builtins(verified.findings),
        "root": verified.roots.last.root if verified.roots else None,
    }


def _state(verified: SessionReport) -> str:
    if verified.findings:
        return "bad"
    return "purged" if verified.purged else "open" if verified.open else "ok"
