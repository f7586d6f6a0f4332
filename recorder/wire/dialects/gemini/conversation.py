"""The requests to Gemini, which name the model and the method in the path.

The Gemini CLI, and a count of tokens, put the request into another object. Fields may be in snake
case: it is proto3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

from recorder.model.facts import RequestParameters, ToolResult
from recorder.wire.dialects.conversation import Message, Part, Role, Tool, image_part, kinds
from recorder.wire.dialects.gemini.candidate import function_response
from recorder.wire.dialects.joined_by_name import JoinedByName
from recorder.wire.dialects.json_values import (
    Object,
    array,
    flag,
    fraction,
    names,
    object_,
    objects,
    text,
    whole,
    without,
    word,
)

_MODEL = re.compile(r"([^/:]+)(?::|%3[Aa])(\w+)$")
_NAMED = re.compile(r"([^/]+):\w+$")
_WRAPPERS = ("request", "generateContentRequest")
_DECLARATIONS = ("functionDeclarations", "function_declarations")
_RESPONSE = ("functionResponse", "function_response")

_ROLES: Mapping[Any, Role] = {None: "user", "": "user", "user": "user", "model": "assistant"}

_KINDS = kinds("""
call functionCall function_call
result functionResponse function_response
provider_call toolCall executableCode
provider_result toolResponse codeExecutionResult
text text
file inlineData inline_data fileData file_data
""")
"""By the member that a part has, its kind."""

_FORMATS = {"text/plain": "text", "application/json": "json_object"}


class GeminiConversation(JoinedByName):
    """A request to generate content, or to count its tokens."""

    not_of_answer = names("model systemInstruction system_instruction tools session_id labels")
    """The last two name the session of the Gemini CLI and the account's own labels."""

    joins_texts = True

    def __init__(self, path: str, request: Object) -> None:
        self._outer = request
        wrapped = (object_(request, name) for name in _WRAPPERS)
        super().__init__(path, next(filter(None, wrapped), request))
        found = _MODEL.search(path)
        self._method = found[2] if found else None
        # The last step of the path before the method is a model if it is in a collection:
        # `v1internal` is not.
        self._in_path = found[1] if found and "/" in path[: found.start()].strip("/") else None

    @cached_property
    def model(self) -> str | None:
        return self._in_path or (text(self._outer, "model") or "").removeprefix("models/") or None

    @property
    def stream(self) -> bool | None:
        return None if self._method is None else self._method == "streamGenerateContent"

    @property
    def is_count(self) -> bool:
        return self._method == "countTokens"

    @property
    def method(self) -> str:
        return "count" if self.is_count else ""

    @property
    def system(self) -> Any:
        return self.request.get("systemInstruction") or self.request.get("system_instruction")

    @property
    def system_parts(self) -> Sequence[Part]:
        return [_part(part) for part in objects(self.system, "parts")]

    @property
    def about(self) -> list[Any]:
        named = _NAMED.search(self.path.replace("%3A", ":").replace("%3a", ":"))
        return [
            self._outer.get("model") or (named and named[1]),
            self.request.get("tools"),
            self.system,
        ]

    def read_messages(self) -> Iterator[Message]:
        contents = self.request.get("contents")
        for content in [contents] if isinstance(contents, dict) else objects(contents):
            yield _message(content)

    def read_tools(self) -> Iterator[Tool]:
        for tool in objects(self.request, "tools"):
            for member, value in tool.items():
                if member in _DECLARATIONS:
                    yield from map(_function, objects(value))
                else:
                    yield Tool("provider", member)

    def result(self, part: Part) -> ToolResult | None:
        return function_response(_holder(part.given), "name") if part.kind == "result" else None

    def content_of(self, part: Part) -> Sequence[Part]:
        output = function_response(_holder(part.given), "name").output
        return [Part("text", {"text": output}, output)]

    def settings(self) -> RequestParameters:
        request = self.request
        config = object_(either(request, "generationConfig"))
        thinking = object_(either(config, "thinkingConfig"))
        given = either(config, "responseSchema")
        schema = object_(either(config, "responseJsonSchema") if given is None else given)
        thoughts = flag(either(thinking, "includeThoughts"))
        return RequestParameters(
            reasoning_effort=_word(either(thinking, "thinkingLevel")),
            reasoning_summary=None if thoughts is None else str(thoughts).lower(),
            reasoning_budget_tokens=whole(either(thinking, "thinkingBudget")),
            max_output_tokens=whole(either(config, "maxOutputTokens")),
            temperature=fraction(config, "temperature"),
            top_p=fraction(either(config, "topP")),
            service_tier=_word(either(request, "serviceTier")),
            response_format="json_schema" if schema else _format(config),
            response_schema=word(schema, "title"),
            tool_choice=_choice(request),
            prompt_cache_key=text(either(request, "cachedContent")),
        )


