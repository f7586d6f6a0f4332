"""What the lines of Ollama mean, and that it is what its package for Python yields from the same
bytes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ollama import ResponseError

from recorder.model.facts import RequestFacts
from recorder.projections.fold import Rows
from recorder.wire.dialects.ollama import DIALECT
from tests.support.facts import captured, folded
from tests.support.ollama_sdk import CHAT, GENERATE, OllamaReading, ollama_answering, ollama_reading
from tests.support.tables import table

LINES, DOCUMENT, EVENTS = (
    "application/x-ndjson",
    "application/json; charset=utf-8",
    "text/event-stream",
)
COUNTS = {
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}
MADE = {"model": "qwen3", "created_at": "2026-11-28T08:52:19.385406455Z"}

Json = dict[str, Any]


def chat(message: Json, **more: Any) -> Json:
    return {
        **MADE,
        "message": {"role": "assistant", "content": "", **message},
        "done": False,
        **more,
    }


def generated(**said: Any) -> Json:
    return {**MADE, "response": "", "done": False, **said}


def call(name: str, **arguments: Any) -> Json:
    return {"function": {"name": name, "arguments": arguments}}


LAST = chat({}, done=True, done_reason="stop", **COUNTS)
TEXT = [chat({"content": "Zür"}), chat({"content": "ich ✓"}), LAST]
STREAMS: dict[str, list[Json]] = {
    "a text": TEXT,
    "thoughts and a text": [chat({"thinking": "Hm"}), chat({"thinking": "m."}), *TEXT],
    "calls": [chat({"tool_calls": [call("roll", sides=6), call("flip")]}), LAST],
    "a call after a text": [
        chat({"content": "So."}),
        chat({"tool_calls": [call("roll", sides=6)]}),
        LAST,
    ],
    "all of it in the last line": [
        chat({"content": "Hi", "thinking": "Hm."}, done=True, done_reason="stop", **COUNTS)
    ],
    "a prompt": [
        generated(thinking="Hm."),
        generated(response="Zür"),
        generated(response="ich"),
        generated(done=True, done_reason="stop", context=[1, 2], **COUNTS),
    ],
}


def bytes_of(lines: list[Json]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def path_of(lines: list[Json]) -> str:
    return GENERATE if "response" in lines[0] else CHAT


def sdk_of(body: bytes, path: str = CHAT, kind: str = LINES) -> OllamaReading:
    return ollama_reading(ollama_answering(body, kind), path, is_streamed=kind == LINES)


def rows_of(body: bytes, kind: str = LINES, **how: Any) -> Rows:
    return folded(*captured(body, "ollama", content_type=kind, **how))


def texts_of(rows: Rows, kind: str) -> str:
    return "".join(item.text or "" for item in rows["items"] if item.kind == kind)


def assert_agree(rows: Rows, sdk: OllamaReading) -> None:
    [exchange], items, [usage] = rows["exchanges"], rows["items"], rows["usage"]
    calls = [item for item in items if item.kind == "tool_call"]
    assert (texts_of(rows, "message"), texts_of(rows, "reasoning")) == (sdk.text, sdk.thoughts)
    assert [(item.name, json.loads(item.arguments)) for item in calls] == sdk.calls
    assert (usage.input_tokens, usage.output_tokens) == sdk.usage
    assert exchange.finish_reason == sdk.reason
    assert all(item.status == "completed" and item.ended_ns is not None for item in items)
    assert rows["anomalies"] == []


@table("lines", STREAMS.values())
def test_an_answer_is_what_the_sdk_says(lines: list[Json]) -> None:
    rows = rows_of(bytes_of(lines))
    assert_agree(rows, sdk_of(bytes_of(lines), path_of(lines)))
    [exchange] = rows["exchanges"]
    assert (exchange.status, exchange.response_model) == ("completed", "qwen3")


ALL = bytes_of(
    [*STREAMS["thoughts and a text"][:-1], chat({"tool_calls": [call("roll", sides=6)]}), LAST]
)
SAID_BY_ALL = sdk_of(ALL)


@given(st.sets(st.integers(1, len(ALL) - 1)))
def test_it_is_the_same_however_the_bytes_come(cuts: set[int]) -> None:
    assert_agree(rows_of(ALL, cuts=sorted(cuts)), SAID_BY_ALL)


@table(
    "lines",
    [
        STREAMS["all of it in the last line"],
        [generated(response="Hi", done=True, done_reason="stop")],
    ],
)
def test_a_document_says_the_same_as_a_stream(lines: list[Json]) -> None:
    body = bytes_of([{**lines[0], **COUNTS}])
    assert_agree(rows_of(body, DOCUMENT), sdk_of(body, path_of(lines), DOCUMENT))


def test_a_stream_that_breaks_off_is_incomplete() -> None:
    [exchange] = rows_of(bytes_of(TEXT[:-1]))["exchanges"]
    assert exchange.status == "incomplete"


def test_a_client_that_leaves_after_the_last_line_has_all_of_it() -> None:
    [exchange] = rows_of(ALL, outcome="client_disconnect")["exchanges"]
    assert (exchange.status, exchange.error) == ("completed", None)


def test_an_error_in_the_stream_fails_it() -> None:
    body = bytes_of([TEXT[0], {"error": "out of memory"}])
    [exchange] = rows_of(body)["exchanges"]
    assert (exchange.status, exchange.error) == ("failed", "out of memory")
    with pytest.raises(ResponseError, match="out of memory"):
        sdk_of(body)


def test_an_answer_that_was_cut_at_its_limit_is_incomplete() -> None:
    rows = rows_of(bytes_of([TEXT[0], chat({}, done=True, done_reason="length", **COUNTS)]))
    assert [item.status for item in rows["items"]] == ["incomplete"]


def test_what_no_fact_has_is_an_anomaly() -> None:
    rows = rows_of(bytes_of([chat({"content": "Hi", "novel": "words"}), LAST]))
    assert [row.kind for row in rows["anomalies"]] == ["unread"]


def test_the_stream_of_an_app_on_the_same_path_is_not_one_of_ollama() -> None:
    body = b'data: {"type":"text-delta","id":"1","delta":"Hi"}\n\ndata: [DONE]\n\n'
    rows = rows_of(body, EVENTS)
    assert (rows["exchanges"][0].status, rows["anomalies"]) == ("completed", [])


# -- requests

REQUEST: Json = {
    "model": "qwen3",
    "think": "high",
    "format": {"type": "object", "title": "Dice"},
    "options": {"num_predict": 9, "temperature": 0.5},
    "tools": [{"type": "function", "function": {"name": "roll", "parameters": {"type": "object"}}}],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Roll.", "images": ["iVBORw0KGgo="]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [call("roll", sides=6), call("roll", sides=6)],
        },
        {"role": "tool", "tool_name": "roll", "content": "six"},
        {"role": "tool", "tool_name": "roll", "content": "two"},
    ],
}


def asked(path: str = CHAT, **body: Any) -> RequestFacts:
    return DIALECT.request_facts(path, json.dumps(body).encode())


def test_a_request_says_what_is_asked_and_what_tools_returned() -> None:
    facts = asked(**REQUEST)
    settings = facts.parameters
    assert (facts.model, facts.stream, facts.text, facts.is_turn) == ("qwen3", True, "Roll.", False)
    assert facts.instructions == ("Be brief.",)
    assert [(each.name, each.output) for each in facts.results] == [
        ("roll", "six"),
        ("roll", "two"),
    ]
    assert facts.results[0].place != facts.results[1].place, "each is of a call of its own"
    assert (settings.tool_names, settings.reasoning_effort) == (("roll",), "high")
    assert (settings.max_output_tokens, settings.temperature) == (9, 0.5)
    assert (settings.response_format, settings.response_schema) == ("json_schema", "Dice")


def test_a_prompt_is_a_message_of_the_user() -> None:
    facts = asked(
        GENERATE, model="qwen3", prompt="Roll.", system="Be brief.", stream=False, think=False
    )
    assert (facts.text, facts.is_turn, facts.stream, facts.instructions) == (
        "Roll.",
        True,
        False,
        ("Be brief.",),
    )
    assert facts.parameters.reasoning_mode == "disabled"


def test_a_picture_is_a_part_of_its_message() -> None:
    conversation = DIALECT.read_request(CHAT, json.dumps(REQUEST).encode())
    assert conversation is not None
    picture = conversation.messages[1].parts[1]
    assert (picture.kind, picture.value) == ("image", {"url": "data:image/png;base64,iVBORw0KGgo="})
