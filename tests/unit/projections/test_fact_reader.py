"""The payloads of events, however the log had to keep them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from recorder.model.events import LEFT_OUT, Event, Exchange, GapRecord, Header, Kind
from recorder.model.facts import (
    CostReported,
    ErrorReported,
    ExchangeEnded,
    Fact,
    FirstByte,
    HeadReceived,
    LostBytes,
    MalformedPayload,
    OversizedPayload,
    RequestFacts,
    RequestPurpose,
    RequestReceived,
    TextAdded,
    UnterminatedEvent,
)
from recorder.projections.fact_reader import PAYLOAD_LIMIT, FactReader
from recorder.projections.pieces import Pieces
from recorder.store.maintain.verify.chain import ChainVerifier
from recorder.wire.framing.sse import BOM, FRAME_LIMIT
from recorder.wire.recording import recording_of
from tests.support.facts import MS, captured, event
from tests.support.tables import table


def delta(text: str, **more: Any) -> bytes:
    payload = {
        "type": "response.output_text.delta",
        "output_index": 0,
        "content_index": 0,
        "delta": text,
        **more,
    }
    return json.dumps(payload).encode()


def frame(payload: bytes) -> bytes:
    return b"event: response.output_text.delta\ndata: " + payload + b"\n\n"


def facts(exchange: Exchange, events: Iterable[Event]) -> list[Fact]:
    reading = FactReader(exchange)
    return [fact for each in events for fact in reading.facts(each)]


def of(body: bytes, api: str = "openai-responses", **more: Any) -> list[Fact]:
    return facts(*captured(body, api, **more))


def texts(told: Iterable[Fact]) -> list[str]:
    return [fact.text for fact in told if isinstance(fact, TextAdded)]


def test_a_life_is_told_from_request_to_end() -> None:
    told = of(frame(delta("Hi")), request=b'{"model": "gpt-5"}')
    kinds = (
        RequestFacts,
        RequestReceived,
        RequestPurpose,
        HeadReceived,
        TextAdded,
        FirstByte,
        ExchangeEnded,
    )
    assert [isinstance(fact, kind) for fact, kind in zip(told, kinds, strict=True)] == [True] * 7
    assert texts(told) == ["Hi"]
    assert isinstance(told[0], RequestFacts)
    assert told[0] == RequestFacts(model="gpt-5", parameters=told[0].parameters)
    assert told[5] == FirstByte(2 * MS)


@table(
    ("headers", "costs"),
    [
        ([("X-LiteLLM-Response-Cost", "0.0009884999999999998")], ["0.0009884999999999998"]),
        ([("x-litellm-response-cost", "3.45e-05")], ["0.0000345"]),
        # recorded before the value was kept
        ([("x-litellm-response-cost", "REDACTED (8 bytes)")], []),
        ([("x-litellm-response-cost", "None")], []),
        ([("x-litellm-response-cost-original", "0.1")], []),
    ],
)
def test_the_cost_in_a_response_head_is_a_fact(headers: list[Header], costs: list[str]) -> None:
    exchange, events = captured(b"")
    head = next(each for each in events if each.kind == "response")
    raw = json.dumps({**json.loads(head.raw), "headers": headers}).encode()
    told = facts(exchange, [msgspec.structs.replace(head, raw=raw)])
    source = "x-litellm-response-cost"
    assert [fact for fact in told if isinstance(fact, CostReported)] == [
        CostReported(cost, source) for cost in costs
    ]


def test_a_byte_order_mark_is_no_part_of_a_payload() -> None:
    assert texts(of(BOM + frame(delta("a")) + frame(delta("b")))) == ["a", "b"]


def test_a_payload_over_several_data_lines_is_one() -> None:
    lines = json.dumps(json.loads(delta("Hi")), indent=1).splitlines()
    block = (
        b"event: response.output_text.delta\n"
        + b"".join(b"data: %s\n" % line.encode() for line in lines)
        + b"\n"
    )
    assert texts(of(block)) == ["Hi"]


def test_a_payload_in_parts_is_put_together() -> None:
    for size in (FRAME_LIMIT - 10, FRAME_LIMIT, 2 * FRAME_LIMIT + 1):
        exchange, events = captured(
            frame(delta("x" * size)) + frame(delta("y" * size)) + frame(delta("z"))
        )
        assert {each.kind for each in events} > {"part", "frame"}
        assert [len(text) for text in texts(facts(exchange, events))] == [size, size, 1]


def test_a_block_that_is_exactly_full_parts_long_ends_where_it_ends() -> None:
    whole = frame(delta(""))
    block = frame(delta("x" * (2 * FRAME_LIMIT - len(whole))))
    assert len(block) == 2 * FRAME_LIMIT
    assert [len(text) for text in texts(of(block + frame(delta("y"))))] == [
        2 * FRAME_LIMIT - len(whole),
        1,
    ]


def test_a_payload_over_the_limit_is_counted_and_what_follows_is_told() -> None:
    told = of(frame(delta("x" * PAYLOAD_LIMIT)) + frame(delta("y")))
    assert texts(told) == ["y"]
    assert [type(fact) for fact in told if isinstance(fact, OversizedPayload)] == [OversizedPayload]


def test_pieces_over_their_limit_are_let_go() -> None:
    pieces = Pieces(10)
    pieces.add(b"x" * 6)
    pieces.add(b"x" * 6)
    pieces.add(b"x")
    assert (pieces.size_bytes, pieces.take(), pieces.take()) == (13, None, b"")


def test_a_last_event_without_its_blank_line_is_told_and_marked() -> None:
    told = of(frame(delta("a")) + frame(delta("b")).rstrip())
    assert texts(told) == ["a", "b"]
    assert UnterminatedEvent() in told


def test_a_last_event_that_is_cut_off_says_nothing_but_that() -> None:
    told = of(frame(delta("a")) + frame(delta("b"))[:-20])
    assert texts(told) == ["a"]
    assert UnterminatedEvent(73) in told
    assert not any(isinstance(fact, MalformedPayload) for fact in told)


@table(
    ("api", "error", "expected"),
    [
        (
            "gemini",
            b'{\n  "error": {"code": 429, "message": "Slow down"}\n}\n\n',
            ("Slow down", "429"),
        ),
        (
            "openai-chat",
            b'error: {"code": 500, "message": "No slots", "type": "e"}\n\n',
            ("No slots", "500"),
        ),
    ],
)
def test_an_error_as_bare_json_or_as_a_field_of_its_own_is_told(
    api: str, error: bytes, expected: object
) -> None:
    [failed] = [fact for fact in of(error, api) if isinstance(fact, ErrorReported)]
    assert (failed.message, failed.code) == expected


UNSEEN = {
    "openai-responses": {
        "type": "response.output_text.delta",
        "output_index": 0,
        "content_index": 0,
        "delta": "x",
    },
    "openai-chat": {"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}}]},
    "anthropic": {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "x"},
    },
}


@table("api", UNSEEN)
@table("end", [b"\n\n", b"\r\n\r\n", b"\n", b""])
def test_json_without_data_is_an_anomaly_and_no_content(api: str, end: bytes) -> None:
    payload = json.dumps(UNSEEN[api]).encode()
    told = of(b"data: " + payload + b"\n\n" + payload + end, api)
    assert texts(told) == ["x"]
    assert [
        type(fact) for fact in told if isinstance(fact, MalformedPayload | UnterminatedEvent)
    ] == [MalformedPayload if len(end) > 1 else UnterminatedEvent]


def test_json_without_data_is_content_to_clients_of_gemini() -> None:
    payload = json.dumps(
        {"candidates": [{"index": 0, "content": {"parts": [{"text": "x"}]}}]}
    ).encode()
    told = of(payload + b"\r\n\r\n", "gemini")
    assert texts(told) == ["x"]
    assert not any(isinstance(fact, MalformedPayload) for fact in told)


def test_a_body_that_is_no_stream_is_told_at_its_end() -> None:
    body = b'{"error": {"message": "Bad key", "type": "invalid_request_error", "code": "invalid_api_key"}}'
    exchange, events = captured(body, content_type="application/json", status=401, cuts=(10, 20))
    [failed] = [fact for fact in facts(exchange, events) if isinstance(fact, ErrorReported)]
    assert (failed.message, failed.code) == ("Bad key", "invalid_api_key")
    *begun, _ = events
    reading = FactReader(exchange)
    assert not any(
        isinstance(fact, ErrorReported) for each in begun for fact in reading.facts(each)
    )
    assert any(isinstance(fact, ErrorReported) for fact in reading.close())


@pytest.mark.parametrize("size", [1, 10_000_000])
def test_a_byte_order_mark_is_none_but_at_the_beginning(size: int) -> None:
    lost = [BOM + b"data: " + delta(text) + b"\n\n" for text in ("b", "c" * FRAME_LIMIT)]
    body = BOM + frame(delta("a")) + b"".join(lost) + frame(delta("d"))
    told = of(body, cuts=[] if size > 1 else range(500))
    assert [text[:1] for text in texts(told)] == ["a", "d"]
    assert [fact for fact in told if isinstance(fact, MalformedPayload)] == [
        MalformedPayload("a byte order mark within the stream: clients do not read this event")
    ] * 2


def test_what_stands_behind_a_coding_is_kept_and_no_part_of_the_answer() -> None:
    wire = gzip.compress(b'{"object": "response", "output": []}') + b"\0\0xyz"
    exchange, events = captured(
        wire, content_type="application/json", coding="gzip", cuts=[9, len(wire) - 2]
    )
    assert b"".join(each.raw for each in events if each.type == LEFT_OUT) == b"\0\0xyz"
    assert not any(isinstance(fact, MalformedPayload) for fact in facts(exchange, events))
    recording = recording_of(exchange, events)
    assert recording.body == b'{"object": "response", "output": []}'
    assert recording_of(exchange, events, keeps_events=False).body == recording.body
    assert recording.end is not None
    assert (recording.end.undecoded, recording.end.lossless) == (None, True)
    verifier = ChainVerifier(exchange.session_id, exchange.exchange_id)
    for each in events:
        verifier.feed(each)
    assert list(verifier.close()) == []


def test_a_body_that_is_no_json_is_marked_and_no_more() -> None:
    told = of(b"<html>Bad gateway</html>", content_type="text/html")
    others = (
        RequestFacts | RequestReceived | RequestPurpose | HeadReceived | FirstByte | ExchangeEnded
    )
    assert [type(fact) for fact in told if not isinstance(fact, others)] == [MalformedPayload]


def test_what_was_not_recorded_is_told_with_its_size() -> None:
    gap = GapRecord("response", 2, 700, "", 0, 0, "the disk was full")
    exchange, _ = captured(b"")
    raw = json.dumps({"of": gap.of, "size_bytes": gap.size_bytes, "reason": gap.reason}).encode()
    assert facts(exchange, [event(5, kind="gap", raw=raw)]) == [LostBytes("response", 700)]


def test_control_events_of_another_version_are_no_obstacle() -> None:
    exchange, _ = captured(b"")
    kinds: tuple[Kind, ...] = ("response", "reads", "gap", "note", "end")
    odd = [event(pos, kind=kind, raw=b"[1") for pos, kind in enumerate(kinds)]
    assert ExchangeEnded("unknown", "unknown") in facts(exchange, odd)
