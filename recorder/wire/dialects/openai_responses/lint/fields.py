"""RS02…, RS05…, RS06…: the fields of events and items, and what a response reports at its end.

That are its tokens, and the error or the reason if it did not succeed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from recorder.lint.faults import misfit, shown
from recorder.lint.rule import Faults
from recorder.lint.shape import Misfit
from recorder.wire.dialects.json_values import text
from recorder.wire.dialects.openai_responses.lint.events import (
    EARLY,
    FIELDS,
    ITEM_FIELDS,
    LOGPROBS,
    OF_ITEMS,
    Course,
    Json,
    Kinds,
    StreamEvent,
)
from recorder.wire.dialects.openai_responses.lint.shapes import SHAPES

_COMPLETED, _INCOMPLETE = "response.completed", "response.incomplete"
_PART_ADDED = "response.content_part.added"
_ITEM_EVENTS = frozenset({"response.output_item.added", "response.output_item.done"})
_STEPS = "created queued in_progress completed incomplete failed"
_TEXT_OF = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}
_KIND_NAMES = {int: "a whole number", str: "a text", dict: "an object", list: "an array"}


_SHAPED: Mapping[str, tuple[str, str]] = {
    **{f"response.{step}": ("response", "response") for step in _STEPS.split()},
    **dict.fromkeys(_ITEM_EVENTS, ("item", "item")),
    **{f"response.content_part.{step}": ("part", "part") for step in ("added", "done")},
    **{
        f"response.reasoning_summary_part.{step}": ("part", "summary") for step in ("added", "done")
    },
    "response.output_text.annotation.added": ("annotation", "annotation"),
}
"""The events that carry an object, the field of it, and its shape."""

_OUTPUT_ID = re.compile(r"output\[\d+\]\.id")
_JUDGED = {"response": {"id", "error", "incomplete_details"}}
"""The fields that have rules of their own."""


def _lacking(each: StreamEvent) -> Iterable[str]:
    for field, kind in FIELDS.get(each.type, {}).items():
        if type(each.payload.get(field)) is not kind:
            yield _lack(each.type, field, kind, each.payload)


def _lack(of: str, field: str, kind: type, json: Json) -> str:
    return (
        f"{of} without {field}"
        if json.get(field) is None
        else f"{field} of {of} is not {_KIND_NAMES[kind]}"
    )


def _unfit_items(each: StreamEvent) -> Iterable[str]:
    """Yield what an item lacks."""
    item = each.payload.get("item")
    if not isinstance(item, dict):
        return
    kinds: Kinds = {"type": str, **ITEM_FIELDS.get(str(item.get("type")), {})}
    for field, kind in kinds.items():
        if type(item.get(field)) is not kind:
            yield _lack(f"{item.get('type') or 'item'} in {each.type}", field, kind, item)


def _unfit_shapes(each: StreamEvent) -> Iterable[str]:
    """Yield misfits inside of responses, items and parts that no other rule covers."""
    field, kind = _SHAPED[each.type]
    value = each.payload.get(field)
    if isinstance(value, dict):
        yield from map(misfit, _beyond(each, field, kind, value))


def _beyond(each: StreamEvent, field: str, kind: str, value: Json) -> Iterable[Misfit]:
    """Return the misfits that no other rule covers: what an item must have to be one, a part to be
    added to.
    """
    own = (
        {"type", *ITEM_FIELDS.get(str(value.get("type")), ())}
        if field == "item"
        else _JUDGED.get(field, set())
    )
    for found in SHAPES.misfits(value, kind):
        is_nameless = found.value is None and (
            _OUTPUT_ID.fullmatch(found.path) or (field, found.path) == ("item", "id")
        )
        is_own = is_nameless or found.path in own or found.path.startswith("error.")
        if not is_own and not (field == "part" and _is_mute(each)):
            yield found._replace(path=f"{field}.{found.path}")


def _mute_parts(each: StreamEvent) -> Iterable[str]:
    part = each.payload.get("part")
    if isinstance(part, dict) and _is_mute(each):
        yield f"part of {each.type} is {shown(part)}"


def _is_mute(each: StreamEvent) -> bool:
    """Return whether a part has no text, or not a known one: deltas are added to it."""
    part = each.payload["part"]
    type = part.get("type")
    field = _TEXT_OF.get(type, "") if isinstance(type, str) else None
    lacks_text = field is None or (field != "" and not isinstance(part.get(field), str))
    return each.type == _PART_ADDED and lacks_text


# -- tokens and errors

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = (
    ("input_tokens_details", "cached_tokens", "input_tokens"),
    ("output_tokens_details", "reasoning_tokens", "output_tokens"),
)
"""An object, the count in it, and the count that this is a part of."""


def _lacking_counts(each: StreamEvent) -> Iterable[str]:
    usage = each.response.get("usage")
    if isinstance(usage, dict):
        if wrong := _wrong(usage):
            yield f"no number {', '.join(wrong)}"
    elif usage is not None and each.type == _INCOMPLETE:
        yield f"usage is {shown(usage)}"


def _wrong(usage: Json) -> list[str]:
    wrong = [name for name in _COUNTS if _count(usage, name) is None]
    for details, name, _ in _DETAILS:
        inner = usage.get(details)
        if inner is not None and _count(inner, name) is None:
            wrong.append(f"{details}.{name}")
        others = inner.items() if isinstance(inner, dict) else ()
        wrong += [
            f"{details}.{other}"
            for other, value in others
            if other != name and isinstance(value, str | bool)
        ]
    return wrong


def _no_details(each: StreamEvent) -> Iterable[str]:
    usage = each.response.get("usage")
    missing = [
        details
        for details, _, _ in _DETAILS
        if isinstance(usage, dict) and usage.get(details) is None
    ]
    if missing:
        yield f"no {' and no '.join(missing)}"


def _contradictions(each: StreamEvent) -> Iterable[str]:
    usage = each.response.get("usage")
    if not isinstance(usage, dict) or _wrong(usage):
        return
    if usage["total_tokens"] != usage["input_tokens"] + usage["output_tokens"]:
        yield f"total {usage['total_tokens']}, input {usage['input_tokens']} + output {usage['output_tokens']}"
    yield from (f"{name} is {usage[name]}" for name in _COUNTS if usage[name] < 0)
    for details, name, whole in _DETAILS:
        part = _count(usage.get(details), name)
        if part is not None and not 0 <= part <= usage[whole]:
            yield f"{name} {part} of {usage[whole]} {whole}"


def _count(of: Any, name: str) -> int | None:
    value = of.get(name) if isinstance(of, dict) else None
    return value if type(value) is int else None


def _mute_error(each: StreamEvent) -> Iterable[str]:
    if not text(each.error, "message"):
        yield "no text `error.message`"


def _codeless_error(each: StreamEvent) -> Iterable[str]:
    """Yield that an error has no code. The reference has a code that may be null."""
    if "code" not in each.error:
        yield "no `code`"
    elif not isinstance(each.error["code"], str | None):
        yield f"code is {shown(each.error['code'])}"


def _mute_failure(each: StreamEvent) -> Iterable[str]:
    lacking = [name for name in ("code", "message") if not text(each.response, "error", name)]
    if each.response and lacking:
        yield f"no text {' and '.join(f'`response.error.{name}`' for name in lacking)}"


def _no_item_id(each: StreamEvent) -> Iterable[str]:
    if not text(each.payload, "item_id"):
        yield each.type


def _no_logprobs(each: StreamEvent) -> Iterable[str]:
    if not isinstance(each.payload.get("logprobs"), list):
        yield each.type


def _no_usage(each: StreamEvent) -> Iterable[str]:
    if each.response and not isinstance(each.response.get("usage"), dict):
        yield ""


def _early_usage(each: StreamEvent) -> Iterable[str]:
    if each.response.get("usage"):
        yield each.type


def _no_reason(each: StreamEvent) -> Iterable[str]:
    if not text(each.response, "incomplete_details", "reason"):
        yield ""


_LACKS_FIELDS = "RS020"

_CHECKS: Mapping[str, tuple[Callable[[StreamEvent], Iterable[str]], Iterable[str]]] = {
    _LACKS_FIELDS: (_lacking, FIELDS),
    "RS021": (_no_item_id, OF_ITEMS),
    "RS022": (_no_logprobs, LOGPROBS),
    "RS023": (_unfit_items, _ITEM_EVENTS),
    "RS026": (_unfit_shapes, _SHAPED),
    "RS027": (_mute_parts, (_PART_ADDED,)),
    "RS050": (_no_usage, (_COMPLETED,)),
    "RS051": (_lacking_counts, (_COMPLETED, _INCOMPLETE)),
    "RS052": (_contradictions, (_COMPLETED, _INCOMPLETE)),
    "RS053": (_early_usage, EARLY),
    "RS055": (_no_details, (_COMPLETED, _INCOMPLETE)),
    "RS060": (_mute_error, ("error",)),
    "RS061": (_mute_failure, ("response.failed",)),
    "RS063": (_no_reason, (_INCOMPLETE,)),
    "RS064": (_codeless_error, ("error",)),
}
"""By rule, what says how an event breaks it, and the types of events that may."""

_RULES_OF: dict[str, list[str]] = {}
for _rule, (_, _types) in _CHECKS.items():
    for _type in _types:
        _RULES_OF.setdefault(_type, []).append(_rule)


def faults(event: StreamEvent, course: Course) -> Faults:
    """Yield the faults of the fields of an event."""
    for rule in _RULES_OF.get(event.type, ()):
        said, _ = _CHECKS[rule]
        for words in said(event):
            course.lacks_fields = course.lacks_fields or rule == _LACKS_FIELDS
            yield rule, event.pos, words


TEXTS = """
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

