"""A cassette: for people, git and tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recorder.cassettes.sse_jsonl import formatted
from recorder.cassettes.sse_jsonl.lines import header_line
from recorder.cassettes.sse_jsonl.writer import exchange_lines
from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.files import SkippedFiles
from recorder.commands.terminal.output import echo, write_bytes
from recorder.files import save
from recorder.model.text import safe_text
from recorder.program import load


async def write(source: ExportSource) -> None:
    write_bytes(header_line(source.session))
    number, numbers = 0, dict[str, int]()
    async for recording in source.recordings():
        number += 1
        for line in exchange_lines(number, recording.exchange, recording.events, numbers):
            write_bytes(line)


def rewrite(paths: Sequence[Path]) -> None:
    """Rewrite files in the canonical form, each as a whole or not at all; name and skip those that cannot be read."""
    skipped = SkippedFiles()
    for path in paths:
        with skipped.over(path):
            _rewrite(path)
    skipped.close()


def _rewrite(path: Path) -> None:
    with load("recorder.recordings.files:opening")(path) as file:
        lines = formatted(file)
        file.seek(0)
        if file.read() == b"".join(lines):
            return
    save(path, lines)
    echo(safe_text(f"{path} is formatted."))
