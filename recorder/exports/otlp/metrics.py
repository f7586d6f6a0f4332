"""The client metrics of the convention, over some exchanges: histograms of tokens and of seconds. Pure.

Never the `gen_ai.server.*` of the convention: a recorder sees a server from outside. Names, units, texts and bounds are
those of the convention, docs/gen-ai/gen-ai-metrics.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from recorder.exports.otlp.conventions import Convention
from recorder.exports.otlp.source import ExportedExchange
from recorder.exports.otlp.spans import S, common_attributes, error_type, is_inference
from recorder.exports.otlp.telemetry import Attributes, Histogram, HistogramPoint, Value


class Instrument(msgspec.Struct, frozen=True):
    """A histogram of the convention."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]


_SECONDS = tuple(round(0.01 * 2**power, 2) for power in range(14))  # 0.01, 0.02 … 81.92

TOKENS = Instrument(
    "gen_ai.client.token.usage",
    "{token}",
    "Number of input and output tokens used.",
    tuple(4.0**power for power in range(14)),  # 1, 4 … 67,108,864
)
DURATION = Instrument("gen_ai.client.operation.duration", "s", "GenAI operation duration.", _SECONDS)
FIRST_CHUNK = Instrument(
    "gen_ai.client.operation.time_to_first_chunk",
    "s",
    "Time to receive the first chunk, measured from when the client issues the generation request to when the first "
    "chunk is received in the response stream.",
    _SECONDS,
)
INSTRUMENTS = (TOKENS, DURATION, FIRST_CHUNK)

Key = tuple[tuple[str, Value], ...]


def metrics_of(exchanges: Iterable[ExportedExchange], convention: Convention) -> list[Histogram]:
    """Return the histograms of some exchanges: deltas, from the start of the first of them to the end of the last.

    Points with the same attributes are one. A metric without a measurement is not in the list.
    """
    values: dict[str, dict[Key, list[float]]] = {
        each.name: {} for each in INSTRUMENTS if each.name not in convention.absent
    }
    starts, ends = list[int](), list[int]()
    for exported in exchanges:
        starts.append(exported.exchange.started_ns)
        ends.append(exported.exchange.started_ns + exported.duration_ns)
        for instrument, attributes, value in _measured(exported):
            if instrument.name in values:
                values[instrument.name].setdefault(tuple(attributes.items()), []).append(value)
    period = (min(starts, default=0), max(ends, default=0))
    return [_histogram(each, values[each.name], period) for each in INSTRUMENTS if values.get(each.name)]


def _measured(exported: ExportedExchange) -> Iterator[tuple[Instrument, Attributes, float]]:
    """Yield the measurements of an exchange. What a retrieval took is no time of a generation."""
    if not is_inference(exported):
        return
    found, common = exported.projected, common_attributes(exported)
    tokens = {"input": found.input_tokens, "output": found.output_tokens}
    for type, count in () if exported.is_repeat else tokens.items():
        if count is not None:
            yield TOKENS, {**common, "gen_ai.token.type": type}, count
    if found.is_retrieval:
        return
    failure = error_type(exported)
    yield DURATION, {**common, "error.type": failure} if failure else common, exported.duration_ns / S
    if found.stream and found.first_event_ns is not None:
        yield FIRST_CHUNK, common, found.first_event_ns / S


def _histogram(instrument: Instrument, values: dict[Key, list[float]], period: tuple[int, int]) -> Histogram:
    points = tuple(_point(dict(key), each, instrument.bounds, period) for key, each in values.items())
    return Histogram(instrument.name, instrument.unit, instrument.description, instrument.bounds, points)


def _point(
    attributes: Attributes, values: Sequence[float], bounds: Sequence[float], period: tuple[int, int]
) -> HistogramPoint:
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    return HistogramPoint(
        attributes,
        *period,
        count=len(values),
        sum=sum(values),
        min=min(values),
        max=max(values),
        bucket_counts=tuple(counts),
    )
