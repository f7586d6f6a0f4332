"""Lines of messages, for fine-tuning and evals."""

from __future__ import annotations

from recorder.archive.opening import open_log
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.output import echo, write_bytes
from recorder.commands.terminal.selection import select
from recorder.exports.chat.lines import ChatExport


async def write(db: str | None, session: str, exchange: str | None) -> None:
    async with await open_log(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        export = ChatExport(log, found, chosen)
        async for line in export.lines(is_one=exchange is not None):
            write_bytes(line)
        for remark in export.remarks():
            echo(remark)
