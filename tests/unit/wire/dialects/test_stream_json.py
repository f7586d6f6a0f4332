"""Claude Code's `stream-json`: what it says, does and asks, and what it reports of a run.

The recorded runs are of Claude Code 2.1.332 with the client of claude-agent-sdk 0.2.189 and a
scripted model.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from recorder.projections.fold import Rows
from recorder.wire.dialects import by_lines, by_name
from tests.support.programs import Line, rows_of, said, spoken
from tests.support.tables import table

RUN, STREAMED = spoken("stream-json"), spoken("stream-json-partial")
LINES = by_name("stream-json").program
RESULT = {"type": "result", "subtype": "success", "is_error": False}


def told(by: str, *lines: dict[str, Any]) -> list[Line]:
    return [said(by, **line) for line in lines]


def assistant(id: str, *blocks: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": id, "model": "m", "content": blocks}, **members}


def of_kind(kind: str, rows: Rows) -> list[Any]:
    return [row for row in rows["items"] if row.kind == kind]


FAILED = "Exit code 2\nhi\nls: cannot access '/nonexistent': No such file or directory"


@pytest.mark.parametrize("read_bytes", [None, 7])
@pytest.mark.parametrize("lines", [RUN, STREAMED], ids=["whole", "streamed"])
def test_a_turn_is_what_was_asked_said_thought_and_done(
    lines: list[Line], read_bytes: int | None
) -> None:
    first = lines[
        : next(number for number, line in enumerate(lines) if b'"type":"result"' in line.raw) + 1
    ]
    rows = rows_of("stream-json", first, read_bytes=read_bytes)
    assert [(row.role, row.text) for row in of_kind("message", rows)] == [
        ("user", "use bash now"),
        ("assistant", "I will run it."),
        ("assistant", "All done."),
    ]
    assert [row.text for row in of_kind("reasoning", rows)] == ["Let me think."]
    calls = [
        (row.name, json.loads(row.arguments), row.output, bool(row.failed))
        for row in of_kind("tool_call", rows)
    ]
    assert calls == [
        ("Bash", {"command": "echo hi; ls /nonexistent", "description": "say hi"}, FAILED, True),
        ("Read", {"file_path": "/etc/hostname"}, "1\tvm\n2\t", False),
    ]
    asked = [(row.type, row.name, row.status) for row in of_kind("other", rows)]
    assert asked == [
        ("initialize", None, "completed"),
        ("can_use_tool", "Bash", "completed"),
        ("can_use_tool", "Read", "completed"),
    ]
    assert rows["anomalies"] == []


def test_a_run_has_its_session_the_first_words_and_the_sums_of_its_last_result() -> None:
    rows = rows_of("stream-json", RUN)
    [row], [used] = rows["exchanges"], rows["usage"]
    assert (row.response_id, row.response_model) == (
        "ba4e6ebc-2985-4370-a01e-dcfae0b9d6f8",
        "claude-sonnet-4-5",
    )
    assert (row.user_text, row.status, row.finish_reason) == ("use bash now", "failed", "end_turn")
    assert (row.error_type, row.error_code, row.error) == (
        "invalid_request_error",
        "400",
        "API Error: 400 no such thing",
    )
    assert (used.input_tokens, used.cache_read_input_tokens, used.cache_write_input_tokens) == (
        460,
        40,
        20,
    )
    assert (used.output_tokens, used.total_tokens, used.reported_cost_usd) == (80, 540, "0.002487")


@table(("lines", "output_tokens"), [(RUN, 2), (STREAMED, 40)])
def test_a_run_that_is_killed_has_the_tokens_of_its_messages_each_once(
    lines: list[Line], output_tokens: int
) -> None:
    results = [number for number, line in enumerate(lines) if b'"type":"result"' in line.raw]
    tokens = []
    for end in (results[0], results[0] + 1):
        [used] = rows_of("stream-json", lines[:end])["usage"]
        tokens.append((used.input_tokens, used.cache_read_input_tokens, used.output_tokens))
    assert tokens == [(230, 20, output_tokens), (230, 20, 40)]


def test_messages_of_agents_that_speak_by_turns_and_of_a_turn_without_its_result_count_once() -> (
    None
):
    usage = {"input_tokens": 5, "output_tokens": 1}
    both = [assistant("1"), assistant("2", parent_tool_use_id="c1")]
    for line in both:
        line["message"]["usage"] = usage
    later = {**assistant("3"), "message": {"id": "3", "model": "m", "content": [], "usage": usage}}
    ended = {**RESULT, "modelUsage": {"m": {"inputTokens": 11, "outputTokens": 3}}}
    running, over = told("<", *both, *both, later), told("<", ended, later)
    counts = [rows_of("stream-json", lines)["usage"][0] for lines in (running, running + over)]
    assert [(used.input_tokens, used.output_tokens) for used in counts] == [(15, 3), (16, 4)]


def test_sums_begin_again_when_the_conversation_is_cleared() -> None:
    counts = {"m": {"inputTokens": 1, "cacheReadInputTokens": 2, "outputTokens": 3}}
    ended = {**RESULT, "modelUsage": counts, "total_cost_usd": 0.1}
    [used] = rows_of("stream-json", told("<", ended, {"type": "conversation_reset"}, ended))[
        "usage"
    ]
    assert (used.input_tokens, used.output_tokens, used.reported_cost_usd) == (6, 6, "0.2")


def test_results_without_sums_are_added_up() -> None:
    ended = {
        **RESULT,
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1},
    }
    [used] = rows_of("stream-json", told("<", ended, ended))["usage"]
    assert (used.input_tokens, used.output_tokens) == (14, 2)


@table(
    ("result", "status", "reason"),
    [
        ({"stop_reason": "end_turn"}, "completed", "end_turn"),
        ({"subtype": "error_max_turns", "is_error": True}, "incomplete", "error_max_turns"),
        (
            {"subtype": "error_during_execution", "terminal_reason": "aborted_tools"},
            "incomplete",
            "aborted_tools",
        ),
        ({"subtype": "error_during_execution", "errors": ["a", "b"]}, "failed", None),
    ],
)
def test_the_outcome_is_that_of_the_result(
    result: dict[str, Any], status: str, reason: str | None
) -> None:
    [row] = rows_of("stream-json", told("<", {**RESULT, **result}))["exchanges"]
    assert (row.status, row.finish_reason, row.error) == (
        status,
        reason,
        "a\nb" if status == "failed" else None,
    )


def test_what_a_sub_agent_says_is_of_its_thread() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "Agent", "input": {}}
    words = {"type": "text", "text": "x"}
    lines = [
        assistant("1", call),
        assistant("2", words, parent_tool_use_id="c1"),
        assistant("3", words),
    ]
    event = {"type": "content_block_start", "index": 0, "content_block": words}
    lines += [
        {"type": "stream_event", "event": event, "parent_tool_use_id": agent}
        for agent in (None, "c1", "c2")
    ]
    rows = rows_of("stream-json", told("<", *lines))
    assert [row.thread_id for row in of_kind("message", rows)] == ["c1", None, None, "c1", "c2"]
    assert rows["anomalies"] == []


def test_a_line_that_is_not_known_is_kept_and_counted() -> None:
    rows = rows_of("stream-json", told("<", {"type": "new"}))
    assert [(row.kind, row.detail) for row in rows["anomalies"]] == [("unknown_type", "new")]


def test_the_answer_to_a_request_has_the_id_of_who_asks_now() -> None:
    recorded, asked = (
        b'{"type":"control_request","request_id":"a"}',
        b'{"type":"control_request","request_id":"b"}',
    )
    renumbered = by_name("stream-json").renumbering
    assert renumbered is not None
    made = renumbered(recorded, asked)
    assert made is not None
    answer = b'{"type":"control_response","response":{"request_id":"a","response":{"text":"a b"}}}'
    assert (
        made(answer)
        == b'{"type":"control_response","response":{"request_id":"b","response":{"text":"a b"}}}'
    )
    assert renumbered(asked, asked) is None


@table(
    ("asked", "type"),
    [
        ({"type": "control_request", "request_id": "1", "request": {}}, "control_response"),
        ({"type": "user", "message": {}}, "result"),
        ({"type": "control_response", "response": {"request_id": "1"}}, None),
    ],
)
def test_a_client_that_waits_is_told_that_its_line_was_not_recorded(
    asked: dict[str, Any], type: str | None
) -> None:
    assert LINES is not None
    refusal = LINES.refusal(asked, "why")
    assert (None if refusal is None else refusal["type"]) == type


@table(
    "first",
    [
        b'{"type":"system","subtype":"init","cwd":"/","sess',
        b'{"request_id": "1", "type": "control_request", "request": {"subtype": "initialize"}}',
        b'{"message":{"role":"user","content":"x"},"type":"user"}',
    ],
)
def test_the_first_read_shows_it(first: bytes) -> None:
    assert by_lines(first).name == "stream-json"
