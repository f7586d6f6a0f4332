"""The requests to Converse. The path names the model; each part is an object with one member, which
is its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from recorder.model.facts import RequestParameters, ToolResult
from recorder.wire.dialects.conversation import (
    Conversation,
    Message,
    Part,
    Role,
    Tool,
    image_part,
    kinds,
    role_of,
    settings_at,
)
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
    names,
    object_,
    objects,
    places,
    text,
)

_MODEL = re.compile(r"/model/([^/]+)/[^/]+$")
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant"}
_KINDS = kinds("""
text text
file document
video video
audio audio
reasoning reasoningContent
call toolUse
result toolResult
search_result searchResult
""")
_SETTINGS = places("""
max_output_tokens:whole inferenceConfig.maxTokens
temperature:fraction inferenceConfig.temperature
top_p:fraction inferenceConfig.topP
tool_choice:word toolConfig.toolChoice.tool.name
""")


def model_of(path: str) -> str | None:
    """Return the model, or the profile, that a path of Bedrock names."""
    found = _MODEL.search(path)
    return unquote(found[1]) if found else None


class PathConversation(Conversation):
    """A request to Bedrock: its path names the model, and says whether it streams."""

    @cached_property
    def model(self) -> str | None:
        return model_of(self.path)

    @property
    def stream(self) -> bool | None:
        return self.path.endswith("-stream")


class ConverseConversation(PathConversation):
    """A request to converse."""

    not_of_answer = names("system toolConfig requestMetadata")

    @property
    def offered(self) -> Sequence[Any]:
        return array(self.request, "toolConfig", "tools")

    @property
    def about(self) -> list[Any]:
        return [self.model, self.request.get("toolConfig"), self.system]

    @property
    def system(self) -> Any:
        return self.request.get("system")

    @property
    def system_parts(self) -> Sequence[Part]:
        return [_part(part) for part in objects(self.system)]

    def read_messages(self) -> Iterator[Message]:
        for given in objects(self.request, "messages"):
            role, content = given.get("role"), given.get("content")
            yield Message(
                role_of(_ROLES, role), [_part(part) for part in objects(content)], content, role
            )

    def read_tools(self) -> Iterator[Tool]:
        for tool in objects(self.offered):
            spec = object_(tool, "toolSpec")
            if spec:
                schema = object_(spec, "inputSchema").get("json")
                yield Tool("function", spec.get("name"), spec.get("description"), schema)

    def result(self, part: Part) -> ToolResult | None:
        if part.kind != "result":
            return None
        output = "\n".join(each.text or "" for each in self.content_of(part))
        return ToolResult(
            text(part.id), None, output, object_(part.given, "toolResult").get("status") == "error"
        )

    def content_of(self, part: Part) -> Sequence[Part]:
        found = []
        for each in objects(part.value):
            is_json = "json" in each
            found.append(Part("text", each, as_json(each["json"])) if is_json else _part(each))
        return found

    def settings(self) -> RequestParameters:
        return RequestParameters(**settings_at(self.request, _SETTINGS))


def _part(given: Object) -> Part:
    name = next((each for each in given if each in _KINDS or each == "image"), "")
    held = object_(given, name)
    if name == "image":
        data = text(held, "source", "bytes")
        return image_part(given, data and f"data:image/{held.get('format')};base64,{data}")
    if name == "toolUse":
        return Part("call", given, None, held.get("toolUseId"), held.get("name"), held.get("input"))
    if name == "toolResult":
        return Part("result", given, None, held.get("toolUseId"), None, held.get("content"))
    if name == "reasoningContent":
        return Part("reasoning", given, text(held, "reasoningText", "text"))
    return Part(_KINDS.get(name, "other"), given, text(given, "text"))
