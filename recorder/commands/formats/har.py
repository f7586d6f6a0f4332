"""HAR 1.2."""

from __future__ import annotations

from recorder.cassettes.har.writer import har_lines, losses
from recorder.commands.formats.exchanges import BY_ROWS, ExportSource, readable
from recorder.commands.terminal.output import echo, write_bytes
from recorder.model.events import MemoryBudget
from recorder.recordings.loader import load_exchanges


async def write(source: ExportSource) -> None:
    budget = MemoryBudget("As HAR this takes", f"name one exchange with --exchange, or {BY_ROWS}")
    loaded = await load_exchanges(
        source.log, source.session, source.chosen, budget, keeps_events=False
    )
    answerable = [readable(recording) for recording in loaded]
    for part in har_lines(answerable, was_imported=source.session.origin == "import"):
        write_bytes(part)
    for lost in losses(answerable):
        echo(lost)
