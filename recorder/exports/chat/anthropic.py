"""Requests of Anthropic Messages as chat messages: results are blocks of the user, and messages of their own. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recorder.exports.chat.conversation import ChatConversation, image, text_part
from recorder.wire.dialects.json_values import Object, array, as_json, object_, objects, text

BILLING = "x-anthropic-billing-header:"  # Claude Code's own, before the system prompt: the model is not shown it

_LOST = {
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "document": "files",
    "search_result": "search results",
}


def read(request: Mapping[str, Any], chat: ChatConversation) -> None:
    """Add the system prompt, the messages and the tools of a request."""
    if object_(request.get("tool_choice")).get("disable_parallel_tool_use") is True:
        chat.parallel = False
    for tool in objects(request.get("tools")):
        if tool.get("type") in (None, "custom"):
            chat.function(tool.get("name"), tool.get("description"), tool.get("input_schema"))
        else:
            chat.lose("tools of the provider")
    chat.system("system", _system(request.get("system"), chat))
    for message in objects(request.get("messages")):
        role, blocks = message.get("role"), _blocks(message.get("content"))
        if role == "assistant":
            _answer(blocks, chat)
        elif role == "user":
            _of_user(blocks, chat)
        else:
            chat.system("system", _system(message.get("content"), chat))


def _blocks(content: Any) -> Sequence[Object]:
    return [text_part(content)] if isinstance(content, str) else objects(content)


def _system(content: Any, chat: ChatConversation) -> str:
    texts = [part["text"] for part in _parts(_blocks(content), chat) if part["type"] == "text"]
    return "\n\n".join(each for each in texts if not each.startswith(BILLING))


def _answer(blocks: Sequence[Object], chat: ChatConversation) -> None:
    goes_on = False
    for block in blocks:
        if block.get("type") == "tool_use":
            chat.called(text(block.get("id")), block.get("name"), as_json(block.get("input") or {}))
        elif block.get("type") == "text":
            chat.lose("citations", len(array(block.get("citations"))))
            chat.said(text(block.get("text")) or "", goes_on=goes_on)
            goes_on = True
        else:
            chat.lose(_LOST.get(str(block.get("type")), "items of tools of the provider"))


def _of_user(blocks: Sequence[Object], chat: ChatConversation) -> None:
    for block in blocks:
        if block.get("type") == "tool_result":
            chat.lose("marks of results as errors", int(block.get("is_error") is True))
            parts = _parts(_blocks(block.get("content")), chat)
            chat.lose("images outside of messages of the user", sum(part["type"] == "image_url" for part in parts))
            chat.result(text(block.get("tool_use_id")), "".join(p["text"] for p in parts if p["type"] == "text"))
    chat.user(_parts([block for block in blocks if block.get("type") != "tool_result"], chat))


def _parts(blocks: Sequence[Object], chat: ChatConversation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for block in blocks:
        made = _image(object_(block.get("source"))) if block.get("type") == "image" else None
        if block.get("type") == "text":
            found.append(text_part(text(block.get("text")) or ""))
        elif made is not None:
            found.append(made)
        else:
            noun = "images without bytes" if block.get("type") == "image" else "parts of an unknown type"
            chat.lose(_LOST.get(str(block.get("type")), noun))
    return found


def _image(source: Object) -> dict[str, Any] | None:
    if source.get("type") == "base64":
        return image(f"data:{source.get('media_type')};base64,{source.get('data')}")
    return image(source.get("url"))
