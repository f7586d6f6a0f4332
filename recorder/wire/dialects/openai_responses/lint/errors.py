"""RS06…: the errors and reasons of a response that did not succeed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recorder.lint.faults import shown
from recorder.lint.rule import Check, Hit, at_end, rules
from recorder.lint.stream import StreamView
from recorder.wire.dialects.openai_responses.lint.events import course, stream_events


def _mute_error(stream: StreamView) -> Iterable[Hit]:
    """Yield errors without a message, nested as the API sends it, or flat as the reference has it."""
    for each in stream_events(stream):
        nested = each.payload.get("error")
        if each.type == "error" and not _text((nested if isinstance(nested, dict) else each.payload).get("message")):
            yield Hit(each.pos, "no text `error.message`")


def _codeless_error(stream: StreamView) -> Iterable[Hit]:
    """Yield errors without a code. The reference has a code that may be null."""
    for each in stream_events(stream):
        nested = each.payload.get("error")
        error = nested if isinstance(nested, dict) else each.payload
        if each.type == "error" and not ("code" in error and isinstance(error["code"], str | None)):
            yield Hit(each.pos, f"code is {shown(error.get('code'))}" if "code" in error else "no `code`")


def _mute_failure(stream: StreamView) -> Iterable[Hit]:
    for each in stream_events(stream):
        if each.type != "response.failed" or not each.response:
            continue
        error = each.response.get("error")
        lacking = [name for name in ("code", "message") if not (isinstance(error, dict) and _text(error.get(name)))]
        if lacking:
            yield Hit(each.pos, f"no text {' and '.join(f'`response.error.{name}`' for name in lacking)}")


def _lonely_error(stream: StreamView) -> Iterable[Hit]:
    found = course(stream)
    if not stream.is_switched and "response.failed" not in found.types:  # over WebSocket, Codex reads it
        yield from map(Hit, found.errors)


def _no_reason(stream: StreamView) -> Iterable[Hit]:
    for each in stream_events(stream):
        details = each.response.get("incomplete_details")
        if each.type == "response.incomplete" and not (isinstance(details, dict) and _text(details.get("reason"))):
            yield Hit(each.pos)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


_CHECKS: Mapping[str, Check] = {
    "RS060": _mute_error,
    "RS061": _mute_failure,
    "RS062": at_end(_lonely_error, course),
    "RS063": _no_reason,
    "RS064": _codeless_error,
}

RULES = rules(
    """
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
