"""The requests of the Responses format: their input is a text, or a list of items that repeats the
turns before.

Those that continue a response or a conversation have only their new items. `previous_response_id`
stands for the input of that response and its output items, in this order. `conversation` stands for
all that was added to it; a response adds its input and its output when it completes. What else a
request has counts for that request alone: OpenAI documents so of `instructions`, and tools and
parameters are named by every request.

Sources: the API reference of `POST /responses` (`previous_response_id`, `conversation`,
`instructions`), and recorded WebSocket connections of Codex CLI 0.169.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from recorder.model.facts import Links, RequestFacts, RequestParameters, ToolResult
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
from recorder.wire.dialects.dialect import Continuation
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
    member,
    names,
    object_,
    objects,
    request_object,
    text,
    whole,
)
from recorder.wire.dialects.openai import MARKS, NOT_OF_ANSWER, ROLES, settings, tool_of
from recorder.wire.dialects.openai_responses.items import ITEM_TYPES, tool_result

_TASK = re.compile(
    r"Message Type: NEW_TASK\n(?:(?P<name>Task name: [^\n]*)\n)?(?:[^\n]*\n){0,4}?Payload:\n?"
)
"""How an agent's message to one that it has started begins, in an item of Codex. Its task follows,
mostly encrypted.
"""


_PARTS = kinds("""
text input_text output_text text
refusal refusal
audio input_audio
file input_file
""")

# The tools are those of Codex.
_ITEMS = kinds("""
reasoning reasoning
call function_call custom_tool_call
result function_call_output custom_tool_call_output
reference item_reference
compaction compaction
tools additional_tools
task agent_message
""")


class ResponsesConversation(Conversation):
    """A request for a response. Only one that creates it has a body."""

    marks = MARKS
    not_of_answer = NOT_OF_ANSWER | names("model instructions tools type event_id stream_id")
    """The last three are members of `response.create`, as a request is called on a WebSocket
    connection.
    """

    @cached_property
    def links(self) -> Links:
        return links(self.request)

    @property
    def system(self) -> Any:
        return self.request.get("instructions")

    @property
    def system_parts(self) -> Sequence[Part]:
        return _parts_of(self.system) if isinstance(self.system, str) else ()

    def facts(self) -> RequestFacts:
        facts, given = super().facts(), self.request.get("input")
        generates = self.request.get("generate") is not False
        return msgspec.structs.replace(
            facts,
            text=text(given) or facts.text,
            is_turn=generates and (facts.is_turn or isinstance(given, str)),
            generates=generates,
            previous_response_id=self.links.response_id,
            conversation_id=self.links.conversation_id,
            items=len(own_items(self.request)),
        )

    def is_users(self, message: Message) -> bool:
        """Return whether an item is a message of a person, or the task of a sub-agent, which is its
        first one.
        """
        return message.role == "user" or any(
            part.kind == "task" and part.text is not None for part in message.parts
        )

    def read_messages(self) -> Iterator[Message]:
        for item in objects(own_items(self.request)):
            type = text(item, "type") or "message"
            yield _message(item) if type == "message" else _item(type, item)

    def read_tools(self) -> Iterator[Tool]:
        return tools_of(self.request)

    def result(self, part: Part) -> ToolResult | None:
        return tool_result(part.given)

    def content_of(self, part: Part) -> Sequence[Part]:
        if isinstance(part.value, str | list):
            return _parts_of(part.value)
        return _parts_of(as_json(part.value))

    def settings(self) -> RequestParameters:
        return settings(self.request)


def tools_of(holder: Object) -> Iterator[Tool]:
    """Yield the tools that a request or an item offers: of a namespace those in it."""
    for tool in objects(holder, "tools"):
        if "tools" not in tool:
            yield tool_of(tool)
            continue
        namespace = tool_of(tool).name
        for each in objects(tool["tools"]):
            yield msgspec.structs.replace(tool_of(each), namespace=namespace or "")


def _message(item: Object) -> Message:
    role, content = item.get("role"), item.get("content")
    known = role_of(ROLES, role)
    return Message(known, _parts_of(content), content, role, item.get("id"), item)


def _item(type: str, item: Object) -> Message:
    kind = _ITEMS.get(type)
    id = item.get("id")
    if type.endswith("_output"):
        output = item.get("output")
        part = Part(kind or "provider_result", item, None, item.get("call_id"), None, output)
        return Message("tool", [part], output, type, is_item=True)
    if kind == "reference":
        return Message("assistant", [Part(kind, item, None, text(id) or "")])
    if kind == "task":
        return Message("assistant", [Part(kind, item, _task(item))], id=id)
    if kind == "tools":
        return Message("assistant", [Part(kind, item, value=list(tools_of(item)))], id=id)
    if kind == "reasoning":
        return Message("assistant", [Part(kind, item, _thought(item))], id=id)
    if kind is None:
        known = ITEM_TYPES.get(type)
        kind = "provider_call" if known is not None and known.kind == "tool_call" else "other"
    call = Part(
        kind,
        item,
        id=item.get("call_id"),
        name=item.get("name"),
        value=item.get("arguments", item.get("input")),
        is_free_text=type == "custom_tool_call",
    )
    return Message("assistant", [call], id=id)


def _parts_of(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [text_part(content)]
    return [_part(part) for part in objects(content)]


def _part(given: Object) -> Part:
    type = text(given, "type") or ""
    if type == "input_image":
        return image_part(given, given.get("image_url"), given.get("detail"))
    said = text(given, "text")
    kind = _PARTS.get(type) or ("unknown" if said is None else "text")
    return Part(kind, given, said)


def _task(item: Object) -> str | None:
    """Return the task in an agent's message, if it is one; its name where only the provider can
    read it.
    """
    parts = objects(item, "content")
    texts = list(filter(None, (text(part, "text") for part in parts)))
    if not any(map(_TASK.match, texts)):
        return None
    sealed = filter(None, (text(part, "encrypted_content") for part in parts))
    readable = "".join(each for each in sealed if " " in each)  # ciphertext has no spaces
    content = "".join(texts)
    heading = _TASK.match(content)
    if heading is None:
        return f"{content}{readable}".strip() or content
    return f"{content[heading.end() :]}{readable}".strip() or heading["name"] or content


def _thought(item: Object) -> str:
    """Return the reasoning that a client sends back: its summary, and its text.

    Encrypted reasoning has neither.
    """
    parts = [*objects(item, "summary"), *objects(item, "content")]
    return "\n\n".join(filter(None, (text(part, "text") for part in parts)))


# -- what a request continues

_ITEM_DONE = b"response.output_item.done"
_HAS_OUTPUT = b'"output"'  # in the last event, and in a document

OF_THE_RESPONSE = names("id status phase created_by internal_chat_message_metadata_passthrough")
"""Members of items that only some clients send back, or with another value."""

_TEXTS = frozenset({"input_text", "output_text", "text"})


def links(request: Object) -> Links:
    """Return the ids by which a request continues something.

    The API refuses a request with both.
    """
    conversation = request.get("conversation")
    id = conversation if isinstance(conversation, str) else member(conversation, "id")
    return Links(text(request, "previous_response_id") or None, text(id) or None)


def own_items(request: Object) -> Sequence[Any]:
    """Return the items that stand in a request. A text is a message of the user."""
    given = request.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else array(given)


def output_items(payloads: Iterable[bytes]) -> Sequence[Any]:
    """Return the finished output items of a response: as its last event states them, else each as
    it was finished.

    Some servers leave the items out of the last event.
    """
    finished: list[tuple[int, Object]] = []
    stated: Sequence[Object] = ()
    for payload in payloads:
        if _ITEM_DONE not in payload and _HAS_OUTPUT not in payload:
            continue
        event = request_object(payload)
        if isinstance(item := event.get("item"), dict) and event.get("type") == _ITEM_DONE.decode():
            index = whole(event, "output_index")
            finished.append((len(finished) if index is None else index, item))
        response = event if "output" in event else object_(event, "response")
        stated = objects(response, "output") or stated
    return stated or [item for _, item in sorted(finished, key=lambda each: each[0])]


def compared(item: Any) -> Any:
    """Return an item without what clients leave out when they send it back, or write in another
    way.

    Reasoning is left out: few clients send it back, and only the provider can read it.
    """
    if not isinstance(item, dict):
        return item
    type = item.get("type") or "message"
    if type == "reasoning":
        return None
    kept = {
        name: each
        for name, each in item.items()
        if each is not None and name not in OF_THE_RESPONSE
    }
    if type != "message":
        return kept
    content = item.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else array(content)
    return {**kept, "type": type, "content": [_compared_part(part) for part in parts]}


def _compared_part(part: Any) -> Any:
    """Return a part of a message.

    The text of one has another type in the input than in the output.
    """
    fields = object_(part)
    return {"type": "text", "text": fields.get("text")} if text(fields, "type") in _TEXTS else part


CONTINUATION = Continuation(
    fields=("previous_response_id", "conversation"),
    items="input",
    links=links,
    input=own_items,
    output=output_items,
    compared=compared,
)
