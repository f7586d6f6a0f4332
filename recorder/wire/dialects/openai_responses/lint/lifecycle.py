"""RS00…, RS01…: how a response begins and ends, that it stays the same one, and the names and
numbers of its events.
"""

from __future__ import annotations

from collections.abc import Mapping

from recorder.lint.rule import Faults
from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock
from recorder.wire.dialects.json_values import member, text
from recorder.wire.dialects.openai_responses.lint.events import (
    BEGINNING,
    EARLY,
    ENDINGS,
    FIELDS,
    OF_CONNECTIONS,
    Course,
    StreamEvent,
)

_STATUS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(EARLY, frozenset({"queued", "in_progress"})),
    "response.completed": frozenset({"completed"}),
    "response.incomplete": frozenset({"incomplete"}),
    "response.failed": frozenset({"failed", "cancelled"}),
}
"""The events that carry the response, and the status that it may have there."""

_SAME = {"id": "RS007", "model": "RS008"}
_KNOWN = FIELDS.keys() | OF_CONNECTIONS


class Lifecycle:
    """Follows a response from its beginning to its end."""

    def __init__(self, course: Course) -> None:
        self._course, self._stream = course, course.stream
        self._ending = ""  # the type of the last one
        self._same: dict[str, str] = {}  # what all events have in common, as the first one has it
        self._has_first_frame = False
        self._number: int | None = None  # the last one
        self._uncounted = 0  # events since then that have none

    def block(self, block: StreamBlock) -> Faults:
        """Yield the faults of a block, whether it can be read or not."""
        if is_done_mark(block):
            yield "RS005", block.pos, ""
        if not block.is_event:
            return
        yield from self._names(block)
        number = _number_in(block.payload)
        if not self._has_first_frame:
            self._has_first_frame = True
            yield from self._first_number(block, number)
        if not self._stream.has_gap:
            yield from self._next_number(block, number)

    def event(self, event: StreamEvent) -> Faults:
        """Yield the faults of an event."""
        if event.type in ENDINGS:
            yield from self._end(event)
        elif self._ending:
            yield "RS004", event.pos, event.type
        if event.type in _STATUS:
            yield from self._carrier(event)
        is_of_connection = event.type == "error" and self._stream.is_switched  # which has no number
        if event.type not in _KNOWN:
            yield "RS015", event.pos, event.type
        elif event.type in FIELDS and not is_of_connection and _number_in(event.payload) is None:
            yield "RS010", event.pos, event.type

    def end(self) -> Faults:
        """Yield a beginning and an end that are missing, and an error that Codex does not read."""
        course, stream = self._course, self._stream
        first = course.first
        if first is not None and stream.exchange.resumes_after is None and not stream.has_gap:
            is_first = course.first_pos is None or first.pos <= course.first_pos
            if is_first and first.type not in (BEGINNING, "error"):
                yield "RS001", first.pos, first.type
        if not course.endings and stream.is_answer and stream.is_seen_whole:
            outcome = stream.end.outcome if stream.end else ""
            how = "" if outcome == "eof" else f"; the connection ended with {outcome}"
            last = course.last
            yield (
                "RS002",
                last.pos if last else None,
                f"last is {last.type if last else 'nothing'}{how}",
            )
        # over WebSocket, Codex reads it
        if not stream.is_switched and "response.failed" not in course.endings:
            for pos in course.errors:
                yield "RS062", pos, ""

    def _names(self, block: StreamBlock) -> Faults:
        payload, type, name = block.payload, block.type, block.name
        if type is None and payload is not None and payload != {}:
            yield (
                "RS013",
                block.pos,
                "" if isinstance(payload, dict) else "its data is not a JSON object",
            )
        # a message has no `event:` line
        if type is not None and name != type and not self._stream.is_switched:
            yield (
                "RS014",
                block.pos,
                f"{name}, {type}" if name else f"no `event:` line, type {type}",
            )

    def _first_number(self, block: StreamBlock, number: int | None) -> Faults:
        after = self._stream.exchange.resumes_after
        wanted = 0 if after is None else after + 1
        is_behind_gap = any(gap.pos < block.pos for gap in self._stream.gaps)
        if number is not None and number != wanted and not is_behind_gap:
            yield "RS011", block.pos, f"{number} instead of {wanted}"

    def _next_number(self, block: StreamBlock, number: int | None) -> Faults:
        """Yield a number out of sequence.

        Events without one, pings for example, may or may not have been counted.
        """
        if number is None:
            self._uncounted += 0 if is_done_mark(block) else 1
            return
        last = self._number
        if last is not None and not last < number <= last + 1 + self._uncounted:
            yield "RS012", block.pos, f"{number} after {last}"
        self._number, self._uncounted = number, 0

    def _end(self, event: StreamEvent) -> Faults:
        """Yield a second ending.

        An `error` is one ending together with the `response.failed` that repeats it.
        """
        if self._ending and not (self._ending == "error" and event.type == "response.failed"):
            yield "RS003", event.pos, f"{event.type} after {self._ending}"
        self._ending = event.type

    def _carrier(self, event: StreamEvent) -> Faults:
        response = event.response
        if response and not text(response, "id"):
            yield "RS006", event.pos, event.type
        for field, rule in _SAME.items():
            value = text(response, field)
            if value and value != self._same.setdefault(field, value):
                yield rule, event.pos, f"{value}, first {self._same[field]}"
        status = text(response, "status")
        if status is not None and status not in _STATUS[event.type]:
            yield "RS009", event.pos, f"{event.type} with status {status}"


