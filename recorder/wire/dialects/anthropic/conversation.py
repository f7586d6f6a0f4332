"""The requests to Anthropic Messages.

Agents put their own text into a user's message (`recorder.wire.dialects.user_text.last_words`), and messages of the
system after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from recorder.model.facts import RequestParameters, ToolResult
from recorder.wire.dialects.anthropic.blocks import KINDS, RESULT, result
from recorder.wire.dialects.anthropic.continuation import links
from recorder.wire.dialects.canonical import canonical_message
from recorder.wire.dialects.conversation import (
    Conversation,
    Kind,
    Message,
    Part,
    Role,
    Tool,
    image_part,
    role_of,
    text_part,
)
from recorder.wire.dialects.json_values import Object, flag, fraction, object_, objects, text, whole
from recorder.wire.dialects.parameters import first_text

BILLING = "x-anthropic-billing-header:"
"""How a block of the system prompt begins in which Claude Code sends its version and a checksum: it changes with every
request, which hits the cache all the same, and the model is not shown it."""

_MODEL = re.compile(r"/models/([^/:]+):(\w+)$")  # on Vertex the path names it, and the method
_COUNTS = ("/count_tokens", "/count-tokens:rawPredict")

_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}

_KINDS: Mapping[str, Kind] = {
    "text": "text",
    "document": "file",
    "search_result": "search_result",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "call",
    "tool_result": "result",
}
"""The types of blocks that clients send. Others are those of responses, sent back."""


class AnthropicConversation(Conversation):
    """A request to create a message, or to count its tokens."""

    marks = ("cache_control",)
    not_of_answer = frozenset({"model", "system", "tools", "stream", "metadata"})

    @cached_property
    def model(self) -> str | None:
        named = _MODEL.search(self.path)
        return super().model or (named[1] if named else None)

    @property
    def stream(self) -> bool | None:
        named = _MODEL.search(self.path)
        is_stream = named is not None and named[2] == "streamRawPredict"
        given = super().stream
        return is_stream or None if given is None else given

    @property
    def calls_in_parallel(self) -> bool | None:
        return False if self.settings().parallel_tool_calls is False else None

    @property
    def is_count(self) -> bool:
        return self.path.endswith(_COUNTS)

    @property
    def method(self) -> str:
        return "count" if self.is_count else ""

    @property
    def previous_response_id(self) -> str | None:
        return links(self.request).response_id

    @property
    def system_parts(self) -> Sequence[Part]:
        return parts_of(self.request.get("system"))

    @property
    def about(self) -> list[Any]:
        system = canonical_message("system", self.request.get("system")).decode()
        return [self.request.get("model"), self.request.get("tools"), system]

    def is_of_client(self, text: str) -> bool:
        return text.startswith(BILLING)

    def read_messages(self) -> Iterator[Message]:
        for given in objects(self.request.get("messages")):
            role, content = given.get("role"), given.get("content")
            yield Message(role_of(_ROLES, role), parts_of(content), content, role, given.get("id"))

    def read_tools(self) -> Iterator[Tool]:
        for tool in objects(self.request.get("tools")):
            if tool.get("type") in (None, "custom"):
                yield Tool("function", tool.get("name"), tool.get("description"), tool.get("input_schema"))
            else:
                yield Tool("provider", first_text(tool.get(name) for name in ("name", "mcp_server_name", "type")))

    def instructions(self) -> Iterator[str]:
        yield from filter(None, Message("system", self.system_parts).words)

    def result(self, part: Part) -> ToolResult | None:
        return result(part.given) if part.kind == "result" else None

    def content_of(self, part: Part) -> Sequence[Part]:
        return parts_of(part.value)

    def settings(self) -> RequestParameters:
        get = self.request.get
        thinking, output, choice = object_(get("thinking")), object_(get("output_config")), object_(get("tool_choice"))
        format = object_(output.get("format")) or object_(get("output_format"))
        is_alone = flag(choice.get("disable_parallel_tool_use"))
        return RequestParameters(
            reasoning_effort=text(output.get("effort")),
            reasoning_mode=text(thinking.get("type")),
            reasoning_summary=text(thinking.get("display")),
            reasoning_budget_tokens=whole(thinking.get("budget_tokens")),
            max_output_tokens=whole(get("max_tokens")),
            temperature=fraction(get("temperature")),
            top_p=fraction(get("top_p")),
            service_tier=text(get("service_tier")),
            response_format=text(format.get("type")),
            response_schema=first_text((format.get("name"), object_(format.get("schema")).get("title"))),
            tool_choice=first_text((choice.get("name"), choice.get("type"))),
            parallel_tool_calls=None if is_alone is None else not is_alone,
        )


def parts_of(content: Any) -> list[Part]:
    """Return the blocks of a message, or of a result."""
    if isinstance(content, str):
        return [text_part(content)]
    return [_part(block) for block in objects(content)]


def _part(block: Object) -> Part:
    type = text(block.get("type")) or ""
    kind = _KINDS.get(type)
    if kind == "result":
        return Part(kind, block, None, block.get("tool_use_id"), None, block.get("content"))
    if kind == "call":
        return Part(kind, block, None, block.get("id"), block.get("name"), block.get("input"))
    if type == "image":
        return _image(block, object_(block.get("source")))
    if kind == "reasoning":
        return Part(kind, block, text(block.get("thinking")))
    if kind is not None:
        return Part(kind, block, text(block.get("text")))
    if type.endswith(RESULT):
        return Part("provider_result", block)
    return Part("provider_call" if KINDS.get(type) == "tool_call" else "other", block)


def _image(block: Object, source: Object) -> Part:
    if source.get("type") == "base64":
        return image_part(block, f"data:{source.get('media_type')};base64,{source.get('data')}")
    return image_part(block, source.get("url"))
