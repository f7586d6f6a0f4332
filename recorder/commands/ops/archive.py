"""`recorder db archive`: moves sessions that have ended from a log into an archive, and names the
archives that are read together with a log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import click
import msgspec
from sqlalchemy import URL

from recorder.archive.archiver import Archiver, MonthReport, Recorders, Step, by_month
from recorder.archive.opening import open_alone
from recorder.archive.place import chosen_url, database_name, database_url, is_archive, require_log
from recorder.archive.registry import archives_of, register, unregister
from recorder.commands.ops.journals import journals
from recorder.commands.ops.recover import recover_left
from recorder.commands.ops.writers import writer_at
from recorder.commands.terminal.options import database_option, flag, format_option
from recorder.commands.terminal.output import echo, write_json, write_line
from recorder.commands.terminal.progress import progress_bar
from recorder.commands.terminal.table import Column, Number, write_table
from recorder.commands.terminal.times import INSTANT
from recorder.errors import RecorderError, UsageError
from recorder.model.text import counted, safe_text
from recorder.store.location import journal_root
from recorder.store.maintain.purge.delete import sweep
from recorder.store.queries.reader import LogReader
from recorder.store.queries.retention import (
    RetentionPolicy,
    SessionSize,
    expired,
    holdings,
    recorders_of_open,
)
from recorder.store.write.writer import Store

_COLUMNS = (
    Column("month"),
    Number("sessions"),
    Number("events"),
    Number("bytes"),
    Number("archived"),
)


@click.command("archive")
@click.option(
    "--older-than", type=INSTANT, metavar="30d|DATE", help="All sessions last used before then."
)
@click.option(
    "--to",
    metavar="ARCHIVE",
    help="ducklake:PATH, with the catalog in a file of SQLite, or ducklake:postgresql://USER@HOST/DATABASE. Created if "
    "it does not exist.",
)
@click.option(
    "--data",
    metavar="DIR|s3://…",
    help="The place of the Parquet files of a new archive. An archive in S3 takes its key from the variables of AWS. "
    "[default: a folder beside the catalog]",
)
@flag("--dry-run", help="Only list what would be archived, by month.")
@click.option(
    "--vacuum/--no-vacuum",
    default=True,
    show_default=False,
    help="Rewrite the file of the log: it gets smaller. On PostgreSQL, VACUUM.",
)
@flag("--list", help="List the archives that are read together with the log.")
@click.option(
    "--attach",
    metavar="ARCHIVE",
    help="Read this archive together with the log from now on, as is done with one that is written to. Its place is "
    "kept in the log, without a password: that comes from PGPASSWORD or ~/.pgpass.",
)
@click.option(
    "--detach",
    metavar="ARCHIVE",
    help="Do not read this archive together with the log any more. Nothing is deleted: `--db ARCHIVE` reads it.",
)
@format_option("json", "jsonl", variants=("list",))
@database_option
def archive_command(
    db: str | None,
    older_than: int | None,
    to: str | None,
    data: str | None,
    dry_run: bool,
    vacuum: bool,
    list: bool,
    attach: str | None,
    detach: str | None,
    format: str,
) -> None:
    """Move sessions that have ended into an archive: Parquet files by month, with a catalog of
    DuckLake.

    Each session is verified, written, read back, compared with the log and only then deleted there:
    a tombstone names the archive. The archive is attached to the log: commands that read the log
    read both, and take an archive as --db. A session with findings stays in the log; then the exit
    code is 1. Recorders and other archivers can continue. After an interruption, run the same
    command again. Needs the extra archive.

    \b
    recorder db archive --older-than 30d --to ducklake:archive.db
    recorder db archive --older-than 90d --to ducklake:postgresql://me@db/lake \\
      --data s3://bucket/recordings
    recorder db archive --list
    recorder db archive --attach ducklake:archive.db
    """
    url = chosen_url(db)
    ways = [older_than is not None or to is not None, list, attach is not None, detach is not None]
    if ways.count(True) != 1:
        raise UsageError("Give --older-than with --to, or one of --list, --attach and --detach.")
    if list:
        _write_archives(url, format)
    elif attach is not None:
        _attach(url, database_url(attach))
    elif detach is not None:
        _detach(url, database_url(detach))
    elif older_than is None or to is None:
        raise UsageError("--older-than and --to belong together: give both.")
    else:
        moved = _move(url, database_url(to), data, older_than, dry_run=dry_run)
        _conclude(url, database_url(to), moved, format, dry_run=dry_run, vacuum=vacuum)


def _move(
    url: URL, archive: URL, data: str | None, older_than: int, *, dry_run: bool
) -> Sequence[MonthReport]:
    if not is_archive(archive):
        raise UsageError(f"{database_name(archive)} is not an archive: give --to ducklake:PATH.")
    require_log(url)
    if not dry_run:
        recover_left(url)  # it would come once the session is gone
    months = by_month(asyncio.run(_chosen(url, older_than)))
    if dry_run or not months:
        return [_expected(month, held) for month, held in months.items()]
    return _archive(url, archive, data, months)


def _conclude(
    url: URL,
    archive: URL,
    reports: Sequence[MonthReport],
    format: str,
    *,
    dry_run: bool,
    vacuum: bool,
) -> None:
    """Say what was moved, and vacuum the log.

    Raise `RecorderError` if sessions with findings stayed.
    """
    if format != "table":
        write_json((msgspec.to_builtins(each) for each in reports), format)
    else:
        _write_lines(reports)
    _sum_up(reports, archive, dry_run)
    if vacuum and any(each.sessions for each in reports) and not dry_run and not sweep(url):
        echo(f"A program reads {database_name(url)}: its space is free when that is done.")
    findings = sum(len(each.findings) for each in reports)
    if findings:
        raise RecorderError(
            f"{counted(findings, 'session')} with findings stayed in {database_name(url)}: see above."
        )


async def _chosen(url: URL, before_ns: int) -> list[SessionSize]:
    async with await LogReader.open(url) as log:
        held, open_ = await holdings(log), await recorders_of_open(log)
    limits = RetentionPolicy(before_ns)
    spared = sum(each.session_id in open_ for each in expired(held, limits))
    if spared:
        verb, have = ("stays", "has") if spared == 1 else ("stay", "have")
        echo(f"{counted(spared, 'session')} of these {have} not ended, and {verb} in the log.")
    return expired(held, limits, open_)


def _expected(month: str, held: Sequence[SessionSize]) -> MonthReport:
    return MonthReport(
        month, len(held), sum(each.events for each in held), sum(each.bytes for each in held)
    )


def _archive(
    url: URL, archive: URL, data: str | None, months: dict[str, list[SessionSize]]
) -> list[MonthReport]:
    recorders = Recorders(
        writer_at(url), lambda: {directory.name for directory in journals(journal_root(url))}
    )
    with progress_bar("Archiving", sum(map(len, months.values()))) as move:

        def advance(step: Step, sessions: int) -> None:
            move(description=_DOING[step], advance=sessions if step == "deleted" else 0)

        with Archiver.open(url, archive, recorders, data, advance) as archiver:
            return archiver.archive(months)


_DOING: dict[Step, str] = {
    "verified": "Writing",
    "written": "Writing",
    "committed": "Reading back",
    "compared": "Deleting from the log",
    "deleted": "Verifying",
    "merged": "Cleaning up",
    "cleaned": "Cleaning up",
}


def _write_lines(reports: Sequence[MonthReport]) -> None:
    rows = [
        (each.month, each.sessions, each.events, each.log_bytes, each.archive_bytes)
        for each in reports
    ]
    if rows:
        write_table(_COLUMNS, rows)
    for report in reports:
        for session_id, findings in report.findings.items():
            for finding in findings:
                write_line(safe_text(finding.line(session_id)))


def _sum_up(reports: Sequence[MonthReport], archive: URL, dry_run: bool) -> None:
    sessions, events, before, after = (
        sum(getattr(each, name) for each in reports)
        for name in ("sessions", "events", "log_bytes", "archive_bytes")
    )
    if not sessions:
        echo("There is nothing to archive.")
    elif dry_run:
        echo(
            f"{counted(sessions, 'session')}, {counted(events, 'event')}, {counted(before, 'byte')}."
        )
    else:
        of = f"{counted(events, 'event')} ({counted(before, 'byte')})"
        to = safe_text(database_name(archive))
        echo(f"{counted(sessions, 'session')} archived in {to}, and read back from it: {of}.")
        echo(f"The archive has {counted(max(after, 0), 'byte')} more.")


def _attach(log: URL, archive: URL) -> None:
    """Read an archive together with the log from now on.

    Raise `RecorderError` if it cannot be read.
    """
    require_log(log)
    asyncio.run(_read(archive))
    with Store(log) as store:
        is_new = register(store, archive, time.time_ns())
    name = safe_text(database_name(archive))
    echo(f"{name} is read with the log now." if is_new else f"{name} is attached already.")


def _detach(log: URL, archive: URL) -> None:
    """Read the log without an archive from now on."""
    require_log(log)
    with Store(log) as store:
        was_attached = unregister(store, archive)
    name = safe_text(database_name(archive))
    if not was_attached:
        raise UsageError(
            f"{name} is not attached: `recorder db archive --list` names those that are."
        )
    echo(f"{name} is not read with the log any more.")


def _write_archives(log: URL, format: str) -> None:
    names = [database_name(url) for url in archives_of(log)]
    if format != "table":
        write_json(({"archive": name} for name in names), format)
        return
    for name in names:
        write_line(safe_text(name))
    if not names:
        echo(
            "No archive is attached: `recorder db archive --to` makes one, `--attach` takes one that is there."
        )


async def _read(archive: URL) -> None:
    async with await open_alone(archive):
        pass
