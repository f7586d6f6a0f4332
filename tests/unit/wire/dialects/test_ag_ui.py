"""What a run of AG-UI means; that `@ag-ui/client` reads the same is in
tests/acceptance/test_screen_sdks.py.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.projections.fold import Rows
from recorder.wire.dialects import by_request
from recorder.wire.dialects.ag_ui import DIALECT
from tests.support.facts import captured, folded
from tests.support.screen import AG_UI_ASKED, Json, ScreenReading, read, sse
from tests.support.tables import table

RUN = {"threadId": "t-1", "runId": "r-1"}
STARTED: Json = {"type": "RUN_STARTED", **RUN}
FINISHED: Json = {"type": "RUN_FINISHED", **RUN}


def message(
    id: str, *deltas: str, family: str = "TEXT_MESSAGE", role: str = "assistant"
) -> list[Json]:
    grown = [{"type": f"{family}_CONTENT", "messageId": id, "delta": delta} for delta in deltas]
    start = {"type": f"{family}_START", "messageId": id, "role": role}
    return [start, *grown, {"type": f"{family}_END", "messageId": id}]


def thought(id: str, *deltas: str) -> list[Json]:
    inner = message(id, *deltas, family="REASONING_MESSAGE", role="reasoning")
    return [
        {"type": "REASONING_START", "messageId": id},
        *inner,
        {"type": "REASONING_END", "messageId": id},
    ]


def called(id: str, name: str, *deltas: str) -> list[Json]:
    grown = [{"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta} for delta in deltas]
    start = {
        "type": "TOOL_CALL_START",
        "toolCallId": id,
        "toolCallName": name,
        "parentMessageId": "a-1",
    }
    return [start, *grown, {"type": "TOOL_CALL_END", "toolCallId": id}]


RESULT: Json = {
    "type": "TOOL_CALL_RESULT",
    "messageId": "x-1",
    "toolCallId": "c-1",
    "content": "four",
    "role": "tool",
}
STEPS: list[Json] = [
    {"type": "STEP_STARTED", "stepName": "think"},
    {"type": "STATE_SNAPSHOT", "snapshot": {"dice": 0}},
    {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/dice", "value": 1}]},
    {"type": "CUSTOM", "name": "note", "value": "words"},
    {"type": "STEP_FINISHED", "stepName": "think"},
]
STREAMS: dict[str, tuple[list[Json], ScreenReading]] = {
    "a text": (
        [STARTED, *message("a-1", "Zür", "ich ✓"), FINISHED],
        ScreenReading("Zürich ✓", "", [], []),
    ),
    "thoughts, a text, a call and its result": (
        [
            *(STARTED, *STEPS, *thought("r-1", "Hm", "m."), *message("a-1", "So.")),
            *(*called("c-1", "roll", '{"si', 'des":6}'), RESULT, FINISHED),
        ],
        ScreenReading("So.", "Hmm.", [["roll", {"sides": 6}]], [["c-1", "four"]]),
    ),
    "chunks": (
        [
            STARTED,
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "a-1", "role": "assistant", "delta": "Hi"},
            {"type": "TEXT_MESSAGE_CHUNK", "delta": " all"},
            {
                "type": "TOOL_CALL_CHUNK",
                "toolCallId": "c-1",
                "toolCallName": "roll",
                "delta": '{"sides"',
            },
            {"type": "TOOL_CALL_CHUNK", "delta": ":6}"},
            FINISHED,
        ],
        ScreenReading("Hi all", "", [["roll", {"sides": 6}]], []),
    ),
    "a snapshot with what was streamed, and with more": (
        [
            *(STARTED, *message("a-1", "Hi")),
            {
                "type": "MESSAGES_SNAPSHOT",
                "messages": [
                    *AG_UI_ASKED["messages"],
                    {"id": "a-1", "role": "assistant", "content": "Hi"},
                    {
                        "id": "a-2",
                        "role": "assistant",
                        "content": " all",
                        "toolCalls": [
                            {
                                "id": "c-1",
                                "type": "function",
                                "function": {"name": "roll", "arguments": '{"sides":6}'},
                            }
                        ],
                    },
                    {"id": "x-1", "role": "tool", "toolCallId": "c-1", "content": "four"},
                ],
            },
            FINISHED,
        ],
        ScreenReading("Hi all", "", [["roll", {"sides": 6}]], [["c-1", "four"]]),
    ),
}
FULL = STREAMS["thoughts, a text, a call and its result"]
ALL = sse(*FULL[0])


def rows_of(body: bytes, api: str = "ag-ui", **how: Any) -> Rows:
    return folded(*captured(body, api, request=json.dumps(AG_UI_ASKED).encode(), **how))


@table(("events", "reading"), STREAMS.values())
def test_a_run_has_its_parts(events: list[Json], reading: ScreenReading) -> None:
    rows = rows_of(sse(*events))
    [exchange] = rows["exchanges"]
    assert read(rows) == reading
    assert (exchange.status, exchange.response_id, rows["anomalies"]) == ("completed", "r-1", [])


@given(st.sets(st.integers(1, len(ALL) - 1)))
def test_it_is_the_same_however_the_bytes_come(cuts: set[int]) -> None:
    rows = rows_of(ALL, cuts=sorted(cuts))
    assert (read(rows), rows["anomalies"]) == (FULL[1], [])


def test_a_stream_on_an_unknown_path_is_known_by_its_first_event() -> None:
    rows = rows_of(ALL, "other")
    assert (read(rows), rows["anomalies"]) == (FULL[1], [])


def test_reasoning_of_before_1_0_is_read() -> None:
    told = message("", "Hm", "m.", family="THINKING_TEXT_MESSAGE")
    bare: list[Json] = [{"type": each["type"], "delta": each.get("delta")} for each in told]
    rows = rows_of(
        sse(STARTED, {"type": "THINKING_START"}, *bare, {"type": "THINKING_END"}, FINISHED)
    )
    assert (read(rows).reasoning, rows["anomalies"]) == ("Hmm.", [])


def test_the_tokens_of_all_models_of_a_run_are_its_tokens() -> None:
    usage = [
        {"model": "m", "inputTokens": 9, "outputTokens": 4},
        {"model": "m", "inputTokens": 1, "reasoningTokens": 2},
    ]
    [row] = rows_of(sse(STARTED, {**FINISHED, "usage": usage}))["usage"]
    assert (row.model, row.input_tokens, row.output_tokens, row.reasoning_output_tokens) == (
        "m",
        10,
        4,
        2,
    )


@table(
    ("last", "status", "said"),
    [
        (
            [{"type": "RUN_ERROR", "message": "out of credit", "code": "402"}],
            "failed",
            "out of credit",
        ),
        ([{**FINISHED, "outcome": {"type": "cancelled"}}], "incomplete", None),
        ([], "incomplete", None),
    ],
)
def test_a_run_ends_as_it_says(last: list[Json], status: str, said: str | None) -> None:
    [exchange] = rows_of(sse(STARTED, *last))["exchanges"]
    assert (exchange.status, exchange.error) == (status, said)


def test_what_no_fact_has_is_an_anomaly() -> None:
    rows = rows_of(
        sse(STARTED, {"type": "TEXT_MESSAGE_END", "messageId": "m", "novel": "words"}, FINISHED)
    )
    assert [row.kind for row in rows["anomalies"]] == ["unread"]


def test_a_request_has_its_messages_tools_calls_and_results() -> None:
    call = {"id": "c-1", "type": "function", "function": {"name": "roll", "arguments": "{}"}}
    later = [
        {"id": "a-1", "role": "assistant", "toolCalls": [call]},
        {"id": "x-1", "role": "tool", "toolCallId": "c-1", "content": "four"},
    ]
    body = json.dumps({**AG_UI_ASKED, "messages": [*AG_UI_ASKED["messages"], *later]}).encode()
    facts = DIALECT.request_facts("/agent", body)
    [result] = facts.results
    assert (facts.text, result.call_id, result.output, facts.parameters.tool_names) == (
        "Roll.",
        "c-1",
        "four",
        ("roll",),
    )
    assert by_request("POST", "/any/path", [], body) is DIALECT
