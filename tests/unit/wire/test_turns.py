"""A turn over WebSocket and the same turn over HTTP: the conversions."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.cassettes.har.writer import har_lines
from recorder.cassettes.vcr.writer import inexpressible, interaction
from recorder.model.events import CloseRecord, SentMessage
from recorder.wire.framing.sse import parse
from recorder.wire.turns import (
    as_block,
    as_http,
    as_post,
    as_sse,
    error_message,
    is_connection,
    is_prewarm,
    is_turn,
    payload_of,
    prewarm_answer,
    with_stream_id,
)
from tests.support.tables import table
from tests.support.websocket import answer, connection, message, turn

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.text(), JSON), st.sampled_from([None, 2]))
def test_a_payload_comes_back_from_its_block(fields: dict[str, Any], indent: int | None) -> None:
    payload = json.dumps(fields, indent=indent).encode()
    assert payload_of(as_block(payload)) == payload


@table("type", ["a.b", "", "a\nb", 7, None])
def test_the_type_of_a_message_is_the_name_of_its_event(type: object) -> None:
    named = parse(as_block(json.dumps({"type": type}).encode())).event
    assert named == (b"a.b" if type == "a.b" else b"" if type == "" else None)


@pytest.mark.parametrize("block", [b": ping\n\n", b"data: [DONE]\n\n", b"event: a\n\n", b"\n"])
def test_what_only_a_stream_has_is_no_message(block: bytes) -> None:
    assert payload_of(block) is None


@pytest.mark.parametrize(
    ("message", "post"),
    [
        (
            {"type": "response.create", "model": "m", "stream_id": "a"},
            {"model": "m", "stream": True},
        ),
        ({"type": "response.create", "generate": True}, {"stream": True}),
        ({"type": "response.create", "generate": False}, {"generate": False, "stream": True}),
        ({"type": "other", "stream": False}, {"type": "other", "stream": True}),
    ],
)
def test_a_message_requests_what_a_post_does(message: dict[str, Any], post: dict[str, Any]) -> None:
    assert json.loads(as_post(json.dumps(message).encode())) == post
    assert as_post(as_post(json.dumps(post).encode())) == as_post(json.dumps(post).encode())


def test_what_is_no_json_object_stays_as_it_is() -> None:
    assert as_post(b"hello") == b"hello"
    assert with_stream_id(b"hello", "a") == b"hello"


def test_half_an_emoji_survives() -> None:
    assert json.loads(as_post(b'{"input":"\\ud83d"}'))["input"] == "\ud83d"


def test_a_turn_is_a_stream() -> None:
    recorded = turn({"model": "m"}, *answer("resp_1"))
    assert (is_turn(recorded), is_connection(recorded), is_connection(connection())) == (
        True,
        False,
        True,
    )
    stream = as_sse(recorded)
    assert stream.response is not None
    expected = (200, {"openai-model": "m-1", "content-type": "text/event-stream"})
    assert (stream.response.status, dict(stream.headers)) == expected
    assert [payload_of(piece.raw) for piece in stream.pieces] == answer("resp_1")
    assert [piece.t_ns for piece in stream.pieces] == [piece.t_ns for piece in recorded.pieces]


def test_an_error_that_came_later_is_an_event() -> None:
    recorded = turn({"model": "m"}, answer("resp_1")[0], message("error", status=500, error={}))
    stream = as_sse(recorded)
    assert stream.response is not None
    assert stream.response.status == 200
    assert stream.pieces[-1].raw.startswith(b"event: error\n")


@table("status", [200, 302, 700, "429", None])
def test_an_error_without_a_status_of_one_is_an_event(status: object) -> None:
    stream = as_sse(turn({"model": "m"}, message("error", status=status, error={})))
    assert stream.response is not None
    assert stream.response.status == 200


def test_a_turn_without_an_answer_has_none() -> None:
    recorded = turn({"model": "m"}, outcome="truncated")
    assert as_sse(recorded) is recorded


@pytest.mark.parametrize("body", [b'{"error":{"message":"no"}}', b'{"message":"no"}'])
def test_an_error_over_http_is_a_message(body: bytes) -> None:
    assert json.loads(error_message(429, body)) == {
        "type": "error",
        "status": 429,
        "error": {"message": "no"},
    }


def test_an_error_that_is_no_json_is_a_message() -> None:
    assert json.loads(error_message(502, b"Bad Gateway"))["error"] == {"message": "Bad Gateway"}


def test_the_answer_to_a_prewarm_is_the_same_each_time() -> None:
    assert is_prewarm("/v1/responses", b'{"generate":false}')
    assert not is_prewarm("/v1/responses", b'{"generate":true}')
    assert not is_prewarm("/v1/messages", b'{"generate":false}')
    created, completed = map(json.loads, prewarm_answer(b'{"model":"m","generate":false}'))
    assert (created["response"]["id"], created["response"]["model"]) == (
        completed["response"]["id"],
        "m",
    )
    assert prewarm_answer(b"{}") == prewarm_answer(b"{}") != prewarm_answer(b"{ }")


def test_har_has_a_turn_as_a_post_and_other_messages_with_their_connection() -> None:
    realtime = connection((2, "server", b"{}"), (5, "client", b"\xff"), target="/v1/realtime")
    sent = msgspec.structs.replace(realtime, sent=(SentMessage(5_000_000, b"\xff"),))
    log = json.loads(b"".join(har_lines([turn({"model": "m"}, *answer("resp_1")), sent])))["log"]
    post, switched = log["entries"]
    assert (post["request"]["method"], post["response"]["status"]) == ("POST", 200)
    assert json.loads(post["request"]["postData"]["text"]) == {"model": "m", "stream": True}
    assert [each["data"].encode() for each in post["_eventSourceMessages"]] == answer("resp_1")
    assert [
        (each["type"], each["opcode"], each["data"]) for each in switched["_webSocketMessages"]
    ] == [
        ("receive", 1, "{}"),
        ("send", 2, "/w=="),
    ]
    assert switched["response"]["content"]["size"] == 0


def test_vcr_has_a_turn_as_a_post() -> None:
    written = interaction(turn({"model": "m"}, *answer("resp_1"))).decode()
    assert "method: POST" in written
    assert "event: response.completed" in written
    assert inexpressible(connection(close=CloseRecord("client", 1000))) is not None
    assert as_http(connection()).request.method == "GET"
