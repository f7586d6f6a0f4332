"""A trace of the times, for ui.perfetto.dev and speedscope."""

from __future__ import annotations

from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.output import write_bytes
from recorder.commands.terminal.recordings import say_if_stale
from recorder.ui.lanes import timeline
from recorder.ui.perfetto import trace


async def write(source: ExportSource) -> None:
    log, session, chosen = source.log, source.session, source.chosen
    await say_if_stale(log)
    one = chosen[0][1].exchange_id if source.is_one else None
    async for part in trace(log, session, chosen, await timeline(log, session.session_id, one)):
        write_bytes(part)
