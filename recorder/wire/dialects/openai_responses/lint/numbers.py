"""RS01…: what an event is called, and its number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.lint.rule import Check, Hit, rules
from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.openai_responses.lint.catalog import FIELDS, OF_CONNECTIONS
from recorder.wire.dialects.openai_responses.lint.events import stream_events


def _number(frame: StreamBlock) -> int | None:
    number = frame.payload.get("sequence_number") if isinstance(frame.payload, dict) else None
    return number if type(number) is int else None


class _Count:
    """The last number, and the events since then that have none."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.uncounted = 0


def _no_number(stream: StreamView) -> Iterable[Hit]:
    """Yield events without a number. Over WebSocket an error is of the connection as well, and has none."""
    for each in stream_events(stream):
        if each.type == "error" and stream.is_switched:
            continue
        if each.type in FIELDS and type(each.payload.get("sequence_number")) is not int:
            yield Hit(each.pos, each.type)


def _first_number(stream: StreamView) -> Iterable[Hit]:
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


def _next_numbers(stream: StreamView) -> Iterable[Hit]:
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


def _no_type(stream: StreamView) -> Iterable[Hit]:
    for each in stream.frames:
        if each.type is None and each.payload is not None and each.payload != {}:
            yield Hit(each.pos, "" if isinstance(each.payload, dict) else "its data is not a JSON object")


def _other_name(stream: StreamView) -> Iterable[Hit]:
    for each in () if stream.is_switched else stream.frames:  # a message has no `event:` line
        if each.type is not None and each.name != each.type:
            yield Hit(each.pos, f"no `event:` line, type {each.type}" if not each.name else f"{each.name}, {each.type}")


def _unknown(stream: StreamView) -> Iterable[Hit]:
    known = FIELDS.keys() | OF_CONNECTIONS
    return (Hit(each.pos, each.type) for each in stream_events(stream) if each.type not in known)


_CHECKS: Mapping[str, Check] = {
    "RS010": _no_number,
    "RS011": _first_number,
    "RS012": _next_numbers,
    "RS013": _no_type,
    "RS014": _other_name,
    "RS015": _unknown,
}

RULES = rules(
    """
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
