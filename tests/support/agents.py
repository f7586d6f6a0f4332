"""What agents send: their whole history with every turn, in the words of each API."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

TURNS = 50
NAMES = [f"tool_{number}" for number in range(12)]

_WORDS = (
    "the",
    "file",
    "that",
    "was",
    "read",
    "says",
    "return",
    "value",
    "module",
    "test",
    "again",
    "error",
    "line",
)

Text = Callable[[int], str]


def _text(seed: int) -> Text:
    noise = random.Random(seed)
    return lambda size: "".join(
        noise.choice(_WORDS) + noise.choice("     \n") for _ in range(size // 5)
    )


def _properties(text: Text) -> dict[str, Any]:
    return {
        name: {"type": "string", "description": text(60)} for name in ("path", "pattern", "limit")
    }


def responses(turns: int = TURNS) -> Iterator[Any]:
    """The history, then tools and what else may change with every turn."""
    text = _text(1)
    tools = [{"type": "function", "name": name, "parameters": _properties(text)} for name in NAMES]
    rest = {"tools": tools, "stream": True}
    told: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": text(300)}]}]
    instructions = text(5000)
    for turn in range(turns):
        yield {"instructions": instructions, "input": told, **rest, "metadata": {"turn": str(turn)}}
        told += [
            {
                "type": "reasoning",
                "id": f"rs_{turn}",
                "summary": [],
                "encrypted_content": text(300),
            },
            {
                "type": "function_call",
                "call_id": f"call_{turn}",
                "name": NAMES[0],
                "arguments": text(80),
            },
            {"type": "function_call_output", "call_id": f"call_{turn}", "output": text(700)},
        ]


def chat(turns: int = TURNS) -> Iterator[Any]:
    """Something in front of the history changes."""
    text = _text(2)
    tools = [
        {"type": "function", "function": {"name": name, "parameters": _properties(text)}}
        for name in NAMES
    ]
    told: list[Any] = [
        {"role": "system", "content": text(5000)},
        {"role": "user", "content": text(300)},
    ]
    for turn in range(turns):
        yield {
            "model": "gpt-demo",
            "seed": 10**turn % 977,
            "messages": told,
            "tools": tools,
            "stream": True,
        }
        call = {
            "id": f"call_{turn}",
            "type": "function",
            "function": {"name": NAMES[0], "arguments": text(80)},
        }
        told += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": text(900)},
        ]


def anthropic(turns: int = TURNS) -> Iterator[Any]:
    """The marks of what is cached move on from message to message."""
    text = _text(3)
    tools = [{"name": name, "input_schema": _properties(text)} for name in NAMES]
    system = [{"type": "text", "text": text(5000), "cache_control": {"type": "ephemeral"}}]
    told: list[Any] = [{"role": "user", "content": [{"type": "text", "text": text(300)}]}]
    for turn in range(turns):
        marked = copy.deepcopy(told)
        for message in [each for each in marked if each["role"] == "user"][-2:]:
            message["content"][-1]["cache_control"] = {"type": "ephemeral"}
        yield {
            "model": "claude-demo",
            "system": system,
            "messages": marked,
            "tools": tools,
            "stream": True,
        }
        use = {
            "type": "tool_use",
            "id": f"toolu_{turn}",
            "name": NAMES[0],
            "input": {"path": text(80)},
        }
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": text(900)}
        told += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def gemini(turns: int = TURNS) -> Iterator[Any]:
    """Written with spaces, as `json.dumps` does it."""
    text = _text(4)
    tools = [
        {
            "functionDeclarations": [
                {"name": name, "parameters": _properties(text)} for name in NAMES
            ]
        }
    ]
    system = {"parts": [{"text": text(5000)}]}
    told: list[Any] = [{"role": "user", "parts": [{"text": text(300)}]}]
    for turn in range(turns):
        yield {"contents": told, "systemInstruction": system, "tools": tools}
        call = {"name": NAMES[0], "args": {"path": text(80)}}
        answer = {"name": NAMES[0], "response": {"output": text(900), "turn": turn}}
        told += [
            {"role": "model", "parts": [{"functionCall": call}]},
            {"role": "user", "parts": [{"functionResponse": answer}]},
        ]


AGENTS: Mapping[str, tuple[str, Callable[[int], Iterator[Any]]]] = {
    "openai-responses": ("/v1/responses", responses),
    "openai-chat": ("/v1/chat/completions", chat),
    "anthropic": ("/v1/messages", anthropic),
    "gemini": ("/v1beta/models/gemini-demo:streamGenerateContent", gemini),
}


def bodies(api: str, turns: int = TURNS) -> list[bytes]:
    separators = (", ", ": ") if api == "gemini" else (",", ":")
    return [json.dumps(body, separators=separators).encode() for body in AGENTS[api][1](turns)]
