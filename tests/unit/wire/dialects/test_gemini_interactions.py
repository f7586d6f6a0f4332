"""What the events of Gemini's Interactions mean, and that it is what google-genai yields from the
same bytes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.facts import RequestFacts
from recorder.projections.fold import Rows
from recorder.wire.dialects.gemini_interactions import DIALECT
from recorder.wire.dialects.gemini_interactions.conversation import CONTINUATION
from recorder.wire.dialects.json_values import request_object
from tests.support.corpus import CORPUS, corpus_index, each_stream
from tests.support.facts import captured, folded
from tests.support.sdks import (
    BASE,
    INTERACTION,
    InteractionReading,
    answering,
    gemini_client,
    interaction_of,
)
from tests.support.tables import table

API = "gemini-interactions"
ID = "v1_abc"
HEAD = {"id": ID, "object": "interaction", "model": "gemini-3.5-flash"}
TOOL_USE = 5
USAGE = {
    "total_tokens": 61,
    "total_input_tokens": 30,
    "total_cached_tokens": 8,
    "total_output_tokens": 10,
    "total_thought_tokens": 16,
    "total_tool_use_tokens": TOOL_USE,
    "input_tokens_by_modality": [
        {"modality": "text", "tokens": 20},
        {"modality": "audio", "tokens": 10},
    ],
    "grounding_tool_count": [{"type": "google_search", "count": 2}],
}
CREATED = {"event_type": "interaction.created", "interaction": {**HEAD, "status": "in_progress"}}

Json = dict[str, Any]


def step(index: int, begun: Json, *deltas: Json) -> list[Json]:
    return [
        {"event_type": "step.start", "index": index, "step": begun},
        *({"event_type": "step.delta", "index": index, "delta": delta} for delta in deltas),
        {"event_type": "step.stop", "index": index},
    ]


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def thought(index: int, *summaries: str) -> list[Json]:
    deltas = [{"type": "thought_summary", "content": said(each)} for each in summaries]
    return step(
        index, {"type": "thought"}, *deltas, {"type": "thought_signature", "signature": "AAAA"}
    )


def completed(status: str = "completed", **more: Any) -> Json:
    return {
        "event_type": "interaction.completed",
        "interaction": {**HEAD, "status": status, "usage": USAGE, **more},
    }


def called(index: int, name: str, *arguments: str, **given: Any) -> list[Json]:
    begun = {"type": "function_call", "id": f"call_{index}", "name": name, "arguments": given}
    return step(
        index, begun, *({"type": "arguments_delta", "arguments": each} for each in arguments)
    )


def provider_tool(index: int, tool: str, arguments: Json, *results: Any, **more: Any) -> list[Json]:
    """A tool of the provider that is called in one step, and whose result is the next."""
    id = f"tool_{index}"
    call, result = {"type": f"{tool}_call", "id": id}, {"type": f"{tool}_result", "call_id": id}
    deltas = [{"type": f"{tool}_result", "result": each, **more} for each in results]
    return [
        *step(index, {**call, "arguments": {}}, {"type": f"{tool}_call", "arguments": arguments}),
        *step(index + 1, {**result, "result": type(results[0])()}, *deltas),
    ]


FOUND = [{"search_suggestions": "streams"}]
STREAMS: dict[str, list[Json]] = {
    "thoughts and a text": [
        *thought(0, "Hm", "m."),
        *step(1, {"type": "model_output"}, said("Hel"), said("lo")),
    ],
    "a step that begins with text": [
        *step(
            0,
            {"type": "thought", "summary": [said("Hm")]},
            {"type": "thought_summary", "content": said("m.")},
        ),
        *step(1, {"type": "model_output", "content": [said("Hel")]}, said("lo")),
    ],
    "calls": [
        *called(0, "roll", '{"sides":', "6}"),
        *called(1, "flip"),
        *called(2, "draw", cards=5),
    ],
    "a search": provider_tool(0, "google_search", {"queries": ["streams"]}, FOUND),
    "code": provider_tool(
        0, "code_execution", {"code": "print(6)", "language": "python"}, "6\n", is_error=False
    ),
    "pages": provider_tool(
        0, "url_context", {"urls": ["https://a.b"]}, [{"status": "success", "url": "https://a.b"}]
    ),
}


def bytes_of(events: list[Json]) -> bytes:
    frames = [f"event: {event['event_type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "".join([*frames, "event: done\ndata: [DONE]\n\n"]).encode()


def stream(*events: Json, **end: Any) -> bytes:
    return bytes_of([CREATED, *events, completed(**end)])


def reading(body: bytes) -> InteractionReading:
    """What the SDK yields, put together."""
    client = gemini_client(BASE, "v1beta", httpx_client=answering(body))
    return interaction_of(client.interactions.create(**INTERACTION, input="x", stream=True))


def rows_of(body: bytes, **how: Any) -> Rows:
    return folded(*captured(body, API, **how))


def assert_agree(rows: Rows, sdk: InteractionReading) -> None:
    [exchange], items, [usage] = rows["exchanges"], rows["items"], rows["usage"]
    calls = [item for item in items if item.kind == "tool_call"]
    assert "".join(item.text or "" for item in items if item.kind == "message") == sdk.text
    assert "".join(item.summary_text or "" for item in items) == sdk.summaries
    assert [(call.name, json.loads(call.arguments)) for call in calls] == sdk.calls
    assert [call.output for call in calls if call.output is not None] == [
        each if isinstance(each, str) else json.dumps(_plain(each), separators=(",", ":"))
        for each in sdk.outputs
    ]
    assert exchange.finish_reason == sdk.status
    counts = usage.cache_read_input_tokens, usage.output_tokens, usage.reasoning_output_tokens
    assert sdk.usage is not None
    assert counts == sdk.usage[1:]
    assert usage.input_tokens == (sdk.usage[0] or 0) + TOOL_USE


def _plain(values: list[Any]) -> list[Any]:
    return [value.model_dump(exclude_none=True) for value in values]


@table("events", STREAMS.values())
def test_an_interaction_is_what_the_sdk_says(events: list[Json]) -> None:
    rows = rows_of(stream(*events))
    assert_agree(rows, reading(stream(*events)))
    assert rows["anomalies"] == []
    assert all(item.status == "completed" and item.ended_ns is not None for item in rows["items"])


ALL = stream(
    *thought(0, "Hm."),
    *provider_tool(1, "code_execution", {"code": "1"}, "1"),
    *called(3, "roll", '{"si', 'des":6}'),
    *step(4, {"type": "model_output"}, said("Züri"), said("ch ✓")),
)
SAID_BY_ALL = reading(ALL)


@given(st.sets(st.integers(1, len(ALL) - 1)))
def test_it_is_the_same_however_the_bytes_come(cuts: set[int]) -> None:
    assert_agree(rows_of(ALL, cuts=sorted(cuts)), SAID_BY_ALL)


def test_a_client_that_leaves_at_the_end_mark_has_all_of_it() -> None:
    [exchange] = rows_of(ALL, outcome="client_disconnect")["exchanges"]
    assert (exchange.status, exchange.error) == ("completed", None)


@table(
    ("status", "concluded"),
    [
        ("completed", "completed"),
        ("requires_action", "completed"),
        ("requires_continuation", "incomplete"),
        ("incomplete", "incomplete"),
        ("budget_exceeded", "incomplete"),
        ("cancelled", "incomplete"),
        ("failed", "failed"),
    ],
)
def test_the_state_at_the_end_is_that_of_the_exchange(status: str, concluded: str) -> None:
    [exchange] = rows_of(stream(status=status))["exchanges"]
    assert (exchange.status, exchange.finish_reason) == (concluded, status)


def test_a_stream_that_breaks_off_is_incomplete() -> None:
    [exchange] = rows_of(bytes_of([CREATED])[: -len("event: done\ndata: [DONE]\n\n")])["exchanges"]
    assert exchange.status == "incomplete"


def test_an_error_in_the_stream_fails_it() -> None:
    error = {"event_type": "error", "error": {"code": "deadline_exceeded", "message": "Too slow."}}
    [exchange] = rows_of(bytes_of([CREATED, error]))["exchanges"]
    assert (exchange.status, exchange.error_code, exchange.error) == (
        "failed",
        "deadline_exceeded",
        "Too slow.",
    )


def test_usage_that_only_a_step_reports_counts() -> None:
    events = step(0, {"type": "model_output"}, said("Hi"))
    events[-1]["usage"] = USAGE
    [usage] = rows_of(bytes_of([CREATED, *events]))["usage"]
    assert (usage.total_tokens, usage.input_audio_tokens, usage.web_searches) == (61, 10, 2)


def test_a_failed_tool_of_the_provider_is_told() -> None:
    events = provider_tool(0, "code_execution", {"code": "1/0"}, "ZeroDivisionError", is_error=True)
    [call] = rows_of(stream(*events))["items"]
    assert (call.output, call.failed) == ("ZeroDivisionError", True)


def test_what_a_tool_printed_is_kept_where_the_stream_breaks_off() -> None:
    events = provider_tool(0, "code_execution", {"code": "1"}, "one\n", "two\n")
    [call] = rows_of(bytes_of([CREATED, *events[:-1]]))["items"]
    assert call.output == "one\ntwo\n"


def test_pictures_and_sounds_are_kept_by_size_and_digest() -> None:
    image = {"type": "image", "mime_type": "image/png", "data": "AAAA"}
    sound = {"type": "audio", "mime_type": "audio/l16", "data": "AAAA"}
    items = rows_of(stream(*step(0, {"type": "model_output"}, said("See"), image, sound, sound)))[
        "items"
    ]
    shown = [json.loads(item.output) for item in items if item.kind == "other"]
    assert [(each["type"], each["size_bytes"]) for each in shown] == [("image", 3), ("audio", 6)]


def test_citations_are_annotations_of_the_text() -> None:
    cited = {"type": "url_citation", "url": "https://a.b", "start_index": 0, "end_index": 2}
    delta = {"type": "text_annotation_delta", "annotations": [cited]}
    [item] = rows_of(stream(*step(0, {"type": "model_output"}, said("Hi"), delta)))["items"]
    assert json.loads(item.annotations) == [cited]


@pytest.mark.parametrize(
    "unknown", [{"type": "novel_delta", "words": "abc"}, {"type": "text", "words": "abc"}]
)
def test_what_no_fact_has_is_an_anomaly(unknown: Json) -> None:
    anomalies = rows_of(stream(*step(0, {"type": "model_output"}, unknown)))["anomalies"]
    assert "unread" in {each.kind for each in anomalies}


DOCUMENT = {
    **HEAD,
    "status": "requires_action",
    "usage": USAGE,
    "steps": [
        {"type": "user_input", "content": [said("Roll.")]},
        {"type": "thought", "summary": [said("Hm.")], "signature": "AAAA"},
        {"type": "google_search_call", "id": "s", "arguments": {"queries": ["x"]}},
        {"type": "google_search_result", "call_id": "s", "result": FOUND},
        {"type": "model_output", "content": [said("Hel"), said("lo")]},
        {"type": "function_call", "id": "c", "name": "roll", "arguments": {"sides": 6}},
    ],
}


def test_a_document_says_the_same_as_a_stream() -> None:
    body = json.dumps(DOCUMENT).encode()
    client = gemini_client(BASE, "v1beta", httpx_client=answering(body, kind="application/json"))
    interaction: Any = client.interactions.create(**INTERACTION, input="x")
    rows = rows_of(body, content_type="application/json")
    [exchange], items, [usage] = rows["exchanges"], rows["items"], rows["usage"]
    assert [item.type for item in items] == [
        "thought",
        "google_search_call",
        "model_output",
        "function_call",
    ]
    assert items[2].text == interaction.output_text == "Hello"
    assert items[1].output == json.dumps(FOUND, separators=(",", ":"))
    assert (items[3].call_id, items[3].arguments) == ("c", '{"sides":6}')
    assert (exchange.status, exchange.finish_reason) == ("completed", interaction.status)
    assert (usage.input_tokens, usage.output_tokens, rows["anomalies"]) == (35, 26, [])


# -- recorded streams


@each_stream(entry for entry in corpus_index() if entry["provider"] == API)
def test_a_recorded_stream_is_what_the_sdk_says(entry: Json) -> None:
    body = (CORPUS / entry["file"]).read_bytes()
    rows, sdk = rows_of(body), reading(body)
    [exchange], [thought, message], [usage] = rows["exchanges"], rows["items"], rows["usage"]
    assert (thought.kind, thought.encrypted, message.text) == ("reasoning", True, sdk.text)
    counts = (
        usage.input_tokens,
        usage.cache_read_input_tokens,
        usage.output_tokens,
        usage.reasoning_output_tokens,
    )
    assert sdk.usage == counts == (16, 0, 22, 12)
    assert (exchange.status, exchange.finish_reason, rows["anomalies"]) == (
        "completed",
        sdk.status,
        [],
    )


# -- requests

REQUEST = {
    "model": "gemini-3.5-flash",
    "system_instruction": "Be brief.",
    "tools": [
        {"type": "function", "name": "roll", "parameters": {"type": "object"}},
        {"type": "google_search"},
    ],
    "generation_config": {"thinking_level": "high", "max_output_tokens": 9, "tool_choice": "auto"},
    "response_format": {
        "type": "text",
        "mime_type": "application/json",
        "schema": {"title": "Dice"},
    },
    "stream": True,
    "input": [
        {"type": "user_input", "content": [said("Roll.")]},
        {"type": "function_call", "id": "c", "name": "roll", "arguments": {"sides": 6}},
        {
            "type": "function_result",
            "call_id": "c",
            "name": "roll",
            "result": [said("six")],
            "is_error": False,
        },
    ],
    "previous_interaction_id": "v1_before",
}


def asked(**changes: Any) -> RequestFacts:
    return DIALECT.request_facts(
        "/v1beta/interactions", json.dumps({**REQUEST, **changes}).encode()
    )


def test_a_request_says_what_is_asked_and_what_tools_returned() -> None:
    facts, settings = asked(), asked().parameters
    assert (facts.model, facts.stream, facts.previous_response_id) == (
        "gemini-3.5-flash",
        True,
        "v1_before",
    )
    assert (facts.text, facts.is_turn, facts.instructions) == ("Roll.", False, ("Be brief.",))
    [result] = facts.results
    assert (result.call_id, result.name, result.output, result.failed) == (
        "c",
        "roll",
        "six",
        False,
    )
    assert settings.tool_names == ("roll", "google_search")
    assert (settings.reasoning_effort, settings.max_output_tokens, settings.tool_choice) == (
        "high",
        9,
        "auto",
    )
    assert (settings.response_format, settings.response_schema) == ("json_schema", "Dice")


@table("given", ["Hi", said("Hi"), [said("Hi")], [{"type": "user_input", "content": "Hi"}]])
def test_an_input_has_many_forms(given: Any) -> None:
    facts = asked(input=given)
    assert (facts.text, facts.is_turn, facts.items) == ("Hi", True, 1)


def test_an_agent_is_asked_in_the_place_of_a_model() -> None:
    assert (
        asked(model=None, agent="deep-research-preview-04-2026").model
        == "deep-research-preview-04-2026"
    )


def test_a_response_is_what_the_next_request_would_repeat() -> None:
    payloads = [
        json.dumps(event).encode()
        for event in (CREATED, *STREAMS["thoughts and a text"], *called(2, "a", "{}"))
    ]
    steps = [CONTINUATION.compared(each) for each in CONTINUATION.output(payloads)]
    assert steps == [
        None,
        {"type": "model_output", "content": [said("Hello")]},
        {"type": "function_call", "id": "call_2", "name": "a", "arguments": {}},
    ]
    sent = request_object(json.dumps({"input": "Hi"}).encode())
    assert [*CONTINUATION.input(sent)] == [{"type": "user_input", "content": [said("Hi")]}]
