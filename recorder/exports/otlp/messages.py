"""Messages of requests and responses in the form of the convention's JSON schemas (gen-ai-input-messages.json and its
like). Pure, and never raises on what was recorded.

A block of a message becomes a part by its `type`, a block of Gemini by the member that it has: these words mean the
same in every format that has them. What has no equal in the schemas stays as the provider wrote it, which they allow
(`GenericPart`); so images are there as they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from recorder.projections.rows import ItemRow
from recorder.wire.dialects.json_values import Object, array, decoded, object_, objects, text, text_or_json

Part = dict[str, Any]

_ROLES = {"model": "assistant"}  # of Gemini


def input_messages(items: Any) -> list[Part]:
    """Return the messages of a request from the member that has them: a list of messages and items, or a text."""
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    return [message for item in array(items) if (message := _message(item))["parts"]]


def instructions(value: Any) -> list[Part]:
    """Return the parts of a system prompt: a text, a list of blocks, or a message of Gemini."""
    if isinstance(value, dict):
        value = value.get("parts")
    return _parts(value)


def output_messages(items: Iterable[ItemRow], finish_reason: str, *, has_choices: bool) -> list[Part]:
    """Return a message for each choice of a response: of one without choices a single one, or none if it is empty."""
    choices = dict[int, list[Part]]()
    for item in items:
        choices.setdefault(item.output_index or 0 if has_choices else 0, []).extend(_of_item(item))
    return [
        {"role": "assistant", "parts": parts, "finish_reason": finish_reason}
        for _, parts in sorted(choices.items())
        if parts
    ]


def _message(item: Any) -> Part:
    if not isinstance(item, dict):
        return {"role": "user", "parts": _parts(item)}
    role = text(item.get("role"))
    if role is None:  # an item of a conversation that is not a message
        parts = [_part(item)]
        role = "tool" if parts[0]["type"] == "tool_call_response" else "assistant"
    elif item.get("tool_call_id") is not None:
        parts = [_response(item.get("tool_call_id"), item.get("content"))]
    else:
        parts = [*_thoughts(item), *_parts(item.get("content", item.get("parts"))), *_chat_calls(item)]
    if parts and all(part["type"] == "tool_call_response" for part in parts):
        role = "tool"
    return {"role": _ROLES.get(role, role), "parts": parts}


def _thoughts(message: Object) -> Sequence[Part]:
    found = text(message.get("reasoning_content")) or text(message.get("reasoning"))
    return [_reasoning(found)] if found else []


def _chat_calls(message: Object) -> Iterable[Part]:
    for call in objects(message.get("tool_calls")):
        about = object_(call.get(text(call.get("type")) or "function"))
        yield _call(call.get("id"), about.get("name"), about.get("arguments", about.get("input")))


def _parts(content: Any) -> list[Part]:
    if content is None:
        return []
    return [_part(each) for each in (content if isinstance(content, list) else [content])]


def _part(block: Any) -> Part:
    if not isinstance(block, dict):
        return _text(block)
    type = text(block.get("type"))
    convert = _BY_TYPE.get(type or "")
    if convert is None and type is None:
        convert = next((each for name, each in _BY_MEMBER.items() if name in block), None)
    return convert(block) if convert else {**block, "type": type or "unknown"}


def _text(value: Any) -> Part:
    return {"type": "text", "content": text_or_json(value)}


def _reasoning(content: str) -> Part:
    return {"type": "reasoning", "content": content}


def _call(id: Any, name: Any, arguments: Any) -> Part:
    return {"type": "tool_call", "id": text(id), "name": text(name) or "", "arguments": _json(arguments)}


def _response(id: Any, response: Any) -> Part:
    return {"type": "tool_call_response", "id": text(id), "response": response}


def _json(value: Any) -> Any:
    """Return arguments as the object that they are, if they are JSON."""
    if not isinstance(value, str):
        return value
    try:
        return decoded(value.encode("utf-8", "surrogatepass"))
    except ValueError:
        return value


def _thought(item: Object) -> Part:
    """Return the reasoning that a client sends back: its summary, else its text. Encrypted reasoning has neither."""
    found = [each for name in ("summary", "content") for each in objects(item.get(name))]
    return _reasoning("\n\n".join(each for part in found if (each := text(part.get("text")))))


def _gemini_call(block: Object) -> Part:
    call = object_(block.get("functionCall", block.get("function_call")))
    return _call(call.get("id"), call.get("name"), call.get("args"))


def _gemini_response(block: Object) -> Part:
    result = object_(block.get("functionResponse", block.get("function_response")))
    return _response(result.get("id") or result.get("name"), result.get("response"))


_BY_TYPE: Mapping[str, Callable[[Object], Part]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), lambda block: _text(block.get("text", ""))),
    "thinking": lambda block: _reasoning(text(block.get("thinking")) or ""),
    "reasoning": _thought,
    "tool_use": lambda block: _call(block.get("id"), block.get("name"), block.get("input")),
    "tool_result": lambda block: _response(block.get("tool_use_id"), block.get("content")),
    "function_call": lambda item: _call(item.get("call_id"), item.get("name"), item.get("arguments")),
    "custom_tool_call": lambda item: _call(item.get("call_id"), item.get("name"), item.get("input")),
    "function_call_output": lambda item: _response(item.get("call_id"), item.get("output")),
    "custom_tool_call_output": lambda item: _response(item.get("call_id"), item.get("output")),
}
_BY_MEMBER: Mapping[str, Callable[[Object], Part]] = {
    "functionCall": _gemini_call,
    "function_call": _gemini_call,
    "functionResponse": _gemini_response,
    "function_response": _gemini_response,
    "text": lambda block: (
        _reasoning(text(block.get("text")) or "") if block.get("thought") is True else _text(block.get("text"))
    ),
}


def _of_item(item: ItemRow) -> Iterable[Part]:
    """Yield the parts that an item of a response is."""
    if item.kind == "message":
        yield from (_text(each) for each in (item.text, item.refusal) if each)
    elif item.kind == "reasoning":
        yield from (_reasoning(each) for each in (item.text or item.summary_text,) if each)
    elif item.kind == "tool_call" and item.output is None:
        yield _call(item.call_id, item.name or item.type, item.arguments)
    else:
        yield {"type": item.type, **{name: value for name in _SHOWN if (value := getattr(item, name)) is not None}}


_SHOWN = ("name", "call_id", "text", "arguments", "output")  # of a tool of the provider, and of other items
