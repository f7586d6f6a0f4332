"""A cassette: for people, git and tests."""

from __future__ import annotations

from recorder.archive.opening import open_log
from recorder.cassettes.sse_jsonl.header import header_line
from recorder.cassettes.sse_jsonl.writer import exchange_lines
from recorder.commands.formats.exchanges import one_by_one
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.output import write_bytes
from recorder.commands.terminal.selection import select


async def write(db: str | None, session: str, exchange: str | None) -> None:
    async with await open_log(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        write_bytes(header_line(found))
        number, numbers = 0, dict[str, int]()
        async for each in one_by_one(log, found, chosen):
            number += 1
            for line in exchange_lines(number, each.exchange, each.events, numbers):
                write_bytes(line)
