"""Messages of each provider in the form of the convention's schemas."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.exports.otlp.source import MessagePart, input_messages, instructions
from recorder.wire.dialects import by_name
from recorder.wire.dialects.conversation import Conversation

ANTHROPIC = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Look.", "signature": "x"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bern"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}],
    },
]
CHAT = [
    {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
    {
        "role": "assistant",
        "reasoning_content": "Look.",
        "content": "I look.",
        "tool_calls": [
            {
                "id": "toolu_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city":"Bern"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "toolu_1", "content": "sunny"},
]
EXPECTED: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]},
    {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "Look."},
            {"type": "text", "content": "I look."},
            {
                "type": "tool_call",
                "id": "toolu_1",
                "name": "weather",
                "arguments": {"city": "Bern"},
            },
        ],
    },
    {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "toolu_1", "response": "sunny"}],
    },
]


def conversation(api: str, **request: Any) -> Conversation:
    conversation_of = by_name(api).conversation
    assert conversation_of is not None
    return conversation_of("/", request)


def said(api: str, member: str, items: Any) -> list[MessagePart]:
    return input_messages(conversation(api, **{member: items}))


@pytest.mark.parametrize(("api", "messages"), [("anthropic", ANTHROPIC), ("openai-chat", CHAT)])
def test_messages_with_blocks(api: str, messages: Any) -> None:
    assert said(api, "messages", messages) == EXPECTED


def test_items_of_responses_are_messages_of_their_own() -> None:
    items = [
        {"role": "user", "content": "Weather?"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Look."}],
            "encrypted_content": "x",
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look."}],
        },
        {
            "type": "function_call",
            "call_id": "toolu_1",
            "name": "weather",
            "arguments": '{"city":"Bern"}',
        },
        {"type": "function_call_output", "call_id": "toolu_1", "output": "sunny"},
    ]
    found = said("openai-responses", "input", items)
    assert [each["role"] for each in found] == ["user", *["assistant"] * 3, "tool"]
    expected = [part for message in EXPECTED for part in message["parts"]]
    assert [part for message in found for part in message["parts"]] == expected


def test_contents_of_gemini() -> None:
    contents = [
        {
            "role": "user",
            "parts": [
                {"text": "Weather?"},
                {"inlineData": {"mimeType": "image/png", "data": "eA=="}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Look.", "thought": True},
                {"functionCall": {"name": "weather", "args": {"city": "Bern"}}},
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "weather", "response": {"result": "sunny"}}}],
        },
    ]
    assert said("gemini", "contents", contents) == [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "Weather?"},
                {"type": "unknown", "inlineData": {"mimeType": "image/png", "data": "eA=="}},
            ],
        },
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Look."},
                {"type": "tool_call", "id": None, "name": "weather", "arguments": {"city": "Bern"}},
            ],
        },
        {
            "role": "tool",
            "parts": [
                {"type": "tool_call_response", "id": "weather", "response": {"result": "sunny"}}
            ],
        },
    ]


@pytest.mark.parametrize(
    ("api", "member", "system"),
    [
        ("anthropic", "system", "Be brief."),
        ("anthropic", "system", [{"type": "text", "text": "Be brief.", "cache_control": {}}]),
        ("openai-responses", "instructions", "Be brief."),
        ("gemini", "systemInstruction", {"parts": [{"text": "Be brief."}]}),
        ("gemini", "system_instruction", {"parts": [{"text": "Be brief."}]}),
    ],
)
def test_a_system_prompt_is_its_parts(api: str, member: str, system: Any) -> None:
    assert instructions(conversation(api, **{member: system})) == [
        {"type": "text", "content": "Be brief."}
    ]


def test_a_block_without_a_form_stays_as_it_is() -> None:
    block = {"type": "input_image", "image_url": "https://example.com/x.png"}
    message = {"role": "user", "content": [block]}
    assert said("openai-responses", "input", [message]) == [{"role": "user", "parts": [block]}]


@pytest.mark.parametrize(
    "items",
    [
        *(
            None,
            1,
            {},
            [],
            [None],
            [1.5],
            ["text"],
            [{}],
            [{"role": 5}],
            [{"role": "user"}],
            [[[]]],
        ),
        [
            {
                "role": "user",
                "content": [
                    None,
                    1,
                    [],
                    {"type": 5},
                    {"type": "text"},
                    {"text": None},
                    {"type": "reasoning"},
                ],
            }
        ],
        [
            {
                "role": "assistant",
                "tool_calls": [None, {}, {"type": 5}, {"type": "function", "function": "x"}],
            }
        ],
        [
            {"type": "function_call", "arguments": "{"},
            {"type": "tool_use"},
            {"functionCall": 5},
            {"functionResponse": 5},
        ],
        [
            {"role": "user", "content": {"type": "text", "text": {"deep": 1}}},
            {"type": "thinking", "thinking": 5},
        ],
    ],
)
@pytest.mark.parametrize(
    ("api", "member"),
    [
        ("anthropic", "messages"),
        ("openai-chat", "messages"),
        ("openai-responses", "input"),
        ("gemini", "contents"),
    ],
)
def test_nothing_that_was_recorded_raises(api: str, member: str, items: Any) -> None:
    for message in said(api, member, items):
        assert isinstance(message["role"], str)
        assert message["parts"]
        for part in message["parts"]:
            assert isinstance(part["type"], str)
            assert part["type"] not in ("text", "reasoning") or isinstance(part["content"], str)
    for place in ("system", "instructions", "systemInstruction"):
        instructions(conversation(api, **{place: items}))
