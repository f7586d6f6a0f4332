"""The requests to Ollama's own API. Pictures are base64 beside the text of a message, and `options`
has the settings.

The result of a call has the name of its tool; only newer clients send an id, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recorder.model.facts import RequestParameters, ToolResult
from recorder.wire.dialects.conversation import (
    Message,
    Part,
    Role,
    Tool,
    image_part,
    role_of,
    settings_at,
    text_part,
)
from recorder.wire.dialects.errors import says_failed
from recorder.wire.dialects.joined_by_name import JoinedByName
from recorder.wire.dialects.json_values import (
    Object,
    array,
    flag,
    names,
    object_,
    objects,
    places,
    text,
    word,
)
from recorder.wire.dialects.media import picture_type

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

_SETTINGS = places("""
reasoning_effort:word think
max_output_tokens:whole options.num_predict
temperature:fraction options.temperature
top_p:fraction options.top_p
""")

_MODES = {True: "enabled", False: "disabled"}


class OllamaConversation(JoinedByName):
    """A request to chat, or to go on with a prompt."""

    not_of_answer = names("model system tools stream keep_alive")

    @property
    def stream(self) -> bool | None:
        given = super().stream
        return True if given is None and self.request else given

    @property
    def system_parts(self) -> Sequence[Part]:
        said = word(self.request, "system")
        return () if said is None else (text_part(said),)

    @property
    def system(self) -> Any:
        return self.request.get("system")

    def read_messages(self) -> Iterator[Message]:
        if "prompt" in self.request:
            yield _message({**self.request, "role": "user", "content": self.request["prompt"]})
        for given in objects(self.request, "messages"):
            yield _message(given)

    def read_tools(self) -> Iterator[Tool]:
        for tool in objects(self.request, "tools"):
            function = object_(tool, "function")
            yield Tool(
                "function",
                function.get("name"),
                function.get("description"),
                function.get("parameters"),
            )

    def result(self, part: Part) -> ToolResult | None:
        if part.kind != "result":
            return None
        output = text(part.value) or ""
        return ToolResult(text(part.id), text(part.name), output, says_failed(output))

    def content_of(self, part: Part) -> Sequence[Part]:
        return [text_part(text(part.value) or ""), *_pictures(part.given)]

    def settings(self) -> RequestParameters:
        thinks = flag(self.request, "think")
        format = self.request.get("format")
        schema = object_(format)
        named = "json_object" if format == "json" else None
        return RequestParameters(
            **settings_at(self.request, _SETTINGS),
            reasoning_mode=None if thinks is None else _MODES[thinks],
            response_format="json_schema" if schema else named,
            response_schema=word(schema, "title"),
        )


def _message(given: Object) -> Message:
    role, content = given.get("role"), given.get("content")
    known = role_of(_ROLES, role)
    if known == "tool":
        name = given.get("tool_name", given.get("name"))
        return Message(
            known,
            [Part("result", given, None, given.get("tool_call_id"), name, content)],
            content,
            role,
        )
    parts = [*_thoughts(given), *_texts(content), *_pictures(given), *_calls(given)]
    return Message(known, parts, content, role, None, given)


def _thoughts(message: Object) -> Iterator[Part]:
    said = word(message, "thinking")
    if said is not None:
        yield Part("reasoning", {"type": "thinking", "thinking": said}, said)


def _texts(content: Any) -> Iterator[Part]:
    if isinstance(content, str) and content:
        yield text_part(content)


def _pictures(message: Object) -> Iterator[Part]:
    for given in array(message, "images"):
        if isinstance(given, str):
            # nobody says it: the server looks at the bytes
            type = picture_type(given) or "image/png"
            yield image_part({"type": "image", "data": given}, f"data:{type};base64,{given}")


def _calls(message: Object) -> Iterator[Part]:
    for call in objects(message, "tool_calls"):
        function = object_(call, "function")
        yield Part(
            "call", call, None, call.get("id"), function.get("name"), function.get("arguments")
        )
