"""The settings that a request has in both of OpenAI's wire formats. Pure.

Gateways send members of the one format in the other, and members of their own: all are read wherever they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.model.facts import RequestParameters
from recorder.wire.dialects.conversation import Role, Tool
from recorder.wire.dialects.json_values import Object, flag, fraction, object_, text, whole
from recorder.wire.dialects.parameters import first_text, lifetime

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

NOT_OF_ANSWER = frozenset(
    {"stream", "stream_options", "metadata", "client_metadata", "user", "safety_identifier", "prompt_cache_key"}
)
"""Members that decide nothing of an answer, and may differ when the same is sent again."""

_MODES = {True: "enabled", False: "disabled"}


def settings(request: Object) -> RequestParameters:
    """Return the settings of a request: all but what depends on its messages."""
    reasoning, thinking = object_(request.get("reasoning")), object_(request.get("thinking"))
    format = object_(object_(request.get("text")).get("format")) or object_(request.get("response_format"))
    get = request.get
    return RequestParameters(
        reasoning_effort=first_text((reasoning.get("effort"), get("reasoning_effort"))),
        reasoning_mode=_mode(request, reasoning, thinking),
        reasoning_summary=first_text((reasoning.get("summary"), reasoning.get("generate_summary"))),
        reasoning_budget_tokens=_first_whole(
            (reasoning, "max_tokens"), (thinking, "budget_tokens"), (request, "thinking_budget")
        ),
        verbosity=first_text((object_(get("text")).get("verbosity"), get("verbosity"))),
        max_output_tokens=_first_whole(
            (request, "max_output_tokens"), (request, "max_completion_tokens"), (request, "max_tokens")
        ),
        temperature=fraction(get("temperature")),
        top_p=fraction(get("top_p")),
        service_tier=text(get("service_tier")),
        store=flag(get("store")),
        response_format=text(format.get("type")),
        response_schema=first_text((format.get("name"), object_(format.get("json_schema")).get("name"))),
        tool_choice=_choice(get("tool_choice", get("function_call"))),
        parallel_tool_calls=flag(get("parallel_tool_calls")),
        prompt_cache_key=text(get("prompt_cache_key")),
        prompt_cache_retention=lifetime((get("prompt_cache_retention"), get("prompt_cache_options"))),
    )


def _mode(request: Object, reasoning: Object, thinking: Object) -> str | None:
    """Return the mode of reasoning: a word of OpenAI, Z.ai or DeepSeek, or the switch of OpenRouter or Qwen."""
    switch = flag(reasoning.get("enabled", request.get("enable_thinking")))
    return first_text((reasoning.get("mode"), thinking.get("type"))) or (None if switch is None else _MODES[switch])


def _first_whole(*places: tuple[Object, str]) -> int | None:
    found = (whole(holder.get(name)) for holder, name in places)
    return next((each for each in found if each is not None), None)


def _named(value: Object) -> str | None:
    """Return the name of a tool, else the server that has it, else its type."""
    name = value.get("name")
    if name is None:
        nested = object_(value.get("function")) or object_(value.get("custom"))
        name = nested.get("name")
    return first_text((name, value.get("server_label"), value.get("type")))


def tool_of(given: Object) -> Tool:
    """Return a tool. Chat Completions has what it is in a member of its own."""
    function, custom = object_(given.get("function")), object_(given.get("custom"))
    about = custom or function or given
    type, description = given.get("type"), about.get("description")
    if custom or type == "custom":
        return Tool("free_text", _named(given), description)
    if function or type == "function":
        return Tool("function", _named(given), description, about.get("parameters"), about.get("strict"))
    return Tool("provider", _named(given))


def _choice(value: Any) -> str | None:
    return value if isinstance(value, str) else _named(object_(value))
