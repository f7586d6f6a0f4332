"""ACP: what an agent says, does and is asked between a prompt and the end of its turn.

The recorded run is of `@agentclientprotocol/claude-agent-acp` 0.49 with the client of
`agent-client-protocol` 0.12 and a scripted model.
"""

from __future__ import annotations

from typing import Any

import pytest

from recorder.model.events import STDIO
from recorder.projections.fold import Rows
from recorder.wire.dialects import by_lines, by_request
from tests.support.programs import Line, rows_of, said, spoken
from tests.support.tables import table

RUN = spoken("acp")


def update(type: str, session: str = "s", **members: Any) -> Line:
    params = {"sessionId": session, "update": {"sessionUpdate": type, **members}}
    return said("<", jsonrpc="2.0", method="session/update", params=params)


def chunk(text: str, kind: str = "agent_message_chunk", **members: Any) -> Line:
    return update(kind, content={"type": "text", "text": text}, **members)


def asked(id: int, session: str, text: str) -> Line:
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return said(">", jsonrpc="2.0", id=id, method="session/prompt", params=params)


def ended(id: int, **result: Any) -> Line:
    return said("<", jsonrpc="2.0", id=id, result=result)


def of_kind(kind: str, rows: Rows) -> list[Any]:
    return [row for row in rows["items"] if row.kind == kind]


@pytest.mark.parametrize("read_bytes", [None, 1])
def test_a_run_is_prompts_messages_thoughts_and_calls_with_their_results(
    read_bytes: int | None,
) -> None:
    rows = rows_of("acp", RUN, read_bytes=read_bytes)
    assert [(row.role, row.text, row.status) for row in of_kind("message", rows)] == [
        ("user", "use bash now", "end_turn"),
        ("assistant", "I will run it.", "completed"),
        ("assistant", "All done.", "completed"),
        ("user", "fail please", "failed"),
        ("assistant", "API Error: 400 no such thing", "completed"),
    ]
    assert [row.text for row in of_kind("reasoning", rows)] == ["Let me think."]
    shell = '{"command":"echo hi; ls /nonexistent","description":"say hi"}'
    failed = "Exit code 2\nhi\nls: cannot access '/nonexistent': No such file or directory"
    assert [
        (row.name, row.arguments, row.output, row.failed) for row in of_kind("tool_call", rows)
    ] == [
        ("Bash", shell, failed, True),
        ("Read", '{"file_path":"/etc/hostname"}', "1\tvm\n2\t", False),
    ]
    permissions = [
        row for row in of_kind("other", rows) if row.type == "session/request_permission"
    ]
    assert [(row.name, row.output) for row in permissions] == [
        (
            "echo hi; ls /nonexistent",
            '{"outcome":{"optionId":"allow_always","outcome":"selected"}}',
        ),
        ("Read /etc/hostname", '{"outcome":{"optionId":"allow_always","outcome":"selected"}}'),
    ]
    assert rows["anomalies"] == []


def test_a_run_has_the_session_the_first_prompt_and_the_usage_of_its_turns() -> None:
    rows = rows_of("acp", RUN)
    [row] = rows["exchanges"]
    assert (row.response_id, row.response_model) == (
        "b8b38e85-3459-4a38-aef3-469a4a403d25",
        "default",
    )
    assert (row.user_text, row.is_turn) == ("use bash now", True)
    assert (row.status, row.error, row.finish_reason) == (
        "failed",
        "Internal error: API Error: 400 no such thing",
        "end_turn",
    )
    [used] = rows["usage"]
    assert (used.input_tokens, used.cache_read_input_tokens, used.cache_write_input_tokens) == (
        230,
        20,
        10,
    )
    assert (used.output_tokens, used.total_tokens, used.reported_cost_usd) == (40, 270, "0.001654")


def test_a_turn_after_one_that_failed_completes_the_run() -> None:
    rows = rows_of("acp", [*RUN, asked(4, "s", "again"), ended(4, stopReason="end_turn")])
    assert (rows["exchanges"][0].status, rows["exchanges"][0].error) == ("completed", None)


