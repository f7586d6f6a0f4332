"""Whatever is sent, no decoder raises, and the fast path of an event says what the general one does."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.facts import Fact, TextAdded
from recorder.wire.dialects import by_name
from recorder.wire.dialects.decoder import JsonDecoder
from tests.support.facts import Json, item_event
from tests.support.recordings import GOOD
from tests.support.tables import table
from tests.unit.projections.test_fast_paths import DELTAS

CHUNK = "chat.completion.chunk"


def written(api: str) -> list[Json]:
    """The events of a good reply."""
    return [event for event in GOOD[api].events if isinstance(event, dict)]


def of_delta(**fields: Any) -> Json:
    return {"id": "a", "model": "m", "choices": [{"index": 0, "delta": fields}]}


RESPONSES: list[Json] = [
    *written("openai-responses"),
    item_event("added", {"type": "shell_call", "id": "sh", "action": {"commands": []}}),
    {"type": "response.shell_call_command.delta", "output_index": 0, "command_index": 0, "delta": "ls"},
    item_event("done", {"type": "shell_call", "id": "sh", "call_id": "c", "action": {"commands": ["ls"]}}),
    item_event("done", {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "", "outcome": {}}]}, 1),
    item_event("done", {"type": "function_call_output", "call_id": "c", "output": [{"type": {}, "text": "A"}]}, 2),
]

CHAT: list[Json] = [
    *written("openai-chat"),
    of_delta(content="B", refusal=None, channel=None),
    of_delta(content="", reasoning="C", reasoning_details=[{"type": "reasoning.text", "text": "C"}]),
    of_delta(reasoning_content="D", reasoning="E", channel="analysis"),
    of_delta(function_call={"name": "f", "arguments": "{"}, images=[{"image_url": {"url": "data:,"}}]),
    of_delta(content=[{"type": "thinking", "thinking": [{"text": "F"}]}]),
    {"choices": [{"logprobs": {"content": [], "reasoning_content": [], "tokens": []}}]},
    {"choices": [{"text": "G", "message": {"content": "H"}, "error": None, "usage": {"prompt_tokens": 1}}]},
    {"x_groq": {"usage": {"completion_tokens_details": {"reasoning_tokens": 1}}}, "usage": {"total_tokens": 3}},
    {"error": {"message": "I", "code": 1}, "citations": ["J"], "search_results": [{"url": "K"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "L"}]}, {"role": "tool", "content": "M"}]},
]

ANTHROPIC: list[Json] = [
    *written("anthropic"),
    {"type": "content_block_delta", "index": 2, "delta": {"type": "thinking_delta", "thinking": "B"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"url": "u"}}},
    {"type": "error", "error": {"type": "overloaded_error", "message": "C"}},
]
GEMINI: list[Json] = [
    {"candidates": [{"index": 0, "content": {"parts": [part], "role": "model"}, "finishReason": "STOP"}]}
    for part in (
        {"text": "A", "thought": True, "thoughtSignature": "AAAA"},
        {"functionCall": {"name": "f", "args": {"a": 1}, "id": "c"}},
        {"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}], "willContinue": True}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAEC"}},
        {"toolCall": {"toolType": "x", "args": {}}},
    )
]
GEMINI += [
    {"usageMetadata": {"promptTokenCount": 1, "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 1}]}},
    {"response": {"candidates": []}, "promptFeedback": {"blockReason": "SAFETY"}, "error": {"code": 1}},
    {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"error": "x"}}}]}]},
]
EVENTS: dict[str, list[Json]] = {
    "openai-responses": RESPONSES,
    "openai-chat": CHAT,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
}
PATHS = ("/responses", "/v1/chat/completions", "/v1/messages", "/models/x:generateContent")
OF_ALL = {"openai-chat": CHUNK, "gemini": "GenerateContentResponse"}
"""The type of all events, in APIs whose events name none."""

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["text", "error"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)

Event = tuple[str | None, bytes]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where something stands in a payload: container and key."""
    for key, inner in [*value.items()] if isinstance(value, dict) else [*enumerate(value)]:
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


@st.composite
def changed(draw: st.DrawFn, api: str) -> Event:
    """An event of an API, in which up to two values are others."""
    payload = copy.deepcopy(draw(st.sampled_from(EVENTS[api])))
    for _ in range(draw(st.integers(0, 2))):
        container, key = draw(st.sampled_from([*places(payload)] or [({}, "")]))
        container[key] = draw(ANY | st.sampled_from(EVENTS[api]).map(copy.deepcopy))
    return named(api, payload)


def named(api: str, payload: Json) -> Event:
    type = OF_ALL.get(api, payload.get("type"))
    return type if isinstance(type, str) else None, json.dumps(payload).encode()


