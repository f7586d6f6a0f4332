"""RS05…, RS06…: what a response reports at its end: its tokens, and the error or the reason if it did not succeed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recorder.lint.faults import shown
from recorder.lint.rule import Check, Hit, at_end, rules
from recorder.lint.stream import StreamView
from recorder.wire.dialects.json_values import object_, text
from recorder.wire.dialects.openai_responses.lint.events import EARLY, Json, StreamEvent, course, events_of

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = (
    ("input_tokens_details", "cached_tokens", "input_tokens"),
    ("output_tokens_details", "reasoning_tokens", "output_tokens"),
)
"""An object, the count in it, and the count that this is a part of."""


def _reports(stream: StreamView) -> Iterable[tuple[StreamEvent, Json]]:
    for each in events_of(stream, "response.completed", "response.incomplete"):
        usage = each.response.get("usage")
        if isinstance(usage, dict):
            yield each, usage


def _no_usage(stream: StreamView) -> Iterable[Hit]:
    for each in events_of(stream, "response.completed"):
        if each.response and not isinstance(each.response.get("usage"), dict):
            yield Hit(each.pos)


def _lacking(stream: StreamView) -> Iterable[Hit]:
    for each in events_of(stream, "response.incomplete"):
        usage = each.response.get("usage")
        if usage is not None and not isinstance(usage, dict):
            yield Hit(each.pos, f"usage is {shown(usage)}")
    for each, usage in _reports(stream):
        if wrong := _wrong(usage):
            yield Hit(each.pos, f"no number {', '.join(wrong)}")


def _wrong(usage: Json) -> list[str]:
    wrong = [name for name in _COUNTS if _count(usage, name) is None]
    for details, name, _ in _DETAILS:
        inner = usage.get(details)
        if inner is not None and _count(inner, name) is None:
            wrong.append(f"{details}.{name}")
        others = inner.items() if isinstance(inner, dict) else ()
        wrong += [f"{details}.{other}" for other, value in others if other != name and isinstance(value, str | bool)]
    return wrong


def _no_details(stream: StreamView) -> Iterable[Hit]:
    for each, usage in _reports(stream):
        missing = [details for details, _, _ in _DETAILS if usage.get(details) is None]
        if missing:
            yield Hit(each.pos, f"no {' and no '.join(missing)}")


def _inconsistent(stream: StreamView) -> Iterable[Hit]:
    for each, usage in _reports(stream):
        if not _wrong(usage):
            yield from (Hit(each.pos, contradiction) for contradiction in _contradictions(usage))


def _contradictions(usage: Json) -> Iterable[str]:
    if usage["total_tokens"] != usage["input_tokens"] + usage["output_tokens"]:
        yield f"total {usage['total_tokens']}, input {usage['input_tokens']} + output {usage['output_tokens']}"
    yield from (f"{name} is {usage[name]}" for name in _COUNTS if usage[name] < 0)
    for details, name, whole in _DETAILS:
        part = _count(usage.get(details), name)
        if part is not None and not 0 <= part <= usage[whole]:
            yield f"{name} {part} of {usage[whole]} {whole}"


def _early(stream: StreamView) -> Iterable[Hit]:
    return (Hit(each.pos, each.type) for each in events_of(stream, *EARLY) if each.response.get("usage"))


def _count(of: Any, name: str) -> int | None:
    value = of.get(name) if isinstance(of, dict) else None
    return value if type(value) is int else None


def _mute_error(stream: StreamView) -> Iterable[Hit]:
    for each in events_of(stream, "error"):
        if not text(each.error, "message"):
            yield Hit(each.pos, "no text `error.message`")


def _codeless_error(stream: StreamView) -> Iterable[Hit]:
    """Yield errors without a code. The reference has a code that may be null."""
    for each in events_of(stream, "error"):
        if "code" not in each.error:
            yield Hit(each.pos, "no `code`")
        elif not isinstance(each.error["code"], str | None):
            yield Hit(each.pos, f"code is {shown(each.error['code'])}")


def _mute_failure(stream: StreamView) -> Iterable[Hit]:
    for each in events_of(stream, "response.failed"):
        error = object_(each.response, "error")
        lacking = [name for name in ("code", "message") if not text(error, name)]
        if each.response and lacking:
            yield Hit(each.pos, f"no text {' and '.join(f'`response.error.{name}`' for name in lacking)}")


def _lonely_error(stream: StreamView) -> Iterable[Hit]:
    found = course(stream)
    if not stream.is_switched and "response.failed" not in found.types:  # over WebSocket, Codex reads it
        yield from map(Hit, found.errors)


def _no_reason(stream: StreamView) -> Iterable[Hit]:
    for each in events_of(stream, "response.incomplete"):
        if not text(each.response, "incomplete_details", "reason"):
            yield Hit(each.pos)


_CHECKS: Mapping[str, Check] = {
    "RS050": _no_usage,
    "RS051": _lacking,
    "RS052": _inconsistent,
    "RS053": _early,
    "RS055": _no_details,
    "RS060": _mute_error,
    "RS061": _mute_failure,
    "RS062": at_end(_lonely_error, course),
    "RS063": _no_reason,
    "RS064": _codeless_error,
}

RULES = rules(
    """
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
""",
    _CHECKS.__getitem__,
)
