"""The quick way of Chat Completions says what the slow one does, and nothing raises: mutated chunks, or any JSON."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.model.facts import Fact, TextAdded
from recorder.wire.dialects.decoder import JsonDecoder
from recorder.wire.dialects.openai_chat import DIALECT
from tests.support.tables import table

CHUNK = "chat.completion.chunk"

Event = tuple[str | None, bytes]


def told(said: Sequence[Event], *, quick: bool = True) -> list[Fact]:
    teller = DIALECT.decoder()
    assert isinstance(teller, JsonDecoder)
    if quick:
        return [fact for type_, data in said for fact in teller.event(type_, data)]
    return [fact for type_, data in said for fact in JsonDecoder.event(teller, type_, data)]


# Anything at all.

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["a", "error", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)

USUAL = (
    {"id": "a", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "A"}}]},
    {"id": "a", "model": "m", "choices": [{"index": 0, "delta": {"content": "B", "refusal": None, "channel": None}}]},
    {
        "id": "a",
        "choices": [
            {
                "index": 0,
                "delta": {
                    "content": "",
                    "reasoning": "C",
                    "reasoning_details": [{"type": "reasoning.text", "text": "C"}],
                },
                "logprobs": {"content": [], "reasoning_content": [], "tokens": []},
            }
        ],
    },
    {
        "id": "a",
        "choices": [{"index": 0, "delta": {"reasoning_content": "D", "reasoning": "E", "channel": "analysis"}}],
    },
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": ""}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}, "finish_reason": None}]},
    {
        "choices": [
            {"delta": {"function_call": {"name": "f", "arguments": "{"}, "images": [{"image_url": {"url": "data:,"}}]}}
        ]
    },
    {"choices": [{"delta": {"content": [{"type": "thinking", "thinking": [{"text": "F"}]}]}, "finish_reason": "stop"}]},
    {"choices": [{"text": "G", "message": {"content": "H"}, "error": None, "usage": {"prompt_tokens": 1}}]},
    {"x_groq": {"usage": {"completion_tokens_details": {"reasoning_tokens": 1}}}, "usage": {"total_tokens": 3}},
    {"error": {"message": "I", "code": 1}, "citations": ["J"], "search_results": [{"url": "K"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "L"}]}, {"role": "tool", "content": "M"}]},
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where something stands in a payload: container and key."""
    for key, inner in [*value.items()] if isinstance(value, dict) else [*enumerate(value)]:
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    payload = copy.deepcopy(draw(st.sampled_from(USUAL)))
    for _ in range(draw(st.integers(0, 2))):
        container, key = draw(st.sampled_from([*places(payload)] or [({}, "")]))
        container[key] = draw(ANY | st.sampled_from(USUAL).map(copy.deepcopy))
    return json.dumps(payload).encode()


STREAM = st.lists(st.tuples(st.sampled_from([CHUNK, "error", None]), mutated() | ANY.map(json.dumps).map(str.encode)))


OPENING: list[Event] = [(CHUNK, json.dumps(USUAL[position]).encode()) for position in (0, 2, 4)]
"""After which the quick way is open for every item."""


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


@table(("path", "value"), MORE)
@table(
    "delta",
    [{"content": "B"}, {"reasoning": "B"}, {"tool_calls": [{"index": 0, "function": {"arguments": "B"}}]}],
)
def test_what_more_a_usual_chunk_says_is_not_lost(path: tuple[Any, ...], value: Any, delta: Any) -> None:
    payload: Any = {"id": "a", "model": "m", "choices": [{"index": 0, "delta": {**delta}}]}
    (usual,) = told([*OPENING, (CHUNK, json.dumps(payload).encode())])[len(told(OPENING)) :]
    assert isinstance(usual, TextAdded)
    place = payload
    for key in path[:-1]:
        place = place[key]
    if isinstance(place, list):
        place.append(value)
    else:
        place[path[-1]] = value
    said = [*OPENING, (CHUNK, json.dumps(payload).encode())]
    assert told(said) == told(said, quick=False)


@given(st.sampled_from([[], OPENING]), STREAM)
def test_any_stream_is_told_and_alike_both_ways(opening: list[Event], stream: list[Event]) -> None:
    said = [*opening, *stream]
    assert repr(told(said)) == repr(told(said, quick=False))


@given(st.binary() | ANY.map(json.dumps).map(str.encode) | mutated())
def test_nothing_raises(data: bytes) -> None:
    teller = DIALECT.decoder()
    teller.event(CHUNK, data)
    teller.document(data)
    DIALECT.request_facts("/v1/chat/completions", data)


@given(st.integers(0, 2000), st.sampled_from(USUAL))
def test_a_payload_cut_anywhere_is_told(cut: int, payload: Any) -> None:
    data = json.dumps(payload).encode()[:cut]
    assert repr(told([(CHUNK, data)])) == repr(told([(CHUNK, data)], quick=False))
