"""The requests of the Interactions API: their input is a text, parts of a message, or steps, as a
response has them.

`previous_interaction_id` stands for the input of that interaction and its steps. Tools, the system
instruction and the settings count for one request alone: each names its own. Source: Google's page
"Interactions API", section "Multi-turn conversations", and the types of google-genai 3.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from recorder.model.facts import Links, RequestFacts, RequestParameters, ToolResult
from recorder.wire.dialects.conversation import (
    Conversation,
    Kind,
    Message,
    Part,
    Tool,
    image_part,
    kinds,
    settings_at,
    text_part,
)
from recorder.wire.dialects.dialect import Continuation
from recorder.wire.dialects.gemini_interactions.steps import (
    FUNCTION_CALL,
    answered,
    is_call,
    is_result,
    returned,
)
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
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

_PARTS = kinds("""
text text
image image
audio audio
video video
file document
""")

_SETTINGS = places("""
reasoning_effort:word generation_config.thinking_level
reasoning_summary:word generation_config.thinking_summaries
max_output_tokens:whole generation_config.max_output_tokens
temperature:fraction generation_config.temperature
top_p:fraction generation_config.top_p
service_tier:word service_tier
store:flag store
prompt_cache_key:text cached_content
""")

_FORMATS = {"text/plain": "text", "application/json": "json_object"}

_STATE = names("signature")
"""Members of a step that only the provider can read."""


class InteractionsConversation(Conversation):
    """A request to create an interaction. Only such a one has a body."""

    not_of_answer = names(
        "model agent system_instruction tools stream labels webhook_config continuation_token"
    )

    joins_texts = True

    @cached_property
    def model(self) -> str | None:
        return text(self.request, "model") or text(self.request, "agent")

    @property
    def system(self) -> Any:
        return self.request.get("system_instruction")

    @property
    def system_parts(self) -> Sequence[Part]:
        return [text_part(self.system)] if isinstance(self.system, str) else ()

    def facts(self) -> RequestFacts:
        return msgspec.structs.replace(
            super().facts(), previous_response_id=links(self.request).response_id
        )

    def read_messages(self) -> Iterator[Message]:
        for step in own_steps(self.request):
            yield _message(step)

    def read_tools(self) -> Iterator[Tool]:
        for tool in objects(self.request, "tools"):
            type = text(tool, "type")
            if type == "function":
                yield Tool(
                    "function", tool.get("name"), tool.get("description"), tool.get("parameters")
                )
            else:
                yield Tool("provider", word(tool, "name") or type)

    def result(self, part: Part) -> ToolResult | None:
        return returned(part.given) if part.kind == "result" else None

    def content_of(self, part: Part) -> Sequence[Part]:
        if isinstance(part.value, list):
            return [_part(each) for each in objects(part.value)]
        output = part.value if isinstance(part.value, str) else as_json(part.value)
        return [text_part(output)]

    def settings(self) -> RequestParameters:
        formats = self.request.get("response_format")
        format = objects(formats)[0] if objects(formats) else object_(formats)
        schema = object_(format, "schema") or (format if "properties" in format else {})
        mime_type = text(format, "mime_type") or text(self.request, "response_mime_type")
        return RequestParameters(
            **settings_at(self.request, _SETTINGS),
            response_format="json_schema" if schema else _FORMATS.get(mime_type or "", mime_type),
            response_schema=word(schema, "title"),
            tool_choice=_choice(object_(self.request, "generation_config").get("tool_choice")),
        )


def _choice(given: Any) -> str | None:
    """Return the mode of calling tools, or the name of the only one that may be called."""
    if isinstance(given, str):
        return given
    allowed = object_(given, "allowed_tools")
    tools = array(allowed, "tools")
    return text(tools[0]) if len(tools) == 1 else text(allowed, "mode")


def own_steps(request: Object) -> list[Object]:
    """Return the steps that stand in a request.

    A text, and parts that are in no step, are a message of the user.
    """
    given = request.get("input")
    if isinstance(given, str):
        return [_by_user([{"type": "text", "text": given}])]
    if isinstance(given, dict):
        given = [given]
    steps: list[Object] = []
    parts: list[Object] = []
    for each in objects(given):
        if text(each, "type") in _PARTS:
            parts.append(each)
        else:
            steps.append(each)
    return [*steps, _by_user(parts)] if parts else steps


def _by_user(content: Sequence[Object]) -> Object:
    return {"type": "user_input", "content": [*content]}


def _message(step: Object) -> Message:
    type = text(step, "type") or ""
    content = step.get("content")
    if type in ("user_input", "model_output"):
        parts = (
            [text_part(content)]
            if isinstance(content, str)
            else [_part(part) for part in objects(content)]
        )
        role = "user" if type == "user_input" else "assistant"
        return Message("user" if role == "user" else "assistant", parts, content, type, given=step)
    if type == "thought":
        return Message("assistant", [Part("reasoning", step, _summary(step))], given=step)
    if is_result(type):
        kind: Kind = "result" if type == "function_result" else "provider_result"
        part = Part(kind, step, None, step.get("call_id"), step.get("name"), step.get("result"))
        return Message("tool", [part], step.get("result"), type, given=step, is_item=True)
    if is_call(type):
        kind = "call" if type == FUNCTION_CALL else "provider_call"
        call = Part(
            kind, step, id=step.get("id"), name=step.get("name"), value=step.get("arguments")
        )
        return Message("assistant", [call], given=step)
    return Message("assistant", [Part("other", step)], given=step)


def _part(given: Object) -> Part:
    type = text(given, "type") or ""
    said = text(given, "text")
    if type == "image":
        uri = text(given, "uri") or f"data:{given.get('mime_type')};base64,{given.get('data')}"
        return image_part(given, uri)
    return Part(_PARTS.get(type) or ("unknown" if said is None else "text"), given, said)


def _summary(step: Object) -> str:
    """Return the reasoning that a client sends back: its summary.

    What is only a signature has none.
    """
    return "\n\n".join(filter(None, (text(part, "text") for part in objects(step, "summary"))))


# -- what a request continues


def links(request: Object) -> Links:
    """Return the id of the interaction that a request continues."""
    return Links(text(request, "previous_interaction_id") or None)


def output_steps(payloads: Iterable[bytes]) -> Sequence[Any]:
    """Return the steps of a response: as it states them, else put together from its deltas."""
    streamed: dict[int, dict[str, Any]] = {}
    whole_ones: list[Object] = []
    for payload in payloads:
        event = request_object(payload)
        whole_ones = answered(event) or answered(object_(event, "interaction")) or whole_ones
        index = whole(event, "index")
        if index is None:
            continue
        if event.get("event_type") == "step.start":
            streamed[index] = dict(object_(event, "step"))
        elif index in streamed:
            _add(streamed[index], object_(event, "delta"))
    return whole_ones or [_closed(streamed[index]) for index in sorted(streamed)]


def _add(step: dict[str, Any], delta: Object) -> None:
    """Add a delta to a step, as it would stand in a request."""
    type = text(delta, "type")
    if type in _PARTS:
        content = step.setdefault("content", [])
        if type == "text" and content and content[-1].get("type") == "text":
            content[-1] = {
                **content[-1],
                "text": f"{content[-1].get('text', '')}{delta.get('text', '')}",
            }
        else:
            content.append(delta)
    elif type == "thought_summary":
        step.setdefault("summary", []).append(object_(delta, "content"))
    elif type == "arguments_delta":
        step["arguments"] = f"{step.get('arguments') or ''}{delta.get('arguments', '')}"
    elif type != "text_annotation_delta":
        step.update(without(delta, ("type",)))


def _closed(step: Object) -> Object:
    """Return a step with its arguments as JSON, in which they came as text."""
    arguments = step.get("arguments")
    if not isinstance(arguments, str):
        return step
    return {**step, "arguments": request_object(arguments.encode("utf-8", "surrogatepass"))}


def compared(step: Any) -> Any:
    """Return a step without what clients leave out when they send it back.

    Thoughts are left out: few send them.
    """
    if not isinstance(step, dict):
        return step
    if step.get("type") == "thought":
        return None
    return {name: value for name, value in step.items() if value is not None and name not in _STATE}


CONTINUATION = Continuation(
    fields=("previous_interaction_id",),
    items="input",
    links=links,
    input=own_steps,
    output=output_steps,
    compared=compared,
)
