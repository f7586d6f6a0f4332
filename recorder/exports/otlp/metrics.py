"""The client metrics of the convention, over some exchanges: histograms of tokens and of seconds. Pure.

Never the `gen_ai.server.*` of the convention: a recorder sees a server from outside. Names, units, texts and bounds are
those of the convention, docs/gen-ai/gen-ai-metrics.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import inf

import msgspec

from recorder.exports.otlp.conventions import Convention
from recorder.exports.otlp.source import ExportedExchange
from recorder.exports.otlp.spans import S, common_attributes, error_type, first_chunk_ns, is_inference
from recorder.exports.otlp.telemetry import Attributes, Histogram, HistogramPoint, Metric, Value, key_values


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


class _Buckets:
    """The measurements of one point, counted as they come."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts = bounds, [0] * (len(bounds) + 1)
        self._sum, self._min, self._max = 0.0, inf, -inf

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum, self._min, self._max = self._sum + value, min(self._min, value), max(self._max, value)

    def point(self, attributes: Attributes, began_ns: int, ended_ns: int) -> HistogramPoint:
        return HistogramPoint(
            attributes=key_values(attributes),
            start_time_unix_nano=str(began_ns),
            time_unix_nano=str(ended_ns),
            count=str(sum(self._counts)),
            sum=self._sum,
            bucket_counts=list(map(str, self._counts)),
            explicit_bounds=self._bounds,
            min=self._min,
            max=self._max,
        )


class Measurements:
    """The measurements of exchanges, added one by one: memory holds a few hundred bytes for each model and error."""

    def __init__(self, convention: Convention) -> None:
        self._points: dict[Instrument, dict[Key, _Buckets]] = {
            each: {} for each in INSTRUMENTS if each.name not in convention.absent
        }
        self._began_ns: int | None = None
        self._ended_ns = 0

    def add(self, exported: ExportedExchange) -> None:
        """Count an exchange."""
        began_ns = exported.exchange.started_ns
        self._began_ns = began_ns if self._began_ns is None else min(self._began_ns, began_ns)
        self._ended_ns = max(self._ended_ns, began_ns + exported.duration_ns)
        for instrument, attributes, value in _measured(exported):
            points = self._points.get(instrument)
            if points is not None:
                points.setdefault(tuple(attributes.items()), _Buckets(instrument.bounds)).add(value)

    def metrics(self) -> list[Metric]:
        """Return the metrics: deltas, from the start of the first exchange to the end of the last.

        Points with the same attributes are one. A metric without a measurement is not in the list.
        """
        found = []
        for each, by_attributes in self._points.items():
            points = []
            for key, buckets in by_attributes.items():
                points.append(buckets.point(dict(key), self._began_ns or 0, self._ended_ns))
            if points:
                found.append(Metric(each.name, each.description, each.unit, Histogram(points)))
        return found


def _measured(exported: ExportedExchange) -> Iterator[tuple[Instrument, Attributes, float]]:
    """Yield the measurements of an exchange. What a retrieval took is not a time of a generation."""
    if not is_inference(exported):
        return
    found, common = exported.projected, common_attributes(exported)
    tokens = {"input": found.input_tokens, "output": found.output_tokens}
    for type, count in () if exported.is_repeat else tokens.items():
        if count is not None:
            yield TOKENS, {**common, "gen_ai.token.type": type}, count
    if found.is_retrieval:
        return
    yield DURATION, {**common, "error.type": error_type(exported)}, exported.duration_ns / S
    first_ns = first_chunk_ns(exported)
    if first_ns is not None:
        yield FIRST_CHUNK, common, first_ns / S
