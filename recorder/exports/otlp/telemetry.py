"""Spans and metrics as OTLP/JSON has them: their ids, and the requests that hold them: bodies of
`/v1/traces` and `/v1/metrics`, and lines of OTLP files. And the versions of the conventions that
they may have, a table. Pure.

No exporter of OpenTelemetry writes or sends them here: see `docs/opentelemetry.md`, "Pushing to a
collector".

Source: opentelemetry-proto, docs/specification.md, "JSON Protobuf Encoding": ids are hexadecimal,
64-bit integers are strings, enums are numbers, names are in lowerCamelCase. A member with the
default value of its type is left out, as in the binary form.

Ids follow from those of the log, so whoever exports an exchange again writes the same ones:

* The trace id is the session's id, a UUIDv7: 16 bytes that are never all zero.
* A span id is the beginning of SHA-256 over the exchange's id, the kind of the span, and for a tool
  its call.

Of the OpenTelemetry conventions for generative AI, the mapping uses the names of the newest
version. An older version lists the names that it does not have: these are left out. Source:
open-telemetry/semantic-conventions, docs/gen-ai; 1.41 is the last release with them, later ones
refer to a repository that has released nothing yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec

from recorder import __version__
from recorder.errors import UsageError

Value = str | bool | int | float | tuple[str, ...] | None
Attributes = Mapping[str, Value]
Json = dict[str, Any]
"""A span, a metric or a part of one as OTLP has it."""

SPAN_ID_BYTES = 8
INTERNAL, CLIENT = 1, 3  # kinds of spans
ERROR = 2  # the one status that is set: OK is for the application
DELTA = 1  # of the temporalities of a metric: its points do not include earlier ones


def key_values(attributes: Attributes) -> list[Json]:
    """Return attributes as OTLP has them, without those of the value None."""
    return [
        {"key": name, "value": _any_value(value)}
        for name, value in attributes.items()
        if value is not None
    ]


def _any_value(value: str | bool | int | float | tuple[str, ...]) -> Json:
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
    """Return the 8 bytes of a span of an exchange, as hexadecimal digits: its own, or `of` one of
    its tools.

    All zero means "no span" in OTLP, so the next bytes of the digest are taken then.
    """
    digest = sha256(f"{exchange_id} {of}".encode("utf-8", "surrogatepass")).digest()
    parts = (digest[at : at + SPAN_ID_BYTES] for at in range(0, len(digest), SPAN_ID_BYTES))
    return next((part for part in parts if any(part)), digest[-SPAN_ID_BYTES:]).hex()


RESOURCE = {"attributes": key_values({"service.name": "recorder"})}
"""The resource of all spans and metrics. The client that made a call is an attribute of its span: a
back end that corrects the clocks of services against each other would move spans of a trace with
several."""


def trace_request(spans: Sequence[Json], schema_url: str) -> bytes:
    """Return an `ExportTraceServiceRequest` as one line of JSON, without the line's end."""
    return _request("resourceSpans", "scopeSpans", {"spans": spans}, schema_url)


def metrics_request(metrics: Sequence[Json], schema_url: str) -> bytes:
    """Return an `ExportMetricsServiceRequest` as one line of JSON, without the line's end."""
    return _request("resourceMetrics", "scopeMetrics", {"metrics": metrics}, schema_url)


def _request(of_resource: str, of_scope: str, written: Json, schema_url: str) -> bytes:
    scope = {
        "scope": {"name": "recorder", "version": __version__},
        **written,
        "schemaUrl": schema_url,
    }
    return msgspec.json.encode(
        {of_resource: [{"resource": RESOURCE, of_scope: [scope], "schemaUrl": schema_url}]}
    )


# -- the versions of the conventions


class Convention(msgspec.Struct, frozen=True):
    """A version of the conventions."""

    version: str
    # names of attributes and metrics of the newest that it does not have
    absent: frozenset[str] = frozenset()

    @property
    def schema_url(self) -> str:
        return f"https://opentelemetry.io/schemas/{self.version}"

    def known(self, attributes: Attributes) -> Attributes:
        """Return the attributes without those that this version does not have."""
        return {name: value for name, value in attributes.items() if name not in self.absent}


CONVENTIONS: Mapping[str, Convention] = {
    each.version: each
    for each in (
        Convention("1.41.0"),
        Convention(
            "1.37.0",
            frozenset(
                {
                    "gen_ai.request.stream",
                    "gen_ai.response.time_to_first_chunk",
                    "gen_ai.usage.cache_creation.input_tokens",
                    "gen_ai.usage.cache_read.input_tokens",
                    "gen_ai.usage.reasoning.output_tokens",
                    "gen_ai.tool.call.arguments",
                    "gen_ai.tool.call.result",
                    "gen_ai.client.operation.time_to_first_chunk",
                }
            ),
        ),
    )
}
NEWEST = next(iter(CONVENTIONS))


def convention_of(version: str | None = None) -> Convention:
    """Return the convention of a version, or the newest.

    Raises `UsageError` with the versions that there are.
    """
    found = CONVENTIONS.get(version or NEWEST)
    if found is None:
        raise UsageError(
            f"There is no convention {version!r} here: give one of {', '.join(CONVENTIONS)}."
        )
    return found
