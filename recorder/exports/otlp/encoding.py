"""OTLP/JSON: the bodies of `/v1/traces` and `/v1/metrics`, and the lines of OTLP files, which have the same form.

Source: opentelemetry-proto, docs/specification.md, "JSON Protobuf Encoding": ids are hexadecimal, 64-bit integers are
strings, enums are numbers, names are in lowerCamelCase. Files: "OpenTelemetry Protocol File Exporter", one message a
line. A member with the default value of its type is left out, as in the binary form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from recorder import __version__
from recorder.exports.otlp.conventions import Convention
from recorder.exports.otlp.telemetry import Attributes, Histogram, HistogramPoint, SpanLink, TraceSpan, Value

Json = dict[str, Any]

RESOURCE: Attributes = {"service.name": "recorder"}
"""The resource of all spans and metrics. The client that made a call is an attribute of its span: a back end that
corrects the clocks of services against each other would move spans of a trace with several."""

DELTA = 1  # AGGREGATION_TEMPORALITY_DELTA


def traces(spans: Iterable[TraceSpan], convention: Convention, resource: Attributes = RESOURCE) -> bytes:
    """Return an `ExportTraceServiceRequest` as one line of JSON, without the line's end."""
    return _request("resourceSpans", "scopeSpans", {"spans": [_span(each) for each in spans]}, convention, resource)


def metrics(histograms: Iterable[Histogram], convention: Convention, resource: Attributes = RESOURCE) -> bytes:
    """Return an `ExportMetricsServiceRequest` as one line of JSON, without the line's end."""
    written = {"metrics": [_metric(each) for each in histograms]}
    return _request("resourceMetrics", "scopeMetrics", written, convention, resource)


def _request(of_resource: str, of_scope: str, written: Json, convention: Convention, resource: Attributes) -> bytes:
    scope = {"scope": {"name": "recorder", "version": __version__}, **written, "schemaUrl": convention.schema_url}
    about = {"resource": {"attributes": _attributes(resource)}, of_scope: [scope], "schemaUrl": convention.schema_url}
    return msgspec.json.encode({of_resource: [about]})


def _span(span: TraceSpan) -> Json:
    found: Json = {"traceId": span.trace_id.hex(), "spanId": span.span_id.hex()}
    if span.parent_span_id is not None:
        found["parentSpanId"] = span.parent_span_id.hex()
    found |= {
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
    }
    if span.links:
        found["links"] = [_link(span.trace_id, each) for each in span.links]
    if span.status:
        found["status"] = {**({"message": span.message} if span.message else {}), "code": int(span.status)}
    return found


def _link(trace_id: bytes, link: SpanLink) -> Json:
    return {"traceId": trace_id.hex(), "spanId": link.span_id.hex(), "attributes": _attributes(link.attributes)}


def _metric(histogram: Histogram) -> Json:
    points = [_point(each, histogram.bounds) for each in histogram.points]
    return {
        "name": histogram.name,
        "description": histogram.description,
        "unit": histogram.unit,
        "histogram": {"dataPoints": points, "aggregationTemporality": DELTA},
    }


def _point(point: HistogramPoint, bounds: tuple[float, ...]) -> Json:
    return {
        "attributes": _attributes(point.attributes),
        "startTimeUnixNano": str(point.start_ns),
        "timeUnixNano": str(point.end_ns),
        "count": str(point.count),
        "sum": point.sum,
        "bucketCounts": [str(count) for count in point.bucket_counts],
        "explicitBounds": bounds,
        "min": point.min,
        "max": point.max,
    }


def _attributes(attributes: Attributes) -> list[Json]:
    return [{"key": name, "value": _any_value(value)} for name, value in attributes.items()]


def _any_value(value: Value) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}
