"""OpenAI, whose API speaks two of the wire formats: `openai_responses` and `openai_chat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.model.facts import RequestParameters
from recorder.wire.dialects.canonical import lifetime
from recorder.wire.dialects.conversation import Role, Tool, settings_at
from recorder.wire.dialects.json_values import Object, flag, names, object_, places, text, word
from recorder.wire.dialects.prompt import CachePolicy

_ERRORS: Mapping[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("requests", "rate_limit_exceeded"),
}


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the shape of OpenAI's."""
    standard = (
        ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    )
    kind, usual = _ERRORS.get(status, standard)
    return {"error": {"message": message, "type": kind, "param": None, "code": code or usual}}


ERROR_STATUSES = (400, 401, 403, 404, 429, 500, 503)  # of OpenAI's guide "Error codes"


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
        # a model may have the longer retention without a word in the request
        (r"", (300, 24 * _HOUR)),
    ),
    intervals=((r"gpt-5\.5", 2048),),
    retentions={
        "in_memory": (300, _HOUR),
        "in-memory": (300, _HOUR),
        "24h": (_HOUR // 2, 24 * _HOUR),
    },
)

SUSPECTS = (
    "prompt_cache_key",  # goes into the choice of the machine, which has a cache of its own
    "parallel_tool_calls",
    "service_tier",  # not in the guide
    "prompt_cache_options",
)
"""Parameters of which OpenAI says that they change the prefix, or does not say that they leave it.
`tool_choice` leaves it: the guide recommends to change that in place of the tools."""

MARKS = ("prompt_cache_breakpoint", "cache_control")
"""The members of a block that mark the end of a prefix to be cached: from GPT-5.6 on, and of
gateways to other models. They are not content."""


# -- the settings of a request

# Gateways send members of the one format in the other, and members of their own: all are read
# wherever they are.
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

NOT_OF_ANSWER = names(
    "stream stream_options metadata client_metadata user safety_identifier prompt_cache_key"
)
"""Members that decide nothing of an answer, and may differ when the same is sent again."""

_MODES = {True: "enabled", False: "disabled"}

_SETTINGS = places("""
reasoning_effort:word reasoning.effort reasoning_effort
reasoning_summary:word reasoning.summary reasoning.generate_summary
reasoning_budget_tokens:whole reasoning.max_tokens thinking.budget_tokens thinking_budget
verbosity:word text.verbosity verbosity
max_output_tokens:whole max_output_tokens max_completion_tokens max_tokens
temperature:fraction temperature
top_p:fraction top_p
service_tier:text service_tier
store:flag store
parallel_tool_calls:flag parallel_tool_calls
prompt_cache_key:text prompt_cache_key
""")


def settings(request: Object) -> RequestParameters:
    """Return the settings of a request: all but what depends on its messages."""
    format = object_(request, "text", "format") or object_(request, "response_format")
    get = request.get
    return RequestParameters(
        **settings_at(request, _SETTINGS),
        reasoning_mode=_mode(request),
        response_format=text(format, "type"),
        response_schema=word(format, "name") or word(format, "json_schema", "name"),
        tool_choice=_choice(get("tool_choice", get("function_call"))),
        prompt_cache_retention=lifetime(
            (get("prompt_cache_retention"), get("prompt_cache_options"))
        ),
    )


def _mode(request: Object) -> str | None:
    """Return the mode of reasoning: a word of OpenAI, Z.ai or DeepSeek, or the switch of OpenRouter
    or Qwen.
    """
    switch = flag(object_(request, "reasoning").get("enabled", request.get("enable_thinking")))
    mode = word(request, "reasoning", "mode") or word(request, "thinking", "type")
    return mode or (None if switch is None else _MODES[switch])


def _named(value: Object) -> str | None:
    """Return the name of a tool, else the server that has it, else its type."""
    name = value.get("name")
    if name is None:
        nested = object_(value, "function") or object_(value, "custom")
        name = nested.get("name")
    return word(name) or word(value, "server_label") or word(value, "type")


def tool_of(given: Object) -> Tool:
    """Return a tool. Chat Completions has what it is in a member of its own."""
    function, custom = object_(given, "function"), object_(given, "custom")
    about = custom or function or given
    type, description = given.get("type"), about.get("description")
    if custom or type == "custom":
        return Tool("free_text", _named(given), description)
    if function or type == "function":
        return Tool(
            "function", _named(given), description, about.get("parameters"), about.get("strict")
        )
    return Tool("provider", _named(given))


def _choice(value: Any) -> str | None:
    return value if isinstance(value, str) else _named(object_(value))