RS050 warning openai codex sdk
A completed response reports no tokens.
Codex counts 0 tokens, so its context meter does not move, and it does not compact before the window
 is full.
OpenAI API reference, Responses: ResponseUsage; Codex CLI 0.169, codex-api/src/sse/responses.rs:
 ResponseCompletedUsage

RS051 error openai codex sdk
The usage lacks a count.
Codex: “stream disconnected before completion: failed to parse ResponseCompleted: missing field
 `total_tokens`” (or `cached_tokens` …), although everything else arrived; in the SDKs the field is
 None.
OpenAI API reference, Responses: ResponseUsage; Codex CLI 0.169, codex-api/src/sse/responses.rs:
 ResponseCompletedUsage

RS052 warning openai codex sdk
The token counts contradict each other.
Total is input + output, cached tokens are part of input, reasoning tokens part of output: a client
 that computes costs or the remaining context gets wrong, even negative, numbers.
OpenAI API reference, Responses: ResponseUsage

RS053 note openai sdk
Tokens are reported before the response has ended.
OpenAI sends null before the end; clients that add all reports count tokens twice.
OpenAI API reference, Responses: ResponseUsage

RS055 warning openai sdk
The usage has no `input_tokens_details` or no `output_tokens_details`.
The SDKs declare both as required: `usage.input_tokens_details.cached_tokens` fails with
 AttributeError “'NoneType' object has no attribute 'cached_tokens'”.
