"""RS02…: the fields that each event and each item must have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from recorder.lint.faults import misfit, shown
from recorder.lint.rule import Check, Hit, rules
from recorder.lint.shape import Misfit
from recorder.lint.stream import StreamView
from recorder.wire.dialects.json_values import text
from recorder.wire.dialects.openai_responses.lint.catalog import FIELDS, ITEM_FIELDS, LOGPROBS, OF_ITEMS, Kinds
from recorder.wire.dialects.openai_responses.lint.events import Json, StreamEvent, stream_events
from recorder.wire.dialects.openai_responses.lint.shapes import SHAPES

_ITEM_EVENTS = frozenset({"response.output_item.added", "response.output_item.done"})
_STEPS = "created queued in_progress completed incomplete failed"
_TEXT_OF = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}
_KIND_NAMES = {int: "a whole number", str: "a text", dict: "an object", list: "an array"}


_SHAPED: Mapping[str, tuple[str, str]] = {
    **{f"response.{step}": ("response", "response") for step in _STEPS.split()},
    **dict.fromkeys(_ITEM_EVENTS, ("item", "item")),
    **{f"response.content_part.{step}": ("part", "part") for step in ("added", "done")},
    **{f"response.reasoning_summary_part.{step}": ("part", "summary") for step in ("added", "done")},
    "response.output_text.annotation.added": ("annotation", "annotation"),
}
"""The events that carry an object, the field of it, and its shape."""

_OUTPUT_ID = re.compile(r"output\[\d+\]\.id")
_JUDGED = {"response": {"id", "error", "incomplete_details"}}
"""The fields that have rules of their own."""


def lacks_fields(stream: StreamView) -> bool:
    """Return whether an event, up to the end of this window, lacks a field whose content is missing elsewhere too."""
    return bool(_without_fields(stream) or stream.kept("without fields", list))


def _without_fields(stream: StreamView) -> list[Hit]:
    """Return the events of this window that lack a field."""
    found: list[Hit] | None = stream.memo.get("fields")
    if found is None:
        found = stream.memo["fields"] = list(_lacking(stream_events(stream)))
        stream.kept("without fields", list[Hit]).extend(found[:1])
    return found


def _lacking(events: Iterable[StreamEvent]) -> Iterable[Hit]:
    for each in events:
        for field, kind in FIELDS.get(each.type, {}).items():
            if type(each.payload.get(field)) is not kind:
                yield Hit(each.pos, _lack(each.type, field, kind, each.payload))


def _lack(of: str, field: str, kind: type, json: Json) -> str:
    return f"{of} without {field}" if json.get(field) is None else f"{field} of {of} is not {_KIND_NAMES[kind]}"


def _no_item_id(stream: StreamView) -> Iterable[Hit]:
    for each in stream_events(stream):
        if each.type in OF_ITEMS and not text(each.payload, "item_id"):
            yield Hit(each.pos, each.type)


def _no_logprobs(stream: StreamView) -> Iterable[Hit]:
    for each in stream_events(stream):
        if each.type in LOGPROBS and not isinstance(each.payload.get("logprobs"), list):
            yield Hit(each.pos, each.type)


def _unfit_items(stream: StreamView) -> Iterable[Hit]:
    """Yield items that lack something."""
    for each in stream_events(stream):
        item = each.payload.get("item")
        if each.type not in _ITEM_EVENTS or not isinstance(item, dict):
            continue
        kinds: Kinds = {"type": str, **ITEM_FIELDS.get(str(item.get("type")), {})}
        for field, kind in kinds.items():
            if type(item.get(field)) is not kind:
                yield Hit(each.pos, _lack(f"{item.get('type') or 'item'} in {each.type}", field, kind, item))


def _unfit_shapes(stream: StreamView) -> Iterable[Hit]:
    """Yield misfits inside of responses, items and parts that no other rule covers."""
    for each in stream_events(stream):
        field, kind = _SHAPED.get(each.type, ("", ""))
        value = each.payload.get(field)
        if isinstance(value, dict):
            yield from (Hit(each.pos, misfit(found)) for found in _beyond(each, field, kind, value))


def _beyond(each: StreamEvent, field: str, kind: str, value: Json) -> Iterable[Misfit]:
    """Return the misfits that no other rule covers: what an item must have to be one, a part to be added to."""
    own = {"type", *ITEM_FIELDS.get(str(value.get("type")), ())} if field == "item" else _JUDGED.get(field, set())
    for found in SHAPES.misfits(value, kind):
        is_nameless = found.value is None and (
            _OUTPUT_ID.fullmatch(found.path) or (field, found.path) == ("item", "id")
        )
        is_own = is_nameless or found.path in own or found.path.startswith("error.")
        if not is_own and not (field == "part" and _is_mute(each)):
            yield found._replace(path=f"{field}.{found.path}")


def _mute_parts(stream: StreamView) -> Iterable[Hit]:
    for each in stream_events(stream):
        part = each.payload.get("part")
        if isinstance(part, dict) and _is_mute(each):
            yield Hit(each.pos, f"part of {each.type} is {shown(part)}")


def _is_mute(each: StreamEvent) -> bool:
    """Return whether a part has no text, or not a known one: deltas are added to it."""
    part = each.payload["part"]
    type = part.get("type")
    field = _TEXT_OF.get(type, "") if isinstance(type, str) else None
    return each.type == "response.content_part.added" and (
        field is None or (field != "" and not isinstance(part.get(field), str))
    )


_CHECKS: Mapping[str, Check] = {
    "RS020": _without_fields,
    "RS021": _no_item_id,
    "RS022": _no_logprobs,
    "RS023": _unfit_items,
    "RS026": _unfit_shapes,
    "RS027": _mute_parts,
}

RULES = rules(
    """
