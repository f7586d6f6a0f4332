"""The settings of a request of Chat Completions, and what is in its messages by kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from recorder.model.facts import RequestParameters
from recorder.wire.dialects.json_values import Object, array, objects
from recorder.wire.dialects.openai_parameters import MARKS, NOT_OF_ANSWER, settings
from recorder.wire.dialects.parameters import (
    cache_marks,
    contents,
    lifetime,
    request_digest,
    sized_texts,
    sized_tools,
    types_of,
)
from recorder.wire.dialects.user_text import OF_SYSTEM

_NOT_IN_REST = NOT_OF_ANSWER | {"model", "tools", "functions"}
_OF_TOOLS = ("tool", "function")  # roles of results
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Members of a message that hold reasoning sent back: one of them, or several."""

_THINKING = "thinking"  # the type of a part with reasoning, as Mistral has it


def parameters(path: str, request: Object, model: str | None) -> RequestParameters:
    """Return the parameters of a request; `path` has no query, `model` may be from it."""
    if not request:
        return RequestParameters()
    messages = objects(request.get("messages"))
    offered = [*array(request.get("tools")), *array(request.get("functions"))]
    tools, system = sized_tools(offered, MARKS), sized_texts(_system(messages))
    found = settings(request)
    marks = cache_marks([request, *objects(offered), *messages, *contents(messages)], MARKS)
    rest = {name: each for name, each in request.items() if name not in _NOT_IN_REST}
    given = [message for message in messages if message.get("role") in _OF_TOOLS]
    return msgspec.structs.replace(
        found,
        input_messages=sum(map(_has_words, messages)) + _prompts(request.get("prompt")),
        input_tool_calls=sum(map(_calls, messages)),
        input_tool_results=len(given),
        input_reasoning=sum(map(_has_reasoning, messages)),
        input_other=0,
        system_bytes=system.size_bytes,
        system_digest=system.digest,
        tools_bytes=tools.size_bytes,
        tools_digest=tools.digest,
        prompt_cache_retention=found.prompt_cache_retention or lifetime(marks),
        cache_markers=len(marks),
        request_digest=request_digest(path.rpartition("/")[2], model, system, tools, rest),
    )


def _has_words(message: Object) -> bool:
    """Return whether a message is more than calls, results or reasoning."""
    if message.get("role") in _OF_TOOLS:
        return False
    return any(type != _THINKING for type in types_of(message.get("content") or message.get("refusal")))


def _has_reasoning(message: Object) -> bool:
    return any(message.get(name) for name in _REASONING) or _THINKING in types_of(message.get("content"))


def _calls(message: Object) -> int:
    return len(objects(message.get("tool_calls"))) + isinstance(message.get("function_call"), dict)


def _prompts(prompt: Any) -> int:
    """Count the prompts of a legacy completion; one of token numbers counts too."""
    given = array(prompt)
    are_several = any(isinstance(each, str | list) for each in given)
    return len(given) if are_several else int(bool(prompt))


def _system(messages: list[Object]) -> Iterator[str]:
    """Yield the texts of the system that stand before all other messages."""
    for message in messages:
        if message.get("role") not in OF_SYSTEM:
            return
        content = message.get("content")
        if isinstance(content, str):
            yield content
        yield from (part["text"] for part in objects(content) if isinstance(part.get("text"), str))
