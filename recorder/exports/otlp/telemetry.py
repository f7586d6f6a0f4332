"""Spans and histograms as OTLP/JSON has them, their ids, and the requests that hold them: bodies of `/v1/traces` and
`/v1/metrics`, and lines of OTLP files. Pure: nothing of a provider or of a convention.

No exporter of OpenTelemetry writes or sends them here: see `docs/opentelemetry.md`, "Pushing to a collector".

Source: opentelemetry-proto, docs/specification.md, "JSON Protobuf Encoding": ids are hexadecimal, 64-bit integers are
strings, enums are numbers, names are in lowerCamelCase. A member with the default value of its type is left out, as in
the binary form.

Ids follow from those of the log, so whoever exports an exchange again writes the same ones:

* The trace id is the session's id, a UUIDv7: 16 bytes that are never all zero.
* A span id is the beginning of SHA-256 over the exchange's id, the kind of the span, and for a tool its call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec

from recorder import __version__

Value = str | bool | int | float | tuple[str, ...] | None
Attributes = Mapping[str, Value]
KeyValues = list[dict[str, Any]]
"""Attributes as OTLP has them, see `key_values`."""

SPAN_ID_BYTES = 8


class SpanKind(IntEnum):
    """The kinds of spans that are written, with their numbers in OTLP."""

    INTERNAL = 1
    CLIENT = 3


class SpanStatus(IntEnum):
    """The statuses of spans, with their numbers in OTLP. Exporters do not set OK: that is for the application."""

    UNSET = 0
    ERROR = 2


class SpanLink(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to another span of the same trace."""

    trace_id: str
    span_id: str
    attributes: KeyValues


class Status(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The status of a span; absent, it is unset."""

    message: str | None = None
    code: SpanStatus


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One operation that has ended. Times are wall times in nanoseconds since the epoch."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str
    kind: SpanKind
    start_time_unix_nano: str
    end_time_unix_nano: str
    attributes: KeyValues
    links: list[SpanLink] = []
    status: Status | None = None


class HistogramPoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The measurements of one period with the same attributes: a delta, which does not include earlier ones."""

    attributes: KeyValues
    start_time_unix_nano: str
    time_unix_nano: str
    count: str
    sum: float
    bucket_counts: list[str]  # one more than there are bounds: the last is of all above
    explicit_bounds: tuple[float, ...]  # upper ones, each included in its bucket
    min: float
    max: float


class Histogram(msgspec.Struct, frozen=True, rename="camel"):
    """The points of a metric."""

    data_points: list[HistogramPoint]
    aggregation_temporality: int = 1  # AGGREGATION_TEMPORALITY_DELTA


class Metric(msgspec.Struct, frozen=True):
    """Measurements counted by size."""

    name: str
    description: str
    unit: str
    histogram: Histogram


def key_values(attributes: Attributes) -> KeyValues:
    """Return attributes as OTLP has them, without those of the value None."""
    return [{"key": name, "value": _any_value(value)} for name, value in attributes.items() if value is not None]


def _any_value(value: str | bool | int | float | tuple[str, ...]) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}


def trace_id(session_id: str) -> str:
    """Return the 16 bytes of the trace of a session, as hexadecimal digits."""
    return UUID(session_id).hex


def span_id(exchange_id: str, of: str = "exchange") -> str:
    """Return the 8 bytes of a span of an exchange, as hexadecimal digits: its own, or `of` one of its tools.

    All zero means "no span" in OTLP, so the next bytes of the digest are taken then.
    """
    digest = sha256(f"{exchange_id} {of}".encode("utf-8", "surrogatepass")).digest()
    parts = (digest[at : at + SPAN_ID_BYTES] for at in range(0, len(digest), SPAN_ID_BYTES))
    return next((part for part in parts if any(part)), digest[-SPAN_ID_BYTES:]).hex()


RESOURCE = {"attributes": key_values({"service.name": "recorder"})}
"""The resource of all spans and metrics. The client that made a call is an attribute of its span: a back end that
corrects the clocks of services against each other would move spans of a trace with several."""


def trace_request(spans: Sequence[TraceSpan], schema_url: str) -> bytes:
    """Return an `ExportTraceServiceRequest` as one line of JSON, without the line's end."""
    return _request("resourceSpans", "scopeSpans", {"spans": spans}, schema_url)


def metrics_request(metrics: Sequence[Metric], schema_url: str) -> bytes:
    """Return an `ExportMetricsServiceRequest` as one line of JSON, without the line's end."""
    return _request("resourceMetrics", "scopeMetrics", {"metrics": metrics}, schema_url)


def _request(of_resource: str, of_scope: str, written: dict[str, Any], schema_url: str) -> bytes:
    scope = {"scope": {"name": "recorder", "version": __version__}, **written, "schemaUrl": schema_url}
    return msgspec.json.encode({of_resource: [{"resource": RESOURCE, of_scope: [scope], "schemaUrl": schema_url}]})
