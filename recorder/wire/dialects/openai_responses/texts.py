"""The texts of items in the Responses format: their deltas, their final values, and their
attachments.

The deltas are most of every stream: each has a struct of just the fields it needs.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

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
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
    names,
    object_,
    objects,
    text,
    whole,
)
from recorder.wire.dialects.keys import Whole
from recorder.wire.dialects.openai_responses.items import part_text


class _ItemText(NamedTuple):
    """A text of an item, and the members of the events that bring it."""

    field: Field
    part: str  # the member with the number of its part
    whole: str  # the one that has all of it at the end


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
_TEXTS: Mapping[str, _ItemText] = {
    of: _ItemText(msgspec.convert(field, Field), part, whole)
    for of, field, part, whole in csv.reader(rows(_TABLE))
}
"""By what an event is of."""

_ENDS = {f"{of}.done": text for of, text in _TEXTS.items()}
_DELTAS = {f"{of}.delta": text for of, text in _TEXTS.items()}
# its end says nothing new
_DELTAS["response.audio.transcript.delta"] = _ItemText("text", _ONE_PART, "")


ABOUT = names("""
    type id role status phase namespace object model obfuscation logprobs
    sequence_number output_index content_index summary_index command_index partial_image_b64
    encrypted_content annotations error response metadata server_label
    """)
"""Members of events and of items that are not content."""


def _fast_path(field: Field, index: str) -> FastPath:
    """Read the deltas of a text.

    One that has no index of its item, or log probabilities, is not read here.
    """
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
    type: _fast_path(of.field, of.part) for type, of in _DELTAS.items()
}


def _delta(type: str, item: ItemKey, payload: Object) -> Facts:
    of = _DELTAS[type]
    delta = text(payload, "delta")
    if delta is None:
        return (MalformedPayload(f"{type} without its delta"),)
    added = TextAdded(item, of.field, whole(payload, of.part) or 0, delta)
    logprobs = array(payload, "logprobs")
    return (added, LogprobsAdded(item, as_json(logprobs))) if logprobs else (added,)


def _end(type: str, item: ItemKey, payload: Object) -> Facts:
    of = _ENDS[type]
    value = text(payload, of.whole)
    if value is None:
        return (MalformedPayload(f"{type} without its {of.whole}"),)
    tool = text(payload, "name") if of.field == "arguments" else None
    return (TextFinished(item, of.field, whole(payload, of.part) or 0, value, tool),)


def _part_added(type: str, item: ItemKey, payload: Object) -> Facts:
    """Begin a part, mostly empty.

    Deltas add to a text that it has already, as they do in openai-python.
    """
    part = object_(payload, "part")
    found = part_text(part)
    if found is None:
        return (unknown(part.get("type")),)
    number = _number_of_part(found.field, payload)
    return (TextAdded(item, found.field, number, found.text),) if found.text else ()


def _part_done(type: str, item: ItemKey, payload: Object) -> Facts:
    found = part_text(object_(payload, "part"))
    if found is None:
        return ()  # told when it began
    return (TextFinished(item, found.field, _number_of_part(found.field, payload), found.text),)


def _number_of_part(field: Field, payload: Object) -> int:
    return whole(payload, "summary_index" if field == "summary" else "content_index") or 0


def _annotation(type: str, item: ItemKey, payload: Object) -> Facts:
    annotation = object_(payload, "annotation")
    return (AnnotationAdded(item, as_json(annotation)),) if annotation else ()


_STREAMS = ("stdout", "stderr")
"""What a command prints, in any order: of each one is a part of the item's output."""


def _number_of_stream(payload: Object, stream: int) -> int:
    return len(_STREAMS) * (whole(payload, "command_index") or 0) + stream


def _shell_output(type: str, item: ItemKey, payload: Object) -> Facts:
    added = []
    for number, stream in enumerate(_STREAMS):
        delta = text(payload, "delta", stream)
        if delta is not None:
            added.append(TextAdded(item, "output", _number_of_stream(payload, number), delta))
    return added


def _shell_output_end(type: str, item: ItemKey, payload: Object) -> Facts:
    chunks = objects(payload, "output")
    if not chunks:
        return ()
    finished = []
    for number, stream in enumerate(_STREAMS):
        printed = "".join(text(chunk, stream) or "" for chunk in chunks)
        finished.append(TextFinished(item, "output", _number_of_stream(payload, number), printed))
    return finished


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
