"""The rules of stream-json: one change to good lines breaks one rule and nothing else; and what
claude-agent-sdk makes of lines in which any one field is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from recorder.model.events import STDIO, SWITCHED
from tests.support.planted_fields import Judged, compared
from tests.support.programs import played
from tests.support.recordings import Json, Mutation, Reply, assert_clean, broken
from tests.support.tables import table

SDK = "claude_agent_sdk._internal"
NO_SDK = "no claude-agent-sdk: pip install '.[slow]'"  # it has Claude Code in it: 385 MB
ABOUT = {"uuid": "u-1", "session_id": "s-1"}
TASK = {"type": "system", "task_id": "t-1", "description": "Look", **ABOUT}
INPUT = {"command": "date"}


def line(message: Json) -> bytes:
    return json.dumps(message).encode() + b"\n"


def assistant(*blocks: Json) -> Json:
    message = {"id": "m-1", "model": "m", "content": list(blocks), "usage": {"output_tokens": 1}}
    return {"type": "assistant", "message": message, **ABOUT}


EVENTS: tuple[Json, ...] = (
    {"type": "system", "subtype": "init", "model": "m", **ABOUT},
    {"type": "stream_event", "event": {"type": "message_start"}, **ABOUT},
    assistant(
        {"type": "thinking", "thinking": "Hm.", "signature": "AAAA"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c-1", "name": "Bash", "input": INPUT},
    ),
    {
        "type": "control_request",
        "request_id": "r-2",
        "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": INPUT},
    },
    {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c-1", "is_error": False}],
        },
        **ABOUT,
    },
    {"type": "user", "message": {"role": "user", "content": "And?"}, **ABOUT},
    {**TASK, "subtype": "task_started"},
    {**TASK, "subtype": "task_progress", "usage": {"total_tokens": 1}},
    {
        **TASK,
        "subtype": "task_notification",
        "status": "completed",
        "output_file": "/o",
        "summary": "Done",
    },
    {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}, **ABOUT},
    {"type": "conversation_reset", "new_conversation_id": "s-2", **ABOUT},
    {
        "type": "result",
        "subtype": "success",
        "duration_ms": 5,
        "duration_api_ms": 4,
        "is_error": False,
        "num_turns": 1,
        "total_cost_usd": 0.5,
        "usage": {"output_tokens": 1},
        "result": "It is ten.",
        **ABOUT,
    },
)
SAID, ASKS, LAST = 2, 3, len(EVENTS) - 1
ASKED = {"type": "control_request", "request_id": "r-1", "request": {"subtype": "initialize"}}
TAKEN = {
    "type": "control_response",
    "response": {"subtype": "success", "request_id": "r-1", "response": {}},
}
GOOD = Reply(
    events=(TAKEN, *EVENTS),
    encoding=line,
    target="/claude",
    method=STDIO,
    status=SWITCHED,
    headers=(),
    sent=(ASKED, {"type": "user", "message": {"role": "user", "content": "What time is it?"}}),
    program="stream-json",
)
FAILED: Json = {**EVENTS[LAST], "subtype": "error_max_turns", "is_error": True, "errors": ["no"]}


def put(*events: Json | bytes) -> Reply:
    """With more lines before the result."""
    return GOOD.put(LAST + 1, *events)


def changed(number: int, **members: Any) -> Reply:
    """With other members of a line; None takes one away."""
    kept = {
        name: value for name, value in {**EVENTS[number], **members}.items() if value is not None
    }
    return GOOD.without(number + 1).put(number + 1, kept)


MUTATIONS = [
    Mutation("SJ001", "half a line", put(line(EVENTS[SAID])[:40] + b"\n")),
    Mutation("SJ002", "no type", put({"subtype": "init"})),
    Mutation("SJ002", "a number as a type", put({"type": 7})),
    Mutation("SJ003", "no message", changed(SAID, message=None)),
    Mutation("SJ003", "a text as content", changed(SAID, message={"model": "m", "content": "x"})),
    Mutation(
        "SJ003",
        "a thought without a signature",
        put(assistant({"type": "thinking", "thinking": "Hm."})),
    ),
    Mutation("SJ003", "a block without a type", put(assistant({"text": "x"}))),
    Mutation("SJ003", "no model", changed(SAID, message={"content": []})),
    Mutation("SJ003", "no turns", changed(LAST, num_turns=None)),
    Mutation(
        "SJ003",
        "a request without a tool",
        changed(ASKS, request={"subtype": "can_use_tool", "input": {}}),
    ),
    Mutation("SJ003", "a request without an id", changed(ASKS, request_id=None)),
    Mutation("SJ004", "a line of another program", put({"type": "thread.started"})),
    Mutation("SJ005", "twice", put(TAKEN)),
    Mutation("SJ006", "no result", GOOD.without(LAST + 1)),
    Mutation("SJ007", "an error without its errors", put({**FAILED, "errors": None})),
]


GOODS = {
    "a turn": GOOD,
    "an error": changed(LAST, **FAILED),
    "a line of a log": put(b"[SandboxDebug] ready\n", b"\n"),
    "a line that only TypeScript knows": put({"type": "tool_progress", "tool_use_id": "c-1"}),
    "a block of a later version": put(assistant({"type": "new"})),
    "a subtype of a later version": put({"type": "system", "subtype": "new"}),
    "a recorded run, stream-json": played(GOOD, "stream-json"),
    "a recorded run, stream-json-partial": played(GOOD, "stream-json-partial"),
}


def test_a_turn_that_the_client_leaves_needs_no_result() -> None:
    assert_clean(GOOD.without(LAST + 1)._replace(outcome="client_disconnect"))


# -- any one field wrong, and what a program on claude-agent-sdk makes of it


READ = [event for event in EVENTS if event["type"] != "control_request"]
"""The lines that are a message to the SDK."""


def judged(lines: Sequence[Json]) -> Judged:
    parser = pytest.importorskip(f"{SDK}.message_parser", reason=NO_SDK)
    transport = pytest.importorskip(f"{SDK}.transport.subprocess_cli", reason=NO_SDK)
    try:
        read = [
            parser.parse_message(transport._parse_stdout_line(line(each).decode()))
            for each in lines
        ]
    except Exception as error:
        return Judged(None, error, True)
    return Judged(read, None, True)


@pytest.mark.long
def test_a_wrong_field_that_stops_the_sdk_is_found_and_one_that_it_takes_is_none() -> None:
    told = compared(READ, judged, lambda lines: broken(GOOD._replace(events=(TAKEN, *lines))))
    assert (told.missed, told.false) == ([], [])
    assert told.stopped >= 60


def test_half_a_line_ends_the_run_for_a_program_on_the_sdk() -> None:
    transport = pytest.importorskip(f"{SDK}.transport.subprocess_cli", reason=NO_SDK)
    with pytest.raises(Exception, match="Failed to decode JSON") as raised:
        transport._parse_stdout_line('{"type"')
    assert type(raised.value).__name__ == "CLIJSONDecodeError"


@table(
    ("rule", "lines", "raises"),
    [
        ("SJ002", [{"subtype": "init"}], "MessageParseError: Message missing 'type' field"),
        (
            "SJ003",
            [assistant({"text": "x"})],
            "MessageParseError: Missing required field in assistant message: 'type'",
        ),
        (
            "SJ003",
            [{"type": "result"}],
            "MessageParseError: Missing required field in result message: 'subtype'",
        ),
    ],
)
def test_a_fault_does_to_the_sdk_what_its_rule_says(
    rule: str, lines: list[Json], raises: str
) -> None:
    error = judged(lines).error
    assert f"{type(error).__name__}: {error}".startswith(raises)
    assert rule in broken(GOOD._replace(events=(TAKEN, *lines, EVENTS[LAST])))
