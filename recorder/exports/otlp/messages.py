"""Messages of requests and responses in the form of the convention's JSON schemas (gen-ai-input-messages.json and its
like). Pure, and never raises on what was recorded.

What has no equal in the schemas stays as the provider wrote it, which they allow (`GenericPart`); so images are there
as they were sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from recorder.projections.rows import ItemRow
from recorder.wire.dialects.conversation import Conversation, Message, Part
from recorder.wire.dialects.json_values import decoded, text

MessagePart = dict[str, Any]

_SHOWN = ("name", "call_id", "text", "arguments", "output")  # of a tool of the provider, and of other items


def input_messages(conversation: Conversation) -> list[MessagePart]:
    """Return the messages of a request: those that say nothing are left out."""
    found = []
    for message in conversation.messages:
        parts = [_part(part) for part in message.parts]
        if parts:
            found.append({"role": _role(message), "parts": parts})
    return found


def instructions(conversation: Conversation) -> list[MessagePart]:
    """Return the parts of the system prompt that is beside the messages."""
    return [_part(part) for part in conversation.system_parts if part.text != ""]


def output_messages(items: Iterable[ItemRow], finish_reason: str, *, has_choices: bool) -> list[MessagePart]:
    """Return a message for each choice of a response: of one without choices a single one, or none if it is empty."""
    choices = dict[int, list[MessagePart]]()
    for item in items:
        number = (item.output_index or 0) if has_choices else 0
        choices.setdefault(number, []).extend(_of_item(item))
    return [
        {"role": "assistant", "parts": parts, "finish_reason": finish_reason}
        for _, parts in sorted(choices.items())
        if parts
    ]


def _role(message: Message) -> str:
    if all(part.kind == "result" for part in message.parts):
        return "tool"
    if message.role == "assistant" or message.is_item:
        return "assistant"
    return text(message.speaker) or "user"


def _part(part: Part) -> MessagePart:
    if part.kind in ("text", "reasoning") and part.text is not None:
        return {"type": part.kind, "content": part.text}
    if part.kind == "call":
        return _call(part.id, part.name, part.value)
    if part.kind == "result":
        return {"type": "tool_call_response", "id": text(part.id) or text(part.name), "response": part.value}
    type = text(part.given.get("type")) or "unknown"
    if type in ("text", "reasoning"):  # whose schemas want a text
        return {"type": type, "content": part.text or ""}
    return {**part.given, "type": type}


def text_parts(value: Any) -> list[MessagePart]:
    """Return a value as the parts of a message, if it is a text."""
    return [_text(value)] if isinstance(value, str) and value else []


def _text(content: str) -> MessagePart:
    return {"type": "text", "content": content}


def _reasoning(content: str) -> MessagePart:
    return {"type": "reasoning", "content": content}


def _call(id: Any, name: Any, arguments: Any) -> MessagePart:
    return {"type": "tool_call", "id": text(id), "name": text(name) or "", "arguments": _json(arguments)}


def _json(value: Any) -> Any:
    """Return arguments as the object that they are, if they are JSON."""
    if not isinstance(value, str):
        return value
    try:
        return decoded(value.encode("utf-8", "surrogatepass"))
    except ValueError:
        return value


def _of_item(item: ItemRow) -> Iterator[MessagePart]:
    """Yield the parts that an item of a response is."""
    if item.kind == "message":
        yield from map(_text, filter(None, (item.text, item.refusal)))
    elif item.kind == "reasoning":
        yield from map(_reasoning, filter(None, [item.text or item.summary_text]))
    elif item.kind == "tool_call" and item.output is None:
        yield _call(item.call_id, item.name or item.type, item.arguments)
    else:
        shown = {name: getattr(item, name) for name in _SHOWN}
        yield {"type": item.type, **{name: value for name, value in shown.items() if value is not None}}
