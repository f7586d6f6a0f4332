"""The shapes that the rules go by: how they are read, and that they are those which the SDKs
declare.
"""

from __future__ import annotations

import datetime
import enum
import types
import typing
from collections.abc import Iterable
from typing import Any

import pytest
from anthropic.types import RawMessageStreamEvent
from anthropic.types.beta.sessions import BetaManagedAgentsStreamSessionEvents
from google.genai.types import GenerateContentResponse
from openai.types.beta import AgentSessionEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import Response
from openai.types.responses.response_content_part_added_event import Part
from pydantic import BaseModel

from recorder.lint.shape import PLAIN, Shapes
from recorder.wire.dialects.anthropic.lint.shapes import SHAPES as MESSAGES
from recorder.wire.dialects.anthropic_sessions.lint import SHAPES as SESSIONS
from recorder.wire.dialects.gemini.lint.shapes import SHAPES as GEMINI
from recorder.wire.dialects.openai_agents.lint import SHAPES as AGENTS
from recorder.wire.dialects.openai_chat.lint.shapes import SHAPES as CHAT
from recorder.wire.dialects.openai_responses.lint.shapes import SHAPES as RESPONSES
from tests.support.tables import table

SHAPES = Shapes("""\
answer: id!:text count:whole price:number parts:[part] prices:{number} said:text|[part] is_new:truth extra:any
 raw:base64 when:numeric
part.text,refusal: text!:text
part.image: url!:text
""")


@table(
    ("value", "misfits"),
    [
        ({"id": "x"}, []),
        ({"id": "x", "count": None, "unknown": 1, "extra": [1]}, []),
        ({}, [("id", "a text", None)]),
        ({"id": None}, [("id", "a text", None)]),
        ({"id": 1}, [("id", "a text", 1)]),
        ({"id": "x", "count": 1.0, "price": 1}, []),
        ({"id": "x", "count": 1.5}, [("count", "a whole number", 1.5)]),
        ({"id": "x", "count": True}, [("count", "a whole number", True)]),
        ({"id": "x", "count": float("inf")}, [("count", "a whole number", float("inf"))]),
        ({"id": "x", "price": "1"}, [("price", "a number", "1")]),
        ({"id": "x", "when": "1.5"}, []),
        ({"id": "x", "when": "soon"}, [("when", "a number", "soon")]),
        ({"id": "x", "is_new": 1}, [("is_new", "true or false", 1)]),
        ({"id": "x", "raw": "c2lnbg"}, []),
        ({"id": "x", "raw": "***"}, [("raw", "base64", "***")]),
        ({"id": "x", "parts": "x"}, [("parts", "an array", "x")]),
        ({"id": "x", "parts": [{"type": "text", "text": "x"}, {"type": "sound"}]}, []),
        ({"id": "x", "parts": [{"text": "x"}]}, [("parts[0].type", "a text", None)]),
        (
            {"id": "x", "parts": [{"type": "text"}, 1]},
            [("parts[0].text", "a text", None), ("parts[1]", "an object", 1)],
        ),
        ({"id": "x", "prices": {"a": 1}}, []),
        ({"id": "x", "prices": {"a": None}}, [("prices[a]", "a number", None)]),
        ({"id": "x", "prices": [1]}, [("prices", "an object", [1])]),
        ({"id": "x", "said": "x"}, []),
        ({"id": "x", "said": [{"type": "image", "url": 1}]}, [("said[0].url", "a text", 1)]),
        ({"id": "x", "said": {}}, [("said", "a text or an array", {})]),
        ({"id": "x", "parts": [{"type": "refusal"}]}, [("parts[0].text", "a text", None)]),
        ("x", [("", "an object", "x")]),
    ],
)
def test_a_value_departs_where_it_is_of_another_kind(value: Any, misfits: list[Any]) -> None:
    assert [tuple(each) for each in SHAPES.misfits(value, "answer")] == misfits


@pytest.mark.parametrize("shapes", [CHAT, GEMINI, MESSAGES, RESPONSES, SESSIONS, AGENTS])
def test_every_kind_that_a_shape_names_is_there(shapes: Shapes) -> None:
    named = {
        kind.strip("[]{}")
        for shape in shapes.by_name.values()
        for field in shape.values()
        for kind in field.kinds
    }
    assert named <= {*PLAIN, *shapes.by_name, *shapes.families}


ECHOED = {"tools", "tool_choice", "instructions", "prompt"}
"""What a response repeats of its request."""

_AGENT = "BetaManagedAgentsSessionAgent"
_APPROVED = (
    "ComputerUseApprovalRequestResultItemResourceResponseComputerUseApprovalResponseKin"
    "dResourceBrowserAuthentication"
)

OF_OTHERS = {
    "Response.usage",
    "GenerateContentResponse.automaticFunctionCallingHistory",
    "GenerateContentResponse.parsed",
    *(f"{_AGENT}.{name}" for name in ("mcp_servers", "multiagent", "skills", "execution_identity")),
    *(
        f"Agent.{name}"
        for name in ("compaction", "experimental", "multi_agent", "reasoning", "text")
    ),
    *("AgentSession.environment", "AgentSession.spend_control"),
    f"{_APPROVED}SubmitResource.selected_option",
}
"""What other rules judge, what the SDK itself adds, and what an agent was made of."""

STRICTER = {
    "Response.status",
    *("ExecutableCode.code", "ExecutableCode.language", "CodeExecutionResult.outcome"),
    *("Blob.data", "Blob.mimeType", "FileData.fileUri"),
}
"""What the vendor's reference calls required, or sends in every response, though the SDK may do
without.
"""

