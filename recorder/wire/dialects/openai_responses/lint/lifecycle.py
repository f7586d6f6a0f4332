"""RS00…, RS01…: how a response begins and ends, that it stays the same one, and the names and numbers of its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from recorder.lint.faults import is_answer, is_seen_whole
from recorder.lint.rule import Check, Hit, Hits, at_end, rules
from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.json_values import text
from recorder.wire.dialects.openai_responses.lint.events import (
    BEGINNING,
    EARLY,
    ENDINGS,
    FIELDS,
    OF_CONNECTIONS,
    StreamEvent,
    course,
    each_event,
    events_of,
    stream_events,
    where,
)

_STATUS = {
    **dict.fromkeys(EARLY, frozenset({"queued", "in_progress"})),
    "response.completed": frozenset({"completed"}),
    "response.incomplete": frozenset({"incomplete"}),
    "response.failed": frozenset({"failed", "cancelled"}),
}


def _carriers(stream: StreamView) -> Iterable[StreamEvent]:
    """Yield the events that carry the response."""
    return (each for each in events_of(stream, *_STATUS) if each.response)


def _begins_otherwise(stream: StreamView) -> Hits:
    if stream.exchange.resumes_after is not None or stream.has_gap:
        return
    first, frame = course(stream).first, next(iter(stream.moments.each(of_events=True)), None)
    is_first = first is not None and (frame is None or first.pos <= frame[1])
    if first is not None and is_first and first.type not in (BEGINNING, "error"):
        yield Hit(first.pos, first.type)


def _no_end(stream: StreamView) -> Hits:
    found = course(stream)
    if not found.types and is_answer(stream) and is_seen_whole(stream):
        outcome = stream.end.outcome if stream.end else ""
        how = "" if outcome == "eof" else f"; the connection ended with {outcome}"
        last = found.last
        yield Hit(last.pos if last else None, f"last is {last.type if last else 'nothing'}{how}")


def _ends_twice(stream: StreamView) -> Hits:
    """Yield a second ending. An `error` is one ending together with the `response.failed` that repeats it."""
    ended: list[str] = stream.kept("ended", list)
    for each in events_of(stream, *ENDINGS):
        if ended and not (ended[0] == "error" and each.type == "response.failed"):
            yield Hit(each.pos, f"{each.type} after {ended[0]}")
        ended[:] = [each.type]


def _goes_on(stream: StreamView) -> Hits:
    endings: set[str] = stream.kept("endings", set)
    for each in stream_events(stream):
        if each.type in ENDINGS:
            endings.add(each.type)
        elif endings:
            yield Hit(each.pos, each.type)


def _done_mark(stream: StreamView) -> Hits:
    return (Hit(each.pos) for each in stream.blocks if is_done_mark(each))


def _changes(stream: StreamView, field: str) -> Hits:
    first: dict[str, str] = stream.kept("first of the response", dict)
    for each in _carriers(stream):
        value = text(each.response, field)
        if value and value != first.setdefault(field, value):
            yield Hit(each.pos, f"{value}, first {first[field]}")


def _other_status(each: StreamEvent) -> Iterable[str]:
    status = text(each.response, "status")
    if status is not None and status not in _STATUS[each.type]:
        yield f"{each.type} with status {status}"


def _number(frame: StreamBlock) -> int | None:
    number = frame.payload.get("sequence_number") if isinstance(frame.payload, dict) else None
    return number if type(number) is int else None


class _Count(msgspec.Struct):
    """The last number, and the events since then that have none."""

    last: int | None = None
    uncounted: int = 0


def _no_number(stream: StreamView) -> Hits:
    """Yield events without a number. Over WebSocket an error is of the connection as well, and has none."""
    for each in stream_events(stream):
        if each.type == "error" and stream.is_switched:
            continue
        if each.type in FIELDS and type(each.payload.get("sequence_number")) is not int:
            yield Hit(each.pos, each.type)


def _first_number(stream: StreamView) -> Hits:
    after = stream.exchange.resumes_after
    frames: list[StreamBlock] = stream.kept("first frame", list)
    if frames or not stream.frames:
        return
    first = stream.frames[0]
    frames.append(first)
    number = _number(first)
    wanted = 0 if after is None else after + 1
    if any(gap.pos < first.pos for gap in stream.gaps):
        return
    if number is not None and number != wanted:
        yield Hit(first.pos, f"{number} instead of {wanted}")


def _next_numbers(stream: StreamView) -> Hits:
    """Yield numbers out of sequence. Events without a number, pings for example, may or may not have been counted."""
    count = stream.kept("numbers", _Count)
    for each in () if stream.has_gap else stream.frames:
        number = _number(each)
        if number is None:
            count.uncounted += not is_done_mark(each)
            continue
        last = count.last
        if last is not None and not last < number <= last + 1 + count.uncounted:
            yield Hit(each.pos, f"{number} after {last}")
        count.last, count.uncounted = number, 0


def _no_type(stream: StreamView) -> Hits:
    for each in stream.frames:
        if each.type is None and each.payload is not None and each.payload != {}:
            yield Hit(each.pos, "" if isinstance(each.payload, dict) else "its data is not a JSON object")


def _other_name(stream: StreamView) -> Hits:
    for each in () if stream.is_switched else stream.frames:  # a message has no `event:` line
        if each.type is not None and each.name != each.type:
            yield Hit(each.pos, f"no `event:` line, type {each.type}" if not each.name else f"{each.name}, {each.type}")


_KNOWN = FIELDS.keys() | OF_CONNECTIONS

_CHECKS: Mapping[str, Check] = {
    "RS001": at_end(_begins_otherwise, course),
    "RS002": at_end(_no_end, course),
    "RS003": _ends_twice,
    "RS004": _goes_on,
    "RS005": _done_mark,
    "RS006": where(lambda each: each.response and not text(each.response, "id"), *_STATUS),
    "RS007": partial(_changes, field="id"),
    "RS008": partial(_changes, field="model"),
    "RS009": each_event(_other_status, *_STATUS),
    "RS010": _no_number,
    "RS011": _first_number,
    "RS012": _next_numbers,
    "RS013": _no_type,
    "RS014": _other_name,
    "RS015": where(lambda each: each.type not in _KNOWN),
}

RULES = rules(
    """
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
""",
    _CHECKS.__getitem__,
)
