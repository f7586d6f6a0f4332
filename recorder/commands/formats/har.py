"""HAR 1.2."""

from __future__ import annotations

from recorder.archive.opening import open_log
from recorder.cassettes.har.writer import har_lines, losses
from recorder.commands.formats.exchanges import BY_ROWS, readable
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.output import echo, write_bytes
from recorder.commands.terminal.selection import select
from recorder.model.recording import MemoryBudget
from recorder.recordings.loader import load_exchanges


async def write(db: str | None, session: str, exchange: str | None) -> None:
    async with await open_log(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        budget = MemoryBudget("As HAR this takes", f"name one exchange with --exchange, or {BY_ROWS}")
        loaded = await load_exchanges(log, found, chosen, budget, keeps_events=False)
        answerable = [readable(each) for each in loaded]
        for part in har_lines(answerable, was_imported=found.origin == "import"):
            write_bytes(part)
        for lost in losses(answerable):
            echo(lost)
