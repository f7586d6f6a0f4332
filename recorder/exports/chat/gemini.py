"""Requests of Gemini as chat messages; results without an id are those of the next call of their name. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recorder.exports.chat.conversation import ChatConversation, image, text_part
from recorder.wire.dialects.gemini.candidate import function_response
from recorder.wire.dialects.json_values import Object, as_json, object_, objects, text

_WRAPPERS = ("request", "generateContentRequest")


def read(request: Mapping[str, Any], chat: ChatConversation) -> None:
    """Add the system instruction, the contents and the tools of a request."""
    inner = next((object_(request[name]) for name in _WRAPPERS if object_(request.get(name))), request)
    for tool in objects(inner.get("tools")):
        declared = objects(_either(tool, "functionDeclarations", "function_declarations"))
        for each in declared:
            schema = _either(each, "parametersJsonSchema", "parameters_json_schema") or _schema(each.get("parameters"))
            chat.function(each.get("name"), each.get("description"), schema)
        chat.lose("tools of the provider", int(not declared))
    system = _either(inner, "systemInstruction", "system_instruction")
    chat.system("system", "\n\n".join(_texts(_parts(_of(object_(system)), chat))))
    contents = inner.get("contents")
    for content in [contents] if isinstance(contents, dict) else objects(contents):
        if content.get("role") == "model":
            _answer(_of(content), chat)
        else:
            _of_user(_of(content), chat)


def _of(content: Object) -> Sequence[Object]:
    return objects(content.get("parts"))


def _either(fields: Object, *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _schema(given: Any) -> Any:
    """Return a schema of Gemini as JSON Schema, which has the names of types in lower case."""
    if isinstance(given, list):
        return [_schema(each) for each in given]
    if not isinstance(given, dict):
        return given
    return {
        name: each.lower() if name == "type" and isinstance(each, str) else _schema(each)
        for name, each in given.items()
    }


def _answer(parts: Sequence[Object], chat: ChatConversation) -> None:
    goes_on = False
    for part in parts:
        call = object_(_either(part, "functionCall", "function_call"))
        if call:
            chat.called(text(call.get("id")), call.get("name"), as_json(call.get("args") or {}))
        elif part.get("thought") is True:
            chat.lose("reasoning")
        elif isinstance(part.get("text"), str):
            chat.said(part["text"], goes_on=goes_on)
            goes_on = True
        else:
            chat.lose("items of tools of the provider")


def _of_user(parts: Sequence[Object], chat: ChatConversation) -> None:
    others = []
    for part in parts:
        returned = object_(_either(part, "functionResponse", "function_response"))
        if returned:
            result = function_response(returned, "name")
            chat.result(result.call_id or _waiting(result.name, chat), result.output)
        else:
            others.append(part)
    chat.user(_parts(others, chat))


def _waiting(name: str | None, chat: ChatConversation) -> str | None:
    """Return the id of the first call of that name that has no result."""
    answered = {message["tool_call_id"] for message in chat.messages if message["role"] == "tool"}
    calls = (call for message in chat.messages for call in message.get("tool_calls", ()))
    return next((call["id"] for call in calls if call["function"]["name"] == name and call["id"] not in answered), None)


def _texts(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [part["text"] for part in parts if part["type"] == "text"]


def _parts(given: Sequence[Object], chat: ChatConversation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in given:
        inline = object_(_either(part, "inlineData", "inline_data"))
        kind = text(_either(inline, "mimeType", "mime_type")) or ""
        made = image(f"data:{kind};base64,{inline.get('data')}") if kind.startswith("image/") else None
        if isinstance(part.get("text"), str):
            found.append(text_part(part["text"]))
        elif made is not None:
            found.append(made)
        else:
            chat.lose("files")
    return found
