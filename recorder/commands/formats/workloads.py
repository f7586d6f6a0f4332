"""The formats of benchmarks: a trace of Mooncake, trajectories of ATIF."""

from __future__ import annotations

from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.output import echo, write_bytes
from recorder.exports.workloads.atif import AtifExport
from recorder.exports.workloads.mooncake import BLOCK_TOKENS, MooncakeExport, TraceForm


async def write_mooncake(source: ExportSource, *, block_size: int | None, whole_prompts: bool) -> None:
    """Write a line for each request to stdout."""
    form = TraceForm(block_size or BLOCK_TOKENS, whole_prompts)
    export = MooncakeExport(source.log, source.session, source.chosen, form)
    async for line in export.lines():
        write_bytes(line)
    for remark in export.remarks():
        echo(remark)


async def write_atif(source: ExportSource) -> None:
    """Write a line for each trajectory to stdout."""
    export = AtifExport(source.log, source.session, source.chosen)
    async for line in export.lines():
        write_bytes(line)
    for remark in export.remarks():
        echo(remark)
