"""OTLP/JSON: the bodies of `/v1/traces` and `/v1/metrics`, and the lines of OTLP files, which have the same form.

Source: opentelemetry-proto, docs/specification.md, "JSON Protobuf Encoding": ids are hexadecimal, 64-bit integers are
strings, enums are numbers, names are in lowerCamelCase.
"""

from __future__ import annotations

from collections.abc import Iterable

from recorder.exports.otlp.conventions import Convention
from recorder.exports.otlp.telemetry import Histogram, TraceSpan


def traces(spans: Iterable[TraceSpan], convention: Convention) -> bytes:
    """Return an `ExportTraceServiceRequest` as one line of JSON, without the line's end."""
    raise NotImplementedError


def metrics(histograms: Iterable[Histogram], convention: Convention) -> bytes:
    """Return an `ExportMetricsServiceRequest` as one line of JSON, without the line's end."""
    raise NotImplementedError
