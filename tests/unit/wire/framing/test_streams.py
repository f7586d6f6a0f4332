"""Streams that are not server-sent events, from their bytes to the rows, findings and payloads of
the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recorder.cassettes.sse_jsonl import read_session
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.lint.linter import lint
from recorder.model.events import payload_of
from recorder.wire.framing.sse import FRAME_LIMIT
from recorder.wire.recording import payloads, recording_of
from tests.support.aws_messages import aws_event
from tests.support.facts import captured, folded
from tests.support.rows import make_session

DOCUMENT = "application/json"
OLLAMA = "application/x-ndjson"
BEDROCK = "application/vnd.amazon.eventstream"
LINES = b'{"model": "m", "done": false}\n{"model": "m", "done": true}\n'
MESSAGES = aws_event("messageStart", {"role": "assistant"}) + aws_event(
    "messageStop", {"stopReason": "end_turn"}
)
WRONG = MESSAGES[:-1] + b"\0"


CHUNKS = [
    {
        "candidates": [{"content": {"role": "model", "parts": [{"text": 'a "]'}]}}],
        "responseId": "r",
    },
    {
        "candidates": [{"content": {"parts": [{"text": "},{"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 3, "totalTokenCount": 5},
        "responseId": "r",
    },
]
ARRAY = json.dumps(CHUNKS, indent=2).encode().replace(b"\n  },", b"\n  }\n,\r\n") + b"\n"


def test_an_array_of_chunks_means_what_their_events_mean() -> None:
    of_events = b"".join(b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in CHUNKS)
    exchange, events = captured(
        ARRAY, "gemini", content_type=DOCUMENT, cuts=range(9, len(ARRAY), 9)
    )
    frames = [event for event in events if event.kind == "frame"]
    assert [json.loads(payload_of(event) or b"") for event in frames] == CHUNKS
    assert frames[0].t_ns < frames[1].t_ns
    rows, usual = folded(exchange, events), folded(*captured(of_events, "gemini"))
    assert (rows["items"][0].text, rows["usage"], rows["anomalies"]) == (
        'a "]},{',
        usual["usage"],
        [],
    )
    assert rows["exchanges"][0].status == "completed"
    assert lint(recording_of(exchange, events)) == []


@pytest.mark.parametrize("body", [ARRAY, ARRAY[:-40], ARRAY + b"x"])
def test_an_array_is_the_same_in_a_cassette(body: bytes, tmp_path: Path) -> None:
    exchange, events = captured(body, "gemini", content_type=DOCUMENT, cuts=[9, 99])
    (tmp_path / "a.sse.jsonl").write_bytes(
        b"".join(cassette_lines(make_session(1), [(exchange, events)]))
    )
    _, [again] = read_session(tmp_path / "a.sse.jsonl")
    columns = [
        (each.kind, each.type, each.raw, each.data_start, each.data_length) for each in again.events
    ]
    assert columns == [
        (each.kind, each.type, each.raw, each.data_start, each.data_length) for each in events
    ]


@pytest.mark.parametrize("size", [ARRAY.rindex(b"STOP"), ARRAY.index(b"\n,\r\n"), len(ARRAY) - 2])
def test_of_an_array_that_breaks_off_the_complete_elements_are_read(size: int) -> None:
    rows = folded(*captured(ARRAY[:size], "gemini", content_type=DOCUMENT))
    assert rows["items"][0].text == ('a "]},{' if size == len(ARRAY) - 2 else 'a "]')
    assert "malformed" in [each.kind for each in rows["anomalies"]]
    assert rows["exchanges"][0].status == ("completed" if size == len(ARRAY) - 2 else "incomplete")


@pytest.mark.parametrize(
    ("api", "body", "status"),
    [
        ("gemini", json.dumps(CHUNKS[1]).encode(), 200),
        ("openai-chat", ARRAY, 200),
        ("gemini", b'[{"error": {}}]', 400),
    ],
)
def test_a_document_stays_one(api: str, body: bytes, status: int) -> None:
    _, events = captured(body, api, content_type=DOCUMENT, cuts=[1, 9], status=status)
    assert {event.kind for event in events} == {"request", "response", "body", "reads", "end"}


@pytest.mark.parametrize(("body", "kind"), [(LINES, OLLAMA), (MESSAGES, BEDROCK)])
@pytest.mark.parametrize("api", ["other", "openai-responses"])
def test_an_intact_stream_is_a_row_an_event_and_not_malformed(
    body: bytes, kind: str, api: str
) -> None:
    exchange, events = captured(body, api, content_type=kind, cuts=[7, 40])
    frames = [event for event in events if event.kind == "frame"]
    assert [event.type for event in frames] == (
        [None, None] if kind == OLLAMA else ["messageStart", "messageStop"]
    )
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


def _of_ollama(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps({"model": "m", "message": message, "done": text == "y"}).encode() + b"\n"


def _of_bedrock(text: str) -> bytes:
    return aws_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}})


def _of_gemini(text: str) -> bytes:
    chunk = {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}
    return (b"," if text == "y" else b"[") + json.dumps(chunk).encode()


@pytest.mark.parametrize(
    ("api", "content_type", "event"),
    [
        ("ollama", OLLAMA, _of_ollama),
        ("bedrock-converse", BEDROCK, _of_bedrock),
        ("gemini", DOCUMENT, _of_gemini),
    ],
)
def test_an_event_that_is_exactly_full_parts_long_ends_where_it_ends(
    api: str, content_type: str, event: Callable[[str], bytes]
) -> None:
    long = "x" * (2 * FRAME_LIMIT - len(event("x")) + 1)
    assert len(event(long)) == 2 * FRAME_LIMIT
    body = event(long) + event("y")
    for cuts in ((), range(FRAME_LIMIT, len(body), FRAME_LIMIT)):
        exchange, events = captured(body, api, content_type=content_type, cuts=cuts)
        assert (
            b"".join(each.raw for each in events if each.kind in ("frame", "part", "tail")) == body
        )
        assert folded(exchange, events)["items"][0].text == f"{long}y"
