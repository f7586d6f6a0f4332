"""A trace of the times, for ui.perfetto.dev and speedscope."""

from __future__ import annotations

from recorder.archive.opening import open_log
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.output import write_bytes
from recorder.commands.terminal.selection import say_if_stale, select
from recorder.ui.lanes import timeline
from recorder.ui.perfetto import trace


async def write(db: str | None, session: str, exchange: str | None) -> None:
    async with await open_log(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        await say_if_stale(log)
        one = None if exchange is None else chosen[0][1].exchange_id
        async for part in trace(log, found, chosen, await timeline(log, found.session_id, one)):
            write_bytes(part)