def _number_in(payload: object) -> int | None:
    number = member(payload, "sequence_number")
    return number if type(number) is int else None


TEXTS = """
RS001 error openai sdk
The first event is not `response.created`.
openai-python, `responses.stream`: RuntimeError “Expected to have received `response.created` before
 …”. Codex works without it.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses

RS002 error openai codex sdk
The stream ends without `response.completed`, `response.incomplete`, `response.failed` or `error`.
Codex: “stream disconnected before completion: stream closed before response.completed”, and it
 retries. openai-python, `get_final_response`: RuntimeError “Didn't receive a `response.completed`
 event.”
OpenAI API reference, Responses: Streaming events; Codex CLI 0.169, codex-api/src/sse/responses.rs;
 openai-python 3.52, lib/streaming/responses

RS003 error openai sdk
The response ends more than once.
openai-python takes the last of these events as the final response, and clients that add up tokens
 count them twice. Codex stops reading after the first.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses;
 Codex CLI 0.169, codex-api/src/sse/responses.rs

RS004 error openai codex sdk
Events follow the one that ends the response.
Codex has stopped reading and never sees them; openai-python reports text that is not in the final
 response.
OpenAI API reference, Responses: Streaming events; Codex CLI 0.169, codex-api/src/sse/responses.rs;
 openai-python 3.52, lib/streaming/responses

RS005 note openai
The stream has a `data: [DONE]`, which belongs to Chat Completions.
Codex and the SDKs ignore it; readers that parse all data as JSON fail.
OpenAI API reference, Responses: Streaming events, which has none

RS006 error openai codex sdk
The response has no id.
Codex: “stream disconnected before completion: failed to parse ResponseCompleted: missing field
 `id`”. openai-python: RuntimeError “Lifecycle response identity changed.”; no client can refer to
 the response later.
OpenAI API reference, Responses: Streaming events; Codex CLI 0.169, codex-api/src/sse/responses.rs;
 openai-python 3.52, lib/streaming/responses

RS007 error openai sdk
The id of the response changes.
openai-python, `responses.stream`: RuntimeError “Lifecycle response identity changed.”
 `previous_response_id` of the next request names a response that the provider may not know.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses

RS008 warning openai sdk
The model of the response changes.
Clients that read it at the beginning and clients that read it at the end count tokens for different
 models.
OpenAI API reference, Responses: Streaming events

RS009 warning openai sdk
The status of the response contradicts the type of the event.
Clients that read `response.status` treat a finished response as running, or a failed one as
 complete.
OpenAI API reference, Responses: Streaming events

RS010 error openai
An event has no sequence number.
A client that resumes has no number for `starting_after`: openai-python, `responses.stream(…,
 starting_after=…)`, raises TypeError as it compares None; openai-java raises
 OpenAIInvalidDataException when it is read; authors of gateways saw Codex 0.55 ignore such events,
 Codex 0.169 works without the number.
OpenAI API reference, Responses: Streaming events: sequence_number; openai-python 3.52,
 lib/streaming/responses

RS011 error openai
The first sequence number is not 0, or, in a resumed stream, not the number after `starting_after`.
A client that resumes from its own count of events gets events twice, or misses some.
OpenAI API reference, Responses: Streaming events: sequence_number; OpenAI guide, Background mode:
 starting_after

RS012 error openai
Sequence numbers do not go up by one.
A client that orders events or drops repeated ones by number loses text; one that resumes misses
 events.
OpenAI API reference, Responses: Streaming events: sequence_number

RS013 error openai codex sdk
The payload of an event has no type.
Codex and the SDKs read the type from the payload, not from the `event:` line: Codex drops the event
 (“Failed to parse SSE event”), openai-python: RuntimeError “Expected to have received
 `response.created` before `None`”.
OpenAI API reference, Responses: Streaming events; Codex CLI 0.169, codex-api/src/sse/responses.rs;
 openai-python 3.52

RS014 warning openai
The SSE name of an event is not its type.
Clients that listen by name (`EventSource.addEventListener`) miss it. Codex and the SDKs do not use
 that name.
OpenAI API reference, Responses: Streaming events; WHATWG HTML, 9.2.6

RS015 note openai
The stream has events of a type that this API does not have.
Codex and the SDKs report or ignore them; clients with a closed list of types fail.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, ResponseStreamEvent
"""
