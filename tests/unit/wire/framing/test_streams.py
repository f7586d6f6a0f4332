"""Streams that are not server-sent events, from their bytes to the rows, findings and payloads of the log."""

from __future__ import annotations

import pytest

from recorder.lint.linter import lint
from recorder.model.events import payload_of
from recorder.wire.framing.sse import FRAME_LIMIT
from recorder.wire.recording import payloads, recording_of
from tests.support.aws_messages import aws_event
from tests.support.facts import captured, folded

OLLAMA = "application/x-ndjson"
BEDROCK = "application/vnd.amazon.eventstream"
LINES = b'{"model": "m", "done": false}\n{"model": "m", "done": true}\n'
MESSAGES = aws_event("messageStart", {"role": "assistant"}) + aws_event("messageStop", {"stopReason": "end_turn"})
WRONG = MESSAGES[:-1] + b"\0"


@pytest.mark.parametrize(("body", "kind"), [(LINES, OLLAMA), (MESSAGES, BEDROCK)])
@pytest.mark.parametrize("api", ["other", "openai-responses"])
def test_an_intact_stream_is_a_row_an_event_and_not_malformed(body: bytes, kind: str, api: str) -> None:
    exchange, events = captured(body, api, content_type=kind, cuts=[7, 40])
    frames = [event for event in events if event.kind == "frame"]
    assert [event.type for event in frames] == ([None, None] if kind == OLLAMA else ["messageStart", "messageStop"])
    assert "malformed" not in [row.kind for row in folded(exchange, events)["anomalies"]]
    recording = recording_of(exchange, events)
    assert list(payloads(recording)) == [payload_of(event) for event in frames]
    assert [each.rule for each in lint(recording, "openai") if each.rule.startswith("ST")] == []


def test_a_long_line_is_one_payload() -> None:
    line = b'{"x": "%b"}' % (b"y" * FRAME_LIMIT)
    exchange, events = captured(line + b"\n\n" + LINES, "other", content_type=OLLAMA)
    assert [event.kind for event in events].count("part") == 2
    assert list(payloads(recording_of(exchange, events))) == [line, *LINES.splitlines()]


def test_a_wrong_checksum_is_an_anomaly_and_a_finding() -> None:
    exchange, events = captured(WRONG, content_type=BEDROCK)
    assert "malformed" in [row.kind for row in folded(exchange, events)["anomalies"]]
    findings = lint(recording_of(exchange, events), "openai")
    assert [each.rule for each in findings if each.rule.startswith("ST")] == ["ST011"]
