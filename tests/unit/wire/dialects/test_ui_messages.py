"""What a UI message stream means; that `ai` reads the same is in
tests/acceptance/test_screen_sdks.py.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.projections.fold import Rows
from recorder.wire.dialects import by_request
from recorder.wire.dialects.ui_messages import DIALECT
from tests.support.facts import captured, folded
from tests.support.screen import UI_ASKED, Json, ScreenReading, read, sse
from tests.support.tables import table

START, FINISH = {"type": "start", "messageId": "a-1"}, {"type": "finish", "finishReason": "stop"}
STEP, STEP_END = {"type": "start-step"}, {"type": "finish-step"}


def part(kind: str, id: str, *deltas: str) -> list[Json]:
    grown = [{"type": f"{kind}-delta", "id": id, "delta": delta} for delta in deltas]
    return [{"type": f"{kind}-start", "id": id}, *grown, {"type": f"{kind}-end", "id": id}]


def called(id: str, name: str, given: Any, *deltas: str, **more: Any) -> list[Json]:
    grown = [
        {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": delta} for delta in deltas
    ]
    start = (
        [{"type": "tool-input-start", "toolCallId": id, "toolName": name, **more}] if deltas else []
    )
    whole = {
        "type": "tool-input-available",
        "toolCallId": id,
        "toolName": name,
        "input": given,
        **more,
    }
    return [*start, *grown, whole]


def gave(id: str, output: Any, **more: Any) -> Json:
    return {"type": "tool-output-available", "toolCallId": id, "output": output, **more}


ROLL = called("c-1", "roll", {"sides": 6}, '{"si', 'des":6}')
FLIP = called("c-1", "flip", {}, dynamic=True)
STREAMS: dict[str, tuple[list[Json], ScreenReading]] = {
    "a text": (
        [START, STEP, *part("text", "0", "Zür", "ich ✓"), STEP_END, FINISH],
        ScreenReading("Zürich ✓", "", [], []),
    ),
    "ids that come again": (
        [
            START,
            STEP,
            *part("text", "0", "a"),
            STEP_END,
            STEP,
            *part("text", "0", "b"),
            STEP_END,
            FINISH,
        ],
        ScreenReading("ab", "", [], []),
    ),
    "thoughts, a call and its result in the next step": (
        [
            START,
            STEP,
            *part("reasoning", "r", "Hm", "m."),
            *ROLL,
            STEP_END,
            STEP,
            gave("c-1", "four"),
            FINISH,
        ],
        ScreenReading("", "Hmm.", [["roll", {"sides": 6}]], [["c-1", "four"]]),
    ),
    "a call at once, its result before the last one": (
        [
            START,
            *called("c-1", "flip", {}, dynamic=True),
            gave("c-1", "…", preliminary=True),
            gave("c-1", "heads"),
            FINISH,
        ],
        ScreenReading("", "", [["flip", {}]], [["c-1", "heads"]]),
    ),
    "a tool that failed": (
        [
            START,
            *ROLL,
            {"type": "tool-output-error", "toolCallId": "c-1", "errorText": "no dice"},
            FINISH,
        ],
        ScreenReading("", "", [["roll", {"sides": 6}]], [["c-1", "no dice"]]),
    ),
    "parts of the app": (
        [
            START,
            {"type": "data-weather", "id": "w", "data": {"city": "Bern"}},
            {"type": "data-note", "data": "soon", "transient": True},
            {"type": "source-url", "sourceId": "s", "url": "https://a.example", "title": "A"},
            {"type": "file", "url": "data:image/png;base64,AA==", "mediaType": "image/png"},
            *part("text", "1", "Hi"),
            FINISH,
        ],
        ScreenReading("Hi", "", [], []),
    ),
}
ALL = sse(*STREAMS["thoughts, a call and its result in the next step"][0], done=True)


def rows_of(body: bytes, api: str = "ui-messages", **how: Any) -> Rows:
    return folded(*captured(body, api, request=json.dumps(UI_ASKED).encode(), **how))


@table(("events", "reading"), STREAMS.values())
def test_a_stream_has_its_parts(events: list[Json], reading: ScreenReading) -> None:
    rows = rows_of(sse(*events, done=True))
    [exchange] = rows["exchanges"]
    assert read(rows) == reading
    assert (exchange.status, exchange.finish_reason, exchange.response_id) == (
        "completed",
        "stop",
        "a-1",
    )
    assert rows["anomalies"] == []


@given(st.sets(st.integers(1, len(ALL) - 1)))
def test_it_is_the_same_however_the_bytes_come(cuts: set[int]) -> None:
    rows = rows_of(ALL, cuts=sorted(cuts))
    assert read(rows) == STREAMS["thoughts, a call and its result in the next step"][1]
    assert rows["anomalies"] == []


def test_a_stream_on_an_unknown_path_is_known_by_its_first_events() -> None:
    rows = rows_of(ALL, "other")
    assert (read(rows).reasoning, rows["anomalies"]) == ("Hmm.", [])


@table(
    ("event", "status", "said"),
    [
        ({"type": "error", "errorText": "out of credit"}, "failed", "out of credit"),
        ({"type": "abort", "reason": "stopped"}, "incomplete", None),
    ],
)
def test_an_error_fails_a_message_and_an_abort_ends_it(
    event: Json, status: str, said: str | None
) -> None:
    [exchange] = rows_of(sse(START, event, done=True))["exchanges"]
    assert (exchange.status, exchange.error) == (status, said)


def test_tokens_in_the_metadata_are_counted() -> None:
    usage = {
        "inputTokens": 9,
        "outputTokens": 4,
        "totalTokens": 13,
        "outputTokenDetails": {"reasoningTokens": 3},
    }
    last = {**FINISH, "messageMetadata": {"model": "m", "totalUsage": usage}}
    [row] = rows_of(sse(START, last, done=True))["usage"]
    assert (row.model, row.input_tokens, row.output_tokens, row.reasoning_output_tokens) == (
        "m",
        9,
        4,
        3,
    )


def test_a_request_has_the_calls_and_results_of_its_messages() -> None:
    tool = {
        "type": "tool-roll",
        "toolCallId": "c-1",
        "state": "output-available",
        "input": {},
        "output": {"n": 4},
    }
    messages = [
        *UI_ASKED["messages"],
        {"id": "a-1", "role": "assistant", "parts": [{"type": "step-start"}, tool]},
    ]
    facts = DIALECT.request_facts(
        "/api/chat", json.dumps({**UI_ASKED, "messages": messages}).encode()
    )
    [result] = facts.results
    assert (facts.text, result.call_id, result.name, json.loads(result.output)) == (
        "Roll.",
        "c-1",
        "roll",
        {"n": 4},
    )
    assert facts.parameters.input_tool_calls == 1


@table(("body", "api"), [(UI_ASKED, "ui-messages"), ({"model": "m", "messages": []}, "ollama")])
def test_who_asks_on_a_path_of_ollama_is_known_by_the_body(body: Json, api: str) -> None:
    assert by_request("POST", "/api/chat", [], json.dumps(body).encode()).name == api
