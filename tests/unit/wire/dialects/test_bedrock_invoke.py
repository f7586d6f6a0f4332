"""What the chunks of Bedrock's InvokeModel mean: what Anthropic's SDK makes of the same bytes."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.projections.fold import Rows
from recorder.recordings.preview import Previews
from recorder.wire.dialects import by_request
from recorder.wire.dialects.bedrock_invoke import DIALECT
from tests.support.aws_messages import aws_event, aws_message
from tests.support.bedrock import (
    COUNTS,
    EVENTS,
    KIND,
    MESSAGE,
    MODEL,
    STREAM,
    anthropic_bedrock,
    bedrock,
    chunk,
    message_of,
)
from tests.support.bedrock import QUESTION as ASKED
from tests.support.facts import captured, folded
from tests.support.recordings import Reply, differing, recorded, replaced

CALL = {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"sides": 6}}
CONTENT = [
    {"type": "thinking", "thinking": "Hm.", "signature": "AAAA"},
    {"type": "text", "text": "Zürich ✓"},
    CALL,
]
USAGE = {**COUNTS, "output_tokens": 9}


def rows_of(body: bytes, kind: str = KIND, **how: Any) -> Rows:
    return folded(*captured(body, "bedrock-invoke", content_type=kind, **how))


def assert_all(rows: Rows) -> None:
    [exchange], [thought, message, call], [usage] = rows["exchanges"], rows["items"], rows["usage"]
    assert (thought.text, thought.encrypted, message.text) == ("Hm.", True, "Zürich ✓")
    assert (call.name, call.call_id, json.loads(call.arguments)) == (
        "roll",
        "toolu_1",
        {"sides": 6},
    )
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (5, 2, 9)
    assert (exchange.status, exchange.finish_reason, rows["anomalies"]) == (
        "completed",
        "tool_use",
        [],
    )


def test_a_stream_is_what_the_sdk_says() -> None:
    with bedrock() as url:
        message = message_of(url)
    assert (message["content"], message["stop_reason"], message["usage"]) == (
        CONTENT,
        "tool_use",
        USAGE,
    )
    assert_all(rows_of(STREAM))


@given(st.sets(st.integers(1, len(STREAM) - 1)))
def test_it_is_the_same_however_the_bytes_come(cuts: set[int]) -> None:
    assert_all(rows_of(STREAM, cuts=sorted(cuts)))


def test_a_document_says_the_same() -> None:
    body = json.dumps(
        {**MESSAGE, "content": CONTENT, "stop_reason": "tool_use", "usage": USAGE}
    ).encode()
    with bedrock(document=body) as url, anthropic_bedrock(url) as client:
        assert client.messages.create(model=MODEL, **ASKED).to_dict() == json.loads(body)
    assert_all(rows_of(body, "application/json"))


@pytest.mark.parametrize("name", ["throttlingException", "modelTimeoutException"])
def test_an_exception_in_the_stream_fails_it(name: str) -> None:
    exception = aws_message(
        {":exception-type": name, ":message-type": "exception"}, b'{"message":"Slow down."}'
    )
    [exchange] = rows_of(b"".join(map(chunk, EVENTS[:5])) + exception)["exchanges"]
    assert (exchange.status, exchange.error) == ("failed", "Slow down.")


def test_a_chunk_that_has_no_event_is_an_anomaly_and_nothing_else() -> None:
    odd = aws_event("chunk", {"bytes": "AAAA"}) + aws_event("chunk", {"bytes": 5})
    rows = rows_of(odd + STREAM)
    assert {row.kind for row in rows["anomalies"]} == {"malformed", "unknown_type"}
    assert rows["exchanges"][0].status == "completed"


def test_the_path_names_the_model_and_the_answer_does_not() -> None:
    facts = DIALECT.request_facts(
        f"/model/{MODEL}/invoke-with-response-stream", json.dumps(ASKED).encode()
    )
    assert (facts.model, facts.stream, facts.text) == (MODEL, True, "Roll.")
    assert rows_of(STREAM)["exchanges"][0].response_model is None


PROFILE = "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aapplication-inference-profile%2Fabc"


@pytest.mark.parametrize(
    ("model", "body", "api"),
    [
        (MODEL, {}, "bedrock-invoke"),
        (PROFILE, {"anthropic_version": "bedrock-2023-05-31"}, "bedrock-invoke"),
        (PROFILE, {"anthropic_version": "2026-10-21"}, "bedrock-invoke"),
        (PROFILE, {"inputText": "Hi"}, "bedrock-models"),
        ("amazon.titan-text-lite-v1", {"inputText": "Hi"}, "bedrock-models"),
    ],
)
def test_only_what_is_asked_of_anthropics_models_is_of_this_format(
    model: str, body: Any, api: str
) -> None:
    path = f"/model/{model}/invoke-with-response-stream"
    assert by_request("POST", path, [], json.dumps(body).encode()).name == api


# -- what is in the chunks, for those who compare and show them


REPLY = Reply(
    events=tuple(EVENTS),
    encoding=chunk,
    target=f"/model/{MODEL}/invoke-with-response-stream",
    asked=ASKED,
    headers=(("content-type", KIND),),
)


def test_answers_that_differ_in_ids_times_and_padding_are_the_same() -> None:
    other = replaced(replaced(REPLY, "toolu_1", "toolu_2"), "msg_bdrk_1", "msg_bdrk_2")
    other = replaced(other, 'Latency": ', 'Latency": 1')._replace(
        encoding=partial(chunk, padding="x")
    )
    assert differing(REPLY, other) == ()
    assert differing(REPLY, replaced(REPLY, "sides", "faces")) == ("tools",)


def test_the_preview_of_a_chunk_is_that_of_its_event() -> None:
    exchange, events = recorded(REPLY)
    previews = Previews()
    shown = [previews.of(exchange.api, event) for event in events if event.kind == "frame"]
    assert shown[1].startswith('{"type": "content_block_start", "index": 0')
    assert '"Zür"' in shown
