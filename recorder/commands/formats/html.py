"""The session with its player, as one page for a browser."""

from __future__ import annotations

from recorder.archive.opening import open_log
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.output import write_bytes
from recorder.commands.terminal.rules import redactor
from recorder.commands.terminal.selection import select
from recorder.ui.html_file import html_file


async def write(db: str | None, session: str, exchange: str | None) -> None:
    async with await open_log(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        write_bytes(await html_file(log, found, chosen, redactor()))
