"""The requests of Claude Managed Agents: events that a client adds to a session, or that a session
begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recorder.model.facts import RequestParameters, ToolResult
from recorder.wire.dialects.anthropic.blocks import output_of
from recorder.wire.dialects.anthropic.conversation import parts_of
from recorder.wire.dialects.anthropic_sessions.decoder import call_id_of
from recorder.wire.dialects.conversation import Conversation, Message, Part, Role, Tool, text_part
from recorder.wire.dialects.json_values import flag, objects_in, text

RESULTS = ("user.tool_result", "user.custom_tool_result")


class ManagedAgentsConversation(Conversation):
    """A request that has events; those that list, create or change something else have none."""

    @property
    def method(self) -> str:
        return ""

    def read_messages(self) -> Iterator[Message]:
        for event in objects_in([self.request], "initial_events", "events"):
            type = text(event, "type") or ""
            if type in RESULTS:
                part = Part("result", event, id=call_id_of(event), value=event.get("content"))
                yield Message("user", [part], event.get("content"), type, given=event)
            elif type == "user.define_outcome":
                yield Message(
                    "user", [text_part(text(event, "description") or "")], None, type, given=event
                )
            elif type in ("user.message", "system.message"):
                content = event.get("content")
                role: Role = "user" if type == "user.message" else "system"
                yield Message(role, parts_of(content), content, role, given=event)
            else:
                yield Message("unknown", [Part("other", event)], given=event, is_item=True)

    def read_tools(self) -> Iterator[Tool]:
        return iter(())

    def result(self, part: Part) -> ToolResult | None:
        if part.kind != "result":
            return None
        output, failed = output_of(part.given.get("content")), flag(part.given, "is_error")
        return ToolResult(call_id_of(part.given), None, output, failed)

    def content_of(self, part: Part) -> Sequence[Part]:
        return parts_of(part.value)

    def settings(self) -> RequestParameters:
        return RequestParameters()
