"""The promise of the views: every string that a delta brings is in one of them, or an anomaly names
it with its size.

Streams are damaged in the ways in which gateways damage them, and worse. What a delta brings is
read here from the JSON alone, without a decoder.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.projections.fold import Folding, Rows
from tests.support.facts import captured
from tests.support.recordings import GOOD as COMPARED
from tests.support.tables import table
from tests.unit.lint.test_every_api import GOOD as RULED

Payload = dict[str, Any]
Stream = list[Payload]

# -- streams


def written(api: str) -> list[Stream]:
    """The good replies of an API: that of the rules of `lint`, and the one that `diff` is tested
    with.
    """
    streams = []
    for reply in (RULED[api], COMPARED[api]):
        streams.append([event for event in reply.events if isinstance(event, dict)])
    return streams


def chat(*deltas: Payload) -> Stream:
    head = {"id": "c1", "object": "chat.completion.chunk", "model": "m"}
    return [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ] + [{**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]


def call(index: int, arguments: str, name: str | None = None) -> Payload:
    opening = {} if name is None else {"id": f"call_{name}", "type": "function"}
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, **opening, "function": function}]}


def block(index: int, opening: Payload, *deltas: Payload) -> Stream:
    return [
        {"type": "content_block_start", "index": index, "content_block": opening},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def parts(*given: Payload) -> Payload:
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": list(given)}}],
        "responseId": "g1",
    }


STREAMS: Mapping[str, Sequence[Stream]] = {
    "openai-chat": (
        *written("openai-chat"),
        chat(
            {"reasoning_content": "let me"},
            {"reasoning_content": " see"},
            {"content": "Right."},
            {"refusal": "No!"},
        ),
        chat(
            *(call(0, "", "look"), call(0, '{"city":'), call(0, '"Rome"}')),
            *(call(1, "", "hear"), call(1, '{"tone":'), call(1, '"flat"}')),
        ),
        chat(
            {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
            {"content": "Yes"},
        ),
    ),
    "anthropic": written("anthropic"),
    "openai-responses": written("openai-responses"),
    "gemini": (
        *written("gemini"),
        [
            parts(
                {"functionCall": {"name": "look", "args": {"city": "Rome"}}},
                {"functionCall": {"name": "hear"}},
            ),
            parts({"executableCode": {"language": "PYTHON", "code": "print(7)"}}),
            parts({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "seven"}}),
        ],
    ),
}

# -- what deltas bring

_ABOUT = """
    type id role model object format channel provider created status phase caller language seed p thought
    index item_id output_index content_index summary_index call_id responseId modelVersion createTime namespace
    signature data encrypted_content encrypted_index reasoning_opaque thoughtSignature obfuscation media_type
    finish_reason native_finish_reason stop_reason matched_stop stop_sequence stop_details finishReason finishMessage
    safetyRatings citationMetadata groundingMetadata urlContextMetadata logprobsResult logprobs annotations container
    usage usageMetadata provider_metadata promptFeedback x_groq metadata system_fingerprint service_tier time_info
    content_filter_results prompt_filter_results trace_details error response server_label fallback_credit_token
    outcome mimeType jsonPath nullValue toolType displayName videoMetadata partMetadata mediaResolution
