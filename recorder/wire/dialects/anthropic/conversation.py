"""The requests to Anthropic Messages.

Agents put their own text into a user's message (`recorder.wire.dialects.user_text.last_words`), and
messages of the system after it.

A request that continues a thread has only the messages of the new turn:
`{"thread": {"type": "continue", "previous_message_id": …}}` stands for the messages of the request
that this response answered, and the response as a message of the assistant. Source: `thread` of
`MessageCreateParams` in anthropic-python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from recorder.model.facts import Links, RequestParameters, ToolResult
from recorder.wire.dialects.anthropic.blocks import KINDS, RESULT, result
from recorder.wire.dialects.canonical import canonical_message
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
    text_part,
)
from recorder.wire.dialects.dialect import Continuation
from recorder.wire.dialects.json_values import (
    Object,
    array,
    decoded,
    flag,
    names,
    object_,
    objects,
    places,
    request_object,
    text,
    whole,
    without,
    word,
)

BILLING = "x-anthropic-billing-header:"
"""How a block of the system prompt begins in which Claude Code sends its version and a checksum: it
changes with every request, which hits the cache all the same, and the model is not shown it."""

_MODEL = re.compile(r"/models/([^/:]+):(\w+)$")  # on Vertex the path names it, and the method
_COUNTS = ("/count_tokens", "/count-tokens:rawPredict")

_ROLES: Mapping[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}

_KINDS = kinds("""
text text
file document
search_result search_result
reasoning thinking redacted_thinking
call tool_use
result tool_result
""")
"""The types of blocks that clients send. Others are those of responses, sent back."""


class AnthropicConversation(Conversation):
    """A request to create a message, or to count its tokens."""

    marks = ("cache_control",)
    not_of_answer = names("model system tools stream metadata")

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
        return [self.model, self.request.get("tools"), system]

    def is_of_client(self, text: str) -> bool:
        return text.startswith(BILLING)

    def read_messages(self) -> Iterator[Message]:
        for given in objects(self.request, "messages"):
            role, content = given.get("role"), given.get("content")
            yield Message(role_of(_ROLES, role), parts_of(content), content, role, given.get("id"))

    def read_tools(self) -> Iterator[Tool]:
        for tool in objects(self.request, "tools"):
            if tool.get("type") in (None, "custom"):
                yield Tool(
                    "function", tool.get("name"), tool.get("description"), tool.get("input_schema")
                )
            else:
                yield Tool(
                    "provider",
                    word(tool, "name") or word(tool, "mcp_server_name") or word(tool, "type"),
                )

    def instructions(self) -> Iterator[str]:
        yield from filter(None, Message("system", self.system_parts).words)

    def result(self, part: Part) -> ToolResult | None:
        return result(part.given) if part.kind == "result" else None

    def content_of(self, part: Part) -> Sequence[Part]:
        return parts_of(part.value)

    def settings(self) -> RequestParameters:
        output, is_alone = (
            object_(self.request, "output_config"),
            flag(self.request, "tool_choice", _ALONE),
        )
        format = object_(output, "format") or object_(self.request, "output_format")
        return RequestParameters(
            **settings_at(self.request, _SETTINGS),
            response_format=text(format, "type"),
            response_schema=word(format, "name") or word(format, "schema", "title"),
            parallel_tool_calls=None if is_alone is None else not is_alone,
        )


_ALONE = "disable_parallel_tool_use"
_SETTINGS = places("""
reasoning_effort:text output_config.effort
reasoning_mode:text thinking.type
reasoning_summary:text thinking.display
reasoning_budget_tokens:whole thinking.budget_tokens
max_output_tokens:whole max_tokens
temperature:fraction temperature
top_p:fraction top_p
service_tier:text service_tier
tool_choice:word tool_choice.name tool_choice.type
""")


def parts_of(content: Any) -> list[Part]:
    """Return the blocks of a message, or of a result."""
    if isinstance(content, str):
        return [text_part(content)]
    return [_part(block) for block in objects(content)]


def _part(block: Object) -> Part:
    type = text(block, "type") or ""
    kind = _KINDS.get(type)
    if kind == "result":
        return Part(kind, block, None, block.get("tool_use_id"), None, block.get("content"))
    if kind == "call":
        return Part(kind, block, None, block.get("id"), block.get("name"), block.get("input"))
    if type == "image":
        return _image(block, object_(block, "source"))
    if kind == "reasoning":
        return Part(kind, block, text(block, "thinking"))
    if kind is not None:
        return Part(kind, block, text(block, "text"))
    if type.endswith(RESULT):
        return Part("provider_result", block)
    return Part("provider_call" if KINDS.get(type) == "tool_call" else "other", block)


def _image(block: Object, source: Object) -> Part:
    if source.get("type") == "base64":
        return image_part(block, f"data:{source.get('media_type')};base64,{source.get('data')}")
    return image_part(block, source.get("url"))


# -- what a request continues

_MEMBERS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""By the type of a delta, the member of its block that it adds to."""

_REASONING = frozenset({"thinking", "redacted_thinking"})
_NOT_SENT_BACK = frozenset({"cache_control", "citations"})


def links(request: Object) -> Links:
    """Return the id of the response that a request continues; one that begins a thread continues
    none.
    """
    thread = object_(request, "thread")
    return Links(
        text(thread, "previous_message_id") or None if thread.get("type") == "continue" else None
    )


def _answer(payloads: Iterable[bytes]) -> Sequence[Any]:
    """Return a response as a message of the assistant: from a document, or from the blocks of a
    stream.
    """
    blocks: dict[int, dict[str, Any]] = {}
    for event in map(request_object, payloads):
        index = whole(event, "index") or 0
        if event.get("type") == "message":
            blocks |= dict(enumerate(map(dict, objects(event, "content"))))
        elif event.get("type") == "content_block_start":
            blocks[index] = dict(object_(event, "content_block"))
        elif event.get("type") == "content_block_delta":
            _add(blocks.setdefault(index, {}), object_(event, "delta"))
    content = [_decoded_input(block) for _, block in sorted(blocks.items())]
    return [{"role": "assistant", "content": content}] if content else []


_INPUT = "(input)"  # the JSON of a call so far; no member is named so


def _add(block: dict[str, Any], delta: Object) -> None:
    type = text(delta, "type") or ""
    if type == "input_json_delta":
        block[_INPUT] = block.get(_INPUT, "") + (text(delta, "partial_json") or "")
    elif type == "citations_delta":
        block["citations"] = [*array(block, "citations"), delta.get("citation")]
    elif type in _MEMBERS:
        name = _MEMBERS[type]
        block[name] = (text(block, name) or "") + (text(delta, name) or "")


def _decoded_input(block: dict[str, Any]) -> Object:
    written = block.pop(_INPUT, "")
    if written:
        try:
            block["input"] = decoded(written.encode("utf-8", "surrogatepass"))
        except ValueError:
            block["input"] = written  # it broke off
    return block


def compared(message: Any) -> Any:
    """Return a message without what clients leave out when they send it back: reasoning, citations,
    cache marks.
    """
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    kept = [
        without(block, _NOT_SENT_BACK) for block in blocks if text(block, "type") not in _REASONING
    ]
    return {**message, "content": kept}


CONTINUATION = Continuation(
    fields=("thread",),
    items="messages",
    links=links,
    input=lambda request: array(request, "messages"),
    output=_answer,
    compared=compared,
    is_one_message=True,
)
