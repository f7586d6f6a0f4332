"""Texts of requests and responses as attributes of spans, by the JSON schemas of the convention. Only on request."""

from __future__ import annotations

from recorder.exports.otlp.telemetry import Attributes
from recorder.model.recording import Recording


def content_of(recording: Recording) -> Attributes:
    """Return `gen_ai.system_instructions`, `gen_ai.input.messages` and `gen_ai.output.messages` of an exchange."""
    raise NotImplementedError
