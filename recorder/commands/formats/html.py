"""The session with its player, as one page for a browser."""

from __future__ import annotations

from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.output import write_bytes
from recorder.commands.terminal.rules import redactor
from recorder.ui.html_file import html_file


async def write(source: ExportSource) -> None:
    write_bytes(await html_file(source.log, source.session, source.chosen, redactor()))
