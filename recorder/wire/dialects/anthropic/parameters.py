"""The settings of a request to Anthropic Messages, and its content blocks by kind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from recorder.model.facts import RequestParameters
from recorder.wire.dialects.anthropic.blocks import KINDS, RESULT
from recorder.wire.dialects.json_values import Object, array, flag, fraction, object_, objects, text, whole
from recorder.wire.dialects.parameters import (
    by_kind,
    cache_marks,
    contents,
    first_text,
    lifetime,
    request_digest,
    sized_texts,
    sized_tools,
    types_of,
)

MARKS = ("cache_control",)
_NOT_IN_REST = frozenset({"model", "system", "tools", "stream", "metadata"})

_WORDS = frozenset({"text", "image", "document", "search_result"})
"""Types of blocks that a message has more for than calls, results and reasoning."""

_BILLING = "x-anthropic-billing-header:"
"""How a block begins in which Claude Code sends its version and a checksum: it changes with every request."""


def parameters(request: Object, model: str | None, *, is_count: bool) -> RequestParameters:
    """Return the parameters of a request; `is_count`: it asks for a number of tokens. `model` may be of the path."""
    if not request:
        return RequestParameters()
    get = request.get
    thinking, output, choice = (object_(get(name)) for name in ("thinking", "output_config", "tool_choice"))
    format = object_(output.get("format")) or object_(get("output_format"))
    messages, offered = objects(get("messages")), objects(get("tools"))
    is_alone = flag(choice.get("disable_parallel_tool_use"))
    blocks = contents(messages)
    types = [types_of(message.get("content")) for message in messages]
    kinds = by_kind(chain.from_iterable(types), _kind)
    tools, system = sized_tools(array(get("tools")), MARKS), sized_texts(_system(request), _BILLING)
    marks = cache_marks([request, *offered, *objects(get("system")), *blocks, *contents(blocks)], MARKS)
    rest = {name: each for name, each in request.items() if name not in _NOT_IN_REST}
    return RequestParameters(
        reasoning_effort=text(output.get("effort")),
        reasoning_mode=text(thinking.get("type")),
        reasoning_summary=text(thinking.get("display")),
        reasoning_budget_tokens=whole(thinking.get("budget_tokens")),
        max_output_tokens=whole(get("max_tokens")),
        temperature=fraction(get("temperature")),
        top_p=fraction(get("top_p")),
        service_tier=text(get("service_tier")),
        response_format=text(format.get("type")),
        response_schema=first_text((format.get("name"), object_(format.get("schema")).get("title"))),
        tool_choice=first_text((choice.get("name"), choice.get("type"))),
        parallel_tool_calls=None if is_alone is None else not is_alone,
        tool_names=tuple(name for tool in offered if (name := _name(tool))),
        input_messages=sum(not _WORDS.isdisjoint(each) for each in types),
        input_tool_calls=kinds["tool_call"],
        input_tool_results=kinds["result"],
        input_reasoning=kinds["reasoning"],
        input_other=kinds["other"],
        system_bytes=system.size_bytes,
        system_digest=system.digest,
        tools_bytes=tools.size_bytes,
        tools_digest=tools.digest,
        prompt_cache_retention=lifetime(marks),
        cache_markers=len(marks),
        request_digest=request_digest("count" if is_count else "", model, system, tools, rest),
    )


def _name(tool: Object) -> str | None:
    return first_text(tool.get(name) for name in ("name", "mcp_server_name", "type"))


def _kind(type: str) -> str:
    """Return the kind of a type of blocks, `result` for the result of a tool."""
    if type.endswith(RESULT):
        return "result"
    return "message" if type in _WORDS else KINDS.get(type, "other")


def _system(request: Object) -> Iterator[str]:
    """Yield the texts of the system prompt."""
    given = request.get("system")
    if isinstance(given, str):
        yield given
    for block in objects(given):
        content = text(block.get("text"))
        if content is not None:
            yield content
