"""The steps of an interaction, as they state themselves: what a model says, thinks, calls, and what
tools return.

The type of a step says what it is: a tool of the provider is called in a step `NAME_call`, and what
it gives is another step, `NAME_result`, which names its call. A function of the client is called in
a step `function_call`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from recorder.model.facts import ErrorReported, Field, ItemKind, ItemState, ToolResult
from recorder.wire.dialects.decoder import failed
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
    flag,
    names,
    object_,
    objects,
    text,
    text_or_json,
)
from recorder.wire.dialects.media import digested, without_bytes

Texts = tuple[tuple[Field, int, str], ...]

CALL, RESULT = "_call", "_result"
"""How the types of steps end that are a call of a tool, and what it returned."""

FUNCTION_CALL = "function_call"
MEDIA = names("image audio video document")

_KINDS: Mapping[str, ItemKind] = {
    "model_output": "message",
    "user_input": "message",
    "thought": "reasoning",
}
_ROLES = {"model_output": "model", "user_input": "user"}
_NAMED = names("function_call mcp_server_tool_call")
"""Calls of tools that are not the provider's: only the step says what they are called."""

_ABOUT_A_CALL = names("type id name server_name signature arguments")
_ABOUT_A_RESULT = names("type call_id name server_name signature is_error result")


def is_call(type: str) -> bool:
    return type.endswith(CALL)


def is_result(type: str) -> bool:
    return type.endswith(RESULT)


def is_known(type: str) -> bool:
    """Return whether a step of that type is read: new tools come with types that end as those of
    the others do.
    """
    return type in _KINDS or is_call(type) or is_result(type)


def type_of(step: Object) -> str:
    return text(step, "type") or "(no type)"


def stated(step: Object, status: str | None = None) -> ItemState:
    """Return a step as it states itself. One of unknown type is kept as `other`."""
    type = type_of(step)
    kind: ItemKind = "tool_call" if is_call(type) else _KINDS.get(type, "other")
    return ItemState(
        kind=kind,
        type=type,
        item_id=text(step, "id"),
        role=_ROLES.get(type),
        status=status,
        name=_tool_name(step, type) if kind == "tool_call" else None,
        call_id=text(step, "id") if kind == "tool_call" else None,
        texts=_texts(step, kind),
        annotations=tuple(map(as_json, _annotations(step))),
        encrypted=kind == "reasoning" and bool(step.get("signature")),
        output=_untyped(step) if kind == "other" else None,
    )


def arguments(step: Object) -> Object:
    """Return what a tool is called with: the arguments, and settings beside them, such as the kind
    of a search.
    """
    settings = {name: value for name, value in step.items() if name not in _ABOUT_A_CALL}
    return {**object_(step, "arguments"), **settings}


def returned(step: Object) -> ToolResult:
    """Return the result that a step is."""
    name = text(step, "name") or _provider_tool(type_of(step), RESULT)
    return ToolResult(text(step, "call_id"), name, output_of(step), flag(step, "is_error"))


def output_of(step: Object) -> str:
    """Return a result as text if it is only text, else as JSON.

    That of a search may have no content at all.
    """
    result = step.get("result")
    if result is None:
        rest = {name: value for name, value in step.items() if name not in _ABOUT_A_RESULT}
        return as_json(without_bytes(rest)) if rest else ""
    parts = objects(result)
    if parts and len(parts) == len(result) and all(text(part, "type") == "text" for part in parts):
        return "\n".join(text(part, "text") or "" for part in parts)
    return text_or_json(without_bytes(result))


def error_of(step: Object) -> Iterable[ErrorReported]:
    """Yield the error of a step that broke off."""
    error = object_(step, "error")
    if error:
        yield failed({"error": error})


def answered(interaction: Object) -> list[Object]:
    """Return the steps of an interaction that answer it: those after the last that the user gave,
    as the SDKs do.
    """
    steps = objects(interaction, "steps")
    given = [number for number, step in enumerate(steps) if step.get("type") == "user_input"]
    return steps[max(given, default=-1) + 1 :]


def shown(pieces: Sequence[Object]) -> str:
    """Return a picture, a sound, a film or a document as JSON, its bytes by size and digest.

    It may come in pieces.
    """
    about: dict[str, Any] = {}
    data = ""
    for piece in pieces:
        about |= {name: value for name, value in piece.items() if name != "data"}
        data += text(piece, "data") or ""
    return as_json({**about, **digested(data)} if data else about)


def media_in(step: Object) -> list[Object]:
    """Return the parts of a message that are no text."""
    return [part for part in objects(step, "content") if text(part, "type") in MEDIA]


def _tool_name(step: Object, type: str) -> str | None:
    return text(step, "name") if type in _NAMED else _provider_tool(type, CALL)


def _provider_tool(type: str, ending: str) -> str | None:
    return type.removesuffix(ending) if f"{type.removesuffix(ending)}{CALL}" not in _NAMED else None


def _texts(step: Object, kind: ItemKind) -> Texts:
    read = _READ.get(kind)
    return () if read is None else read(step)


def _said(step: Object) -> Texts:
    content = step.get("content")
    if isinstance(content, str):
        return (("text", 0, content),)
    return _numbered("text", array(content))


def _thought(step: Object) -> Texts:
    return _numbered("summary", array(step, "summary"))


def _called_with(step: Object) -> Texts:
    given = arguments(step)
    return (("arguments", 0, as_json(given)),)


def _numbered(field: Field, parts: Iterable[Any]) -> Texts:
    found: list[tuple[Field, int, str]] = []
    for number, part in enumerate(parts):
        said = text(part, "text")
        if said is not None:
            found.append((field, number, said))
    return tuple(found)


_READ: Mapping[ItemKind, Callable[[Object], Texts]] = {
    "message": _said,
    "reasoning": _thought,
    "tool_call": _called_with,
}


def _annotations(step: Object) -> Iterable[Any]:
    for part in objects(step, "content"):
        yield from array(part, "annotations")


def _untyped(step: Object) -> str | None:
    """Return all members of a step of unknown type, except those that have a column."""
    rest = {
        name: value for name, value in step.items() if name not in _ABOUT_A_CALL - {"arguments"}
    }
    return as_json(without_bytes(rest)) if rest else None
