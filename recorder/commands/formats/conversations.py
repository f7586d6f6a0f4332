"""Lines of conversations: chat messages, a trace of Mooncake, trajectories of ATIF."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable

from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.output import echo, write_bytes
from recorder.exports.chat.lines import ChatExport
from recorder.exports.workloads.atif import AtifExport
from recorder.exports.workloads.mooncake import BLOCK_TOKENS, MooncakeExport, TraceForm


async def write_chat(source: ExportSource) -> None:
    export = ChatExport(source.log, source.session, source.chosen)
    await _write(export.lines(is_one=source.is_one), export.remarks)


async def write_mooncake(
    source: ExportSource, *, block_size: int | None, whole_prompts: bool
) -> None:
    form = TraceForm(block_size or BLOCK_TOKENS, whole_prompts)
    export = MooncakeExport(source.log, source.session, source.chosen, form)
    await _write(export.lines(), export.remarks)


async def write_atif(source: ExportSource) -> None:
    export = AtifExport(source.log, source.session, source.chosen)
    await _write(export.lines(), export.remarks)


async def _write(lines: AsyncIterator[bytes], remarks: Callable[[], Iterable[str]]) -> None:
    async for line in lines:
        write_bytes(line)
    for remark in remarks():
        echo(remark)
