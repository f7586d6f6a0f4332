"""Every row of the log, for `recorder import`."""

from __future__ import annotations

from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.output import write_bytes
from recorder.model.jsonl import closing_line, event_line, exchange_line, opening_line


async def write(source: ExportSource) -> None:
    events = 0
    write_bytes(opening_line(source.session))
    for _, exchange in source.chosen:
        write_bytes(exchange_line(exchange))
        async for event in source.log.events(exchange.session_id, exchange.exchange_id):
            write_bytes(event_line(event))
            events += 1
    write_bytes(closing_line(len(source.chosen), events))
