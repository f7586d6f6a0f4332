"""The output items of the Responses format, as they state themselves: one table of their types.

What a tool of the provider is called with is not text in most of these items, but an object:
`arguments` is then that object as JSON. The result of such a tool is in the item too, and becomes
its `output`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from recorder.model.facts import Field, ItemKind, ItemState, ToolResult
from recorder.model.text import rows
from recorder.wire.dialects.errors import says_failed
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
    member,
    object_,
    objects,
    text,
    text_or_json,
    whole,
    without,
)
from recorder.wire.dialects.media import digested, without_bytes

Texts = tuple[tuple[Field, int, str], ...]


class _Type(msgspec.Struct, frozen=True):
    """The meaning of a type of item: its kind, what it says, and what a tool is called, called
    with, and returns.
    """

    kind: ItemKind
    arguments: Callable[[Object], Any] = lambda item: None  # as text, or to be written as JSON
    output: Callable[[Object], str | None] = lambda item: None
    name: str = "name"  # the field with the name of the tool
    texts: Callable[[Object], Texts] = lambda item: ()


_NAMED = frozenset({"function_call", "custom_tool_call", "mcp_call"})
"""Calls of tools that are not the provider's: only the item says what they are called."""

_PART_FIELDS: Mapping[str, Field] = {
    "output_text": "text",
    "refusal": "refusal",
    "reasoning_text": "reasoning",
    "summary_text": "summary",
    "input_text": "text",
    "text": "text",
}
"""By the type of a content part, which text of the item it is."""


class PartText(NamedTuple):
    """The text of a content part."""

    field: Field
    text: str


def stated(item: Object) -> ItemState:
    """Return an item as it states itself. One of unknown type is kept as `other`."""
    type = type_of(item)
    known = ITEM_TYPES.get(type, _STRANGE)
    output, failed = _outcome(item, known)
    is_providers = known.kind == "tool_call" and type not in _NAMED
    return ItemState(
        kind=known.kind,
        type=type,
        item_id=text(item, "id"),
        role=text(item, "role"),
        phase=text(item, "phase"),
        status=text(item, "status"),
        name=text(item, known.name) or (type.removesuffix("_call") if is_providers else None),
        call_id=text(item, "call_id"),
        texts=known.texts(item) or _called_with(item, known),
        annotations=tuple(map(as_json, _of_parts(item, "annotations"))),
        logprobs=as_json(logprobs) if (logprobs := list(_of_parts(item, "logprobs"))) else None,
        encrypted=bool(item.get("encrypted_content")),
        output=output,
        failed=failed,
    )


def begun(item: Object) -> ItemState:
    """Return an item as it states itself at its beginning: its texts are mostly empty then, or not
    yet final.
    """
    opening = stated(item)
    texts = tuple(text for text in opening.texts if text[2])
    return msgspec.structs.replace(opening, texts=texts, annotations=(), logprobs=None, output=None)


def type_of(item: Object) -> str:
    return text(item, "type") or "(no type)"


def strange_parts(item: Object) -> Iterable[str]:
    """Yield the unknown types of content parts: their texts are not among those of the item."""
    return (
        text(part, "type") or "(no type)"
        for part in objects(item, "content")
        if part_text(part) is None
    )


def written(response: Object) -> list[Object]:
    """Return the items of a response; of one without any, items made of its `output_text` and
    `output_reasoning`.
    """
    items = objects(response, "output")
    if items:
        return items
    parts = {name: text(response, f"output_{name}") for name in ("reasoning", "text")}
    made = {"reasoning": ("reasoning", "reasoning_text"), "text": ("message", "output_text")}
    return [
        {"type": made[name][0], "content": [{"type": made[name][1], "text": content}], "role": None}
        for name, content in parts.items()
        if content
    ]


def part_text(part: Object) -> PartText | None:
    """Return the text of a content part; `None` if its type is unknown."""
    field = _PART_FIELDS.get(text(part, "type") or "")
    if field is None:
        return None
    return PartText(field, text(part, "refusal" if field == "refusal" else "text") or "")


