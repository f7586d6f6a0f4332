"""Ownership of the fields of a response by levels, so that one change is reported once.

`answer` and `tools` own the texts, names and arguments that the items of a response come to, wherever the stream says
them: in deltas, at their end, in the item, in the whole response. `usage` owns the counts. `events` sees all the rest:
these fields are blank there, but only where they say what the other level shows. A `.done` that contradicts its item is
an event that differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from recorder.diff.noise import Kind, noise
from recorder.replay.matching.noise import Rules

Owner = Literal["said", "argument", "usage", "echo"]
"""Texts and calls; members of what a tool of the provider is called with; counts; what repeats a request's noise."""

Tree = Mapping[str, Any]
"""Steps of paths, `*` for any, to an `Owner`, a kind of noise or a further tree."""

_ITEM = ("content.*.text", "content.*.refusal", "summary.*.text", "arguments", "input", "code", "name")
_CALLED = ("action", "operation", "actions")  # what tools of the provider are called with: objects
_MEMBERS = ("queries", "prompt", "revised_prompt")  # the same, without an object around them
_PLACES = ("item", "response.output.*", "output.*")
_CHAT = (
    *("content", "content.*.text", "content.*.thinking.*.text", "refusal", "reasoning", "reasoning_content"),
    *("reasoning_details.*.text", "reasoning_details.*.summary"),
    *("tool_calls.*.function.arguments", "tool_calls.*.function.name", "function_call.arguments", "function_call.name"),
)
_PART = ("text", "functionCall.name", "functionCall.args", "executableCode.code", "toolCall.toolType", "toolCall.args")
_BLOCK = ("text", "thinking", "name", "input", "content")

_SAID: Mapping[str, tuple[str, ...]] = {
    "openai-responses": (
        *("delta", "text", "refusal", "arguments", "input", "code", "name", "part.text", "part.refusal"),
        *(f"{place}.{path}" for place in _PLACES for path in (*_ITEM, *_CALLED)),
    ),
    "openai-chat": (
        *(f"choices.*.{place}.{path}" for place in ("delta", "message") for path in _CHAT),
        "choices.*.text",
    ),
    "anthropic": (
        *("delta.text", "delta.thinking", "delta.partial_json", "delta.content", "delta.stop_details.explanation"),
        *(f"{place}.{path}" for place in ("content_block", "content.*") for path in _BLOCK),
    ),
    "gemini": tuple(f"{wrapper}candidates.*.content.parts.*.{path}" for wrapper in ("", "response.") for path in _PART),
}

_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "openai-responses": tuple(f"{place}.{name}" for place in _PLACES for name in _MEMBERS)
}

_USAGE: Mapping[str, tuple[str, ...]] = {
    "openai-responses": ("response.usage", "usage"),
    "openai-chat": ("usage", "x_groq.usage"),
    "anthropic": ("message.usage", "usage"),
    "gemini": ("usageMetadata", "response.usageMetadata"),
}


def owned(api: str, rules: Rules, *, is_stream: bool = True) -> Tree:
    """Return the fields of an API's payloads that `events` does not own, and those that are noise."""
    tree: dict[str, Any] = {}
    for path, kind in noise(api, is_stream=is_stream):
        _plant(tree, (path,), kind)
    _plant(tree, _SAID.get(api, ()), "said")
    _plant(tree, _ARGUMENTS.get(api, ()), "argument")
    _plant(tree, _USAGE.get(api, ()), "usage")
    _plant(tree, (f"response.{rule.what}" for rule in rules.rules if rule.kind == "fields"), "echo")
    return tree


def _plant(tree: dict[str, Any], paths: Iterable[str], owner: Owner | Kind) -> None:
    for path in paths:
        *steps, last = path.split(".")
        place: Any = tree
        for step in steps:
            below = place.setdefault(step, {})
            if not isinstance(below, dict):  # a text, or a list of parts that have texts
                below = place[step] = {"": below}
            place = below
        if isinstance(place.get(last), dict):
            place[last][""] = owner
        else:
            place[last] = owner
