"""The archives that are read together with a log: `--list`, `--attach` and `--detach` of `recorder db archive`."""

from __future__ import annotations

import asyncio
import time

from sqlalchemy import URL

from recorder.archive.opening import open_alone
from recorder.archive.place import database_name, require_log
from recorder.archive.registry import archives_of, register, unregister
from recorder.commands.terminal.output import echo, write_json, write_line
from recorder.errors import UsageError
from recorder.model.text import safe_text
from recorder.store.write.writer import Store


def attach(log: URL, archive: URL) -> None:
    """Read an archive together with the log from now on. Raise `RecorderError` if it cannot be read."""
    require_log(log)
    asyncio.run(_open(archive))
    with Store(log) as store:
        is_new = register(store, archive, time.time_ns())
    name = safe_text(database_name(archive))
    echo(f"{name} is read with the log now." if is_new else f"{name} is attached already.")


def detach(log: URL, archive: URL) -> None:
    """Read the log without an archive from now on."""
    require_log(log)
    with Store(log) as store:
        was_attached = unregister(store, archive)
    name = safe_text(database_name(archive))
    if not was_attached:
        raise UsageError(f"{name} is not attached: `recorder db archive --list` names those that are.")
    echo(f"{name} is not read with the log any more.")


def write_archives(log: URL, format: str) -> None:
    names = [database_name(url) for url in archives_of(log)]
    if format != "table":
        write_json(({"archive": name} for name in names), format)
        return
    for name in names:
        write_line(safe_text(name))
    if not names:
        echo("No archive is attached: `recorder db archive --to` makes one, `--attach` takes one that is there.")


async def _open(archive: URL) -> None:
    async with await open_alone(archive):
        pass
