"""RS00…: how a response begins and ends, and that it stays the same one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from recorder.lint.faults import is_answer, is_seen_whole
from recorder.lint.rule import Check, Hit, at_end, rules
from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamView
from recorder.wire.dialects.json_values import text
from recorder.wire.dialects.openai_responses.lint.events import (
    BEGINNING,
    EARLY,
    ENDINGS,
    StreamEvent,
    course,
    events_of,
    stream_events,
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


def _begins_otherwise(stream: StreamView) -> Iterable[Hit]:
    if stream.exchange.resumes_after is not None or stream.has_gap:
        return
    first, frame = course(stream).first, next(iter(stream.moments.each(of_events=True)), None)
    is_first = first is not None and (frame is None or first.pos <= frame[1])
    if first is not None and is_first and first.type not in (BEGINNING, "error"):
        yield Hit(first.pos, first.type)


def _no_end(stream: StreamView) -> Iterable[Hit]:
    found = course(stream)
    if not found.types and is_answer(stream) and is_seen_whole(stream):
        outcome = stream.end.outcome if stream.end else ""
        how = "" if outcome == "eof" else f"; the connection ended with {outcome}"
        last = found.last
        yield Hit(last.pos if last else None, f"last is {last.type if last else 'nothing'}{how}")


def _ends_twice(stream: StreamView) -> Iterable[Hit]:
    """Yield a second ending. An `error` is one ending together with the `response.failed` that repeats it."""
    ended: list[str] = stream.kept("ended", list)
    for each in events_of(stream, *ENDINGS):
        if ended and not (ended[0] == "error" and each.type == "response.failed"):
            yield Hit(each.pos, f"{each.type} after {ended[0]}")
        ended[:] = [each.type]


def _goes_on(stream: StreamView) -> Iterable[Hit]:
    endings: set[str] = stream.kept("endings", set)
    for each in stream_events(stream):
        if each.type in ENDINGS:
            endings.add(each.type)
        elif endings:
            yield Hit(each.pos, each.type)


def _done_mark(stream: StreamView) -> Iterable[Hit]:
    return (Hit(each.pos) for each in stream.blocks if is_done_mark(each))


def _no_id(stream: StreamView) -> Iterable[Hit]:
    return (Hit(each.pos, each.type) for each in _carriers(stream) if not text(each.response, "id"))


def _changes(stream: StreamView, field: str) -> Iterable[Hit]:
    first: dict[str, str] = stream.kept("first of the response", dict)
    for each in _carriers(stream):
        value = text(each.response, field)
        if value and value != first.setdefault(field, value):
            yield Hit(each.pos, f"{value}, first {first[field]}")


def _other_status(stream: StreamView) -> Iterable[Hit]:
    for each in _carriers(stream):
        status = each.response.get("status")
        if isinstance(status, str) and status not in _STATUS[each.type]:
            yield Hit(each.pos, f"{each.type} with status {status}")


_CHECKS: Mapping[str, Check] = {
    "RS001": at_end(_begins_otherwise, course),
    "RS002": at_end(_no_end, course),
    "RS003": _ends_twice,
    "RS004": _goes_on,
    "RS005": _done_mark,
    "RS006": _no_id,
    "RS007": partial(_changes, field="id"),
    "RS008": partial(_changes, field="model"),
    "RS009": _other_status,
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
""",
    _CHECKS.__getitem__,
)
