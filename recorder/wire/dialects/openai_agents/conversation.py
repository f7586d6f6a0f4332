"""The requests of OpenAI's hosted agents: the input with which a session begins, and what a client
adds to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from recorder.model.facts import RequestParameters, ToolResult
from recorder.wire.dialects.conversation import Conversation, Message, Part, Tool, text_part
from recorder.wire.dialects.json_values import Object, objects, text, text_or_json
from recorder.wire.dialects.media import without_bytes


class HostedAgentsConversation(Conversation):
    """A request that has input; those that list, create or change something else have none."""

    @cached_property
    def model(self) -> str | None:
        return text(self.request, "agent", "model")

    @property
    def method(self) -> str:
        return ""

    def read_messages(self) -> Iterator[Message]:
        begun = self.request.get("input")
        if isinstance(begun, str):
            yield Message("user", [text_part(begun)], begun, "user")
        for message in objects(begun):
            yield _message(message)
        for event in objects(self.request, "events"):
            given = objects(event, "input") or [event]
            for each in given:
                if "content" in each:
                    yield _message(each)
                elif "call_id" in each:
                    yield Message(
                        "tool", [_result(each)], each.get("output"), text(each, "type"), given=each
                    )
                else:
                    yield Message("unknown", [Part("other", each)], given=each, is_item=True)

    def read_tools(self) -> Iterator[Tool]:
        for tool in objects(self.request, "agent", "tools"):
            if tool.get("type") == "function":
                yield Tool(
                    "function", tool.get("name"), tool.get("description"), tool.get("parameters")
                )
            else:
                yield Tool("provider", text(tool, "server_label") or text(tool, "type"))

    def result(self, part: Part) -> ToolResult | None:
        if part.kind != "result":
            return None
        error = text(part.given, "error")
        output = part.given.get("output")
        returned = error or "" if output is None else text_or_json(without_bytes(output))
        return ToolResult(text(part.given, "call_id"), None, returned, error is not None or None)

    def content_of(self, part: Part) -> Sequence[Part]:
        return [text_part(text_or_json(without_bytes(part.value)))]

    def settings(self) -> RequestParameters:
        return RequestParameters(
            reasoning_effort=text(self.request, "agent", "reasoning", "effort")
        )


def _message(given: Object) -> Message:
    content = given.get("content")
    if isinstance(content, str):
        return Message("user", [text_part(content)], content, "user", given=given)
    parts = []
    for each in objects(content):
        said = text(each, "text")
        parts.append(Part("unknown" if said is None else "text", each, said))
    return Message("user", parts, content, "user", given=given)


def _result(given: Object) -> Part:
    return Part("result", given, id=given.get("call_id"), value=given.get("output"))
