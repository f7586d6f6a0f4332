"""What the chunks of models on Bedrock mean, each as its company gives them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.projections.fold import Rows
from recorder.wire.dialects.bedrock_models import DIALECT
from tests.support.aws_messages import aws_message
from tests.support.bedrock import KIND, aws_client, bedrock, chunk
from tests.support.facts import captured, folded

Json = dict[str, Any]

METRICS = {
    "amazon-bedrock-invocationMetrics": {
        "inputTokenCount": 12,
        "outputTokenCount": 8,
        "invocationLatency": 9,
    }
}


class Model(NamedTuple):
    """The answer "Zürich ✓" of a model: its chunks, its document, and why it ended."""

    chunks: Sequence[Json]
    document: Json
    reason: str
    has_counts: bool = True  # in the document


def completion(*deltas: Json, **more: Any) -> list[Json]:
    chunks = [
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
        for delta in deltas
    ]
    last: Json = {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
    }
    return [*chunks, {**last, **more}]


TITAN = {"outputText": "", "index": 0, "completionReason": None, "inputTextTokenCount": None}
LLAMA = {"prompt_token_count": None, "stop_reason": None}
NOVA_USAGE = {
    "usage": {"inputTokens": 12, "outputTokens": 8, "totalTokens": 20},
    "metrics": {},
    "trace": {},
}
SAID = {"role": "assistant", "content": "Zürich ✓"}

MODELS = {
    "titan": Model(
        [
            {**TITAN, "outputText": "Zür", "inputTextTokenCount": 12},
            {
                **TITAN,
                "outputText": "ich ✓",
                "completionReason": "FINISH",
                "totalOutputTextTokenCount": 8,
            },
        ],
        {
            "inputTextTokenCount": 12,
            "results": [{"tokenCount": 8, "outputText": "Zürich ✓", "completionReason": "FINISH"}],
        },
        "FINISH",
    ),
    "llama": Model(
        [
            {**LLAMA, "generation": "Zür", "prompt_token_count": 12, "generation_token_count": 1},
            {**LLAMA, "generation": "ich ✓", "generation_token_count": 8, "stop_reason": "length"},
        ],
        {
            "generation": "Zürich ✓",
            "prompt_token_count": 12,
            "generation_token_count": 8,
            "stop_reason": "length",
        },
        "length",
    ),
    "mistral": Model(
        [
            {"outputs": [{"text": "Zürich", "stop_reason": None}]},
            {"outputs": [{"text": " ✓", "stop_reason": "stop"}], **METRICS},
        ],
        {"outputs": [{"text": "Zürich ✓", "stop_reason": "stop"}]},
        "stop",
        has_counts=False,
    ),
    "mistral chat": Model(
        [
            {
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "Zürich"},
                        "stop_reason": None,
                    }
                ]
            },
            {
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": " ✓"},
                        "stop_reason": "stop",
                    }
                ]
            },
            {"choices": [], **METRICS},
        ],
        {"choices": [{"index": 0, "message": SAID, "stop_reason": "stop"}]},
        "stop",
        has_counts=False,
    ),
    "cohere": Model(
        [
            {"is_finished": False, "event_type": "text-generation", "text": "Zürich"},
            {"is_finished": False, "event_type": "text-generation", "text": " ✓"},
            {
                "is_finished": True,
                "event_type": "stream-end",
                "finish_reason": "COMPLETE",
                "response": {"text": "Zürich ✓"},
                **METRICS,
            },
        ],
        {"response_id": "r", "text": "Zürich ✓", "generation_id": "g", "finish_reason": "COMPLETE"},
        "COMPLETE",
        has_counts=False,
    ),
    "deepseek": Model(
        [
            {"choices": [{"text": "Zürich", "stop_reason": None}]},
            {"choices": [{"text": " ✓", "stop_reason": "stop"}], **METRICS},
        ],
        {"choices": [{"text": "Zürich ✓", "stop_reason": "stop"}]},
        "stop",
        has_counts=False,
    ),
    "gpt-oss": Model(
        completion({"role": "assistant", "content": "Zürich"}, {"content": " ✓"}, **METRICS),
        {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": SAID, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 8, "total_tokens": 20},
        },
        "stop",
    ),
    "nova": Model(
        [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockDelta": {"delta": {"text": "Zürich"}, "contentBlockIndex": 0}},
            {"contentBlockDelta": {"delta": {"text": " ✓"}, "contentBlockIndex": 0}},
            {"contentBlockStop": {"contentBlockIndex": 0}},
            {"messageStop": {"stopReason": "end_turn"}},
            {"metadata": NOVA_USAGE, **METRICS},
        ],
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "Zürich ✓"}]}},
            "stopReason": "end_turn",
            **NOVA_USAGE,
        },
        "end_turn",
    ),
}


def rows_of(body: bytes, kind: str = KIND, **how: Any) -> Rows:
    return folded(*captured(body, "bedrock-models", content_type=kind, **how))


def stream(model: Model) -> bytes:
    return b"".join(map(chunk, model.chunks))


def assert_all(rows: Rows, reason: str, counts: tuple[int | None, int | None] = (12, 8)) -> None:
    [exchange], [message] = rows["exchanges"], rows["items"]
    assert (message.text, exchange.finish_reason, exchange.status) == (
        "Zürich ✓",
        reason,
        "completed",
    )
    assert [(used.input_tokens, used.output_tokens) for used in rows["usage"]] == [counts]
    assert rows["anomalies"] == []


@pytest.mark.parametrize("name", MODELS)
def test_a_stream_has_text_tokens_and_its_end(name: str) -> None:
    assert_all(rows_of(stream(MODELS[name])), MODELS[name].reason)


@pytest.mark.parametrize("name", MODELS)
def test_a_document_says_the_same(name: str) -> None:
    model = MODELS[name]
    rows = rows_of(json.dumps(model.document).encode(), "application/json")
    assert_all(rows, model.reason, (12, 8) if model.has_counts else (None, None))


@given(st.data(), st.sampled_from([*MODELS]))
def test_it_is_the_same_however_the_bytes_come(data: st.DataObject, name: str) -> None:
    body = stream(MODELS[name])
    cuts = data.draw(st.sets(st.integers(1, len(body) - 1)))
    assert_all(rows_of(body, cuts=sorted(cuts)), MODELS[name].reason)


@pytest.mark.parametrize("name", MODELS)
def test_the_client_of_aws_reads_the_same_chunks(name: str) -> None:
    with bedrock(stream(MODELS[name])) as url, aws_client(url) as client:
        answer = client.invoke_model_with_response_stream(modelId="m", body="{}")
        assert [json.loads(event["chunk"]["bytes"]) for event in answer["body"]] == MODELS[
            name
        ].chunks


def test_a_call_of_nova_has_its_arguments() -> None:
    call = {"toolUse": {"toolUseId": "t", "name": "roll"}}
    chunks: list[Json] = [
        {"contentBlockStart": {"start": call, "contentBlockIndex": 0}},
        {
            "contentBlockDelta": {
                "delta": {"toolUse": {"input": '{"sides":6}'}},
                "contentBlockIndex": 0,
            }
        },
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "tool_use"}},
    ]
    rows = rows_of(b"".join(map(chunk, chunks)))
    [item] = rows["items"]
    assert (item.name, item.call_id, json.loads(item.arguments)) == ("roll", "t", {"sides": 6})


def test_what_nobody_here_knows_is_an_anomaly() -> None:
    calls = {
        "event_type": "tool-calls-generation",
        "tool_calls": [{"name": "roll", "parameters": {"sides": "six"}}],
    }
    [anomaly] = rows_of(chunk(calls) + stream(MODELS["cohere"]))["anomalies"]
    assert anomaly.kind == "unread"


def test_an_exception_in_the_stream_fails_it() -> None:
    head = {":exception-type": "modelTimeoutException", ":message-type": "exception"}
    [exchange] = rows_of(stream(MODELS["llama"]) + aws_message(head, b'{"message":"Slow."}'))[
        "exchanges"
    ]
    assert (exchange.status, exchange.error) == ("failed", "Slow.")


def test_an_error_in_place_of_an_answer_is_one() -> None:
    [exchange] = rows_of(b'{"message":"No."}', "application/json", status=400)["exchanges"]
    assert exchange.error == "No."


@pytest.mark.parametrize(
    "asked",
    [
        {"inputText": "Roll."},
        {"prompt": "Roll."},
        {"message": "Roll."},
        {"messages": [{"role": "user", "content": "Roll."}]},
        {"messages": [{"role": "user", "content": [{"text": "Roll."}]}]},
    ],
)
def test_a_request_says_what_was_asked_of_which_model(asked: Json) -> None:
    facts = DIALECT.request_facts(
        "/model/amazon.nova-lite-v1%3A0/invoke", json.dumps(asked).encode()
    )
    assert (facts.model, facts.stream, facts.text) == ("amazon.nova-lite-v1:0", False, "Roll.")