OpenAI API reference, Responses: ResponseUsage

RS060 error openai sdk
An `error` event has no message.
openai-python raises APIError “An error occurred during streaming”, whatever the cause was.
OpenAI API reference, Responses: Streaming events: error; openai-python 3.52, _streaming.py

RS061 error openai codex sdk
A failed response lacks the code or the message of its error.
Codex reports “response.failed event received”, or an empty text, and retries: only the code tells
 it whether a retry can help (`context_length_exceeded`, `insufficient_quota`,
 `rate_limit_exceeded`).
OpenAI API reference, Responses: Streaming events: response.failed; Codex CLI 0.169,
 codex-api/src/sse/responses.rs

RS062 error codex
An `error` event is not followed by `response.failed`.
Codex does not read `error`: it reports “stream closed before response.completed”, loses the
 message, and retries.
Codex CLI 0.169, codex-api/src/sse/responses.rs, which has no case for it

RS063 warning openai codex sdk
An incomplete response has no reason.
Codex: “Incomplete response returned, reason: unknown”; a token limit cannot be distinguished from a
 content filter.
OpenAI API reference, Responses: Streaming events: incomplete_details; Codex CLI 0.169,
 codex-api/src/sse/responses.rs

RS064 warning openai sdk
An `error` event has no `code`: a text, or null.
openai-python has no `APIError.code`: a client that uses it for retries cannot distinguish a limit
 from a fault of the request.
OpenAI API reference, Responses: Streaming events: error
"""