def _message(content: Object) -> Message:
    role = content.get("role")
    given = objects(content, "parts")
    parts = [_part(part) for part in given]
    if role == "model":
        said = [
            part for part in given if isinstance(part.get("text"), str) and not part.get("thought")
        ]
        return Message("assistant", parts, said, role)
    known = _ROLES.get(role, "tool") if isinstance(role, str | None) else "tool"
    return Message(known, parts, [_without_id(part) for part in given], "user")


def _part(part: Object) -> Part:
    known = [_KINDS[member] for member in part if member in _KINDS]
    kind = known[0] if known else "other"
    if part.get("thought") is True:
        return Part("reasoning", part, text(part, "text"))
    if kind == "call":
        call = object_(part.get("functionCall", part.get("function_call")))
        return Part("call", part, None, call.get("id"), call.get("name"), call.get("args") or {})
    if kind == "result":
        result = _holder(part)
        return Part(
            "result", part, None, result.get("id"), result.get("name"), result.get("response")
        )
    mime_type = text(either(part, "inlineData", "mimeType")) or ""
    if mime_type.startswith("image/"):
        return image_part(part, f"data:{mime_type};base64,{either(part, 'inlineData', 'data')}")
    return Part(kind, part, text(part, "text"))


def _holder(part: Object) -> Object:
    """Return the result that a part has."""
    return object_(either(part, "functionResponse"))


def _without_id(part: Object) -> Object:
    """Return a part without the id of the call whose result it is: clients make their own."""
    for name in _RESPONSE:
        if isinstance(part.get(name), dict):
            return {**part, name: without(part[name], ("id",))}
    return part


def _function(declared: Object) -> Tool:
    schema = either(declared, "parametersJsonSchema") or _schema(declared.get("parameters"))
    return Tool("function", declared.get("name"), declared.get("description"), schema)


def _schema(given: Any) -> Any:
    """Return a schema of Gemini as JSON Schema, which has the names of types in lower case."""
    if isinstance(given, list):
        return [_schema(each) for each in given]
    if not isinstance(given, dict):
        return given
    schema = {name: _schema(each) for name, each in given.items()}
    if isinstance(given.get("type"), str):
        schema["type"] = given["type"].lower()
    return schema


def either(value: Any, *names: str) -> Any:
    """Return a member, as `member` does; each name may be in snake case."""
    for name in names:
        holder = object_(value)
        value = holder.get(name)
        if value is None:
            value = holder.get(_snake_case(name))
    return value


@cache
def _snake_case(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).lower()


def _word(value: Any) -> str | None:
    """Return a value of an enumeration in lower case: clients write HIGH and high, and mean the
    same.
    """
    return value.lower() if isinstance(value, str) else None


def _format(config: Object) -> str | None:
    mime_type = text(either(config, "responseMimeType"))
    return None if mime_type is None else _FORMATS.get(mime_type, mime_type)


def _choice(request: Object) -> str | None:
    """Return the mode of calling tools, or the name of the only one that may and must be called."""
    calling = object_(either(request, "toolConfig", "functionCallingConfig"))
    mode = _word(calling.get("mode"))
    names = array(either(calling, "allowedFunctionNames"))
    if mode == "any" and len(names) == 1:
        return text(names[0]) or mode
    return mode