def told(api: str, events: Sequence[Event], *, is_fast: bool) -> list[list[Fact]]:
    decoder = by_name(api).decoder()
    assert isinstance(decoder, JsonDecoder)
    read = decoder.event if is_fast else decoder.general
    return [[*read(type, data)] for type, data in events]


@pytest.mark.long
@pytest.mark.parametrize("api", EVENTS)
@given(data=st.data())
def test_nothing_raises_whatever_is_told(api: str, data: st.DataObject) -> None:
    decoder = by_name(api).decoder()
    types = sorted({str(event.get("type")) for event in EVENTS[api]} | {"error", "new"})
    anything = st.tuples(st.sampled_from([None, OF_ALL.get(api), *types]), ANY.map(json.dumps).map(str.encode))
    for type, body in data.draw(st.lists(changed(api) | anything, max_size=8)):
        odd = data.draw(st.binary(max_size=3))
        for each in (body, body[:-1] + odd, body[: data.draw(st.integers(0, len(body)))], odd):
            assert all(isinstance(fact, Fact) for fact in [*decoder.event(type, each), *decoder.document(each)])
            by_name(api).request_facts(PATHS[list(EVENTS).index(api)], each)


@pytest.mark.long
@pytest.mark.parametrize("api", EVENTS)
@given(data=st.data())
def test_the_fast_path_says_what_the_general_reading_says(api: str, data: st.DataObject) -> None:
    near = DELTAS[api].map(lambda payload: named(api, payload))
    events = [named(api, payload) for payload in EVENTS[api][: data.draw(st.integers(0, len(EVENTS[api])))]]
    events += data.draw(st.lists(changed(api) | near, max_size=8))
    assert told(api, events, is_fast=True) == told(api, events, is_fast=False)


MORE: tuple[tuple[tuple[str | int, ...], Any], ...] = (
    (("id",), "b"),
    (("model",), "n"),
    (("usage",), {"prompt_tokens": 1}),
    (("x_groq",), {"usage": {"prompt_tokens": 1}}),
    (("error",), {"message": "no"}),
    (("choices", 0, "finish_reason"), "stop"),
    (("choices", 0, "logprobs"), {"content": [{"token": "a"}], "reasoning_content": [{"token": "a"}]}),
    (("choices", 0, "error"), {"message": "no"}),
    (("choices", 0, "usage"), {"prompt_tokens": 1}),
    (("choices", 0, "delta", "content"), "more"),
    (("choices", 0, "delta", "reasoning"), "more"),
    (("choices", 0, "delta", "reasoning_details"), [{"type": "reasoning.summary", "summary": "more"}]),
    (("choices", 0, "delta", "reasoning_details"), [{"type": "reasoning.encrypted"}]),
    (("choices", 0, "delta", "tool_calls"), [{"index": 3, "function": {"name": "f", "arguments": "more"}}]),
    (("choices", 0, "delta", "tool_calls"), [{"index": 0, "id": "y", "function": {"name": "f", "arguments": "more"}}]),
    (("choices", 0, "delta", "tool_calls"), [{"index": 0, "function": {"arguments": piece}} for piece in "BC"]),
    (("choices", 0, "delta", "function_call"), {"name": "f", "arguments": "more"}),
    (("choices", 0, "delta", "refusal"), "more"),
    (("choices", 0, "delta", "annotations"), [{"type": "url_citation"}]),
    (("choices", 0, "delta", "images"), [{"type": "image_url", "image_url": {"url": "data:,"}}]),
    (("choices", 0, "delta", "audio"), {"transcript": "more"}),
    (("choices", 0, "delta", "channel"), "analysis"),
    (("choices", 1), {"index": 1, "delta": {"content": "more"}}),
)

CALL = [{"index": 0, "id": "x", "function": {"name": "f", "arguments": ""}}]
OPENED: list[Json] = [{"role": "assistant", "content": "A"}, {"content": "", "reasoning": "C"}, {"tool_calls": CALL}]
OPENING = [named("openai-chat", of_delta(**fields)) for fields in OPENED]
"""After which the fast path is open for every item."""


@table(("path", "value"), MORE)
@table(
    "delta",
    [{"content": "B"}, {"reasoning": "B"}, {"tool_calls": [{"index": 0, "function": {"arguments": "B"}}]}],
)
def test_what_more_a_common_chunk_says_is_not_lost(path: tuple[Any, ...], value: Any, delta: Any) -> None:
    payload: Any = {"id": "a", "model": "m", "choices": [{"index": 0, "delta": {**delta}}]}
    [usual] = told("openai-chat", [*OPENING, named("openai-chat", payload)], is_fast=True)[-1]
    assert isinstance(usual, TextAdded)
    place = payload
    for key in path[:-1]:
        place = place[key]
    if isinstance(place, list):
        place.append(value)
    else:
        place[path[-1]] = value
    events = [*OPENING, named("openai-chat", payload)]
    assert told("openai-chat", events, is_fast=True) == told("openai-chat", events, is_fast=False)
