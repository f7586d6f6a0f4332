"""The requests of `useChat`: all messages of the chat, each with the parts that its screen shows.

A result stands in the part of its call, in the message of the assistant: here it is a message of
its own.
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
    image_part,
    role_of,
    text_part,
)
from recorder.wire.dialects.json_values import Object, names, object_, objects, text, text_or_json

_ROLES: Mapping[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
_ANSWERED = names("output-available output-error output-denied")


class UiConversation(Conversation):
    """A request with the messages of a chat."""

    not_of_answer = names("id trigger messageId")

    def read_messages(self) -> Iterator[Message]:
        only = object_(self.request, "message")  # of an app that keeps the messages before
        for given in objects(self.request, "messages") or [only][: len(only)]:
            parts = objects(given, "parts")
            role = given.get("role")
            said = [part for part in map(_part, parts) if part is not None]
            yield Message(
                role_of(_ROLES, role), said, given.get("parts"), role, given.get("id"), given
            )
            results = [_result(part) for part in parts if text(part, "state") in _ANSWERED]
            if results:
                yield Message("tool", results)

    def read_tools(self) -> Iterator[Tool]:
        return iter(())  # they are with the server of the app

    def result(self, part: Part) -> ToolResult | None:
        if part.kind != "result":
            return None
        failed = part.given.get("state") != "output-available"
        return ToolResult(text(part.id), text(part.name), text_or_json(part.value), failed or None)

    def content_of(self, part: Part) -> Sequence[Part]:
        return [text_part(text_or_json(part.value))]

    def settings(self) -> RequestParameters:
        return RequestParameters()


def _part(given: Object) -> Part | None:
    type = text(given, "type") or ""
    if type == "step-start":
        return None
    said = text(given, "text")
    if type == "text" and said is not None:
        return Part("text", given, said)
    if type == "reasoning":
        return Part("reasoning", given, said)
    if type == "file":
        is_image = (text(given, "mediaType") or "").startswith("image/")
        return image_part(given, given.get("url")) if is_image else Part("file", given)
    if type == "dynamic-tool" or type.startswith("tool-"):
        return Part(
            "call", given, None, given.get("toolCallId"), _name_of(given), given.get("input")
        )
    return Part("unknown", given)


def _result(part: Object) -> Part:
    output: Any = part.get("output", text(part, "errorText") or "")
    return Part("result", part, None, part.get("toolCallId"), _name_of(part), output)


def _name_of(part: Object) -> str:
    return text(part, "toolName") or (text(part, "type") or "").removeprefix("tool-")
