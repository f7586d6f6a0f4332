"""OTLP/JSON: the spans or the metrics of OpenTelemetry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from recorder.archive.opening import open_log
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.output import echo, write_bytes
from recorder.commands.terminal.selection import say_if_stale, select
from recorder.errors import NotFoundError
from recorder.exports.otlp import encoding
from recorder.exports.otlp.content import load_content
from recorder.exports.otlp.conventions import NEWEST, convention_of
from recorder.exports.otlp.metrics import Measurements
from recorder.exports.otlp.source import ExportReader
from recorder.exports.otlp.spans import spans_of
from recorder.model.text import counted
from recorder.recordings.selection import Numbered


async def write(
    db: str | None, session: str, exchange: str | None, *, content: bool, convention: str | None, metrics: bool
) -> None:
    """Write exchanges that have ended to stdout; say on stderr how many have not."""
    names = convention_of(convention or NEWEST)
    async with await open_log(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        await say_if_stale(log)
        reader = await ExportReader.open(log, found, has_texts=content and not metrics)
        numbers = {each.exchange_id: number for number, each in chosen}
        measurements, written = Measurements(names), 0
        async for exported in _ended(reader, chosen, exchange):
            written += 1
            if metrics:
                measurements.add(exported)
                continue
            number = numbers.get(exported.exchange.exchange_id)
            texts = await load_content(log, exported, number) if content else None
            write_bytes(encoding.traces(spans_of(exported, names, texts), names) + b"\n")
        if metrics and written:
            write_bytes(encoding.metrics(measurements.metrics(), names) + b"\n")
        if not written:
            raise NotFoundError(f"No exchange of session {found.name} has ended: only then there is a span of it.")
        if written < len(chosen):
            echo(f"{counted(len(chosen) - written, 'exchange')} did not end yet: left out.")


async def _ended(reader: Any, chosen: Sequence[Numbered], exchange: str | None) -> AsyncIterator[Any]:
    if exchange is not None:
        for exported in await reader.read([each.exchange_id for _, each in chosen]):
            yield exported
        return
    async for page in reader.pages():
        for exported in page:
            yield exported