"""

ABOUT = frozenset(_ABOUT.split())
"""Members that say something of the content, and are none."""

QUIET = re.compile(
    r"message_(start|stop|delta)|content_block_(start|stop)|ping|error|keepalive|response\.audio\..*|steer|inject"
    r"|"
    r"response\.(created|queued|in_progress|completed|incomplete|failed|output_item\..*|content_part\..*|reasoning.*part\..*)"
    r"|"
    r"response\..*\.(done|in_progress|searching|completed|interpreting|generating|partial_image|failed|compacting|added"
    r"|executing|accepted|pending|created)"
)
"""The types of events that are known, and bring no delta."""


def brought(api: str, payload: Any) -> list[str]:
    """The texts that an event brings."""
    return [*_strings(_delta(api, payload))]


def _delta(api: str, payload: Any) -> Any:
    if not isinstance(payload, dict):
        return payload
    if api == "gemini":
        return payload.get("candidates", payload)
    if api == "openai-chat":
        choices = payload.get("choices")
        return [_of_choice(choice) for choice in choices] if isinstance(choices, list) else payload
    if isinstance(payload.get("type"), str) and QUIET.fullmatch(payload["type"]):
        return None
    return payload.get("delta", payload)


def _of_choice(choice: Any) -> Any:
    if not isinstance(choice, dict):
        return choice
    places = (choice.get(name) for name in ("delta", "message"))
    return next((place for place in places if isinstance(place, dict)), choice)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value and not value.startswith("data:"):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            is_name = name == "name" and isinstance(each, str)
            if name not in ABOUT and not name.endswith(("_id", "_at")) and not is_name:
                yield from _strings(each)


# -- what views and anomalies say

COLUMNS = {
    "message": ("text", "refusal", "annotations"),
    "reasoning": ("text", "summary_text"),
    "tool_call": ("name", "arguments", "output"),
    "other": ("type", "name", "text", "arguments", "output"),
}


def shown(rows: Rows) -> list[str]:
    """The texts that views show, by the columns of each."""
    values = [getattr(row, name) for row in rows["items"] for name in COLUMNS[row.kind]]
    values += [
        value
        for row in rows["exchanges"]
        for value in (row.error, row.error_type, row.finish_reason)
    ]
    return [value for value in values if value]


def named(rows: Rows) -> int:
    """The characters that anomalies say are missing."""
    sizes = (
        re.search(r"(\d+) characters?\)?$", row.detail.replace(",", ""))
        for row in rows["anomalies"]
    )
    return sum(int(size[1]) for size in sizes if size)


def is_shown(text: str, texts: Sequence[str]) -> bool:
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return any(text in each or written in each for each in texts)


def folded(api: str, stream: Sequence[Any], *, at_once: bool) -> Rows:
    """What a stream comes to, delta by delta or as many of them as there are together."""
    lines = [f"event: {_type(api, payload)}\ndata: {json.dumps(payload)}\n\n" for payload in stream]
    exchange, events = captured("".join(lines).encode(), api)
    folding = Folding(exchange)
    if at_once:
        folding.apply_all(events)
    else:
        for event in events:
            folding.apply(event)
    return folding.rows()


def vanished(api: str, stream: Sequence[Any], *, at_once: bool) -> list[str]:
    """The texts of deltas that are in no view; none if anomalies name as many characters."""
    rows = folded(api, stream, at_once=at_once)
    texts = shown(rows)
    missing = [
        text for payload in stream for text in brought(api, payload) if not is_shown(text, texts)
    ]
    return missing if sum(map(len, missing)) > named(rows) else []


def _type(api: str, payload: Any) -> str:
    type = payload.get("type") if isinstance(payload, dict) else None
    return type if isinstance(type, str) and "\n" not in type else "message"


# -- damage

NAMES = ("text", "content", "delta", "reasoning", "thinking", "reasoning_text", "args", "novel")
WORDS = (
    "text_delta",
    "thinking_delta",
    "input_json_delta",
    "novel_delta",
    "message",
    "reasoning",
    "function_call",
)
PLACES = frozenset(("index", "output_index", "content_index", "summary_index", "item_id", "id"))


def holders(value: Any) -> Iterator[dict[str, Any] | list[Any]]:
    """All objects and arrays in a value that have something."""
    if isinstance(value, dict | list) and value:
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from holders(each)


def _member(
    dice: random.Random, stream: Stream, wanted: Callable[[str], bool]
) -> tuple[dict[str, Any], str] | None:
    found = [
        (holder, name)
        for holder in holders(dice.choice(stream))
        if isinstance(holder, dict)
        for name in holder
        if wanted(name)
    ]
    return dice.choice(found) if found else None


def misplace(dice: random.Random, stream: Stream) -> None:
    if member := _member(dice, stream, PLACES.__contains__):
        member[0][member[1]] = dice.choice([0, 1, 2, 7, -1, "0", "msg_1", None, 1.5, True])


def unplace(dice: random.Random, stream: Stream) -> None:
    name = dice.choice(sorted(PLACES))
    for payload in stream:
        for holder in holders(payload):
            if isinstance(holder, dict) and name in holder:
                del holder[name]


def retype(dice: random.Random, stream: Stream) -> None:
    if member := _member(dice, stream, "type".__eq__):
        member[0]["type"] = dice.choice(
            [*WORDS, f"{member[0]['type']}x", 1, None, "response.output_text.delta"]
        )


def convert(dice: random.Random, stream: Stream) -> None:
    """Give a member a value of another type, which has the same text in it."""
    if member := _member(dice, stream, lambda name: True):
        holder, name = member
        value = holder[name]
        holder[name] = dice.choice(
            [[value], {"text": value}, {"novel": [value]}, json.dumps(value), 7, None, {}, []]
        )


def rename(dice: random.Random, stream: Stream) -> None:
    if member := _member(dice, stream, lambda name: True):
        holder, name = member
        holder[dice.choice(NAMES)] = holder.pop(name)


def extend(dice: random.Random, stream: Stream) -> None:
    """Add a text under a name, known or not, to an object of a delta."""
    found = [holder for holder in holders(dice.choice(stream)) if isinstance(holder, dict)]
    dice.choice(found)[dice.choice(NAMES)] = f"added {dice.randrange(1000)}"


def drop(dice: random.Random, stream: Stream) -> None:
    if len(stream) > 1:
        del stream[dice.randrange(len(stream))]


def repeat(dice: random.Random, stream: Stream) -> None:
    stream.insert(dice.randrange(len(stream)), deepcopy(dice.choice(stream)))


def move(dice: random.Random, stream: Stream) -> None:
    stream.insert(dice.randrange(len(stream)), stream.pop(dice.randrange(len(stream))))


def renumber(dice: random.Random, stream: Stream) -> None:
    """Number events, with errors: of numbers the order of deltas is made."""
    for number, payload in enumerate(stream):
        payload["sequence_number"] = number if dice.random() < 0.8 else dice.randrange(len(stream))


DAMAGES = (misplace, unplace, retype, convert, rename, extend, drop, repeat, move, renumber)


def damaged(stream: Stream, dice: random.Random) -> Stream:
    damage = deepcopy(stream)
    for _ in range(dice.randrange(1, 5)):
        dice.choice(DAMAGES)(dice, damage)
    return damage


@pytest.mark.long
@pytest.mark.parametrize("api", STREAMS)
@given(st.data())
# of each API: 10,000 with the thorough profile
@settings(max_examples=2_500 if settings().max_examples > 100 else 50)
def test_what_a_delta_brings_is_in_a_view_or_in_an_anomaly(api: str, data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from(STREAMS[api]))
    damage = damaged(stream, random.Random(data.draw(st.integers(0, 2**32))))
    assert vanished(api, damage, at_once=True) == []
    assert vanished(api, damage, at_once=False) == []


@pytest.mark.parametrize("api", STREAMS)
def test_streams_without_damage_have_all_in_views(api: str) -> None:
    for stream in STREAMS[api]:
        assert vanished(api, stream, at_once=True) == []


# -- where misplaced content goes


def added(index: int, **delta: Any) -> Payload:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def unannounced(of: str, id: str, piece: str) -> Payload:
    return {"type": f"response.{of}.delta", "output_index": 0, "item_id": id, "delta": piece}


TOOL = {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {}}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
SAID = {"content": [{"type": "output_text", "text": "Hi"}]}

MISPLACED: Sequence[tuple[str, Stream, list[tuple[str, str | None, str | None]]]] = (
    (
        "anthropic",
        [
            *block(
                0,
                {"type": "thinking", "thinking": ""},
                {"type": "thinking_delta", "thinking": "hm"},
            ),
            added(0, type="text_delta", text="Hel"),
            added(0, type="text_delta", text="lo"),
        ],
        [("reasoning", None, "hm"), ("message", None, "Hello")],
    ),
    (
        "anthropic",
        [
            {"type": "content_block_start", "index": 0, "content_block": TOOL},
            added(0, type="input_json_delta", partial_json='{"a"'),
            added(0, type="thinking_delta", thinking="two"),
            added(0, type="input_json_delta", partial_json=":1}"),
            {"type": "content_block_stop", "index": 0},
        ],
        [("tool_call", "get", '{"a":1}'), ("reasoning", None, "two")],
    ),
    ("anthropic", block(0, {**TOOL, "input": '{"a":1}'}), [("tool_call", "get", '{"a":1}')]),
    (
        "openai-responses",
        [
            *(unannounced("reasoning_summary_text", f"rs_{piece}", piece) for piece in "abc"),
            unannounced("output_text", "msg_7", "Hi"),
            {"type": "response.output_item.done", "output_index": 0, "item": {**MESSAGE, **SAID}},
        ],
        [("reasoning", None, "abc"), ("message", None, "Hi")],
    ),
    (
        "openai-responses",
        [
            {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE},
            unannounced("reasoning_summary_text", "msg_1", "think"),
            unannounced("output_text", "msg_1", "Hi"),
            unannounced("reasoning_summary_text", "msg_1", "ing"),
            {"type": "response.output_item.done", "output_index": 0, "item": {**MESSAGE, **SAID}},
        ],
        [("message", None, "Hi"), ("reasoning", None, "thinking")],
    ),
    (
        "gemini",
        [
            parts(
                {"functionCall": {"name": "get", "args": '{"a":1}'}},
                {"functionCall": {"name": "put"}},
            )
        ],
        [("tool_call", "get", '{"a":1}'), ("tool_call", "put", "{}")],
    ),
)


@table(("api", "stream", "expected"), MISPLACED)
def test_what_does_not_fit_its_item_is_an_item_beside_it(
    api: str, stream: Stream, expected: list[tuple[str, str | None, str | None]]
) -> None:
    for at_once in (True, False):
        rows = folded(api, stream, at_once=at_once)["items"]
        assert [
            (row.kind, row.name, row.summary_text or row.arguments or row.text) for row in rows
        ] == expected


EMPTY = {"type": "text", "text": ""}


@table(
    ("api", "stream", "expected"),
    [
        ("openai-chat", chat({"content": {"text": "Hi"}}), "delta.content.text (2 characters)"),
        (
            "openai-chat",
            chat({"content": "a"}, {"content": "b", "novel": "cd"}),
            "delta.novel (2 characters)",
        ),
        (
            "anthropic",
            block(0, EMPTY, {"type": "novel", "x": ["a", "b"]}),
            "delta.x (2 characters)",
        ),
        (
            "anthropic",
            [{"type": "novel_delta", "delta": {"text": "a"}}],
            "delta.text (1 character)",
        ),
        ("openai-responses", [unannounced("novel", "msg_1", "abc")], "delta (3 characters)"),
        (
            "gemini",
            [parts({"novel": {"words": "abc"}})],
            "candidates.content.parts.novel.words (3 characters)",
        ),
    ],
)
def test_text_in_an_unknown_place_is_an_anomaly_with_its_name_and_size(
    api: str, stream: Stream, expected: str
) -> None:
    for at_once in (True, False):
        found = [
            row.detail
            for row in folded(api, stream, at_once=at_once)["anomalies"]
            if row.kind == "unread"
        ]
        assert found == [expected]


def test_many_texts_in_one_payload_are_all_found() -> None:
    arguments = {"lines": [f"line {number}" for number in range(20_000)]}
    rows = folded(
        "gemini", [parts({"functionCall": {"name": "write", "args": arguments}})], at_once=True
    )
    assert "unread" not in [row.kind for row in rows["anomalies"]]
