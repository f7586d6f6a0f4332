"""The client metrics of the convention, over some exchanges: histograms of tokens and of seconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.exports.otlp.conventions import Convention
from recorder.exports.otlp.source import ExportedExchange
from recorder.exports.otlp.telemetry import Histogram


def metrics_of(exchanges: Iterable[ExportedExchange], convention: Convention) -> list[Histogram]:
    """Return the histograms of some exchanges: deltas, from the start of the first of them to the end of the last.

    Points with the same attributes are one. A metric without a measurement is not in the list.
    """
    raise NotImplementedError
