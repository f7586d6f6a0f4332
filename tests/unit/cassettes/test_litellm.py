"""`recorder.cassettes.litellm`: what LiteLLM logged, as exchanges."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from recorder.cassettes.content import formats
from recorder.cassettes.litellm import LiteLlm
from recorder.errors import RecorderError
from recorder.model.events import Recording
from tests.support.corpus import DATA
from tests.support.tables import table
from tests.unit.cassettes.test_cassettes import imported, recordings

PATH = DATA / "cassettes" / "litellm.jsonl"
LINES = PATH.read_bytes().splitlines()
LEAST = {"call_type": "acompletion", "startTime": 1.5, "endTime": 3.25}


def read(data: bytes) -> list[Recording]:
    return recordings(imported(LiteLlm(io.BytesIO(data))))


def one(**given: Any) -> Recording:
    [each] = read(json.dumps(LEAST | given).encode())
    return each


def body(each: Recording) -> Any:
    return json.loads(b"".join(piece.raw for piece in each.pieces))


def test_each_call_becomes_an_exchange_in_the_form_that_was_logged() -> None:
    read_back = read(PATH.read_bytes())
    chat, responses = "/v1/chat/completions", "/v1/responses"
    assert [each.request.target for each in read_back] == [
        *[chat] * 6,
        *[responses] * 2,
        *[chat] * 2,
    ]
    claude = {3, 8, 9}
    providers = [each.exchange.provider for each in read_back]
    assert providers == ["anthropic" if at in claude else "openai" for at in range(10)]
    logged = [json.loads(line) for line in LINES]
    for each, payload in zip(
        read_back, sorted(logged, key=lambda payload: payload["startTime"]), strict=True
    ):
        assert each.exchange.started_ns // 1000 == round(payload["startTime"] * 1e6)
        assert abs(each.end_ns - (payload["endTime"] - payload["startTime"]) * 1e9) < 2_000
        if payload["status"] == "success" and each.request.target == chat:
            assert body(each) == payload["response"]


def test_an_answer_that_was_not_logged_is_a_gap() -> None:
    logged, missing = one(response={"choices": []}), one()
    assert [each.end is not None and each.end.lossless for each in (logged, missing)] == [
        True,
        False,
    ]


def test_the_request_says_what_was_logged_and_asks_for_no_stream_that_is_not_there() -> None:
    tools = json.loads(read(LINES[2])[0].request_body)
    assert tools == {
        "model": "gpt-5-mini",
        "messages": json.loads(LINES[2])["messages"],
        "tools": json.loads(LINES[2])["model_parameters"]["tools"],
    }
    answer = next(
        line for line in LINES if json.loads(line)["model_parameters"].get("instructions")
    )
    assert json.loads(read(answer)[0].request_body) == {
        "model": "gpt-5-mini",
        "input": [{"role": "user", "content": "Hi"}],
        "instructions": "Be brief.",
    }


def test_credentials_among_the_parameters_are_not_in_the_body() -> None:
    given = {
        "temperature": 1,
        "api_key": "sk-1",
        "headers": {"a": "b"},
        "extra_headers": {"authorization": "Bearer 1"},
    }
    assert json.loads(one(model="m", model_parameters=given).request_body) == {
        "model": "m",
        "temperature": 1,
    }


def test_a_failed_call_is_an_answer_with_its_status_or_none() -> None:
    refused = next(
        each for each in read(PATH.read_bytes()) if each.response and each.response.status == 429
    )
    assert body(refused)["error"]["message"].startswith("litellm.RateLimitError: ")
    unknown = one(status="failure", error_str="no route")
    assert unknown.response is None
    assert unknown.end is not None
    assert (unknown.end.outcome, unknown.end.error) == ("upstream_unreachable", "no route")


def test_the_head_comes_with_the_first_token_and_the_document_at_the_end() -> None:
    each = one(completionStartTime=2.0, response={"object": "chat.completion"})
    [head] = [event.t_ns for event in each.events if event.kind == "response"]
    assert (head, [piece.t_ns for piece in each.pieces]) == (500_000_000, [1_750_000_000])


@pytest.mark.parametrize(
    "opening",
    [
        LINES[0],
        json.dumps(json.loads(LINES[0]), indent=2).encode(),
        b"[" + LINES[0] + b"," + LINES[1] + b"]",
        PATH.read_bytes(),
    ],
)
def test_a_log_is_known_by_its_beginning_as_object_array_and_lines(opening: bytes) -> None:
    assert formats(opening) == ("litellm",)
    assert len(read(opening)) in (1, 2, 10)


def test_calls_of_other_kinds_are_passed_over() -> None:
    other = json.dumps(LEAST | {"call_type": "aembedding"}).encode()
    assert len(read(other + b"\n" + LINES[0])) == 1
    with pytest.raises(
        RecorderError, match="there is no call of chat completions, messages or responses in it"
    ):
        read(other)


@table(
    ("data", "reason"),
    [
        (b"{", "it is not a payload of LiteLLM: Input data was truncated"),
        (b'{\n  "call_type": "acompletion"\n}\n', "it is not a payload of LiteLLM: .*`startTime`"),
        (LINES[0] + b"\n\n{\n", "line 3 is not a payload of LiteLLM: Input data was truncated"),
        (
            LINES[0] + b'\n{"call_type": "acompletion"}',
            "line 2 is not a payload of LiteLLM: .*`startTime`",
        ),
        (
            b"[" + LINES[0] + b", 7]",
            "payload 2 is not a payload of LiteLLM: Expected `object`, got `int`",
        ),
        (b"[" + LINES[0], "it is not an array of payloads of LiteLLM: Input data was truncated"),
        (b'{"call_type":' + b"[" * 10**6, "it is not a payload of LiteLLM"),
    ],
)
def test_what_is_no_log_is_refused_in_one_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(RecorderError, match=reason):
        LiteLlm(io.BytesIO(data))
