"""The settings of a request of the Responses format, and its items by kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from recorder.model.facts import RequestParameters
from recorder.wire.dialects.json_values import Object, array, object_, objects, text
from recorder.wire.dialects.openai_parameters import MARKS, NOT_OF_ANSWER, settings
from recorder.wire.dialects.openai_responses.continuation import own_items
from recorder.wire.dialects.openai_responses.items import ITEM_TYPES
from recorder.wire.dialects.parameters import (
    by_kind,
    cache_marks,
    contents,
    lifetime,
    request_digest,
    sized_texts,
    sized_tools,
    types_of,
)
from recorder.wire.dialects.user_text import OF_SYSTEM

_IN_OTHER_PARTS = frozenset({"model", "instructions", "tools"})
_OF_MESSAGE = frozenset({"type", "event_id", "stream_id"})
"""Members of `response.create`, as a request is called on a WebSocket connection."""

_NOT_IN_REST = NOT_OF_ANSWER | _IN_OTHER_PARTS | _OF_MESSAGE
_AGENT_MESSAGE = "agent_message"


def parameters(path: str, request: Object) -> RequestParameters:
    """Return the parameters of a request; `path` has no query."""
    if not request:
        return RequestParameters()
    items = own_items(request)
    tools, system = sized_tools(array(request.get("tools")), MARKS), sized_texts(_system(request, items))
    kinds = by_kind(types_of(items), _kind)
    found = settings(request)
    marks = cache_marks([request, *objects(request.get("tools")), *contents(objects(items))], MARKS)
    rest = {name: each for name, each in request.items() if name not in _NOT_IN_REST}
    return msgspec.structs.replace(
        found,
        input_messages=kinds["message"],
        input_tool_calls=kinds["tool_call"],
        input_tool_results=kinds["result"],
        input_reasoning=kinds["reasoning"],
        input_other=kinds["other"],
        system_bytes=system.size_bytes,
        system_digest=system.digest,
        tools_bytes=tools.size_bytes,
        tools_digest=tools.digest,
        prompt_cache_retention=found.prompt_cache_retention or lifetime(marks),
        cache_markers=len(marks),
        request_digest=request_digest(path.rpartition("/")[2], text(request.get("model")), system, tools, rest),
    )


def _kind(type: str) -> str:
    """Return the kind of a type of items, `result` for the result of a tool. A message needs no type."""
    if type.endswith("_output"):
        return "result"
    known = ITEM_TYPES.get(type)
    return "message" if type in ("", _AGENT_MESSAGE) else known.kind if known else "other"


def _system(request: Object, items: Sequence[Any]) -> Iterator[str]:
    """Yield the texts of the system that stand before all other items."""
    if isinstance(given := request.get("instructions"), str):
        yield given
    for item in map(object_, items):
        if item.get("role") not in OF_SYSTEM:
            return
        content = item.get("content")
        if isinstance(content, str):
            yield content
        yield from (part["text"] for part in objects(content) if isinstance(part.get("text"), str))
