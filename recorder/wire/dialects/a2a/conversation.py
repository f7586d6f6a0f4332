"""The requests of A2A: the message that one agent sends to another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from recorder.model.facts import RequestParameters, ToolResult
from recorder.wire.dialects.a2a.decoder import parts_of
from recorder.wire.dialects.conversation import Conversation, Message, Part, Tool
from recorder.wire.dialects.json_values import object_, text

_STREAMING = ("message/stream", "tasks/resubscribe", "SendStreamingMessage", "SubscribeToTask")


class A2aConversation(Conversation):
    """A request that sends a message; those for a task, or about notices, have none."""

    @cached_property
    def model(self) -> str | None:
        return None

    @property
    def stream(self) -> bool | None:
        return self.method in _STREAMING or self.path.endswith((":stream", ":subscribe"))

    @property
    def method(self) -> str:
        return text(self.request, "method") or ""

    def read_messages(self) -> Iterator[Message]:
        message = object_(self.request, "params", "message")
        if (
            not message
            # over REST; `request` is its name in the protocol buffers of 0.3, which clients for
            # Python send
        ):
            message = object_(self.request, "message") or object_(self.request, "request")
        if message:
            given = parts_of(message)
            parts = [
                Part("file" if text(part, "text") is None else "text", part, text(part, "text"))
                for part in given
            ]
            yield Message("user", parts, given, text(message, "role"), given=message)

    def read_tools(self) -> Iterator[Tool]:
        yield from ()

    def result(self, part: Part) -> ToolResult | None:
        return None

    def content_of(self, part: Part) -> Sequence[Part]:
        return ()

    def settings(self) -> RequestParameters:
        return RequestParameters()
