"""Texts of requests and responses as attributes of spans, by the JSON schemas of the convention. Only on request.

The request is the logical one: with all that a conversation which the provider keeps had before. Values are JSON as
text: the convention allows that on spans, and most back ends take no structures there. What has no equal in the schemas
(gen-ai-input-messages.json and its like) stays as the provider wrote it, which they allow (`GenericPart`); so images
are there as they were sent. Nothing here raises on what was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recorder.exports.otlp.source import ExportedExchange
from recorder.exports.otlp.telemetry import Attributes
from recorder.projections.rows import ItemRow
from recorder.recordings.requests import load_requests, request_json
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import exchanges_named
from recorder.wire.dialects import Dialect, by_name
from recorder.wire.dialects.conversation import Conversation, Message, Part
from recorder.wire.dialects.json_values import as_json, decoded, request_object, text

_FAILED = "error"  # the convention's word for a generation that did not finish


async def load_content(log: LogReader, exported: ExportedExchange, number: int | None = None) -> Attributes:
    """Return the messages of an exchange, which a reader with texts has read. `number` is that in its session.

    Raises `RecorderError` if the exchange, with all that it continues, is too large to be held.
    """
    exchange = exported.exchange
    named = [(number, exchange)] if number else await exchanges_named(log, exchange.session_id, exchange.exchange_id)
    shown = await load_requests(log, exported.session, named)
    body = request_json(shown[0][1]) if shown else None
    return content_of(exported, request_object(body) if body else {})


def content_of(exported: ExportedExchange, request: Mapping[str, Any]) -> Attributes:
    """Return the messages of an exchange as attributes, given its logical request. Empty ones are left out."""
    exchange = exported.exchange
    dialect = by_name(exchange.api)
    finish_reason = exported.projected.finish_reason or _FAILED
    messages = {
        **_request_messages(dialect, exchange.target.partition("?")[0], request),
        "gen_ai.output.messages": output_messages(exported.items, finish_reason, has_choices=dialect.has_choices),
    }
    return {name: as_json(value) for name, value in messages.items() if value}


def _request_messages(dialect: Dialect, path: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    system, messages = _text_parts(request.get("instructions")), []
    if dialect.conversation is not None:
        conversation = dialect.conversation(path, request)
        system, messages = instructions(conversation), input_messages(conversation)
    prompt = _text_parts(request.get("prompt"))  # of a completion without messages
    if prompt and not messages:
        messages = [{"role": "user", "parts": prompt}]
    return {"gen_ai.system_instructions": system, "gen_ai.input.messages": messages}


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


def _text_parts(value: Any) -> list[MessagePart]:
    """Return a value as the parts of a message, if it is a text."""
    return list(_said("text", value)) if isinstance(value, str) else []


def _said(type: str, *contents: str | None) -> Iterator[MessagePart]:
    """Yield a part for each text that is not empty."""
    for content in contents:
        if content:
            yield {"type": type, "content": content}


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
        yield from _said("text", item.text, item.refusal)
    elif item.kind == "reasoning":
        yield from _said("reasoning", item.text or item.summary_text)
    elif item.kind == "tool_call" and item.output is None:
        yield _call(item.call_id, item.name or item.type, item.arguments)
    else:
        shown = {name: getattr(item, name) for name in _SHOWN}
        yield {"type": item.type, **{name: value for name, value in shown.items() if value is not None}}
