"""Spans and histograms as plain data, and their ids. Pure: nothing of a provider, of a convention or of JSON.

Ids follow from those of the log, so whoever exports an exchange again writes the same ones:

* The trace id is the session's id, a UUIDv7: 16 bytes that are never all zero.
* A span id is the beginning of SHA-256 over the exchange's id, the kind of the span, and for a tool its call.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from hashlib import sha256
from uuid import UUID

import msgspec

Value = str | bool | int | float | tuple[str, ...]
Attributes = Mapping[str, Value]

SPAN_ID_BYTES = 8


class SpanKind(IntEnum):
    """The kinds of spans that are written, with their numbers in OTLP."""

    INTERNAL = 1
    CLIENT = 3


class SpanStatus(IntEnum):
    """The statuses of spans, with their numbers in OTLP. Exporters do not set OK: that is for the application."""

    UNSET = 0
    ERROR = 2


class SpanLink(msgspec.Struct, frozen=True):
    """A reference to another span of the same trace."""

    span_id: bytes
    attributes: Attributes = {}


class TraceSpan(msgspec.Struct, frozen=True):
    """One operation that has ended. Times are wall times in nanoseconds since the epoch."""

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes | None
    name: str
    kind: SpanKind
    start_ns: int
    end_ns: int
    attributes: Attributes
    links: tuple[SpanLink, ...] = ()
    status: SpanStatus = SpanStatus.UNSET
    message: str | None = None  # of an error


class HistogramPoint(msgspec.Struct, frozen=True):
    """The measurements of one period with the same attributes: a delta, which does not include earlier ones."""

    attributes: Attributes
    start_ns: int
    end_ns: int
    count: int
    sum: float
    min: float
    max: float
    bucket_counts: tuple[int, ...]  # one more than there are bounds: the last is of all above


class Histogram(msgspec.Struct, frozen=True):
    """A metric: measurements counted by size."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]  # upper ones, each included in its bucket
    points: tuple[HistogramPoint, ...]


def trace_id(session_id: str) -> bytes:
    """Return the 16 bytes of the trace of a session."""
    return UUID(session_id).bytes


def span_id(exchange_id: str, kind: str, call: str = "") -> bytes:
    """Return the 8 bytes of a span: `kind` is "exchange" or "tool", `call` tells the tools of one exchange apart.

    All zero means "no span" in OTLP, so the next bytes of the digest are taken then.
    """
    named = f"{exchange_id} {kind} {call}" if call else f"{exchange_id} {kind}"
    digest = sha256(named.encode("utf-8", "surrogatepass")).digest()
    parts = (digest[at : at + SPAN_ID_BYTES] for at in range(0, len(digest), SPAN_ID_BYTES))
    return next((part for part in parts if any(part)), digest[-SPAN_ID_BYTES:])
