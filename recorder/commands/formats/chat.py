"""Lines of messages, for fine-tuning and evals."""

from __future__ import annotations

from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.output import echo, write_bytes
from recorder.exports.chat.lines import ChatExport


async def write(source: ExportSource) -> None:
    export = ChatExport(source.log, source.session, source.chosen)
    async for line in export.lines(is_one=source.is_one):
        write_bytes(line)
    for remark in export.remarks():
        echo(remark)
