"""The settings that a request has in both of OpenAI's wire formats. Pure.

Gateways send members of the one format in the other, and members of their own: all are read wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from recorder.model.facts import RequestParameters
from recorder.wire.dialects.json_values import Object, flag, fraction, object_, objects, text, whole
from recorder.wire.dialects.parameters import first_text, lifetime

MARKS = ("cache_control", "prompt_cache_breakpoint")
"""Names of cache marks: of gateways that pass them on to Anthropic, and of OpenAI."""

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
        tool_names=tuple(_names([*objects(get("tools")), *objects(get("functions"))])),
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


def _names(tools: Iterable[Object]) -> Iterator[str]:
    """Yield the names of tools; of a namespace those of the tools in it, behind its own."""
    for tool in tools:
        name = _named(tool)
        if "tools" in tool:
            inner = filter(None, map(_named, objects(tool["tools"])))
            yield from (f"{name}.{each}" if name else each for each in inner)
        elif name is not None:
            yield name


def _choice(value: Any) -> str | None:
    return value if isinstance(value, str) else _named(object_(value))
