"""The requests to Chat Completions, and to legacy completions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec

from recorder.model.facts import RequestFacts, RequestParameters, ToolResult
from recorder.wire.dialects.canonical import texts_of
from recorder.wire.dialects.conversation import (
    Conversation,
    Message,
    Part,
    Tool,
    image_part,
    kinds,
    role_of,
    text_part,
)
from recorder.wire.dialects.errors import says_failed
from recorder.wire.dialects.json_values import Object, array, object_, objects, text, text_or_json
from recorder.wire.dialects.openai import MARKS, NOT_OF_ANSWER, ROLES, settings, tool_of

_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")  # Azure names the model in the path alone

_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Members of a message that hold reasoning sent back: one of them, or several."""

# Thinking is a part of Mistral.
_KINDS = kinds("""
text text
refusal refusal
audio input_audio
file file
video video_url
reasoning thinking
""")


class CompletionConversation(Conversation):
    """A request for a completion."""

    marks = MARKS
    not_of_answer = NOT_OF_ANSWER | {"model", "tools", "functions"}

    @cached_property
    def model(self) -> str | None:
        deployment = _DEPLOYMENT.search(self.path)
        return super().model or (deployment[1] if deployment else None)

    @property
    def offered(self) -> Sequence[Any]:
        return [*array(self.request, "tools"), *array(self.request, "functions")]

    @property
    def about(self) -> list[Any]:
        return [self.request.get("model"), self.request.get("tools")]

    @property
    def prompts(self) -> Sequence[Any]:
        """Return the prompts of a legacy completion; one of token numbers is one."""
        prompt = self.request.get("prompt")
        are_several = any(isinstance(each, str | list) for each in array(prompt))
        if are_several:
            return array(prompt)
        return [prompt] if prompt else []

    def facts(self) -> RequestFacts:
        facts = super().facts()
        texts = [prompt for prompt in self.prompts if isinstance(prompt, str)]
        if self.messages or not texts:
            return facts
        return msgspec.structs.replace(facts, text=texts[-1], is_turn=True)

    def read_messages(self) -> Iterator[Message]:
        for given in objects(self.request, "messages"):
            yield _message(given)

    def read_tools(self) -> Iterator[Tool]:
        yield from map(tool_of, objects(self.request, "tools"))
        for function in objects(self.request, "functions"):
            yield Tool("old_function", function.get("name"))

    def result(self, part: Part) -> ToolResult | None:
        if part.kind != "result":
            return None
        content = list(_parts(part.value))
        if all(each.kind == "text" for each in content):
            output = "".join([each.text or "" for each in content])
        else:
            output = text_or_json(part.value)
        return ToolResult(text(part.id), text(part.name), output, says_failed(output))

    def results(self) -> Iterator[ToolResult]:
        """Yield the results.

        Of one without an id the turn is unknown, except for those that the request ends with.
        """
        roles = [message.role for message in self.messages]
        turns = [number for number, role in enumerate(roles) if role != "tool"]
        for number, message in enumerate(self.messages):
            for result in filter(None, map(self.result, message.parts)):
                if result.call_id or number > max(turns, default=-1):
                    yield result

    def content_of(self, part: Part) -> Sequence[Part]:
        return list(_parts(part.value))

    def settings(self) -> RequestParameters:
        return settings(self.request)

    def parameters(self) -> RequestParameters:
        found = super().parameters()
        messages = (
            None if found.input_messages is None else found.input_messages + len(self.prompts)
        )
        return msgspec.structs.replace(found, input_messages=messages)


def _message(given: Object) -> Message:
    role, content = given.get("role"), given.get("content")
    known = role_of(ROLES, role)
    if known == "tool":
        id = given.get("tool_call_id")
        return Message(
            known, [Part("result", given, None, id, given.get("name"), content)], content, role
        )
    parts = list(chain(_reasoning(given), _parts(content), _refusal(given), _calls(given)))
    if known == "assistant" and not texts_of(content):
        content = given.get("refusal")
    return Message(known, parts, content, role, given.get("id"), given)


def _reasoning(message: Object) -> Iterator[Part]:
    given = {name: message[name] for name in _REASONING if message.get(name)}
    if given:
        plain = text(given, "reasoning_content") or text(given, "reasoning")
        yield Part("reasoning", {"type": "reasoning_details", **given}, plain)


def _refusal(message: Object) -> Iterator[Part]:
    if message.get("refusal"):
        refusal = {"type": "refusal", "refusal": message["refusal"]}
        yield Part("refusal", refusal, text(message["refusal"]))


def _parts(content: Any) -> Iterator[Part]:
    for given in [content] if isinstance(content, str) else array(content):
        if isinstance(given, str):
            yield text_part(given)
        elif isinstance(given, dict):
            yield _part(given)


def _part(given: Object) -> Part:
    type = text(given, "type") or ""
    if type == "image_url":
        picture = object_(given, "image_url")
        return image_part(given, picture.get("url"), picture.get("detail"))
    said = text(given, "text")
    kind = _KINDS.get(type) or ("unknown" if said is None else "text")
    return Part(kind, given, said)


def _calls(message: Object) -> Iterator[Part]:
    for call in objects(message, "tool_calls"):
        function, custom = object_(call, "function"), object_(call, "custom")
        name, arguments = (
            function.get("name") or custom.get("name"),
            function.get("arguments") or custom.get("input"),
        )
        yield Part("call", call, None, call.get("id"), name, arguments, is_free_text=bool(custom))
    old = message.get("function_call")
    if isinstance(old, dict):
        yield Part("old_call", old, None, None, old.get("name"), old.get("arguments"))
