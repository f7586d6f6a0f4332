"""`recorder.cassettes.claude_tap`: traces that claude-tap 0.1.146 wrote, in `tests/data/cassettes`.

They were made against `python -m tests.support.provider`, with
`claude-tap --tap-no-launch --tap-target URL` and curl:

    claude-tap.jsonl            --tap-client codex --tap-store-stream-events: a chat completion, and a response over
                                WebSocket; written by `TraceStore.export_jsonl`
    claude-tap-bundle.json      --tap-client claude --tap-store-stream-events: a stream and a document, their message
                                long enough to be stored once; written by `claude-tap export --session-id ID`
    claude-tap-no-events.json   --tap-client claude: a stream, its events not stored; written in the same way
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recorder.cassettes import calls
from recorder.cassettes.claude_tap import NOT_STORED, ClaudeTap
from recorder.cassettes.content import formats
from recorder.cassettes.sse_jsonl.lines import nanoseconds
from recorder.errors import RecorderError
from recorder.model.events import Recording
from recorder.wire.turns import is_turn
from tests.support.corpus import DATA
from tests.support.tables import table
from tests.unit.cassettes.test_cassettes import imported, recordings

FILES = DATA / "cassettes"
LINES, BUNDLE, NO_EVENTS = (
    FILES / f"claude-tap{name}" for name in (".jsonl", "-bundle.json", "-no-events.json")
)


def read(data: bytes) -> list[Recording]:
    return recordings(imported(ClaudeTap(io.BytesIO(data))))


def changed(path: Path, change: Callable[[Any], None]) -> bytes:
    """A bundle with a change in it."""
    bundle = json.loads(path.read_bytes())
    change(bundle)
    return json.dumps(bundle).encode()


@pytest.mark.parametrize("path", [LINES, BUNDLE, NO_EVENTS])
def test_it_is_recognized(path: Path) -> None:
    assert formats(path.read_bytes()) == ("claude-tap",)


def test_events_of_a_stream_are_those_of_the_file() -> None:
    chat, connection, turn = read(LINES.read_bytes())
    records = [json.loads(line) for line in LINES.read_bytes().splitlines()]
    events = records[0]["response"]["sse_events"]
    assert [json.loads(piece.raw.removeprefix(b"data: ")) for piece in chat.pieces] == [
        each["data"] for each in events
    ]
    assert json.loads(chat.request_body) == records[0]["request"]["body"]
    expected = ("openai-chat", "/v1/chat/completions", "openai")
    assert (chat.exchange.api, chat.exchange.target, chat.exchange.provider) == expected
    assert chat.end is not None
    assert (chat.end.status, chat.end.lossless) == ("completed", True)
    # the upstream's, not that of claude-tap
    assert dict(chat.request.headers)["Host"].startswith("127.0.0.1:8931")
    assert "unuse" not in str(chat.request.headers)
    assert not is_turn(connection)
    assert is_turn(turn)


def test_a_call_ended_when_its_record_was_written() -> None:
    first, second = read(BUNDLE.read_bytes())
    records = [each.get("record", each) for each in json.loads(BUNDLE.read_bytes())["records"]]
    assert first.end_ns == records[0]["duration_ms"] * 10**6
    assert {piece.t_ns for piece in first.pieces} == {first.end_ns}
    for each, record in zip((first, second), records, strict=True):
        assert each.exchange.started_ns + each.end_ns == nanoseconds(record["timestamp"])


def test_messages_over_websocket_are_a_turn() -> None:
    *_, connection, turn = read(LINES.read_bytes())
    record = json.loads(LINES.read_bytes().splitlines()[1])
    assert json.loads(turn.request_body) == record["request"]["ws_events"][0]
    assert [json.loads(piece.raw) for piece in turn.pieces] == record["response"]["ws_events"]
    assert connection.end is not None
    assert turn.end is not None
    assert (connection.end.undecoded, turn.end.status) == (None, "completed")


def test_values_that_are_stored_once_are_put_back() -> None:
    stream, document = read(BUNDLE.read_bytes())
    for each in (stream, document):
        assert json.loads(each.request_body)["messages"] == [
            {"role": "user", "content": "Say hello. " * 60}
        ]
    assert json.loads(document.body)["type"] == "message"
    assert stream.pieces[0].raw.startswith(b"event: message_start\ndata: {")


def test_a_stream_without_its_events_is_a_document_with_a_gap() -> None:
    [each] = read(NO_EVENTS.read_bytes())
    assert json.loads(each.body)["content"][-1]["type"] == "text"
    assert dict(each.headers)["Content-Type"] == "application/json"
    assert each.end is not None
    assert (each.has_gap, each.end.lossless) == (True, False)
    batch = imported(ClaudeTap(io.BytesIO(NO_EVENTS.read_bytes())))
    [gap] = [json.loads(event.raw) for event in batch.events if event.kind == "gap"]
    assert gap["reason"] == NOT_STORED


@table(
    ("data", "reason"),
    [
        (LINES.read_bytes()[:-100], "^line 2 is not a call that claude-tap recorded"),
        (
            LINES.read_bytes() + b'{"timestamp":"now"}\n',
            "^line 3 is not a call .*missing required field `request`",
        ),
        (
            LINES.read_bytes().replace(b'"2026-', b'"2O26-'),
            "^line 1 is not a call .* is not an instant",
        ),
        (
            LINES.read_bytes().replace(b'"method":"POST"', b'"method":"PO\\ud800ST"'),
            "^line 1 .*characters that are not text",
        ),
        (
            LINES.read_bytes().replace(b'"/v1/responses"', b'"/v1/\\u0000"'),
            "^line 2 .*characters that are not text",
        ),
        (BUNDLE.read_bytes()[:-100], "^it is not a bundle of claude-tap, or it was cut off"),
        (
            changed(BUNDLE, lambda each: each["blobs"].clear()),
            "^record 1 refers to a value that is not in the bundle",
        ),
        (changed(BUNDLE, lambda each: each["records"].append(7)), "^record 3 is not a call"),
        (
            BUNDLE.read_bytes().replace(b'"version":1', b'"version":2'),
            "^the bundle has version 2 of",
        ),
        (
            BUNDLE.read_bytes().replace(b'"version":1', b'"version":"\\r\\u001b[2J"'),
            r"version '\\r\\x1b\[2J' of",
        ),
        (
            changed(BUNDLE, lambda each: each["records"].clear()),
            "^there is no record of claude-tap in it",
        ),
    ],
)
def test_bad_files_are_refused_in_one_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(RecorderError, match=reason) as refused:
        ClaudeTap(io.BytesIO(data))
    assert "\n" not in str(refused.value)


def test_a_message_that_no_recorder_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MESSAGE_LIMIT", 2**6)
    with pytest.raises(
        RecorderError, match=r"^line 2 is not a call .* a message over WebSocket has over"
    ):
        ClaudeTap(io.BytesIO(LINES.read_bytes()))
