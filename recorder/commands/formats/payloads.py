"""The JSON of one event a line."""

from __future__ import annotations

from recorder.archive.opening import open_log
from recorder.cassettes.plain import payload_lines
from recorder.commands.formats.exchanges import one_by_one
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.output import write_bytes
from recorder.commands.terminal.selection import select
from recorder.errors import NotFoundError
from recorder.model.events import BODY_KINDS


async def write(db: str | None, session: str, exchange: str | None) -> None:
    async with await open_log(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        written = 0
        async for each in one_by_one(log, found, chosen):
            events = (event for event in each.events if event.kind in BODY_KINDS)
            for line in payload_lines(events, is_switched=each.is_switched):
                write_bytes(line)
                written += 1
        if not written:
            raise NotFoundError(
                f"There is no event with JSON in session {found.name}: --format sse writes what there is."
            )
