"""The settings of a request to Gemini, and the parts of its contents by kind. A field may be in snake case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from recorder.model.facts import RequestParameters
from recorder.wire.dialects.json_values import Object, array, flag, fraction, object_, objects, text, whole
from recorder.wire.dialects.parameters import first_text, request_digest, sized_texts, sized_tools

_NOT_IN_REST = frozenset({"model", "systemInstruction", "system_instruction", "tools", "session_id", "labels"})
"""Members that are in another part of the digest, or name the session of the Gemini CLI or the account's own labels."""

_KINDS = {
    **dict.fromkeys(("functionCall", "function_call", "toolCall", "executableCode"), "tool_call"),
    **dict.fromkeys(("functionResponse", "function_response", "toolResponse", "codeExecutionResult"), "result"),
    **dict.fromkeys(("text", "inlineData", "inline_data", "fileData", "file_data"), "message"),
}
"""By the member that a part has, its kind."""

_FORMATS = {"text/plain": "text", "application/json": "json_object"}


def parameters(request: Object, contents: Sequence[Object], model: str | None, *, is_count: bool) -> RequestParameters:
    """Return the parameters of a request; `is_count`: it asks for a number of tokens. `model` is of the path."""
    if not request:
        return RequestParameters()
    config = object_(_either(request, "generationConfig", "generation_config"))
    thinking = object_(_either(config, "thinkingConfig", "thinking_config"))
    kinds = [Counter(map(_kind, objects(content.get("parts")))) for content in contents]
    schema = object_(_either(config, "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema"))
    tools, system = sized_tools(array(request.get("tools"))), sized_texts(_system(request))
    rest = {name: each for name, each in request.items() if name not in _NOT_IN_REST}
    thoughts = flag(_either(thinking, "includeThoughts", "include_thoughts"))
    return RequestParameters(
        reasoning_effort=_word(_either(thinking, "thinkingLevel", "thinking_level")),
        reasoning_summary=None if thoughts is None else str(thoughts).lower(),
        reasoning_budget_tokens=whole(_either(thinking, "thinkingBudget", "thinking_budget")),
        max_output_tokens=whole(_either(config, "maxOutputTokens", "max_output_tokens")),
        temperature=fraction(config.get("temperature")),
        top_p=fraction(_either(config, "topP", "top_p")),
        service_tier=_word(_either(request, "serviceTier", "service_tier")),
        response_format="json_schema" if schema else _format(config),
        response_schema=first_text((schema.get("title"),)),
        tool_choice=_choice(request),
        tool_names=tuple(_tool_names(objects(request.get("tools")))),
        input_messages=sum(1 for each in kinds if each["message"]),
        input_tool_calls=sum(each["tool_call"] for each in kinds),
        input_tool_results=sum(each["result"] for each in kinds),
        input_reasoning=sum(each["reasoning"] for each in kinds),
        input_other=sum(each["other"] for each in kinds),
        system_bytes=system.size_bytes,
        system_digest=system.digest,
        tools_bytes=tools.size_bytes,
        tools_digest=tools.digest,
        prompt_cache_key=text(_either(request, "cachedContent", "cached_content")),
        cache_markers=0,
        request_digest=request_digest("count" if is_count else "", model, system, tools, rest),
    )


def _either(holder: Object, *names: str) -> Any:
    return next((holder[name] for name in names if holder.get(name) is not None), None)


def _word(value: Any) -> str | None:
    """Return a value of an enumeration in lower case: clients write HIGH and high, and mean the same."""
    return value.lower() if isinstance(value, str) else None


def _format(config: Object) -> str | None:
    mime_type = text(_either(config, "responseMimeType", "response_mime_type"))
    return None if mime_type is None else _FORMATS.get(mime_type, mime_type)


def _choice(request: Object) -> str | None:
    """Return the mode of calling tools, or the name of the only one that may and must be called."""
    config = object_(_either(request, "toolConfig", "tool_config"))
    calling = object_(_either(config, "functionCallingConfig", "function_calling_config"))
    mode = _word(calling.get("mode"))
    names = array(_either(calling, "allowedFunctionNames", "allowed_function_names"))
    return text(names[0]) or mode if mode == "any" and len(names) == 1 else mode


def _tool_names(tools: Sequence[Object]) -> Iterator[str]:
    """Yield the names of functions; of a tool of the provider, the member that it is."""
    for tool in tools:
        for member, value in tool.items():
            if member in ("functionDeclarations", "function_declarations"):
                yield from (name for each in objects(value) if (name := text(each.get("name"))) is not None)
            else:
                yield member


def _kind(part: Object) -> str:
    """Return the kind of a part, `result` for the result of a tool."""
    if part.get("thought") is True:
        return "reasoning"
    return next((_KINDS[member] for member in part if member in _KINDS), "other")


def _system(request: Object) -> Iterator[str]:
    given = object_(_either(request, "systemInstruction", "system_instruction"))
    return (each for part in objects(given.get("parts")) if (each := text(part.get("text"))) is not None)
