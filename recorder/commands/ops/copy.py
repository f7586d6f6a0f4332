"""`recorder db copy`: copies a log into another database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import click
import msgspec
from sqlalchemy import URL

from recorder.archive.place import database_name, database_url, is_archive
from recorder.commands.ops.backup import say_waiting
from recorder.commands.terminal.options import format_option
from recorder.commands.terminal.output import FOUND, echo, write_json, write_line
from recorder.commands.terminal.progress import progress_bar
from recorder.errors import RecorderError, StoreBusyError, UsageError
from recorder.model.text import counted, safe_text
from recorder.store.location import is_same_database
from recorder.store.maintain.copy import CopiedLog, CopyReport, copy, same_database
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.store.schema import STALE
from recorder.store.write.writer import Store

AGAIN = "What was copied stays: run the same again to go on."


@click.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option(
    "--session", metavar="SESSION", multiple=True, help="Only this session. May be repeated."
)
@format_option("json", "jsonl")
@click.pass_context
def command(
    ctx: click.Context, source: str, target: str, session: tuple[str, ...], format: str
) -> None:
    """Copy the log in SRC into DST, from SQLite to PostgreSQL or back: each a path or a URL, as
    --db takes it.

    SRC is only read, and recorders can continue. DST is created if it does not exist, and keeps its
    content. The chain of every exchange is verified and read back from DST; projections are
    computed again. Exchanges that are in DST already are not copied, so run the command again after
    an interruption, or when open exchanges have ended. Journals are not copied. The exit code is 4
    if something in SRC is damaged, or DST has other content in its place: it is named, and the rest
    is copied.

    \b
    recorder db copy recordings.db postgresql://me@db.example/recordings
    recorder db copy postgresql://me@db.example/recordings run.db --session latest
    """
    urls = database_url(source), database_url(target)
    for url in urls:
        if is_archive(url):
            raise UsageError(
                f"{database_name(url)} is an archive, which is not copied: `recorder export` and `recorder import` "
                "bring its sessions into a log."
            )
    if is_same_database(*urls):  # as far as names say so: servers are compared when they are open
        raise same_database(*map(database_name, urls))
    try:
        copied, offsets = _copy(*urls, session)
    except StoreBusyError as error:
        raise RecorderError(f"{error} {AGAIN}") from error
    except KeyboardInterrupt:
        echo(AGAIN)
        raise
    if format != "table":
        write_json((_row(each) for each in copied), format)
    else:
        for line in chain.from_iterable(map(_lines, copied)):
            write_line(safe_text(line))
    findings = _sum_up(database_name(urls[1]), copied)
    if not session:
        say_waiting(urls[0], offsets)
    ctx.exit(FOUND if findings else 0)


def _copy(
    source: URL, target: URL, refs: Sequence[str]
) -> tuple[list[CopyReport], Mapping[str, tuple[int, int]]]:
    """Return the copied sessions, and how far the source has ingested its journals."""
    ids = asyncio.run(_ids(source, refs)) if refs else None
    with CopiedLog.open(source) as here:
        offsets = here.offsets()  # before its events
        with Store(target) as store, CopiedLog.open(target) as there:
            with progress_bar("Copying") as move:
                copied = copy(
                    here,
                    there,
                    store,
                    lambda done, total: move(completed=done, total=max(done, total)),
                    ids,
                )
            with store.transaction():
                is_due = store.projector.is_due()
    if is_due:
        echo(STALE)
    return copied, offsets


async def _ids(source: URL, refs: Sequence[str]) -> list[str]:
    async with await LogReader.open(source) as log:
        return [(await session_named(log, ref)).session_id for ref in refs]


def _lines(copied: CopyReport) -> Iterator[str]:
    place = copied.session_id
    for finding in copied.findings:
        yield finding.line(place)
    for exchange_id in copied.open:
        yield f"open    {place}/{exchange_id}: it has not ended"
    if copied.purged:
        yield f"purged  {place}: it was purged in the target, and is not copied"


def _sum_up(target: str, copied: Sequence[CopyReport]) -> int:
    """Print the sums; return the number of findings."""
    exchanges = sum(each.exchanges for each in copied)
    present = sum(each.standing for each in copied)
    open_ = sum(len(each.open) for each in copied)
    findings = sum(len(each.findings) for each in copied)
    text = f"Nothing new to be copied to {target}"
    if exchanges:
        events = counted(sum(each.events for each in copied), "event")
        size = counted(sum(each.bytes for each in copied), "byte")
        sessions = counted(sum(each.exchanges > 0 for each in copied), "session")
        of = f"{events} ({size}) of {counted(exchanges, 'exchange')} in {sessions}"
        text = f"{of} copied to {target}, and read back from it"
    if present:
        text += f"; {counted(present, 'exchange')} stood there already"
    echo(safe_text(f"{text}."))
    if open_:
        echo(
            f"{counted(open_, 'exchange')} had not ended: run the same command again when they have."
        )
    if findings:
        echo(
            f"{counted(findings, 'finding')}: the parts named above were not copied, or not correctly."
        )
    return findings


def _row(copied: CopyReport) -> dict[str, Any]:
    state = "open" if copied.open else "ok"
    if copied.findings or copied.purged:
        state = "bad" if copied.findings else "purged"
    row = msgspec.to_builtins(copied)
    del row["purged"]
    return {"session_id": row.pop("session_id"), "name": row.pop("name"), "state": state, **row}
