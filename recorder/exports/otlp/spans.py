"""The spans of an exchange: its own, and one for each tool whose result its request brought. Pure."""

from __future__ import annotations

from recorder.exports.otlp.conventions import Convention
from recorder.exports.otlp.source import ExportedExchange
from recorder.exports.otlp.telemetry import Attributes, TraceSpan


def spans_of(exported: ExportedExchange, convention: Convention, content: Attributes | None = None) -> list[TraceSpan]:
    """Return the spans of an exchange that has ended: its own first, then those of the tools that it answers.

    `content` are the attributes of `recorder.exports.otlp.content`; without them no text of a request or response is
    in a span, and no message of an error.
    """
    raise NotImplementedError
