"""OTLP/JSON as the official protobuf definitions read it, strictly; and what `recorder export` writes of it.

OTLP/JSON is the JSON of protobuf but for four rules (opentelemetry-proto, docs/specification.md): ids are hexadecimal,
enums are numbers, names are in lowerCamelCase only, and 64-bit integers are strings, as protobuf itself writes them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import URL

from tests.support.server import run

IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}  # hexadecimal digits
LONG = frozenset({"startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "intValue", "count"})
ENUMS = frozenset({"kind", "code", "aggregationTemporality"})


def trace_request(line: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    ParseDict(_strict(json.loads(line)), request)
    return request


def metrics_request(line: bytes) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    ParseDict(_strict(json.loads(line)), request)
    return request


def _strict(value: Any, name: str = "") -> Any:
    """The JSON of protobuf for a value of OTLP/JSON that keeps to all rules."""
    if isinstance(value, dict):
        assert all(re.fullmatch("[a-z][A-Za-z]*", key) for key in value), value.keys()
        return {key: _strict(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_strict(each, "count" if name == "bucketCounts" else "") for each in value]
    if name in IDS:
        assert re.fullmatch(f"[0-9a-f]{{{IDS[name]}}}", value), (name, value)
        assert value.strip("0"), f"{name} is all zero"
        return base64.b64encode(bytes.fromhex(value)).decode()
    assert name not in LONG or (isinstance(value, str) and re.fullmatch("-?[0-9]+", value)), (name, value)
    assert name not in ENUMS or type(value) is int, (name, value)
    return value


def value_of(value: Any) -> Any:
    """The Python value of an `AnyValue`."""
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [value_of(each) for each in found.values] if kind == "array_value" else found


def attributes_of(span: Any) -> dict[str, Any]:
    """The attributes of a span or a point, none of them twice."""
    found = {each.key: value_of(each.value) for each in span.attributes}
    assert len(found) == len(span.attributes)
    return found


def exported(db: Path | URL, *options: object, session: str = "latest") -> list[bytes]:
    """The lines of `recorder export --format otlp-json`."""
    ran = run(db, "export", session, "--format", "otlp-json", *options)
    assert ran.code == 0, ran.err
    assert ran.out.endswith(b"\n")
    return ran.out.splitlines()


def spans_in(lines: Iterable[bytes]) -> list[Span]:
    """The spans of lines, each of which names one schema."""
    requests = [trace_request(line) for line in lines]
    scopes = [(of, scope) for each in requests for of in each.resource_spans for scope in of.scope_spans]
    assert len({url for of, scope in scopes for url in (of.schema_url, scope.schema_url)}) == 1
    return [span for _, scope in scopes for span in scope.spans]


def spans(db: Path | URL, *options: object, session: str = "latest") -> list[Span]:
    """The spans of a session."""
    return spans_in(exported(db, *options, session=session))
