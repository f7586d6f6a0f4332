"""The requests of AG-UI: the messages of a thread, the tools of the screen, and what the app says
beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recorder.model.facts import RequestParameters, ToolResult
from recorder.wire.dialects.conversation import (
    Conversation,
    Message,
    Part,
    Role,
    Tool,
    role_of,
    text_part,
)
from recorder.wire.dialects.json_values import (
    Object,
    names,
    object_,
    objects,
    text,
    text_or_json,
    word,
)

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "reasoning": "assistant",
    "tool": "tool",
}


class AgUiConversation(Conversation):
    """A request for a run."""

    not_of_answer = names("threadId runId parentRunId protocolVersion tools")

    def read_messages(self) -> Iterator[Message]:
        for given in objects(self.request, "messages"):
            role = given.get("role")
            yield Message(
                role_of(_ROLES, role),
                [*_parts(given)],
                given.get("content"),
                role,
                given.get("id"),
                given,
            )

    def read_tools(self) -> Iterator[Tool]:
        for tool in objects(self.request, "tools"):
            yield Tool(
                "function", tool.get("name"), tool.get("description"), tool.get("parameters")
            )

    def result(self, part: Part) -> ToolResult | None:
        if part.kind != "result":
            return None
        return ToolResult(
            text(part.id), None, text_or_json(part.value), "error" in part.given or None
        )

    def content_of(self, part: Part) -> Sequence[Part]:
        return [text_part(text_or_json(part.value))]

    def settings(self) -> RequestParameters:
        return RequestParameters()


def _parts(message: Object) -> Iterator[Part]:
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        yield Part("result", message, None, message.get("toolCallId"), None, content)
        return
    if role == "reasoning":
        yield Part("reasoning", message, text(content))
        return
    if isinstance(content, str) and content:
        yield text_part(content)
    for part in objects(content):
        yield _content(part)
    for call in objects(message, "toolCalls"):
        function = object_(call, "function")
        yield Part(
            "call", call, None, call.get("id"), function.get("name"), function.get("arguments")
        )


_KINDS: Mapping[str, Any] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "document": "file",
    "binary": "file",
}


def _content(part: Object) -> Part:
    said = word(part, "text")
    if said is not None:
        return Part("text", part, said)
    return Part(_KINDS.get(text(part, "type") or "", "unknown"), part)
