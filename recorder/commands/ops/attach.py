"""`recorder db attach`, `detach` and `archives`: the archives that are read together with a log."""

from __future__ import annotations

import asyncio
import time

import click
from sqlalchemy import URL

from recorder.archive.opening import open_alone
from recorder.archive.place import chosen_url, database_name, database_url, require_log
from recorder.archive.registry import archives_of, register, unregister
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.format import format_option
from recorder.commands.terminal.output import echo, write_json, write_line
from recorder.errors import UsageError
from recorder.model.text import safe_text
from recorder.store.write.writer import Store


@click.command("attach")
@click.argument("archive")
@database_option
def attach_command(db: str | None, archive: str) -> None:
    """Read an archive together with the log from now on, as `recorder db archive` does with the archive it writes to.

    ARCHIVE is as for --db: ducklake:PATH, or ducklake:postgresql://USER@HOST/DATABASE. Its place is kept in the log,
    without a password: that comes from PGPASSWORD or ~/.pgpass.

    \b
    recorder db attach ducklake:archive.db
    """
    log, url = chosen_url(db), database_url(archive)
    require_log(log)
    asyncio.run(_open(url))
    with Store(log) as store:
        is_new = register(store, url, time.time_ns())
    name = safe_text(database_name(url))
    echo(f"{name} is read with the log now." if is_new else f"{name} is attached already.")


@click.command("detach")
@click.argument("archive")
@database_option
def detach_command(db: str | None, archive: str) -> None:
    """Do not read an archive together with the log any more. Nothing is deleted: `--db ARCHIVE` reads it.

    \b
    recorder db detach ducklake:archive.db
    """
    log, url = chosen_url(db), database_url(archive)
    require_log(log)
    with Store(log) as store:
        was_attached = unregister(store, url)
    name = safe_text(database_name(url))
    if not was_attached:
        raise UsageError(f"{name} is not attached: `recorder db archives` lists those that are.")
    echo(f"{name} is not read with the log any more.")


@click.command("archives")
@format_option("json", "jsonl")
@database_option
def archives_command(db: str | None, format: str) -> None:
    """List the archives that are read together with the log.

    \b
    recorder db archives
    """
    names = [database_name(url) for url in archives_of(chosen_url(db))]
    if format != "table":
        write_json(({"archive": name} for name in names), format)
        return
    for name in names:
        write_line(safe_text(name))
    if not names:
        echo("No archive is attached: `recorder db archive` makes one, `recorder db attach` takes one that is there.")


async def _open(archive: URL) -> None:
    """Raise `RecorderError` if an archive cannot be read."""
    async with await open_alone(archive):
        pass
