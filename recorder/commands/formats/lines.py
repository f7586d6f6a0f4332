"""A session line by line: every row of the log, a cassette, or the JSON of its events."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recorder.cassettes.plain import payload_lines
from recorder.cassettes.sse_jsonl import formatted
from recorder.cassettes.sse_jsonl.lines import header_line
from recorder.cassettes.sse_jsonl.writer import exchange_lines
from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.files import SkippedFiles
from recorder.commands.terminal.output import echo, write_bytes
from recorder.errors import NotFoundError
from recorder.files import save
from recorder.model.jsonl import closing_line, event_line, exchange_line, opening_line
from recorder.model.text import safe_text
from recorder.program import load


async def write_payloads(source: ExportSource) -> None:
    """Write the JSON of one event a line."""
    written = 0
    async for recording in source.recordings():
        for line in payload_lines(recording):
            write_bytes(line)
            written += 1
    if not written:
        name = source.session.name
        raise NotFoundError(
            f"There is no event with JSON in session {name}: --format sse writes what there is."
        )


async def write_jsonl(source: ExportSource) -> None:
    """Write every row of the log, for `recorder import`."""
    events = 0
    write_bytes(opening_line(source.session))
    for _, exchange in source.chosen:
        write_bytes(exchange_line(exchange))
        async for event in source.log.events(exchange.session_id, exchange.exchange_id):
            write_bytes(event_line(event))
            events += 1
    write_bytes(closing_line(len(source.chosen), events))


async def write_cassette(source: ExportSource) -> None:
    """Write a cassette: for people, git and tests."""
    write_bytes(header_line(source.session))
    number, numbers = 0, dict[str, int]()
    async for recording in source.recordings():
        number += 1
        for line in exchange_lines(number, recording.exchange, recording.events, numbers):
            write_bytes(line)


def rewrite(paths: Sequence[Path]) -> None:
    """Rewrite files in the canonical form, each as a whole or not at all; name and skip those that
    cannot be read.
    """
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
