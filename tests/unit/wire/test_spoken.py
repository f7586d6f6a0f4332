"""A stream or a document of another format than its path says is read as what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.ingest.assembler import Assembler
from recorder.journal.format import START, Record
from recorder.lint.linter import lint
from recorder.model.events import WEBSOCKET, Event, Exchange
from recorder.projections.fold import Folding, Rows
from recorder.wire.dialects import by_name
from recorder.wire.recording import recording_of
from tests.support.facts import captured, folded
from tests.support.websocket import Connection, create

DIALECTS = Path(by_name.__code__.co_filename).parent
DOCUMENTS = {
    "openai-responses": b'{"object": "response", "id": "r", "model": "a", "status": "completed", "output": [{"type":'
    b' "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}],'
    b' "usage": {"output_tokens": 2}}',
    "openai-chat": b'{"object": "chat.completion", "id": "c", "model": "a", "choices": [{"index": 0,'
    b' "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],'
    b' "usage": {"completion_tokens": 2}}',
    "anthropic": b'{"type": "message", "id": "m", "model": "a", "role": "assistant", "stop_reason": "end_turn",'
    b' "content": [{"type": "text", "text": "Hi"}], "usage": {"output_tokens": 2}}',
    "gemini": b'{"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],'
    b' "modelVersion": "a", "usageMetadata": {"candidatesTokenCount": 2}}',
    "gemini-interactions": b'{"object": "interaction", "id": "i", "model": "a", "status": "completed", "steps": ['
    b'{"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}], "usage": {"total_output_tokens": 2}}',
}
FORMATS = ("openai-responses", "openai-chat", "anthropic", "gemini", "gemini-interactions")


def streams(format: str) -> list[bytes]:
    recorded = read_cassette(DIALECTS / format.replace("-", "_") / "demo.sse.jsonl")
    return [
        each.body for each in recorded if each.exchange.api == format and b"data:" in each.body[:80]
    ]


def meaning(rows: Rows) -> dict[str, Any]:
    """All that was understood of an answer, without what its request and the path say."""
    items = [msgspec.structs.replace(each, exchange_id="") for each in rows["items"]]
    usage = [
        (each.input_tokens, each.output_tokens, each.model, each.partial) for each in rows["usage"]
    ]
    ends = [
        (each.status, each.finish_reason, each.response_id, each.error)
        for each in rows["exchanges"]
    ]
    return {"items": items, "usage": usage, "ends": ends}


def at_path(api: str, body: bytes, step: int, **more: Any) -> tuple[Exchange, list[Event]]:
    return captured(body, api, cuts=range(step, len(body), step), **more)


@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_means_the_same_at_any_path(format: str) -> None:
    for body in streams(format):
        own = folded(*at_path(format, body, 10_000))
        assert own["anomalies"] == []
        for api in (*FORMATS, "other"):
            exchange, events = at_path(api, body, 10_000)
            rows = folded(exchange, events)
            assert meaning(rows) == meaning(own), (api, body[:200])
            told = [(each.kind, each.detail) for each in rows["anomalies"]]
            assert told == ([] if api in (format, "other") else [("other_api", format)])
            found = lint(recording_of(exchange, events))
            assert [each.rule for each in found] == (["ST012"] if told else []), api


@pytest.mark.parametrize("format", FORMATS)
def test_it_is_cut_and_read_alike_whatever_its_chunks(format: str) -> None:
    body = streams(format)[0]
    api = next(each for each in FORMATS if each != format)
    exchange, events = at_path(api, body, 10_000)
    for step in (1, 7, 64):
        assert [
            (each.kind, each.type, each.raw) for each in at_path(api, body, step)[1] if each.type
        ] == [(each.kind, each.type, each.raw) for each in events if each.type]
    folding = Folding(exchange)
    folding.apply_all(events)
    assert folding.rows() == folded(exchange, events)


def test_a_client_that_leaves_after_its_last_event_is_done() -> None:
    body = streams("anthropic")[0]
    [row] = folded(*at_path("openai-chat", body, 10_000, outcome="client_disconnect"))["exchanges"]
    assert row.status == "completed"


def test_what_only_looks_like_another_format_later_is_read_by_its_path() -> None:
    unknown = b"".join(b'data: {"type": "x%d"}\n\n' % number for number in range(8))
    for body in (
        unknown + streams("anthropic")[0],
        streams("openai-chat")[0] + streams("anthropic")[0],
    ):
        anomalies = folded(*at_path("openai-chat", body, 10_000))["anomalies"]
        assert "other_api" not in {each.kind for each in anomalies}


def without_times(understood: dict[str, Any]) -> dict[str, Any]:
    gone = {"session_id": "", "began_ns": 0, "ended_ns": 0}
    return {
        **understood,
        "items": [msgspec.structs.replace(each, **gone) for each in understood["items"]],
    }


def turn(*payloads: bytes) -> tuple[Exchange, list[Event]]:
    """The turn at the path of Responses that these messages answer."""
    made = Connection().client(create())
    for payload in payloads:
        made.server(payload)
    assembler = Assembler("r", lambda head, grouping: "s")
    for step in made.close().steps:
        assembler.feed(Record(step.connection, step.mark, step.t_ns, step.payload, START), START)
    [exchange] = [each for each in assembler.batch.exchanges if each.method == WEBSOCKET]
    return exchange, [
        each for each in assembler.batch.events if each.exchange_id == exchange.exchange_id
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_a_turn_over_websocket_is_read_as_what_its_messages_are(format: str) -> None:
    body = streams(format)[0]
    lines = [
        line.removeprefix(b"data: ").strip()
        for line in body.split(b"\n")
        if line.startswith(b"data: ")
    ]
    exchange, events = turn(*lines)
    rows, own = folded(exchange, events), folded(*at_path(format, body, 10_000))
    assert without_times(meaning(rows)) == without_times(meaning(own))
    told = [(each.kind, each.detail) for each in rows["anomalies"]]
    assert told == ([] if format == "openai-responses" else [("other_api", format)])
    assert [each.rule for each in lint(recording_of(exchange, events))] == (
        ["ST012"] if told else []
    )


@pytest.mark.parametrize("format", FORMATS)
def test_a_document_means_the_same_at_any_path(format: str) -> None:
    body = DOCUMENTS[format]
    own = folded(*at_path(format, body, 10_000, content_type="application/json"))
    assert [each.text for each in own["items"]] == ["Hi"]
    for api in (*FORMATS, "other"):
        exchange, events = at_path(api, body, 10_000, content_type="application/json")
        rows = folded(exchange, events)
        assert meaning(rows) == meaning(own), api
        told = [(each.kind, each.detail) for each in rows["anomalies"]]
        assert told == ([] if api in (format, "other") else [("other_api", format)])
        rules = [each.rule for each in lint(recording_of(exchange, events))]
        assert rules == (["ST012"] if told else []), api


@pytest.mark.parametrize(
    "body", [b'{"type": "message", "text": "of a chat"}', b'{"choices": ["yes", "no"]}']
)
def test_a_document_of_an_app_is_of_no_format(body: bytes) -> None:
    rows = folded(*at_path("other", body, 10_000, content_type="application/json"))
    assert (rows["items"], rows["anomalies"]) == ([], [])
