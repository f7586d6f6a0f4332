"""The JSON of one event a line."""

from __future__ import annotations

from recorder.cassettes.plain import payload_lines
from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.output import write_bytes
from recorder.errors import NotFoundError
from recorder.model.events import BODY_KINDS


async def write(source: ExportSource) -> None:
    written = 0
    async for recording in source.recordings():
        events = (event for event in recording.events if event.kind in BODY_KINDS)
        for line in payload_lines(events, is_switched=recording.is_switched):
            write_bytes(line)
            written += 1
    if not written:
        name = source.session.name
        raise NotFoundError(f"There is no event with JSON in session {name}: --format sse writes what there is.")