@table(
    ("usage", "counted"),
    [
        ({"inputTokens": 9, "cachedReadTokens": 4, "outputTokens": 2, "totalTokens": 11}, 9),
        ({"inputTokens": 9, "cachedReadTokens": 4, "outputTokens": 2, "totalTokens": 15}, 13),
    ],
)
def test_the_total_says_whether_what_was_cached_is_in_the_input(
    usage: dict[str, int], counted: int
) -> None:
    rows = rows_of("acp", [asked(0, "s", "x"), ended(0, stopReason="end_turn", usage=usage)])
    assert rows["usage"][0].input_tokens == counted


def test_chunks_are_one_message_while_nothing_else_comes_between() -> None:
    lines = [
        chunk("a"),
        chunk("b"),
        chunk("c", messageId="2"),
        chunk("d", "agent_thought_chunk"),
        chunk("e"),
    ]
    rows = rows_of("acp", [asked(0, "s", "x"), *lines, ended(0, stopReason="cancelled")])
    assert [(row.type, row.role, row.text, row.status) for row in rows["items"]] == [
        ("session/prompt", "user", "x", "cancelled"),
        ("agent_message_chunk", "assistant", "ab", "completed"),
        ("agent_message_chunk", "assistant", "c", "completed"),
        ("agent_thought_chunk", None, "d", "completed"),
        ("agent_message_chunk", "assistant", "e", "completed"),
    ]


def test_a_call_that_the_end_of_the_turn_leaves_open_has_its_arguments_and_no_result() -> None:
    lines = [
        update("tool_call", toolCallId="1", title="Look", kind="read", status="pending"),
        update("tool_call_update", toolCallId="1", status="in_progress", rawInput={"path": "x"}),
        update(
            "tool_call_update",
            toolCallId="2",
            title="Shown",
            status="completed",
            content=[text("y"), text("z")],
        ),
    ]
    rows = rows_of("acp", [asked(0, "s", "x"), *lines, ended(0, stopReason="cancelled")])
    assert [
        (row.type, row.name, row.arguments, row.output, row.status)
        for row in of_kind("tool_call", rows)
    ] == [
        ("read", "Look", '{"path":"x"}', None, "in_progress"),
        ("tool_call", "Shown", "{}", "y\nz", "completed"),
    ]


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


def test_a_second_session_is_a_thread() -> None:
    lines = [said(">", jsonrpc="2.0", id=id, method="session/new", params={}) for id in (0, 1)]
    lines += [ended(0, sessionId="a"), ended(1, sessionId="b")]
    lines += [
        update("agent_message_chunk", id, content={"type": "text", "text": id}) for id in ("a", "b")
    ]
    rows = rows_of("acp", lines)
    assert [(row.text, row.thread_id) for row in of_kind("message", rows)] == [
        ("a", None),
        ("b", "b"),
    ]
    assert rows["exchanges"][0].response_id == "a"
    assert rows["anomalies"] == []


def test_a_session_that_is_loaded_is_that_of_its_request() -> None:
    asked = said(">", jsonrpc="2.0", id=0, method="session/load", params={"sessionId": "a"})
    rows = rows_of("acp", [asked, chunk("b", "user_message_chunk", session="a"), ended(0)])
    assert [(row.role, row.text, row.thread_id) for row in of_kind("message", rows)] == [
        ("user", "b", None)
    ]
    assert rows["exchanges"][0].response_id == "a"


@table(
    ("first", "name"),
    [
        (
            b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion": 1,"clientCapa',
            "acp",
        ),
        (
            b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}',
            "mcp",
        ),
        (b'{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{}}\n', "mcp"),
        (b'{"type":"thread.started","thread_id":"x"}\n', "other"),
    ],
)
def test_the_first_read_says_what_a_program_speaks(first: bytes, name: str) -> None:
    assert by_lines(first).name == name


@table(
    ("type", "name"),
    [
        ("application/json-rpc; protocol=acp", "acp"),
        ("application/json-rpc", "mcp"),
        ("application/x-ndjson; format=stream-json", "stream-json"),
        ("application/x-ndjson", "other"),
    ],
)
def test_a_program_is_of_the_format_that_its_lines_showed_whatever_its_name(
    type: str, name: str
) -> None:
    assert by_request(STDIO, "/mcp", [("content-type", type)], b"{}").name == name
