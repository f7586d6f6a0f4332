"""Requests of Chat Completions as chat messages: the form is theirs, but training takes less of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.exports.chat.conversation import ChatConversation, image, text_part
from recorder.wire.dialects.json_values import Object, array, flag, object_, objects, text

_LOST = {"reasoning_content": "reasoning", "reasoning": "reasoning", "refusal": "refusals", "audio": "audio"}
_LOST_PARTS = {"refusal": "refusals", "input_audio": "audio", "file": "files", "video_url": "videos"}


def read(request: Mapping[str, Any], chat: ChatConversation) -> None:
    """Add the messages and the tools of a request."""
    chat.parallel = flag(request.get("parallel_tool_calls"))
    for tool in objects(request.get("tools")):
        function, custom = object_(tool.get("function")), object_(tool.get("custom"))
        if custom:
            chat.free_text_tool(custom.get("name"), custom.get("description"))
        elif function:
            about = function.get("description"), function.get("parameters")
            chat.function(function.get("name"), *about, strict=function.get("strict"))
        else:
            chat.lose("tools of the provider")
    for message in objects(request.get("messages")):
        _message(message, chat)


def _message(message: Object, chat: ChatConversation) -> None:
    role = message.get("role")
    for name, noun in _LOST.items():
        if message.get(name):
            chat.lose(noun)
    if role == "assistant":
        chat.said("".join(_texts(message.get("content"), chat)))
        _calls(message, chat)
    elif role in ("tool", "function"):
        chat.result(text(message.get("tool_call_id")), "".join(_texts(message.get("content"), chat)))
    elif role in ("system", "developer"):
        chat.system(str(role), "\n\n".join(_texts(message.get("content"), chat)))
    elif role == "user":
        chat.user(list(_parts(message.get("content"), chat)))
    else:
        chat.lose("messages of an unknown role")


def _calls(message: Object, chat: ChatConversation) -> None:
    if message.get("function_call"):
        chat.lose("calls in the form of 2023")
    for call in objects(message.get("tool_calls")):
        function, custom, id = object_(call.get("function")), object_(call.get("custom")), text(call.get("id"))
        if custom:
            chat.called_with_text(id, custom.get("name"), text(custom.get("input")) or "")
        else:
            chat.called(id, function.get("name"), text(function.get("arguments")) or "")


def _texts(content: Any, chat: ChatConversation) -> list[str]:
    parts = _parts(content, chat)
    chat.lose("images outside of messages of the user", sum(part["type"] == "image_url" for part in parts))
    return [part["text"] for part in parts if part["type"] == "text"]


def _parts(content: Any, chat: ChatConversation) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [text_part(content)] if content else []
    found: list[dict[str, Any]] = []
    for part in array(content):
        fields = object_(part)
        picture = object_(fields.get("image_url"))
        made = image(picture.get("url"), picture.get("detail")) if fields.get("type") == "image_url" else None
        if fields.get("type") == "text":
            found.append(text_part(text(fields.get("text")) or ""))
        elif made is not None:
            found.append(made)
        else:
            chat.lose(_LOST_PARTS.get(str(fields.get("type")), "parts of an unknown type"))
    return found
