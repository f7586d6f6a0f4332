"""OTLP/JSON: the spans or the metrics of OpenTelemetry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.output import echo, write_bytes
from recorder.commands.terminal.recordings import say_if_stale
from recorder.errors import NotFoundError
from recorder.exports.otlp.source import ExportReader, load_content
from recorder.exports.otlp.spans import Measurements, spans_of
from recorder.exports.otlp.telemetry import convention_of, metrics_request, trace_request
from recorder.model.text import counted


async def write(
    source: ExportSource, *, content: bool, convention: str | None, metrics: bool | None
) -> None:
    """Write exchanges that have ended to stdout; say on stderr how many have not."""
    names, log, chosen = convention_of(convention), source.log, source.chosen
    await say_if_stale(log)
    reader = await ExportReader.open(log, source.session, has_texts=content and not metrics)
    numbers = {exchange.exchange_id: number for number, exchange in chosen}
    measurements, written = Measurements(names), 0
    async for exported in _ended(reader, source):
        written += 1
        if metrics:
            measurements.add(exported)
            continue
        number = numbers.get(exported.exchange.exchange_id)
        texts = await load_content(log, exported, number) if content else None
        write_bytes(trace_request(spans_of(exported, names, texts), names.schema_url) + b"\n")
    if metrics and written:
        write_bytes(metrics_request(measurements.metrics(), names.schema_url) + b"\n")
    if not written:
        raise NotFoundError(
            f"No exchange of session {source.session.name} has ended: only then there is a span of it."
        )
    if written < len(chosen):
        echo(f"{counted(len(chosen) - written, 'exchange')} did not end yet: left out.")


async def _ended(reader: ExportReader, source: ExportSource) -> AsyncIterator[Any]:
    if source.is_one:
        for exported in await reader.read([exchange.exchange_id for _, exchange in source.chosen]):
            yield exported
        return
    async for page in reader.pages():
        for exported in page:
            yield exported