def patch(operation: Object, diff: str) -> str:
    """Return the arguments of `apply_patch_call`: its operation, with the diff last, as it is
    streamed.
    """
    return as_json({**without(operation, ("diff",)), "diff": diff})


def _outcome(item: Object, known: _Type) -> tuple[str | None, bool | None]:
    """Return the output of a tool of the provider, and whether that is an error."""
    error = item.get("error")
    if error:
        return text_or_json(error), True
    output = known.output(item)
    if item.get("status") == "failed":
        return output, True
    return output, False if output is not None and item.get("status") == "completed" else None


def _of_parts(item: Object, field: str) -> Iterable[Any]:
    return chain.from_iterable(array(part, field) for part in objects(item, "content"))


# -- texts


def _content(item: Object) -> Texts:
    """Return the content parts, numbered by their place; gateways send a plain string too."""
    content = item.get("content")
    if isinstance(content, str):
        return (("text", 0, content),)
    texts: list[tuple[Field, int, str]] = []
    for index, part in enumerate(array(content)):
        found = part_text(object_(part))
        if found is not None:
            texts.append((found.field, index, found.text))
    return tuple(texts)


def _reasoning(item: Object) -> Texts:
    summary = (member(part, "text") for part in array(item, "summary"))
    return (
        *(("summary", index, text(each) or "") for index, each in enumerate(summary)),
        *_content(item),
    )


def _called_with(item: Object, known: _Type) -> Texts:
    """Return the arguments of a call: those that are usual for its type, else those that are its
    `arguments`.
    """
    given = known.arguments(item)
    if given is None and known.kind == "tool_call":
        given = item.get("arguments")
    return () if given is None else (("arguments", 0, text_or_json(given)),)


def _fields(*names: str) -> Callable[[Object], Object | None]:
    """Make a reader of an object of those of these fields that the item has."""
    return lambda item: {name: item[name] for name in names if item.get(name) is not None} or None


def _operation(item: Object) -> Object | str | None:
    operation = object_(item, "operation")
    diff = text(operation, "diff")
    if diff is None:
        return operation or None
    return patch(operation, diff)


def _shell(item: Object) -> Object | None:
    """Return the action of a `shell_call`, with the commands first, as they are streamed."""
    action = object_(item, "action")
    return (
        {"commands": action.get("commands"), **without(action, ("commands",))} if action else None
    )


def _computer(item: Object) -> str | None:
    given = item.get("action") or item.get("actions")
    return None if given is None else as_json(given)


# -- results that are an item by themselves, of a request's input or of a response's output


class _Result(NamedTuple):
    """Where an item has a result, and what the tool is called (None: as the item says)."""

    field: str
    tool: str | None


_TABLE = """
function_call_output,output,
custom_tool_call_output,output,
local_shell_call_output,output,local_shell
shell_call_output,output,shell
apply_patch_call_output,output,apply_patch
computer_call_output,output,computer
multi_agent_call_output,output,
program_output,result,program
tool_search_output,tools,tool_search
"""
_RESULTS: Mapping[str, _Result] = {
    type: _Result(field, tool or None) for type, field, tool in csv.reader(rows(_TABLE))
}
"""By the type of the item."""

_TEXTS = frozenset({"input_text", "output_text", "text"})

_NOT_WELL = frozenset({"failed", "incomplete"})


def tool_result(item: Object) -> ToolResult | None:
    """Return the result that an item carries, if it does."""
    type = text(item, "type") or ""
    if type not in _RESULTS:
        return None
    known = _RESULTS[type]
    call_id = text(item, "call_id")
    if call_id is None and type == "local_shell_call_output":
        call_id = text(item, "id")  # is declared as the id of the call
    name = text(item, "name") or text(item, "action") or known.tool
    value = item.get(known.field)
    return ToolResult(call_id, name, output_of(value), _failed(item, value))


