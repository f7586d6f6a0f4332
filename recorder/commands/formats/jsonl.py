"""Every row of the log, for `recorder import`."""

from __future__ import annotations

from recorder.archive.opening import open_log
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.output import write_bytes
from recorder.commands.terminal.selection import select
from recorder.model.jsonl import closing_line, event_line, exchange_line, opening_line


async def write(db: str | None, session: str, exchange: str | None) -> None:
    async with await open_log(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        events = 0
        write_bytes(opening_line(found))
        for _, each in chosen:
            write_bytes(exchange_line(each))
            async for event in log.events(each.session_id, each.exchange_id):
                write_bytes(event_line(event))
                events += 1
        write_bytes(closing_line(len(chosen), events))
