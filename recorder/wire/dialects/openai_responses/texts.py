"""The texts of items in the Responses format: their deltas, their final values, and their attachments.

The deltas are most of every stream: each has a struct of just the fields it needs.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from recorder.model.facts import (
    AnnotationAdded,
    Field,
    ItemKey,
    LogprobsAdded,
    MalformedPayload,
    TextAdded,
    TextFinished,
)
from recorder.model.text import rows
from recorder.wire.dialects.decoder import Facts, FastPath, unknown
from recorder.wire.dialects.json_values import Object, array, as_json, names, object_, objects, text, whole
from recorder.wire.dialects.keys import Whole
from recorder.wire.dialects.openai_responses.items import part_text

_NO_NAME = "-"  # that no field has
_ONE_PART = ""  # nor this, for texts that come in one part: their index is 0

_TABLE = """
response.output_text,text,content_index,text
response.refusal,refusal,content_index,refusal
response.reasoning_text,reasoning,content_index,text
response.reasoning_summary_text,summary,summary_index,text
# The two before, as they were called at first
response.reasoning,reasoning,content_index,text
response.reasoning_summary,summary,summary_index,text
response.function_call_arguments,arguments,,arguments
response.custom_tool_call_input,arguments,,input
response.mcp_call_arguments,arguments,,arguments
response.code_interpreter_call_code,arguments,,code
"""
_TEXTS: Mapping[str, tuple[Field, str, str]] = {
    of: (msgspec.convert(field, Field), index, name) for of, field, index, name in csv.reader(rows(_TABLE))
}
"""Which text of an item an event is of, the field with the number of its part, and the one that has the whole of it."""

_ENDS = {f"{of}.done": text for of, text in _TEXTS.items()}
_DELTAS = {f"{of}.delta": text for of, text in _TEXTS.items()}
_DELTAS["response.audio.transcript.delta"] = ("text", _ONE_PART, "")  # its end says nothing new


ABOUT = names("""
    type id role status phase namespace object model obfuscation logprobs
    sequence_number output_index content_index summary_index command_index partial_image_b64
    encrypted_content annotations error response metadata server_label
    """)
"""Members of events and of items that are not content."""


def _fast_path(field: Field, index: str) -> FastPath:
    """Read the deltas of a text. One that has no index of its item, or log probabilities, is not read here."""
    nothing = Annotated[list[Any], msgspec.Meta(max_length=0)] | None
    shape = msgspec.defstruct(
        "Delta",
        [
            ("item", Whole),
            ("text", str),
            ("part", Whole, 0),
            ("field", Literal[field], field),
            ("logprobs", nothing, None),
        ],
        bases=(TextAdded,),
        kw_only=True,
        rename={"item": "output_index", "text": "delta", "part": index, "field": _NO_NAME},
        frozen=True,
        gc=False,
        eq=False,
    )
    return partial(map, msgspec.json.Decoder(shape).decode)


FAST_PATHS: Mapping[str | None, FastPath] = {
    type: _fast_path(field, index) for type, (field, index, _) in _DELTAS.items()
}


def _delta(type: str, item: ItemKey, payload: Object) -> Facts:
    field, index, _ = _DELTAS[type]
    delta = text(payload, "delta")
    if delta is None:
        return (MalformedPayload(f"{type} without its delta"),)
    added = TextAdded(item, field, whole(payload, index) or 0, delta)
    logprobs = array(payload, "logprobs")
    return (added, LogprobsAdded(item, as_json(logprobs))) if logprobs else (added,)


def _end(type: str, item: ItemKey, payload: Object) -> Facts:
    field, index, name = _ENDS[type]
    value = text(payload, name)
    if value is None:
        return (MalformedPayload(f"{type} without its {name}"),)
    tool = text(payload, "name") if field == "arguments" else None
    return (TextFinished(item, field, whole(payload, index) or 0, value, tool),)


def _part_added(type: str, item: ItemKey, payload: Object) -> Facts:
    """Begin a part, mostly empty. Deltas add to a text that it has already, as they do in openai-python."""
    part = object_(payload, "part")
    found = part_text(part)
    if found is None:
        return (unknown(part.get("type")),)
    return (TextAdded(item, found[0], _number_of_part(found[0], payload), found[1]),) if found[1] else ()


def _part_done(type: str, item: ItemKey, payload: Object) -> Facts:
    found = part_text(object_(payload, "part"))
    if found is None:
        return ()  # told when it began
    return (TextFinished(item, found[0], _number_of_part(found[0], payload), found[1]),)


def _number_of_part(field: Field, payload: Object) -> int:
    return whole(payload, "summary_index" if field == "summary" else "content_index") or 0


def _annotation(type: str, item: ItemKey, payload: Object) -> Facts:
    annotation = object_(payload, "annotation")
    return (AnnotationAdded(item, as_json(annotation)),) if annotation else ()


def _printed(payload: Object) -> tuple[tuple[int, str], ...]:
    """Return the parts of a command's output and of its errors, which come in any order."""
    command = whole(payload, "command_index") or 0
    return (2 * command, "stdout"), (2 * command + 1, "stderr")


def _shell_output(type: str, item: ItemKey, payload: Object) -> Facts:
    delta = object_(payload, "delta")
    pieces = ((part, text(delta, stream)) for part, stream in _printed(payload))
    return [TextAdded(item, "output", part, each) for part, each in pieces if each is not None]


def _shell_output_end(type: str, item: ItemKey, payload: Object) -> Facts:
    chunks = objects(payload, "output")
    pieces = ((part, [text(each, stream) or "" for each in chunks]) for part, stream in _printed(payload))
    return [TextFinished(item, "output", part, "".join(each)) for part, each in pieces if each]


TEXT_EVENTS: Mapping[str, Callable[[str, ItemKey, Object], Facts]] = {
    **dict.fromkeys(_DELTAS, _delta),
    **dict.fromkeys(_ENDS, _end),
    "response.content_part.added": _part_added,
    "response.content_part.done": _part_done,
    "response.reasoning_part.added": _part_added,
    "response.reasoning_part.done": _part_done,
    "response.reasoning_summary_part.added": _part_added,
    "response.reasoning_summary_part.done": _part_done,
    "response.output_text.annotation.added": _annotation,
    "response.shell_call_output_content.delta": _shell_output,
    "response.shell_call_output_content.done": _shell_output_end,
}
"""What an event means for its item, by type."""
