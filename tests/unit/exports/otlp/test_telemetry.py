"""Ids of traces and spans: they follow from the log, and are never zero."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from recorder.exports.otlp import telemetry
from recorder.exports.otlp.telemetry import span_id, trace_id

EXCHANGE = "01a0c450-6fe9-7000-8000-0000000003e9"


def test_a_trace_has_the_bytes_of_its_session() -> None:
    assert trace_id("01a0c450-6c01-7000-8000-000000000001") == "01a0c4506c0170008000000000000001"


def test_a_span_has_the_documented_digest() -> None:
    """docs/opentelemetry.md says what of, so that other programs find the spans of an exchange."""
    assert span_id(EXCHANGE) == sha256(f"{EXCHANGE} exchange".encode()).hexdigest()[:16]
    assert (
        span_id(EXCHANGE, "tool 0 call_1")
        == sha256(f"{EXCHANGE} tool 0 call_1".encode()).hexdigest()[:16]
    )


def test_an_id_with_half_a_character_has_a_span() -> None:
    assert len(span_id(EXCHANGE, "tool 0 \ud800")) == 16


@pytest.mark.parametrize(
    ("digest", "expected"),
    [(bytes(8) + b"12345678" + bytes(16), b"12345678"), (bytes(31) + b"1", bytes(7) + b"1")],
)
def test_a_span_id_is_never_zero(
    digest: bytes, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hash:
        def __init__(self, _: Any) -> None: ...

        def digest(self) -> bytes:
            return digest

    monkeypatch.setattr(telemetry, "sha256", Hash)
    assert span_id(EXCHANGE) == expected.hex()