LOOSER = {
    *("ResponseFunctionWebSearch.action", "ActionSearchSource.url"),
    *("AgentMcpCallItem.output", "AgentMcpCallItem.error", "AgentMcpCallItem.arguments"),
    "RequiredActionSessionRequiredActionResourceFunctionCall.arguments",
    "AgentSessionAssistantMessage.id",
    "RequiredActionSessionRequiredActionResourceMcpApprovalRequestRequest.arguments",
    *("ThinkingBlock.signature", "ServerToolUsage.web_fetch_requests"),
}
"""Declared as always there, and left out by the vendor itself in streams that were recorded, or
null in each.
"""

DECLARED: dict[str, tuple[Shapes, str, Any]] = {
    "responses": (RESPONSES, "response", Response),
    "parts": (RESPONSES, "part", Part),
    "chat": (CHAT, "chunk", ChatCompletionChunk),
    "messages": (MESSAGES, "event", RawMessageStreamEvent),
    "sessions": (SESSIONS, "event", BetaManagedAgentsStreamSessionEvents),
    "agents": (AGENTS, "event", AgentSessionEvent),
    "gemini": (GEMINI, "generate_content_response", GenerateContentResponse),
}


@table("name", DECLARED)
def test_the_shapes_are_those_that_the_sdk_declares(name: str) -> None:
    shapes, kind, declared = DECLARED[name]
    assert list(_unlike(shapes, (kind,), declared, name, set())) == []


def _unlike(
    shapes: Shapes, kinds: tuple[str, ...], declared: Any, where: str, seen: set[Any]
) -> Iterable[str]:
    """Where a shape and what the SDK declares differ."""
    alternatives = list(_alternatives(declared))
    if typing.Any in alternatives or object in alternatives:
        assert kinds == ("any",), where
        return
    for each in alternatives:
        if typing.get_origin(each) is list:
            [inner] = [kind[1:-1] for kind in kinds if kind[0] == "["] or [""]
            yield from _unlike(shapes, (inner,), typing.get_args(each)[0], f"{where}[]", seen)
        elif isinstance(each, type) and issubclass(each, BaseModel):
            yield from _unlike_model(shapes, kinds, each, where, seen)
        elif not any(_is_kind(kind, each) for kind in kinds):
            yield f"{where}: {kinds}, declared {each}"


def _unlike_model(
    shapes: Shapes, kinds: tuple[str, ...], model: Any, where: str, seen: set[Any]
) -> Iterable[str]:
    [name] = [kind for kind in kinds if kind in shapes.by_name or kind in shapes.families] or [""]
    constants = (
        typing.get_args(model.model_fields["type"].annotation)
        if "type" in model.model_fields
        else ()
    )
    shape = (
        shapes.families[name].get(constants[0])
        if name in shapes.families
        else shapes.by_name.get(name)
    )
    if shape is None:
        yield f"{where}: no shape {name} of {model.__name__}"
    if shape is None or (name, model) in seen:
        return
    seen.add((name, model))
    fields = {field.alias or own: field for own, field in model.model_fields.items()}
    skipped = {each for each in fields if each in ECHOED or f"{model.__name__}.{each}" in OF_OTHERS}
    skipped |= {"type"} if name in shapes.families else set()
    skipped |= {
        each
        for each, field in fields.items()
        if field.exclude or each in ("sdkHttpResponse", "sdk_http_response")
    }
    for each in fields.keys() - skipped ^ shape.keys():
        yield f"{model.__name__}.{each} is in one of them alone"
    for each in fields.keys() & shape.keys():
        path = f"{model.__name__}.{each}"
        wanted = path in STRICTER or (
            fields[each].is_required() and not _may_be_null(fields[each].annotation)
        )
        if shape[each].is_required != (wanted and path not in LOOSER):
            yield f"{path}: required {shape[each].is_required}"
        yield from _unlike(shapes, shape[each].kinds, fields[each].annotation, path, seen)


def _alternatives(declared: Any) -> Iterable[Any]:
    """The types of a union, one by one, without null; of a union of models that an alias names,
    too.
    """
    origin = typing.get_origin(declared)
    if origin is typing.Annotated:
        yield from _alternatives(typing.get_args(declared)[0])
    elif hasattr(declared, "__value__"):
        yield from _alternatives(declared.__value__)
    elif origin in (typing.Union, types.UnionType):
        for each in typing.get_args(declared):
            yield from _alternatives(each)
    elif declared is not type(None):
        yield declared


def _may_be_null(declared: Any) -> bool:
    return type(None) in typing.get_args(declared)


def _is_kind(kind: str, declared: Any) -> bool:
    """Whether a plain kind is that of a Python type."""
    origin = typing.get_origin(declared)
    if origin is typing.Literal:
        return kind == "text"
    if origin is dict or declared is dict:
        return kind == "object" or (
            kind[0] == "{" and all(_is_kind(kind[1:-1], e) for e in typing.get_args(declared)[1:])
        )
    if origin is list:
        return kind[0] == "[" and all(
            _is_kind(kind[1:-1], each) for each in typing.get_args(declared)
        )
    if isinstance(declared, type) and issubclass(declared, enum.Enum):
        return kind == "text"
    return kind in _KINDS.get(declared, ())


_KINDS: dict[Any, tuple[str, ...]] = {
    str: ("text",),
    int: ("whole", "integer"),
    float: ("number", "numeric"),
    bool: ("truth",),
    bytes: ("base64",),
    datetime.datetime: ("text", "time"),
}
