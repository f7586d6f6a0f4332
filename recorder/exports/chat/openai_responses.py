"""Requests of the Responses API as chat messages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.exports.chat.conversation import ChatConversation, image, text_part
from recorder.wire.dialects.json_values import Object, array, as_json, flag, object_, objects, text
from recorder.wire.dialects.openai_responses.continuation import own_items

_TEXTS = frozenset({"input_text", "output_text", "text"})
_LOST = {
    "reasoning": "reasoning",
    "item_reference": "items that only the provider has",
    "compaction": "compacted history that only the provider can read",
}
_LOST_PARTS = {"refusal": "refusals", "input_audio": "audio", "input_file": "files"}


def read(request: Mapping[str, Any], chat: ChatConversation) -> None:
    """Add the items and the tools of a request."""
    chat.parallel = flag(request.get("parallel_tool_calls"))
    for tool in objects(request.get("tools")):
        _tool(tool, chat)
    if instructions := text(request.get("instructions")):
        chat.system("system", instructions)
    for item in own_items(request):
        _item(object_(item), chat)


def _tool(tool: Object, chat: ChatConversation) -> None:
    type = tool.get("type")
    if type == "function":
        about = tool.get("description"), tool.get("parameters")
        chat.function(tool.get("name"), *about, strict=tool.get("strict"))
    elif type == "custom":
        chat.free_text_tool(tool.get("name"), tool.get("description"))
    elif type == "namespace":
        chat.lose("namespaces of tools")
        for each in objects(tool.get("tools")):
            if each.get("type") != "namespace":
                _tool(each, chat)
    else:
        chat.lose("tools of the provider")


def _item(item: Object, chat: ChatConversation) -> None:
    type = item.get("type") or "message"
    id = text(item.get("call_id"))
    if type == "message":
        _message(item, chat)
    elif type == "function_call":
        chat.called(id, item.get("name"), text(item.get("arguments")) or "")
    elif type == "custom_tool_call":
        chat.called_with_text(id, item.get("name"), text(item.get("input")) or "")
    elif type in ("function_call_output", "custom_tool_call_output"):
        chat.result(id, _output(item.get("output"), chat))
    elif type == "additional_tools":  # Codex has them here
        for tool in objects(item.get("tools")):
            _tool(tool, chat)
    else:
        chat.lose(_LOST.get(str(type), "items of tools of the provider"))


def _message(item: Object, chat: ChatConversation) -> None:
    role, parts = item.get("role"), _parts(item.get("content"), chat)
    if role == "user":
        chat.user(parts)
        return
    chat.lose("images outside of messages of the user", sum(part["type"] == "image_url" for part in parts))
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if role == "assistant":
        chat.said("".join(texts))
    elif role in ("system", "developer"):
        chat.system(str(role), "\n\n".join(texts))
    else:
        chat.lose("messages of an unknown role")


def _output(output: Any, chat: ChatConversation) -> str:
    if isinstance(output, str):
        return output
    if not isinstance(output, list):
        return as_json(output)
    parts = _parts(output, chat)
    chat.lose("images outside of messages of the user", sum(part["type"] == "image_url" for part in parts))
    return "".join(part["text"] for part in parts if part["type"] == "text")


def _parts(content: Any, chat: ChatConversation) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [text_part(content)] if content else []
    found: list[dict[str, Any]] = []
    for part in array(content):
        fields = object_(part)
        type = fields.get("type")
        chat.lose("citations", len(array(fields.get("annotations"))))
        made = image(fields.get("image_url"), fields.get("detail")) if type == "input_image" else None
        if type in _TEXTS:
            found.append(text_part(text(fields.get("text")) or ""))
        elif made is not None:
            found.append(made)
        else:
            noun = "images without bytes" if type == "input_image" else "parts of an unknown type"
            chat.lose(_LOST_PARTS.get(str(type), noun))
    return found
