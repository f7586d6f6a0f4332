"""A request as chat messages, whatever its format: results are messages of their own. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recorder.exports.chat.conversation import ChatConversation
from recorder.wire.dialects.conversation import Conversation, Kind, Message, Part, Tool
from recorder.wire.dialects.json_values import array, as_json, text

_OTHERS = "items of tools of the provider"
_OUTSIDE = "images outside of messages of the user"

_LOST: Mapping[Kind, str] = {
    "refusal": "refusals",
    "image": "images without bytes",
    "audio": "audio",
    "video": "videos",
    "file": "files",
    "search_result": "search results",
    "unknown": "parts of an unknown type",
    "reasoning": "reasoning",
    "old_call": "calls in the form of 2023",
    "reference": "items that only the provider has",
    "compaction": "compacted history that only the provider can read",
}
"""By the kind of a part that has no place in chat messages, how it is counted."""


def read(conversation: Conversation, chat: ChatConversation) -> None:
    """Add the system prompt, the messages and the tools of a request."""
    chat.parallel = conversation.calls_in_parallel
    _add_tools(conversation.tools, chat)
    system = Message("system", conversation.system_parts)
    own = [part for part in system.parts if part.text is None or not conversation.is_of_client(part.text)]
    chat.system("system", "\n\n".join(_texts(own, chat)))
    for message in conversation.messages:
        if message.role == "system":
            chat.system(str(message.speaker), "\n\n".join(_texts(message.parts, chat)))
        elif message.role == "assistant":
            _add_answer(message, chat)
        elif message.role == "unknown":
            chat.lose("messages of an unknown role")
        else:
            _add_input(conversation, message, chat)


def _add_tools(tools: Sequence[Tool], chat: ChatConversation) -> None:
    namespaces = {tool.namespace for tool in tools} - {None}
    chat.lose("namespaces of tools", len(namespaces))
    for tool in tools:
        if tool.kind == "function":
            chat.function(tool.name, tool.description, tool.schema, strict=tool.strict)
        elif tool.kind == "free_text":
            chat.free_text_tool(tool.name, tool.description)
        elif tool.kind == "provider":
            chat.lose("tools of the provider")


def _add_answer(message: Message, chat: ChatConversation) -> None:
    goes_on = False
    for part in message.parts:
        if part.kind == "text":
            chat.lose("citations", _citations(part))
            chat.said(part.text or "", goes_on=goes_on)
            goes_on = goes_on or bool(part.text)
        elif part.kind == "call" and part.is_free_text:
            chat.called_with_text(text(part.id), part.name, text(part.value) or "")
        elif part.kind == "call":
            arguments = part.value if isinstance(part.value, str) else as_json(part.value or {})
            chat.called(text(part.id), part.name, arguments)
        elif part.kind == "tools":
            _add_tools(part.value, chat)
        elif part.kind == "image" and part.value:
            chat.lose(_OUTSIDE)
        else:
            chat.lose(_LOST.get(part.kind, _OTHERS))


def _add_input(conversation: Conversation, message: Message, chat: ChatConversation) -> None:
    """Add a message of the user or of a tool."""
    parts = []
    for part in message.parts:
        if part.kind == "result":
            chat.lose("marks of results as errors", int(part.given.get("is_error") is True))
            id = text(part.id) or chat.waiting_call(part.name)
            chat.result(id, "".join(_texts(conversation.content_of(part), chat)))
        elif message.role == "tool" and part.kind == "provider_result":
            chat.lose(_OTHERS)
        else:
            parts.append(part)
    chat.user(_chat_parts(parts, chat))


def _texts(parts: Sequence[Part], chat: ChatConversation) -> list[str]:
    """Return the texts of parts where nothing else has a place."""
    given = _chat_parts(parts, chat)
    texts = [part["text"] for part in given if part["type"] == "text"]
    chat.lose(_OUTSIDE, len(given) - len(texts))
    return texts


def _chat_parts(parts: Sequence[Part], chat: ChatConversation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in parts:
        chat.lose("citations", _citations(part))
        if part.kind == "text":
            found += [{"type": "text", "text": part.text}] if part.text else []
        elif part.kind == "image" and part.value:
            found.append({"type": "image_url", "image_url": part.value})
        else:
            chat.lose(_LOST.get(part.kind, _LOST["unknown"]))
    return found


def _citations(part: Part) -> int:
    return len(array(part.given.get("citations"))) + len(array(part.given.get("annotations")))