def output_of(value: Any) -> str:
    """Return a result as text if it is only text, else as JSON."""
    if value is None:
        return ""
    parts = objects(value)
    if parts and len(parts) == len(value) and all(text(part, "type") in _TEXTS for part in parts):
        return "\n".join(text(part, "text") or "" for part in parts)
    return text_or_json(without_bytes(value))


def _failed(item: Object, value: Any) -> bool | None:
    """Return whether a call failed, as far as a field of its result shows it: prose is not read."""
    status = text(item, "status")
    if status in _NOT_WELL:
        return True
    if item.get("type") == "apply_patch_call_output":
        return False if status == "completed" else None
    if not isinstance(value, list):
        return says_failed(output_of(value))
    verdicts = _outcomes(value)
    return any(verdicts) if verdicts else says_failed(output_of(value))


def _outcomes(value: Any) -> list[bool]:
    """Return for each command that a shell ran whether it failed."""
    outcomes = [object_(each, "outcome") for each in objects(value)]
    return [whole(outcome, "exit_code") != 0 for outcome in outcomes if outcome]


# -- outputs


def _result(*names: str) -> Callable[[Object], str | None]:
    """Make a reader of an output, as text or JSON; an empty array is what an item has before its
    end.
    """

    def output(item: Object) -> str | None:
        value = member(item, *names)
        return None if value is None or value == [] else text_or_json(without_bytes(value))

    return output


def _image(item: Object) -> str | None:
    result = text(item, "result")
    return as_json({"images": [digested(result)]}) if result else None


def _untyped_output(item: Object) -> str | None:
    """Return all fields of an item of the kind `other`, except those that only the provider reads
    or that have a column.
    """
    rest = without(item, _COLUMNS)
    return as_json(without_bytes(rest)) if rest else None


_COLUMNS = (
    "id",
    "type",
    "status",
    "encrypted_content",
    "arguments",
    "name",
    "call_id",
    "role",
    "phase",
)


def _given_back(field: str) -> _Type:
    """Return the type of a result that is a separate item: it becomes a `ToolResult` and stays the
    item that it is.
    """
    return _Type(
        "other", output=lambda item: None if item.get(field) is None else output_of(item[field])
    )


_STRANGE = _Type("other", output=_untyped_output)

ITEM_TYPES: Mapping[str, _Type] = {
    "message": _Type("message", texts=_content),
    "agent_message": _Type("message", texts=_content),
    "reasoning": _Type("reasoning", texts=_reasoning),
    "custom_tool_call": _Type("tool_call", lambda item: item.get("input")),
    "mcp_call": _Type("tool_call", output=_result("output")),
    "multi_agent_call": _Type("tool_call", name="action"),
    "program": _Type("tool_call", lambda item: item.get("code")),
    "code_interpreter_call": _Type("tool_call", lambda item: item.get("code"), _result("outputs")),
    "web_search_call": _Type(
        "tool_call",
        lambda item: without(object_(item, "action"), ("sources",)) or None,
        _result("action", "sources"),
    ),
    "file_search_call": _Type("tool_call", _fields("queries"), _result("results")),
    "image_generation_call": _Type("tool_call", _fields("prompt", "revised_prompt"), _image),
    **dict.fromkeys(("function_call", "tool_search_call"), _Type("tool_call")),
    # These are xAI's: their arguments are a text.
    **dict.fromkeys(
        ("x_search_call", "code_execution_call", "view_image_call", "view_x_video_call"),
        _Type("tool_call"),
    ),
    "local_shell_call": _Type("tool_call", lambda item: item.get("action")),
    "shell_call": _Type("tool_call", _shell),
    "apply_patch_call": _Type("tool_call", _operation),
    "computer_call": _Type("tool_call", _computer),
    **dict.fromkeys(
        ("compaction", "additional_tools", "mcp_list_tools", "mcp_approval_response"), _STRANGE
    ),
    "mcp_approval_request": _Type("other", lambda item: item.get("arguments"), _untyped_output),
    **{type: _given_back(result.field) for type, result in _RESULTS.items()},
}