RS020 error openai sdk
An event lacks a field of its type, or the field has a value of another type.
openai-python sets it to None or leaves it out, and fails where it is read; the Vercel AI SDK treats
 the event as unknown and drops it.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, types/responses;
 @ai-sdk/openai, openai-responses-api.ts

RS021 error openai
An event of an item has no `item_id`.
Authors of gateways saw “ReasoningSummaryDelta without active item” in Codex 0.55; Codex 0.169
 assigns deltas by their order. The Vercel AI SDK treats a delta without it as an unknown event and
 drops the text, without an error; clients that assign by `item_id` fail on None.
OpenAI API reference, Responses: Streaming events: item_id; @ai-sdk/openai, openai-responses-api.ts;
 openai/codex, core: error_or_panic

RS022 warning openai
A text event has no `logprobs`, which must be an empty array if there are none.
openai-java raises OpenAIInvalidDataException when it is read; OpenAI itself left it out until the
 middle of 2025, so most clients work without it.
OpenAI API reference, Responses: Streaming events: response.output_text.delta

RS023 error openai codex sdk
An item lacks a field of its type.
Codex ignores the item (“failed to parse ResponseItem from output_item.added”) and then reports
 “OutputTextDelta without active item”, “ReasoningSummaryDelta without active item”; if it is in
 output_item.done, the message or call is lost. openai-python fails with AttributeError on a message
 without `content`.
openai/codex, codex-rs/protocol: ResponseItem; Codex CLI 0.169; openai-python 3.52

RS026 error openai
A field inside of a response, an item or a part is missing, or has another type than the API
 declares.
The SDKs do not check: openai-python returns the value as it is, or None, and a program that uses it
 fails; openai-java raises OpenAIInvalidDataException when it is read.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, types/responses: Response,
 ResponseOutputItem

RS027 error openai sdk
A part begins without a `type`, or without a text to which deltas can be added: that text must be
 empty, not null.
openai-python, `responses.stream`: TypeError “unsupported operand type(s) for +=: 'NoneType' and
 'str'”, or an AssertionError without a message, at the first delta.
OpenAI API reference, Responses: Streaming events: response.content_part.added; openai-python 3.52,
 lib/streaming/responses
""",
    _CHECKS.__getitem__,
)
