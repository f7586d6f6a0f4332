"""The parameters of requests: of each wire format, of real clients, and of any JSON."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.facts import RequestParameters, TierReported
from recorder.wire.dialects import DIALECTS, by_name, by_path
from recorder.wire.dialects.json_values import NESTING_LIMIT, fraction
from tests.support.corpus import CORPUS, TRANSCRIPTS, needs_corpus
from tests.support.tables import table
from tests.unit.wire.dialects.test_dialects import deeper

RESPONSES, CHAT, LEGACY, ANTHROPIC = (
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
)
GEMINI = "/v1beta/models/gemini-3-pro:generateContent"
PATHS = (RESPONSES, CHAT, LEGACY, ANTHROPIC, GEMINI, "/v1/threads")

Json = dict[str, Any]


def asked(path: str, body: Any) -> RequestParameters:
    return by_path("POST", path).request_facts(path, json.dumps(body).encode()).parameters


MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
BREAKPOINT = {"prompt_cache_breakpoint": {"ttl": "12h"}}
SCHEMA = {"type": "object", "properties": {}}

OF_RESPONSES: Json = {
    "model": "gpt-5.5",
    "instructions": "Be short.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "Rules é"}],
        },
        {"role": "user", "content": [{"type": "input_text", "text": "Roll", **BREAKPOINT}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "roll", "arguments": "{}"},
        {"type": "web_search_call"},
        {"type": "function_call_output", "call_id": "c", "output": "6"},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "message", "role": "developer", "content": "Later rules"},
    ],
    "tools": [
        {"type": "function", "name": "roll", "parameters": SCHEMA},
        {"type": "namespace", "name": "dice", "tools": [{"type": "function", "name": "throw"}]},
        {"type": "mcp", "server_label": "shop"},
        {"type": "web_search"},
    ],
    "reasoning": {"effort": "high", "summary": "detailed", "mode": "pro"},
    "text": {
        "verbosity": "low",
        "format": {"type": "json_schema", "name": "dice", "schema": SCHEMA},
    },
    "max_output_tokens": 500,
    "temperature": 1,
    "top_p": 0.5,
    "service_tier": "flex",
    "store": False,
    "tool_choice": {"type": "function", "name": "roll"},
    "parallel_tool_calls": True,
    "prompt_cache_key": "k",
}
OF_CHAT: Json = {
    "model": "anthropic/claude",
    "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "Roll", **MARK}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning": "Hm",
            "tool_calls": [{"id": "c"}, {"id": "d"}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "6"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": []}]},
    ],
    "tools": [
        {"type": "function", "function": {"name": "roll"}, **MARK},
        {"type": "custom", "custom": {"name": "sql"}},
    ],
    "reasoning": {"max_tokens": 2000, "enabled": True},
    "verbosity": "high",
    "response_format": {"type": "json_schema", "json_schema": {"name": "dice", "schema": SCHEMA}},
    "max_completion_tokens": 64,
    "max_tokens": 65,
    "service_tier": "priority",
    "tool_choice": {"type": "function", "function": {"name": "roll"}},
    "prompt_cache_retention": "24h",
}
BILLING = "x-anthropic-billing-header: cc_version=2.1.37; cch={};"
SIX = {"type": "text", "text": "6", **MARK}
OF_ANTHROPIC: Json = {
    "model": "claude-opus-5",
    "max_tokens": 32000,
    "system": [
        {"type": "text", "text": BILLING.format("a1")},
        {"type": "text", "text": "Be short.", **MARK},
    ],
    "messages": [
        {"role": "user", "content": "Roll"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "s"},
                {"type": "text", "text": "I roll."},
                {"type": "tool_use", "id": "t", "name": "roll", "input": {}},
                {"type": "server_tool_use", "id": "u", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "u", "content": []},
                {"type": "container_upload", "file_id": "f"},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": [SIX], **MARK}],
        },
        {"role": "user", "content": [{"type": "image", "source": {}}]},
    ],
    "tools": [
        {"name": "roll", "input_schema": SCHEMA},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "thinking": {"type": "enabled", "budget_tokens": 4096, "display": "omitted"},
    "output_config": {
        "effort": "max",
        "format": {"type": "json_schema", "schema": {**SCHEMA, "title": "Dice"}},
    },
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "service_tier": "standard_only",
    "metadata": {"user_id": "u"},
}
OF_GEMINI: Json = {
    "systemInstruction": {"parts": [{"text": "Be short."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Roll"}]},
        {
            "role": "model",
            "parts": [{"text": "Hm", "thought": True}, {"functionCall": {"name": "roll"}}],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "roll", "response": {}}}]},
        {"role": "user", "parts": [{"inlineData": {}}, {"videoMetadata": {}}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "roll"}, {"name": "look"}]}, {"googleSearch": {}}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["roll"]}},
    "generationConfig": {
        "maxOutputTokens": 100,
        "temperature": 0.2,
        "topP": 0.9,
        "responseMimeType": "application/json",
        "responseSchema": {"title": "Dice"},
        "thinkingConfig": {"thinkingBudget": -1, "thinkingLevel": "HIGH", "includeThoughts": True},
    },
    "serviceTier": "FLEX",
    "cachedContent": "cachedContents/1",
}

BODIES = {RESPONSES: OF_RESPONSES, CHAT: OF_CHAT, ANTHROPIC: OF_ANTHROPIC, GEMINI: OF_GEMINI}

OFFERED = ("roll", "dice.throw", "shop", "web_search")
# What each of them says; `...` where the others say more.
SAID = [
    ("reasoning_effort", "high", ..., "max", "high"),
    ("reasoning_mode", "pro", "enabled", "enabled", ...),
    ("reasoning_summary", "detailed", ..., "omitted", "true"),
    ("verbosity", "low", "high", ..., ...),
    ("max_output_tokens", 500, 64, 32000, 100),
    ("temperature", 1.0, ..., ..., 0.2),
    ("top_p", 0.5, ..., ..., 0.9),
    ("service_tier", "flex", "priority", "standard_only", "flex"),
    ("store", False, ..., ..., ...),
    ("response_format", "json_schema", "json_schema", "json_schema", "json_schema"),
    ("response_schema", "dice", "dice", "Dice", "Dice"),
    ("tool_choice", "roll", "roll", "any", "roll"),
    ("parallel_tool_calls", True, ..., False, ...),
    (
        "tool_names",
        OFFERED,
        ("roll", "sql"),
        ("roll", "web_search"),
        ("roll", "look", "googleSearch"),
    ),
    ("system_bytes", len("Be short.Rules é".encode()), 9, len(BILLING.format("a1")) + 9, 9),
    ("prompt_cache_key", "k", ..., ..., "cachedContents/1"),
    ("prompt_cache_retention", "12h", "24h", "1h", ...),
    ("cache_markers", 1, 2, 3, 0),
    ("input_messages", 3, 2, 3, 2),
    ("input_tool_calls", 2, 2, 2, 1),
    ("input_tool_results", 1, 1, 2, 1),
    ("input_reasoning", 1, 2, 1, 1),
    ("input_other", 1, 0, 1, 1),
    ("reasoning_budget_tokens", ..., 2000, 4096, -1),
]


@pytest.mark.parametrize("path", BODIES)
def test_a_request_has_its_settings_and_what_is_in_it(path: str) -> None:
    """And a message over WebSocket, or a request that is wrapped, has the same."""
    body, place = BODIES[path], list(BODIES).index(path)
    expected = {name: values[place] for name, *values in SAID if values[place] is not ...}
    wrapped = (
        {"model": "m", "request": body} if path == GEMINI else {"type": "response.create", **body}
    )
    for sent in (body, wrapped):
        found = asked(path, sent)
        assert {name: getattr(found, name) for name in expected} == expected


def test_a_field_of_gemini_may_be_in_snake_case() -> None:
    config = {
        "max_output_tokens": 7,
        "thinking_config": {"thinking_budget": 0},
        "response_mime_type": "text/plain",
    }
    calling = {"function_calling_config": {"mode": "AUTO"}}
    found = asked(
        GEMINI, {"contents": [], "generation_config": config, "tool_config": calling, "tools": None}
    )
    assert (found.max_output_tokens, found.reasoning_budget_tokens, found.response_format) == (
        7,
        0,
        "text",
    )
    assert (found.tool_choice, found.tool_names, found.tools_digest, found.tools_bytes) == (
        "auto",
        (),
        None,
        0,
    )


AS_ENUM = {"responseMimeType": "text/x.enum"}


@table(
    ("path", "body", "name", "value"),
    [
        (CHAT, {"reasoning_effort": "minimal"}, "reasoning_effort", "minimal"),
        (CHAT, {"thinking": {"type": "disabled"}}, "reasoning_mode", "disabled"),
        (CHAT, {"enable_thinking": False}, "reasoning_mode", "disabled"),
        (CHAT, {"max_tokens": 5}, "max_output_tokens", 5),
        (
            CHAT,
            {"functions": [{"name": "roll"}], "function_call": {"name": "roll"}},
            "tool_choice",
            "roll",
        ),
        (CHAT, {"functions": [{"name": "roll"}]}, "tool_names", ("roll",)),
        (LEGACY, {"prompt": ["a", "b"]}, "input_messages", 2),
        (LEGACY, {"prompt": [1, 2]}, "input_messages", 1),
        (RESPONSES, {"input": "Roll"}, "input_messages", 1),
        (
            RESPONSES,
            {"tools": [{"name": "dice", "tools": [{}, {"name": "throw"}]}]},
            "tool_names",
            ("dice.throw",),
        ),
        (RESPONSES, {"tools": [{"tools": [{"name": "throw"}]}]}, "tool_names", ("throw",)),
        (
            RESPONSES,
            {"input": [], "reasoning": {"generate_summary": "auto"}},
            "reasoning_summary",
            "auto",
        ),
        (
            RESPONSES,
            {"input": [], "prompt_cache_options": {"ttl": "30m"}},
            "prompt_cache_retention",
            "30m",
        ),
        (RESPONSES, {"input": [], "tool_choice": "required"}, "tool_choice", "required"),
        (
            RESPONSES,
            {"input": [], "tool_choice": {"type": "allowed_tools"}},
            "tool_choice",
            "allowed_tools",
        ),
        (
            ANTHROPIC,
            {"messages": [], "tool_choice": {"type": "tool", "name": "roll"}},
            "tool_choice",
            "roll",
        ),
        (ANTHROPIC, {"messages": [], **MARK}, "cache_markers", 1),
        (ANTHROPIC, {"messages": [], "system": "Be short."}, "system_bytes", 9),
        (GEMINI, {"contents": [], "generationConfig": AS_ENUM}, "response_format", "text/x.enum"),
    ],
)
def test_other_spellings_mean_the_same(path: str, body: Json, name: str, value: object) -> None:
    assert getattr(asked(path, {"model": "m", **body}), name) == value


def test_what_is_not_there_is_null_and_what_does_not_fit_is_too() -> None:
    for path in PATHS:
        dialect = by_path("POST", path)
        assert dialect.request_facts(path, b"").parameters == RequestParameters()
        assert dialect.request_facts(path, b"no json").parameters == RequestParameters()
    odd = {
        "temperature": 10**400,
        "top_p": True,
        "max_output_tokens": 2**63,
        "store": 1,
        "service_tier": 7,
    }
    found = asked(RESPONSES, {"model": "m", "input": [], **odd})
    assert (
        found.temperature,
        found.top_p,
        found.max_output_tokens,
        found.store,
        found.service_tier,
    ) == (None,) * 5
    assert (
        by_name("openai-chat").request_facts(CHAT, b'{"temperature": NaN}').parameters.temperature
        is None
    )
    assert [fraction(value) for value in (1, 0.5, float("inf"), "1", None)] == [
        1.0,
        0.5,
        None,
        None,
        None,
    ]


# -- digests


def other(body: Json, **fields: Any) -> Json:
    return {**copy.deepcopy(body), **fields}


def test_digests_show_changes_of_the_system_and_of_tools_and_nothing_else() -> None:
    for path, body in BODIES.items():
        before = asked(path, body)
        changed: dict[str, Json] = {
            RESPONSES: {"instructions": "Be long."},
            CHAT: {
                "messages": [
                    {"role": "system", "content": "Be long."},
                    *body.get("messages", [])[1:],
                ]
            },
            ANTHROPIC: {"system": "Be long."},
            GEMINI: {"systemInstruction": {"parts": [{"text": "Be long."}]}},
        }
        after = asked(path, other(body, **changed[path]))
        assert (after.system_digest != before.system_digest, after.tools_digest) == (
            True,
            before.tools_digest,
        )
        after = asked(path, other(body, tools=body["tools"][::-1]))
        assert (after.system_digest, after.tools_digest != before.tools_digest) == (
            before.system_digest,
            True,
        )
        assert after.request_digest != before.request_digest
        assert after.tools_bytes == before.tools_bytes


def test_tools_that_codex_sends_before_its_instructions_do_not_end_them() -> None:
    offered = {
        "type": "additional_tools",
        "role": "developer",
        "tools": [{"type": "function", "name": "roll"}],
    }
    rules = {"type": "message", "role": "developer", "content": "Be short."}
    asked_for = asked(
        RESPONSES,
        {"model": "gpt-5.5", "input": [offered, rules, {"role": "user", "content": "Roll"}]},
    )
    assert asked_for.system_bytes == len("Be short.")
    assert asked_for.input_messages == 2


def test_sizes_are_those_of_all_that_is_sent() -> None:
    tools = [{"name": "é", "parameters": {"type": "object"}, **MARK}]
    size = len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode())
    for path in (CHAT, RESPONSES, ANTHROPIC):
        assert asked(path, {"model": "m", "tools": tools}).tools_bytes == size
    system = [{"type": "text", "text": BILLING.format("b2")}, {"type": "text", "text": "é"}]
    found = asked(ANTHROPIC, {"model": "m", "messages": [], "system": system})
    assert found.system_bytes == len(BILLING.format("b2")) + 2


def test_what_a_client_changes_with_every_request_changes_no_digest_of_the_system_and_the_tools() -> (
    None
):
    before = asked(ANTHROPIC, OF_ANTHROPIC)
    system = [{"type": "text", "text": BILLING.format("b2")}, {"type": "text", "text": "Be short."}]
    tools = [{**OF_ANTHROPIC["tools"][0], **MARK}, OF_ANTHROPIC["tools"][1]]
    after = asked(ANTHROPIC, other(OF_ANTHROPIC, system=system, tools=tools))
    assert (after.system_digest, after.tools_digest) == (before.system_digest, before.tools_digest)
    later = asked(RESPONSES, other(OF_RESPONSES, input=OF_RESPONSES["input"][:2]))
    assert later.system_digest == asked(RESPONSES, OF_RESPONSES).system_digest


@table(
    ("path", "body", "fields"),
    [
        (
            RESPONSES,
            OF_RESPONSES,
            {"client_metadata": {"turn": "2"}, "metadata": {"a": "b"}, "stream": True},
        ),
        (
            RESPONSES,
            OF_RESPONSES,
            {"prompt_cache_key": "other", "type": "response.create", "safety_identifier": "x"},
        ),
        (CHAT, OF_CHAT, {"stream": True, "stream_options": {"include_usage": True}, "user": "x"}),
        (ANTHROPIC, OF_ANTHROPIC, {"stream": True, "metadata": {"user_id": "other"}}),
        (GEMINI, OF_GEMINI, {"session_id": "s"}),
    ],
)
def test_the_same_request_sent_again_has_its_digest(path: str, body: Json, fields: Json) -> None:
    again = json.loads(json.dumps(other(body, **fields), sort_keys=True))
    assert asked(path, again).request_digest == asked(path, body).request_digest


def test_another_request_has_another_digest() -> None:
    for path, body in BODIES.items():
        paths = {path, ANTHROPIC + "/count_tokens" if path == ANTHROPIC else path}
        one = asked(path, body).request_digest
        for fields in (
            {"model": "other"} if path != GEMINI else {"cachedContent": "c"},
            {"temperature": 0.7},
        ):
            assert asked(path, other(body, **fields)).request_digest != one
        assert len({asked(each, body).request_digest for each in paths}) == len(paths)
    assert (
        asked(RESPONSES, other(OF_RESPONSES, previous_response_id="resp_1")).request_digest != one
    )


def test_a_stream_that_is_asked_for_as_a_document_instead_is_the_same_request_to_gemini() -> None:
    streamed = GEMINI.replace("generateContent", "streamGenerateContent")
    assert asked(streamed, OF_GEMINI).request_digest == asked(GEMINI, OF_GEMINI).request_digest
    assert asked(GEMINI.replace("generate", "count"), OF_GEMINI) != asked(GEMINI, OF_GEMINI)


# -- any JSON

_FIELDS = {name for body in BODIES.values() for name in body}
_WORDS = st.sampled_from(
    sorted(_FIELDS | {"type", "role", "content", "text", "name", "parts", "ttl"})
)
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_WORDS | st.text(), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(_ANY, st.sampled_from(PATHS))
def test_no_json_makes_it_raise(value: Any, path: str) -> None:
    for dialect in DIALECTS:
        found = dialect.request_facts(path, json.dumps(value).encode()).parameters
        assert found == dialect.request_facts(path, json.dumps(value).encode()).parameters


@given(st.data(), st.sampled_from(sorted(BODIES)))
def test_no_value_of_any_field_makes_it_raise(data: st.DataObject, path: str) -> None:
    changed = copy.deepcopy(BODIES[path])
    places = list(_places(changed))
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(_ANY)
    asked(path, changed)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)


@table("text", ["x", "\ud800"])
@table("path", PATHS)
def test_json_may_nest_as_deep_as_it_is_read(path: str, text: str) -> None:
    deep: Any = text
    for _ in range(NESTING_LIMIT - 2):
        deep = [deep]
    names = (
        "input",
        "messages",
        "contents",
        "tools",
        "system",
        "reasoning",
        "tool_choice",
        "metadata",
    )
    body = {"model": "m", **dict.fromkeys(names, deep)}
    assert deeper(500, lambda: asked(path, body).request_digest) == asked(path, body).request_digest


# -- real clients


@needs_corpus
def test_the_requests_of_the_corpus_are_as_they_are_read_in_another_way() -> None:
    seen = 0
    for file in sorted(CORPUS.rglob("*.request.json")):
        recorded = json.loads(file.read_text())
        body, path = (
            recorded.get("body"),
            "/" + recorded.get("url", "").partition("://")[2].partition("/")[2],
        )
        dialect = by_path("POST", path.partition("?")[0])
        if not isinstance(body, dict) or dialect.name == "other":
            continue
        found = dialect.request_facts(path.partition("?")[0], json.dumps(body).encode()).parameters
        seen += 1
        tools = body.get("tools") or []
        functions = [each for tool in tools for each in tool.get("functionDeclarations", [])]
        others = [tool for tool in tools if "functionDeclarations" not in tool]
        assert len(found.tool_names or ()) == len(functions) + len(others), file
        limits = ("max_output_tokens", "max_completion_tokens", "max_tokens", "maxOutputTokens")
        settings = {**body, **(body.get("generationConfig") or body.get("generation_config") or {})}
        assert found.max_output_tokens == next(
            (settings[name] for name in limits if name in settings), None
        ), file
        assert found.temperature == settings.get("temperature"), file
        assert found.cache_markers == sum(key == "cache_control" for _, key in _places(body)), file
        assert found.input_messages, file
    assert seen > 200


@pytest.mark.skipif(
    not TRANSCRIPTS.exists(), reason="no transcripts: set RECORDER_WIRE to the folder that has them"
)
def test_what_codex_sends_over_websocket_is_read() -> None:
    lines = (TRANSCRIPTS / "codex-0.169-spawn-frames.jsonl").read_text().splitlines()
    sent = [each["data"] for each in map(json.loads, lines) if isinstance(each.get("data"), dict)]
    first, *rest = [
        asked(RESPONSES, each) for each in sent if each.get("type") == "response.create"
    ]
    expected = ("auto", False, "auto", 17119)
    assert (first.reasoning_summary, first.store, first.tool_choice, first.system_bytes) == expected
    assert {"exec_command", "multi_agent_v1.close_agent", "web_search"} < {
        *(first.tool_names or ())
    }
    assert [each.tools_digest == first.tools_digest for each in rest].count(True) == 3
    assert len({each.request_digest for each in (first, *rest)}) == len(rest) + 1


# -- the service tier of a response

TIERS: dict[str, list[Json]] = {
    "openai-responses": [
        {"type": "response.created", "response": {"id": "r", "service_tier": "auto"}},
        {
            "type": "response.completed",
            "response": {"id": "r", "service_tier": "default", "status": "completed"},
        },
    ],
    "openai-chat": [
        {"object": "chat.completion.chunk", "service_tier": "auto", "choices": []},
        {"object": "chat.completion.chunk", "service_tier": "default", "choices": []},
        {"object": "chat.completion.chunk", "service_tier": "", "choices": []},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"usage": {"service_tier": "auto"}}},
        {"type": "message_delta", "delta": {}, "usage": {"service_tier": "default"}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}},
    ],
    "gemini": [
        {"candidates": [], "usageMetadata": {"serviceTier": "AUTO"}},
        {"candidates": [], "usageMetadata": {"serviceTier": "default"}},
    ],
}


@pytest.mark.parametrize("name", TIERS)
def test_a_response_has_its_service_tier_again_where_it_changes(name: str) -> None:
    decoder = by_name(name).decoder()
    events = [event for event in TIERS[name] for _ in range(2)]
    facts = [
        fact
        for event in events
        for fact in decoder.event(event.get("type"), json.dumps(event).encode())
    ]
    assert [fact.tier for fact in facts if isinstance(fact, TierReported)] == ["auto", "default"]
    assert not [
        fact
        for fact in by_name(name).decoder().event(None, b'{"usage": {"service_tier": 7}}')
        if isinstance(fact, TierReported)
    ]
