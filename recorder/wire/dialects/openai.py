"""OpenAI, whose API speaks two of the wire formats: `openai_responses` and `openai_chat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.model.facts import RequestParameters
from recorder.wire.dialects.canonical import first_text, lifetime
from recorder.wire.dialects.conversation import Role, Tool
from recorder.wire.dialects.json_values import Object, flag, fraction, member, names, object_, text, whole
from recorder.wire.dialects.prompt import CachePolicy

_ERRORS: Mapping[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("requests", "rate_limit_exceeded"),
}


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the shape of OpenAI's."""
    standard = ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    kind, usual = _ERRORS.get(status, standard)
    return {"error": {"message": message, "type": kind, "param": None, "code": code or usual}}


# -- the prompt cache

# The prompt cache of OpenAI, which both of its wire formats have.
#
# Source: OpenAI's guide "Prompt caching" of September 2026. Prompts of 1,024 tokens or more; cached tokens are counted
# in steps of 128; GPT-5.5 caches prefixes that end each 2,048 tokens. A prefix is kept for 5 to 10 minutes without use,
# and at most an hour; with `prompt_cache_retention: "24h"`, which newer models have without it, usually for 30 minutes
# and at most 24 hours; GPT-5.6 and later keep it for 30 minutes at least.
_HOUR = 3600

CACHE = CachePolicy(
    minimums=((r"gpt-5\.5", 2048), (r"", 1024)),  # of GPT-5.5: where the first prefix ends
    lapses_s=(
        (r"gpt-(?:5\.[6-9]|[6-9](?!\d))", (_HOUR // 2, 24 * _HOUR)),
        (r"", (300, 24 * _HOUR)),  # a model may have the longer retention without a word in the request
    ),
    intervals=((r"gpt-5\.5", 2048),),
    retentions={"in_memory": (300, _HOUR), "in-memory": (300, _HOUR), "24h": (_HOUR // 2, 24 * _HOUR)},
)

SUSPECTS = (
    "prompt_cache_key",  # goes into the choice of the machine, which has a cache of its own
    "parallel_tool_calls",
    "service_tier",  # not in the guide
    "prompt_cache_options",
)
"""Parameters of which OpenAI says that they change the prefix, or does not say that they leave it. `tool_choice` leaves
it: the guide recommends to change that in place of the tools."""

MARKS = ("prompt_cache_breakpoint", "cache_control")
"""The members of a block that mark the end of a prefix to be cached: from GPT-5.6 on, and of gateways to other models.
They are not content."""


# -- the settings of a request

# Gateways send members of the one format in the other, and members of their own: all are read wherever they are.
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

NOT_OF_ANSWER = names("stream stream_options metadata client_metadata user safety_identifier prompt_cache_key")
"""Members that decide nothing of an answer, and may differ when the same is sent again."""

_MODES = {True: "enabled", False: "disabled"}


def settings(request: Object) -> RequestParameters:
    """Return the settings of a request: all but what depends on its messages."""
    reasoning, thinking = object_(request, "reasoning"), object_(request, "thinking")
    format = object_(request, "text", "format") or object_(request, "response_format")
    get = request.get
    return RequestParameters(
        reasoning_effort=first_text((reasoning.get("effort"), get("reasoning_effort"))),
        reasoning_mode=_mode(request, reasoning, thinking),
        reasoning_summary=first_text((reasoning.get("summary"), reasoning.get("generate_summary"))),
        reasoning_budget_tokens=_first_whole(
            (reasoning, "max_tokens"), (thinking, "budget_tokens"), (request, "thinking_budget")
        ),
        verbosity=first_text((member(get("text"), "verbosity"), get("verbosity"))),
        max_output_tokens=_first_whole(
            (request, "max_output_tokens"), (request, "max_completion_tokens"), (request, "max_tokens")
        ),
        temperature=fraction(get("temperature")),
        top_p=fraction(get("top_p")),
        service_tier=text(get("service_tier")),
        store=flag(get("store")),
        response_format=text(format, "type"),
        response_schema=first_text((format.get("name"), member(format, "json_schema", "name"))),
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
    found = (whole(holder, name) for holder, name in places)
    return next((each for each in found if each is not None), None)


def _named(value: Object) -> str | None:
    """Return the name of a tool, else the server that has it, else its type."""
    name = value.get("name")
    if name is None:
        nested = object_(value, "function") or object_(value, "custom")
        name = nested.get("name")
    return first_text((name, value.get("server_label"), value.get("type")))


def tool_of(given: Object) -> Tool:
    """Return a tool. Chat Completions has what it is in a member of its own."""
    function, custom = object_(given, "function"), object_(given, "custom")
    about = custom or function or given
    type, description = given.get("type"), about.get("description")
    if custom or type == "custom":
        return Tool("free_text", _named(given), description)
    if function or type == "function":
        return Tool("function", _named(given), description, about.get("parameters"), about.get("strict"))
    return Tool("provider", _named(given))


def _choice(value: Any) -> str | None:
    return value if isinstance(value, str) else _named(object_(value))
