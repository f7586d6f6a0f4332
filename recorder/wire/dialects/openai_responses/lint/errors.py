"""RS06…: the errors and reasons of a response that did not succeed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.lint.faults import shown
from recorder.lint.rule import Check, Hit, at_end, rules
from recorder.lint.stream import StreamView
from recorder.wire.dialects.json_values import object_, text
from recorder.wire.dialects.openai_responses.lint.events import course, events_of


def _mute_error(stream: StreamView) -> Iterable[Hit]:
    for each in events_of(stream, "error"):
        if not text(each.error.get("message")):
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
        error = object_(each.response.get("error"))
        lacking = [name for name in ("code", "message") if not text(error.get(name))]
        if each.response and lacking:
            yield Hit(each.pos, f"no text {' and '.join(f'`response.error.{name}`' for name in lacking)}")


def _lonely_error(stream: StreamView) -> Iterable[Hit]:
    found = course(stream)
    if not stream.is_switched and "response.failed" not in found.types:  # over WebSocket, Codex reads it
        yield from map(Hit, found.errors)


def _no_reason(stream: StreamView) -> Iterable[Hit]:
    for each in events_of(stream, "response.incomplete"):
        if not text(object_(each.response.get("incomplete_details")).get("reason")):
            yield Hit(each.pos)


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
