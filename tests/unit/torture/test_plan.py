"""The plan of a torture: a fault at each boundary that the decoder of a format sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.model.events import Exchange, Recording
from recorder.torture.faulty import GAP_S, with_faults
from recorder.torture.plan import plan
from recorder.wire.dialects import by_name
from recorder.wire.framing.sse import Splitter
from recorder.wire.recording import recording_of
from tests.support.aws_messages import aws_event
from tests.support.facts import captured
from tests.support.recordings import ask, record

DIALECTS = Path(by_name.__code__.co_filename).parent
FORMATS = ("openai_responses", "openai_chat", "anthropic", "gemini", "gemini_interactions")


def demo(format: str) -> list[Recording]:
    return read_cassette(DIALECTS / format / "demo.sse.jsonl")


def frames(recorded: Recording) -> list[bytes]:
    splitter = Splitter()
    pieces = [*splitter.feed(recorded.body), *splitter.close()]
    return [piece.raw for piece in pieces if piece.kind == "frame"]


@pytest.mark.parametrize("format", FORMATS)
async def test_a_plan_strikes_an_answer_with_a_call_and_one_without_at_each_of_their_boundaries(
    format: str,
) -> None:
    faults = await plan(demo(format))
    struck = {fault.exchange.number for fault in faults}
    places = {fault.place for fault in faults}
    assert len(struck) == 2
    assert {
        "in place of the answer",
        "before the first event",
        "inside a text",
        "at the beginning of a call",
        "before the end of the answer",
        "after the last event",
        "the whole answer",
    } <= places
    assert ("inside the arguments of a call" in places) == (format != "gemini"), (
        "whose calls come whole"
    )
    dialect = by_name(faults[0].exchange.exchange.api)
    statuses = [fault.form for fault in faults if fault.form.startswith("status")]
    assert statuses == [f"status:{status}" for status in dialect.error_statuses], (
        "once, for the first exchange"
    )


@pytest.mark.parametrize("format", FORMATS)
async def test_an_answer_is_whole_from_the_event_on_that_ends_it(format: str) -> None:
    for fault in await plan(demo(format)):
        if not fault.form.startswith("end@"):
            continue
        ended = await with_faults(fault.exchange, (fault.form,), None)
        decoder, keys = by_name(ended.exchange.api).decoder(), by_name(ended.exchange.api).keys
        said = [
            fact
            for raw in frames(ended)
            for fact in decoder.event(keys(raw).type, raw.partition(b"data: ")[2])
        ]
        is_finished = any(type(fact).__name__ == "ResponseFinished" for fact in said)
        assert is_finished == bool(fault.is_whole), fault.form


async def test_whole_calls_before_the_end_of_an_answer_are_no_half_of_it() -> None:
    unknown = [
        (fault.form, fault.place)
        for fault in await plan(demo("openai_responses"))
        if fault.is_whole is None
    ]
    assert unknown == [
        (f"{cut}", "before the end of the answer")
        for cut in ("end@40", "cut@40", "cut@40:reset", "stall@40")
    ]
    assert None not in {fault.is_whole for fault in await plan(demo("openai_chat"))}


async def test_a_fault_is_recorded_as_it_would_have_come() -> None:
    recorded = demo("openai_chat")[0]
    events, first = frames(recorded), b"".join(frames(recorded)[:3])
    cut, reset, ended, stalled, refused = [
        await with_faults(recorded, (form,), None)
        for form in ("cut@3", "cut@3:reset", "end@3", "stall@3:9s", "status:429")
    ]
    outcomes = [
        each.end.outcome for each in (cut, reset, ended, stalled, refused) if each.end is not None
    ]
    assert outcomes == ["truncated", "upstream_reset", "eof", "eof", "eof"]
    assert [each.body for each in (cut, reset, ended)] == [first] * 3
    assert [piece.t_ns for piece in stalled.pieces][2:4] == [0, 9_000_000_000]
    assert (stalled.body, len(events) > 4) == (recorded.body, True)
    assert refused.response is not None
    assert refused.response.status == 429
    assert {each.request_body for each in (cut, refused)} == {recorded.request_body}


@pytest.mark.parametrize("form", ["cut@0", "cut@3", "cut@3:reset"])
async def test_a_client_has_time_to_read_before_its_connection_breaks(form: str) -> None:
    cut = await with_faults(demo("openai_chat")[0], (form,), None)
    assert {piece.t_ns for piece in cut.pieces} <= {0}
    assert cut.end_ns == int(GAP_S * 1e9)


async def test_a_recording_without_a_fault_comes_at_once_or_at_its_speed() -> None:
    recorded = demo("anthropic")[0]
    at_once, timed = await with_faults(recorded, (), None), await with_faults(recorded, (), 2.0)
    assert (at_once.body, timed.body) == (recorded.body, recorded.body)
    assert {piece.t_ns for piece in at_once.pieces} == {0}
    assert timed.pieces[-1].t_ns == pytest.approx(recorded.pieces[-1].t_ns / 2, abs=1_000_000)


async def test_what_a_client_asks_for_itself_is_not_struck() -> None:
    question = {"role": "user", "content": "Which?"}
    title = {
        "role": "system",
        "content": "You are a title generator. You output ONLY a thread title.",
    }
    frames = [b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'] * 3
    asked = [
        record(
            ask({"model": "m", "messages": messages}, "/v1/chat/completions"), *frames, name=name
        )
        for name, messages in (("title", [title, question]), ("turn", [question]))
    ]
    asked = [msgspec.structs.replace(each, exchange=_of_chat(each)) for each in asked]
    assert {fault.exchange.exchange.exchange_id for fault in await plan(asked)} == {"turn"}


def _of_chat(recorded: Recording) -> Exchange:
    return msgspec.structs.replace(recorded.exchange, api="openai-chat")


Made = tuple[str, str, bytes]  # the format, the content type, the body


def lines() -> Made:
    said = [{"message": {"role": "assistant", "content": "Hi"}, "done": False}] * 3
    end = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    return (
        "ollama",
        "application/x-ndjson",
        b"".join(json.dumps(each).encode() + b"\n" for each in [*said, end]),
    )


def messages() -> Made:
    said = [aws_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}})] * 3
    ends = [
        aws_event("messageStop", {"stopReason": "end_turn"}),
        aws_event("metadata", {"usage": {"outputTokens": 1}}),
    ]
    return "bedrock-converse", "application/vnd.amazon.eventstream", b"".join([*said, *ends])


@pytest.mark.parametrize("made", [lines, messages], ids=lambda made: made.__name__)
async def test_a_stream_of_another_framing_is_struck_at_its_boundaries(
    made: Callable[[], tuple[str, str, bytes]],
) -> None:
    api, kind, body = made()
    recorded = recording_of(*captured(body, api, request=b'{"messages": []}', content_type=kind))
    faults = await plan([recorded])
    assert {"inside a text", "before the end of the answer"} <= {fault.place for fault in faults}
    [cut] = [fault for fault in faults if fault.form == "cut@2"]
    struck = await with_faults(cut.exchange, (cut.form,), None)
    assert (body.startswith(struck.body), 0 < len(struck.body) < len(body)) == (True, True)


async def test_a_stream_of_an_unknown_format_is_struck_by_the_numbers_of_its_events() -> None:
    frames = [b'data: {"n": %d}\n\n' % number for number in range(6)]
    faults = await plan([record(ask(b"{}", "/run", upstream="agent"), *frames)])
    ends = [(fault.form, fault.is_whole) for fault in faults if fault.form.startswith("end")]
    assert ends == [("end@0", None), ("end@3", None), ("end@5", None)]


async def test_a_stream_of_an_unknown_format_is_whole_from_an_event_on_behind_which_nothing_follows() -> (
    None
):
    types = (
        "RUN_STARTED",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    )
    frames = [b'data: {"type": "%b"}\n\n' % type.encode() for type in types]
    faults = await plan([record(ask(b"{}", "/run", upstream="agent"), *frames)])
    ends = [
        (fault.form, fault.is_whole) for fault in faults if fault.form.startswith(("end", "stall"))
    ]
    assert ends == [
        *((form, False) for form in ("end@0", "stall@0", "end@2", "stall@2", "end@4", "stall@4")),
        ("stall@5", True),
    ]
