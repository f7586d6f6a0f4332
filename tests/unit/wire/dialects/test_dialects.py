"""Each frame says what it is, and no frame can make the log refuse it. Half of this long file is
tables.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.model.facts import Fact, MalformedPayload, TextAdded
from recorder.wire.dialects import DIALECTS, Dialect, Keys, by_name, by_path
from recorder.wire.dialects.json_values import NESTING_LIMIT, too_deep
from recorder.wire.framing.sse import Splitter, parse
from tests.support.corpus import CORPUS, corpus_index, each_stream
from tests.support.tables import table

T = TypeVar("T")

RESPONSES = by_name("openai-responses").keys
CHAT = by_name("openai-chat").keys
ANTHROPIC = by_name("anthropic").keys
GEMINI = by_name("gemini").keys
OTHER = by_name("other").keys


def frame(payload: object, event: str | None = None) -> bytes:
    data = payload if isinstance(payload, str) else json.dumps(payload)
    return (f"event: {event}\n" if event else "").encode() + f"data: {data}\n\n".encode()


def said(keys: Keys) -> tuple[str | None, int | None, str | None, int | None]:
    return keys.type, keys.sequence_number, keys.item_id, keys.output_index


# -- what each dialect reads


RESPONSES_TYPES = [
    (frame({"sequence_number": 1}, "response.created"), "response.created"),
    (frame({"type": "keepalive", "sequence_number": 4}), "keepalive"),
    (frame({"type": "error", "sequence_number": 2, "error": {"code": "x"}}), "error"),
    (frame({"type": "error", "code": "x", "message": "flat"}), "error"),
    (frame({"error": {"message": "no type"}}), "error"),
    (frame({"error": "a text"}), "error"),
    (frame({"error": None}), None),
    (frame("[DONE]"), "[DONE]"),
    (frame("[DONE]", "message"), "[DONE]"),
    (frame({"type": ""}, "named.by.the.line"), "named.by.the.line"),
    (frame({"type": ""}), None),
    (b"data: {}\nevent: after.the.data\n\n", "after.the.data"),
]


@table(("raw", "type"), RESPONSES_TYPES)
def test_the_type_of_a_responses_event(raw: bytes, type: str | None) -> None:
    assert RESPONSES(raw).type == type


CHAT_KEYS = [
    (
        frame({"object": "chat.completion.chunk", "id": "cc_1", "choices": [{"index": 1}]}),
        "chat.completion.chunk",
        1,
    ),
    (frame({"object": "chat.completion.chunk", "choices": []}), "chat.completion.chunk", None),
    (
        frame({"object": "text_completion", "choices": [{"text": "a", "index": 0}]}),
        "text_completion",
        0,
    ),
    (frame({"object": "", "choices": [], "prompt_filter_results": []}), None, None),
    (frame({"error": {"message": "tool_use_failed"}}), "error", None),
    (
        frame({"object": "chat.completion.chunk", "error": {"code": 1}, "choices": [{"index": 0}]}),
        "error",
        0,
    ),
    (frame("[DONE]"), "[DONE]", None),
    (b'error: {"detail":"context size"}\n\n', "error", None),
]


ANTHROPIC_KEYS = [
    ({"type": "content_block_delta", "index": 2, "delta": {}}, "content_block_delta", None, 2),
    (
        {"type": "content_block_start", "index": 1, "content_block": {"id": "t_1"}},
        "content_block_start",
        "t_1",
        1,
    ),
    (
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        "content_block_start",
        None,
        0,
    ),
    ({"type": "message_start", "message": {"id": "msg_1"}}, "message_start", None, None),
    ({"type": "ping"}, "ping", None, None),
    ({"type": "error", "error": {"type": "overloaded_error"}}, "error", None, None),
    ({"error": {"type": "from_a_gateway"}}, "error", None, None),
]


@table(("payload", "type", "item_id", "index"), ANTHROPIC_KEYS)
def test_an_anthropic_event(
    payload: object, type: str, item_id: str | None, index: int | None
) -> None:
    assert said(ANTHROPIC(frame(payload))) == (type, None, item_id, index)


GEMINI_KEYS = [
    (b'data: {"candidates":[{"index":1}]}\r\n\r\n', "GenerateContentResponse", 1),
    (b'data: {"candidates":[{"content":{}}]}\r\n\r\n', "GenerateContentResponse", 0),
    (b'data: {"candidates":[{"index":"x"}]}\r\n\r\n', "GenerateContentResponse", None),
    (b'data: {"usageMetadata":{}}\r\n\r\n', "GenerateContentResponse", None),
    (b'data: {"error":{"code":429}}\r\n\r\n', "error", None),
    (b'{\n  "error": {\n    "code": 503\n  }\n}\n\n', "error", None),
    (b'{"candidates":[]}\n\n', None, None),
    (b"data: 7\r\n\r\n", None, None),
]


@table(("keys", "rows"), [(CHAT, CHAT_KEYS), (GEMINI, GEMINI_KEYS)])
def test_a_chunk_is_named_by_its_object_or_as_a_response_and_has_no_item(
    keys: Any, rows: list[Any]
) -> None:
    for raw, type, index in rows:
        assert said(keys(raw)) == (type, None, None, index)


OTHER_KEYS = [
    (
        frame({"type": "message-start", "delta": {}}, "message-start"),
        ("message-start", None, None, None),
    ),
    (
        frame({"type": "tool_calls"}, "thread.run.step.created"),
        ("thread.run.step.created", None, None, None),
    ),
    (frame("[DONE]", "done"), ("done", None, None, None)),
    (frame("[DONE]"), ("[DONE]", None, None, None)),
    (frame("plain text", "progress"), ("progress", None, None, None)),
    (
        frame({"type": "x", "sequence_number": 1, "item_id": "i", "output_index": 2}),
        ("x", 1, "i", 2),
    ),
]


@table(("raw", "expected"), OTHER_KEYS)
def test_any_other_stream_is_read_by_the_names_we_know(
    raw: bytes, expected: tuple[Any, ...]
) -> None:
    assert said(OTHER(raw)) == expected


# -- what the log cannot hold is left out, and only that

UNFIT = ['"7"', "1.0", "true", str(2**63), str(-(2**63) - 1), "1" + "0" * 5000, "[]", "{}", "null"]


@table("number", UNFIT)
def test_a_number_that_is_no_bigint_is_left_out_alone(number: str) -> None:
    event = '{"type": "t", "item_id": "i", "output_index": 1, "sequence_number": ' + number + "}"
    assert said(RESPONSES(frame(event))) == ("t", None, "i", 1)
    assert CHAT(frame({"object": "o", "choices": [{"index": 3}, {"index": "x"}]})).output_index == 3


@table("text", ['"a\\u0000b"', '"\\ud83d"', '"\\ude00x"', '"' + "x" * 513 + '"', "7", "[]", "{}"])
@table("where", ['"item_id":@', '"item":{"id":@}'])
def test_a_text_that_no_database_holds_is_left_out_alone(text: str, where: str) -> None:
    raw = frame(
        '{"type":"t","sequence_number":5,"output_index":1,' + where.replace("@", text) + "}"
    )
    keys = RESPONSES(raw)
    assert said(keys) == ("t", 5, None, 1)
    assert keys.data_start == 6


def test_the_extremes_that_fit_are_kept() -> None:
    event = {
        "type": "é" * 512,
        "sequence_number": 2**63 - 1,
        "output_index": -(2**63),
        "item_id": "𝄞" * 512,
    }
    assert said(RESPONSES(frame(event))) == (event["type"], 2**63 - 1, event["item_id"], -(2**63))


def test_half_an_emoji_in_the_text_costs_no_key() -> None:
    keys = RESPONSES(
        frame('{"type":"t","sequence_number":5,"item_id":"i","output_index":0,"delta":"\\ud83d"}')
    )
    assert said(keys) == ("t", 5, "i", 0)
    assert keys.data_length is not None


@table(("line", "type"), [(b"a\0b", None), (b"x" * 513, None), (b"a\xffb", "a\ufffdb")])
def test_an_event_line_is_a_type_that_a_database_holds_or_none(
    line: bytes, type: str | None
) -> None:
    raw = b"event: " + line + b"\ndata: {}\n\n"
    assert OTHER(raw).type == RESPONSES(raw).type == type


# -- where the payload stands

PLACES = [
    (b'data: {"a":1}\n\n', b'{"a":1}'),
    (b'event: x\r\ndata:{"a":1}   \r\n\r\n', b'{"a":1}   '),
    (b"data: 12\n\n", b"12"),
    (b'data: "\\ud83d"\n\n', b'"\\ud83d"'),
    (b'data: {"a":\ndata: 1}\n\n', None),
    (b'data: {"a":1\n\n', None),
    (b"data: [DONE]\n\n", None),
    (b"data: NaN\n\n", None),
    (b"data: \xef\xbb\xbf{}\n\n", None),
    (b'data: {"a":"\xff"}\n\n', None),
    (b'data: {"\xed\xa0\xbd":1}\n\n', None),
    (b"data: " + b"[" * 100_000 + b"\n\n", None),
    (b"event: x\n\n", None),
    (b"", None),
]


@table(("raw", "payload"), PLACES)
@table("dialect", DIALECTS)
def test_the_payload_is_pointed_at_only_where_it_is_one_line_of_json(
    dialect: Any, raw: bytes, payload: bytes | None
) -> None:
    keys = dialect.keys(raw)
    if payload is None:
        assert (keys.data_start, keys.data_length) == (None, None)
    else:
        assert raw[keys.data_start :][: keys.data_length] == payload


def test_a_payload_over_several_lines_is_read_and_a_broken_one_leaves_the_type_of_the_event_line() -> (
    None
):
    assert RESPONSES(b'data: {"type":"t",\ndata: "sequence_number":3}\n\n') == Keys("t", 3)
    assert RESPONSES(b'event: response.created\ndata: {"type":"x\n\n') == Keys("response.created")


# -- depth


def deeper(frames: int, call: Callable[[], T]) -> T:
    """`call()`, that much further down the stack."""
    return deeper(frames - 1, call) if frames else call()


def deep(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    """A payload of that many levels, its own included."""
    return (
        b'{"type":"t","error":null,"deep":'
        + opening * (levels - 1)
        + b"1"
        + closing * (levels - 1)
        + b"}"
    )


@table("levels", [NESTING_LIMIT, NESTING_LIMIT + 1, 500, 975, 987, 990, 2000])
@table(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@table("dialect", DIALECTS)
def test_what_a_deep_payload_says_does_not_hang_on_the_stack(
    dialect: Dialect, opening: bytes, closing: bytes, levels: int
) -> None:
    raw = b"event: e\ndata: " + deep(levels, opening, closing) + b"\n\n"
    keys = dialect.keys(raw)
    assert keys == deeper(500, lambda: dialect.keys(raw))
    assert (keys.data_start is None) == (levels > NESTING_LIMIT)
    assert levels <= NESTING_LIMIT or keys == Keys("e")


@pytest.mark.parametrize("levels", [NESTING_LIMIT, NESTING_LIMIT + 1, 987])
def test_the_facts_of_a_deep_payload_do_not_hang_on_the_stack(levels: int) -> None:
    data = b'{"index":0,"delta":{"type":"text_delta","text":"said"},' + deep(levels)[1:]

    def facts() -> list[type[Fact]]:
        return [
            type(fact) for fact in by_name("anthropic").decoder().event("content_block_delta", data)
        ]

    assert (
        facts()
        == deeper(500, facts)
        == [TextAdded if levels <= NESTING_LIMIT else MalformedPayload]
    )


@given(
    st.recursive(
        st.text('[]{}"\\ a', max_size=6),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_brackets_are_counted_outside_texts_only(value: object) -> None:
    data = json.dumps([value, "[" * NESTING_LIMIT]).encode()
    assert not too_deep(data)
    assert too_deep(b"[" * NESTING_LIMIT + data + b"]" * NESTING_LIMIT)
    assert not too_deep(data + b"," + b"[]," * NESTING_LIMIT)


@pytest.mark.parametrize("level", [(b"[", b"]"), (b'{"":', b"}")], ids=["arrays", "objects"])
@pytest.mark.parametrize("size", [100, 100_000])
def test_the_limit_is_the_same_in_long_json(level: tuple[bytes, bytes], size: int) -> None:
    for levels in (NESTING_LIMIT, NESTING_LIMIT + 1):
        data = level[0] * levels + b'"' + b"x" * size + b'"' + level[1] * levels
        assert too_deep(data) == (levels > NESTING_LIMIT)


# -- any bytes

NASTY = (
    b'data:|data: |event: |{|}|,|[|]|"type":|"index":|"item":|"choices":|"candidates":|"error":|"\\ud800"|"\\u0000"'
    b'|[DONE]|\xff|\0|\xf0\x9f|NaN|-1|1e999|{"type":"t"}|{"type":7}|{"id":"i"}|7777777777777777777777777'
).split(b"|")
LONG_TEXT = b'"' + b"x" * 600 + b'"'
TOKENS = st.sampled_from([*NASTY, b"\n", b"\r\n", b"\n\n", LONG_TEXT])
BLOCKS = st.one_of(st.binary(max_size=200), st.lists(TOKENS, max_size=25).map(b"".join))


def assert_storable(keys: Keys) -> None:
    for text in (keys.type, keys.item_id):
        assert text is None or (len(text) <= 512 and "\0" not in text and text.encode())
    for number in (keys.sequence_number, keys.output_index):
        assert number is None or (type(number) is int and -(2**63) <= number < 2**63)


@given(BLOCKS)
@settings(max_examples=300)
def test_no_block_is_refused_and_all_it_says_can_be_stored(raw: bytes) -> None:
    for dialect in DIALECTS:
        keys = dialect.keys(raw)
        assert_storable(keys)
        if keys.data_start is not None:
            json.loads(raw[keys.data_start :][: keys.data_length].decode())


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-5, 5),
    st.floats(),
    st.text(max_size=20),
    st.just("\ud800"),
)
NESTED = st.one_of(
    VALUES, st.lists(VALUES, max_size=2), st.dictionaries(st.sampled_from(["id", "index"]), VALUES)
)
FIELDS = st.sampled_from(
    ["type", "sequence_number", "item_id", "output_index", "item", "delta", "index"]
)


def text_or_none(value: object) -> str | None:
    return (
        value
        if isinstance(value, str) and value and "\0" not in value and "\ud800" not in value
        else None
    )


def whole_or_none(value: object) -> int | None:
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


@given(st.dictionaries(FIELDS, NESTED))
@settings(max_examples=300)
def test_quick_and_tolerant_reading_agree_with_the_standard_library(event: dict[str, Any]) -> None:
    try:
        raw = frame(json.dumps(event, allow_nan=False))
    except ValueError:
        return
    item = event.get("item")
    inner = text_or_none(item.get("id")) if isinstance(item, dict) else None
    keys = RESPONSES(raw)
    assert (keys.type, keys.sequence_number, keys.item_id or None, keys.output_index) == (
        text_or_none(event.get("type")),
        whole_or_none(event.get("sequence_number")),
        text_or_none(event.get("item_id")) or inner,
        whole_or_none(event.get("output_index")),
    )


# -- which dialect

ROUTES = [
    ("POST", "/v1/responses", "openai-responses"),
    ("POST", "/responses", "openai-responses"),
    ("GET", "/v1/responses/resp_1", "openai-responses"),
    ("GET", "/v1/responses/resp_1/input_items", "openai-responses"),
    ("POST", "/v1/responses/compact", "openai-responses"),
    ("POST", "/openai/v1/responses", "openai-responses"),
    ("POST", "/backend-api/codex/responses", "openai-responses"),
    ("POST", "/v1/chat/completions", "openai-chat"),
    ("POST", "/chat/completions", "openai-chat"),
    ("POST", "/openai/deployments/x/chat/completions", "openai-chat"),
    ("POST", "/v1beta/openai/chat/completions", "openai-chat"),
    ("GET", "/v1/chat/completions/c_1/messages", "openai-chat"),
    ("POST", "/v1/completions", "openai-chat"),
    ("POST", "/v1/messages", "anthropic"),
    ("post", "/messages", "anthropic"),
    ("POST", "/v1/messages/count_tokens", "anthropic"),
    ("GET", "/v1/messages/batches/b_1/results", "anthropic"),
    (
        "POST",
        "/v1/projects/p/locations/l/publishers/anthropic/models/c@20250219:streamRawPredict",
        "anthropic",
    ),
    ("POST", "/v1beta/models/gemini-3:streamGenerateContent", "gemini"),
    ("POST", "/v1/models/gemini-3%3AstreamGenerateContent", "gemini"),
    ("POST", "/v1/models/gemini-3:generateContent", "gemini"),
    ("POST", "/v1/models/gemini-3:countTokens", "gemini"),
    (
        "POST",
        "/v1beta1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent",
        "gemini",
    ),
    ("POST", "/v1internal:streamGenerateContent", "gemini"),
    ("POST", "/v1/threads/t_1/messages", "other"),
    ("POST", "/v1/threads/t_1/runs", "other"),
    ("POST", "/v1beta/interactions", "gemini-interactions"),
    ("POST", "/v1beta2/interactions", "gemini-interactions"),
    ("GET", "/v1beta/interactions/v1_abc", "gemini-interactions"),
    ("POST", "/v1beta1/projects/p/locations/l/interactions/v1_abc/cancel", "gemini-interactions"),
    ("GET", "/v1beta/interactions/live", "gemini-interactions-live"),
    ("POST", "/mcp", "mcp"),
    ("GET", "/shop/mcp/", "mcp"),
    ("POST", "/mcp/other", "other"),
    ("POST", "/model/eu.amazon.nova%3A0/converse-stream", "bedrock-converse"),
    ("POST", "/bedrock/model/us.anthropic.claude-opus-5/invoke", "bedrock-invoke"),
    ("POST", "/model/us.amazon.nova-lite-v1%3A0/invoke-with-response-stream", "bedrock-models"),
    ("POST", "/api/chat", "ollama"),
    ("POST", "/ollama/api/generate", "ollama"),
    ("GET", "/api/chat", "other"),
    ("POST", "/api/pull", "other"),
    ("POST", "/v2/chat", "other"),
    ("GET", "/v1/models", "other"),
    ("GET", "/v1/responses-of-another-kind", "other"),
    ("GET", "/", "other"),
    ("GET", "", "other"),
    ("OPTIONS", "*", "other"),
]


@table(("method", "path", "name"), ROUTES)
def test_the_route_tells_the_dialect(method: str, path: str, name: str) -> None:
    assert by_path(method, path).name == name


@pytest.mark.parametrize(
    "path", ["/" + "a/" * 30_000, "/" + " /" * 30_000, "/responses" * 6_000 + "x", "/\n" * 30_000]
)
def test_a_hostile_path_is_told_in_no_time(path: str) -> None:
    assert by_path("POST", path).name in {"other", "openai-responses"}


def test_names_find_their_dialect_and_unknown_ones_are_other() -> None:
    assert [by_name(dialect.name) for dialect in DIALECTS] == list(DIALECTS)
    assert by_name("of-a-later-version").name == "other"


ENDINGS = [
    ("openai-responses", frame({"type": "response.completed"}), "completed"),
    ("openai-responses", frame({"type": "response.incomplete"}), "incomplete"),
    ("openai-responses", frame({"type": "response.failed"}), "failed"),
    ("openai-responses", frame({"type": "error", "error": {}}), "failed"),
    ("openai-responses", frame("[DONE]"), None),
    ("openai-chat", frame("[DONE]"), "completed"),
    ("openai-chat", frame({"error": {"code": 500}}), "failed"),
    ("anthropic", frame({"type": "message_stop"}), "completed"),
    ("anthropic", frame({"type": "message_delta"}), None),
    ("anthropic", frame({"type": "error", "error": {}}), "failed"),
    ("gemini-interactions", frame({"event_type": "interaction.completed"}), "completed"),
    ("gemini-interactions", frame({"event_type": "error", "error": {}}), "failed"),
    ("gemini-interactions", frame({"event_type": "step.stop"}), None),
    ("gemini-interactions", frame("[DONE]"), None),
    ("mcp", frame({"jsonrpc": "2.0", "id": 0, "result": {}}), "completed"),
    ("mcp", frame({"jsonrpc": "2.0", "id": 0, "error": {"code": -32601}}), "failed"),
    ("mcp", frame({"jsonrpc": "2.0", "id": 0, "method": "sampling/createMessage"}), None),
    (
        "a2a",
        frame({"result": {"kind": "status-update", "status": {"state": "completed"}}}),
        "completed",
    ),
    (
        "a2a",
        frame({"result": {"statusUpdate": {"status": {"state": "TASK_STATE_FAILED"}}}}),
        "failed",
    ),
    ("a2a", frame({"result": {"kind": "status-update", "status": {"state": "working"}}}), None),
    ("bedrock-converse", frame({"usage": {}}, "metadata"), "completed"),
    ("bedrock-converse", frame({"message": "no"}, "throttlingException"), "failed"),
    ("ollama", frame({"done": True}), "completed"),
    ("ollama", frame({"done": False}), None),
    ("ollama", frame({"error": "a text"}), "failed"),
    ("openai-realtime", frame({"type": "response.done"}), "completed"),
    ("gemini-live", frame({"serverContent": {"turnComplete": True}}), "completed"),
    (
        "gemini-live",
        frame({"serverContent": {"turnComplete": True, "interactionStatus": "IN_PROGRESS"}}),
        None,
    ),
    ("gemini-interactions-live", frame({"event_type": "interaction.completed"}), "completed"),
    (
        "gemini-interactions-live",
        frame({"events": [{"event_type": "interaction.cancelled"}]}),
        "incomplete",
    ),
    ("gemini-interactions-live", frame({"event_type": "error", "error": {}}), None),
    ("openai-realtime", frame({"type": "error", "error": {}}), None),
    ("ag-ui", frame({"type": "RUN_FINISHED"}), "completed"),
    ("ag-ui", frame({"type": "RUN_ERROR"}), "failed"),
    ("gemini", frame({"error": {"code": 500}}), "failed"),
    ("gemini", frame({"candidates": [{"finishReason": "STOP"}]}), None),
]


@table(("name", "raw", "ending"), ENDINGS)
def test_the_events_that_end_a_stream(name: str, raw: bytes, ending: str | None) -> None:
    dialect = by_name(name)
    assert dialect.terminal.get(dialect.keys(raw).type or "") == ending


def test_these_wire_formats_promise_a_last_event() -> None:
    promising = {dialect.name for dialect in DIALECTS if dialect.needs_terminal}
    others = {
        "a2a",
        "ag-ui",
        "gemini-interactions",
        "mcp",
        "ollama",
        "openai-realtime",
        "gemini-live",
    }
    others |= {"bedrock-converse", "bedrock-invoke", "gemini-interactions-live"}
    assert promising == {"openai-responses", "anthropic", *others}, (
        "name a further one here, and its last event in `ENDINGS`"
    )


# -- recorded streams

# the rest by its name, else `other`
DIALECT_OF = {"openai-completions": "openai-chat", "error-only": "gemini"}

Counts = dict[str | None, int]

# By a part of the file's name: what we count more often than the index, and what less often.
DIFFERENT_BY_INTENT: dict[str, tuple[Counts, Counts]] = {
    # A chunk with both an object and an error is an error to us.
    "test_openrouter_stream_error": ({}, {"chat.completion.chunk": 1}),
    # `error:` as a field name, and bare JSON: no event to the standard, which the index follows.
    "gpustack_qwen3_streams_thinking": ({"error": 1}, {}),
    "mlmodel_gemini.cassette": ({"error": 1}, {}),
    # Two events whose data is not JSON, which the index leaves out.
    "parallel-tool-call-wrapper": ({None: 2}, {}),
    # The index leaves out the end marker where it is none of the provider's own.
    "anthropic.gateway_message_delta_metadata": ({"[DONE]": 1}, {}),
    "chat_function_calling_cohere": ({"[DONE]": 1}, {}),
    # The end mark is one, whatever its `event:` line says.
    "google-genai-v2.5.sse": ({"[DONE]": 1}, {"done": 1}),
    "google-genai-v2-latest.5.sse": ({"[DONE]": 1}, {"done": 1}),
}


def blocks_of(path: Path) -> list[bytes]:
    splitter = Splitter()
    pieces = splitter.feed(path.read_bytes()) + splitter.close()
    return [piece.raw for piece in pieces if piece.kind in {"frame", "tail"}]


def assert_types_are_those_of_the_index(entry: dict[str, Any], path: Path) -> None:
    dialect = by_name(DIALECT_OF.get(entry["provider"], entry["provider"]))
    counted = Counter(dialect.keys(raw).type for raw in blocks_of(path))
    known = Counter(
        {None if type == "(no object)" else type: n for type, n in entry["event_types"].items()}
    )
    more, less = next(
        (counts for part, counts in DIFFERENT_BY_INTENT.items() if part in path.name), ({}, {})
    )
    assert counted - known == Counter(more)
    assert known - counted == Counter(less)


def index_of(value: object, member: str) -> object:
    first = value[0] if isinstance(value, list) and value else None
    return (
        first.get("index", 0 if member == "candidates" else None)
        if isinstance(first, dict)
        else None
    )


EXPECTED: dict[str, Callable[[Any], tuple[Any, Any, Any]]] = {
    "openai-responses": lambda event: (
        event.get("sequence_number"),
        event.get("item_id") or (event.get("item") or {}).get("id"),
        event.get("output_index"),
    ),
    "openai-chat": lambda event: (None, None, index_of(event.get("choices"), "choices")),
    "anthropic": lambda event: (
        None,
        (event.get("content_block") or {}).get("id"),
        event.get("index"),
    ),
    "gemini": lambda event: (None, None, index_of(event.get("candidates"), "candidates")),
    "gemini-interactions": lambda event: (
        None,
        (event.get("step") or {}).get("id"),
        event.get("index"),
    ),
    "other": lambda event: (
        event.get("sequence_number"),
        event.get("item_id"),
        event.get("output_index"),
    ),
}


def assert_keys_are_those_of_the_standard_library(name: str, raw: bytes) -> None:
    keys, fields = by_name(name).keys(raw), parse(raw)
    try:
        event = json.loads(fields.data or b"")
    except ValueError:
        assert said(keys)[1:] == (None, None, None)
        return
    assert said(keys)[1:] == EXPECTED[name](event)
    assert keys.data_start is not None
    assert raw[keys.data_start :][: keys.data_length] == fields.data


@each_stream(corpus_index())
def test_recorded_streams_are_read_right(entry: dict[str, Any]) -> None:
    path = CORPUS / entry["file"]
    assert_types_are_those_of_the_index(entry, path)
    name = by_name(DIALECT_OF.get(entry["provider"], entry["provider"])).name
    for raw in blocks_of(path):
        assert_keys_are_those_of_the_standard_library(name, raw)
