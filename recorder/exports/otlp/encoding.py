"""OTLP/JSON: the bodies of `/v1/traces` and `/v1/metrics`, and the lines of OTLP files, which have the same form
("OpenTelemetry Protocol File Exporter", one message a line).

No exporter of OpenTelemetry does it: see `docs/opentelemetry.md`, "Pushing to a collector".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recorder import __version__
from recorder.exports.otlp.conventions import Convention
from recorder.exports.otlp.telemetry import Metric, TraceSpan, key_values

RESOURCE = {"attributes": key_values({"service.name": "recorder"})}
"""The resource of all spans and metrics. The client that made a call is an attribute of its span: a back end that
corrects the clocks of services against each other would move spans of a trace with several."""


def traces(spans: Sequence[TraceSpan], convention: Convention) -> bytes:
    """Return an `ExportTraceServiceRequest` as one line of JSON, without the line's end."""
    return _request("resourceSpans", "scopeSpans", {"spans": spans}, convention)


def metrics(metrics: Sequence[Metric], convention: Convention) -> bytes:
    """Return an `ExportMetricsServiceRequest` as one line of JSON, without the line's end."""
    return _request("resourceMetrics", "scopeMetrics", {"metrics": metrics}, convention)


def _request(of_resource: str, of_scope: str, written: dict[str, Any], convention: Convention) -> bytes:
    schema = {"schemaUrl": convention.schema_url}
    scope = {"scope": {"name": "recorder", "version": __version__}, **written, **schema}
    return msgspec.json.encode({of_resource: [{"resource": RESOURCE, of_scope: [scope], **schema}]})
