"""`recorder.cassettes.har`: WebSocket connections and their turns to HAR and back."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from typing import Any

import pytest

from recorder.cassettes import Entry
from recorder.cassettes.har.reader import Har
from recorder.cassettes.har.writer import har_lines, losses
from recorder.errors import RecorderError
from recorder.model.events import Recording, WebSocketTurn
from recorder.wire.framing.websocket import encode_frame
from recorder.wire.turns import is_turn
from tests.support.websocket import MASK, Connection, Step, create, needs_transcripts, transcript
from tests.unit.cassettes.test_cassettes import imported, recordings, told

STARTED_S = 1_790_000_000  # 2026-09-21T14:13:20Z
NAMES = [
    "codex-0.169-first",
    "codex-0.169-midclose",
    "codex-0.169-ctrl-c",
    "openai-python-3.54-responses",
]


def recorded(*connections: list[Step]) -> list[Recording]:
    """What the ingester makes of connections."""
    steps = (step for connection in connections for step in connection)
    return recordings(told(Entry(step.mark, step.t_ns, step.payload) for step in steps))


def again(given: list[Recording]) -> list[Recording]:
    """The exchanges, written and read."""
    return recordings(imported(Har(io.BytesIO(b"".join(har_lines(given))))))


def messages(each: Recording) -> list[tuple[int, bytes]]:
    """The messages of an exchange with their wall times, in microseconds."""
    began_ns = each.exchange.started_ns
    found = [(began_ns, each.request_body)] if is_turn(each) else []
    found += [(began_ns + message.t_ns, message.raw) for message in each.sent]
    found += [(began_ns + piece.t_ns, piece.raw) for piece in each.pieces]
    return [(round(at_ns / 1000), raw) for at_ns, raw in found]


def a_connection() -> Connection:
    connection = Connection().client(create("hi")).server(raw=encode_frame("ping", b"p"))
    connection.client(raw=encode_frame("pong", b"p", mask=MASK)).client({"type": "response.cancel"})
    connection.answer("resp_1", "Hel", "lo").server({"type": "codex.rate_limits"})
    return (
        connection.client(create("again", previous_response_id="resp_1"))
        .answer("resp_2", "Yes")
        .close(1000, "bye")
    )


def assert_alike(came: list[Recording], was: list[Recording]) -> None:
    assert [each.exchange.method for each in came] == [each.exchange.method for each in was]
    for one, other in zip(came, was, strict=True):
        for (at_us, raw), (was_us, was_raw) in zip(messages(one), messages(other), strict=True):
            assert raw == was_raw
            assert abs(at_us - was_us) <= 1
        assert one.end is not None
        assert other.end is not None
        assert one.end.status == other.end.status
        assert (one.exchange.api, one.exchange.provider) == (
            other.exchange.api,
            other.exchange.provider,
        )


def test_a_connection_comes_back_with_its_turns() -> None:
    was = recorded(a_connection().steps)
    came = again(was)
    assert [each.exchange.method for each in came] == ["GET", "WEBSOCKET", "WEBSOCKET"]
    assert_alike(came, was)
    places = [each.request.websocket for each in came[1:]]
    assert places == [WebSocketTurn(came[0].exchange.exchange_id, number) for number in (1, 2)]
    assert {each.exchange.session_id for each in came} == {came[0].exchange.session_id}
    assert all(each.end.undecoded is None for each in came if each.end)


@needs_transcripts
@pytest.mark.parametrize("name", NAMES)
def test_real_clients_come_back_as_they_were(name: str) -> None:
    was = recorded(transcript(name))
    assert_alike(again(was), was)


def test_entries_are_those_of_a_browser() -> None:
    document = json.loads(b"".join(har_lines(recorded(a_connection().steps))))
    [entry] = document["log"]["entries"]
    answer = entry["response"]
    assert (entry["request"]["method"], answer["status"], answer["content"]["size"]) == (
        "GET",
        101,
        0,
    )
    first, second, *_ = entry["_webSocketMessages"]
    assert (first["type"], first["opcode"], json.loads(first["data"])["type"]) == (
        "send",
        1,
        "response.create",
    )
    assert (second["type"], json.loads(second["data"])) == ("send", {"type": "response.cancel"})
    times = [each["time"] for each in entry["_webSocketMessages"]]
    assert times == sorted(times)
    assert all(each.keys() == {"type", "time", "opcode", "data"} for each in [first, second])


def test_binary_messages_stay_binary() -> None:
    text, binary = (
        encode_frame("text", b"plain", mask=MASK),
        encode_frame("binary", b"plain", mask=MASK),
    )
    made = (
        Connection("/v1/other")
        .client(raw=text)
        .client(raw=binary)
        .server(raw=encode_frame("binary", b"\xff"))
    )
    was = recorded(made.close().steps)
    [entry] = json.loads(b"".join(har_lines(was)))["log"]["entries"]
    written = [(each["type"], each["opcode"], each["data"]) for each in entry["_webSocketMessages"]]
    in_base64 = b64encode(b"plain").decode()
    assert written == [
        ("send", 1, "plain"),
        ("send", 2, in_base64),
        ("receive", 2, b64encode(b"\xff").decode()),
    ]
    [came] = again(was)
    assert [message.raw for message in came.sent] == [b"plain", b"plain"]
    assert [byte & 15 for _, side, byte, _ in came.frames if side == "client"] == [1, 2]


def test_a_turn_that_the_client_left_is_left_again() -> None:
    connection = (
        Connection()
        .client(create("hi"))
        .server({"type": "response.created", "response": {"id": "r"}})
    )
    was = recorded(connection.end("client_disconnect").steps)
    assert [each.end.status for each in was if each.end][1:] == ["client_disconnect"]
    assert_alike(again(was), was)


def test_a_connection_without_messages_comes_back() -> None:
    [came] = again(recorded(Connection("/feed").close().steps))
    assert (came.exchange.method, came.response and came.response.status) == ("GET", 101)


def test_exchanges_stay_in_the_order_of_the_file() -> None:
    document = json.loads(b"".join(har_lines(recorded(a_connection().steps))))
    [entry] = document["log"]["entries"]
    twice = {"log": {**document["log"], "entries": [entry, entry]}}
    came = recordings(imported(Har(io.BytesIO(json.dumps(twice).encode()))))
    assert [each.exchange.method for each in came] == 2 * ["GET", "WEBSOCKET", "WEBSOCKET"]


def test_losses_are_named() -> None:
    was = recorded(a_connection().steps)
    [lost] = losses(was)
    assert lost.startswith(
        "Exchange 1 loses 4 control frames and the shapes of 19 frames: HAR has only the messages"
    )
    alone = [was[1]]
    assert list(losses(alone)) == [
        "Exchange 2 is a turn without its WebSocket connection: it is written as a POST."
    ]
    [entry] = json.loads(b"".join(har_lines(alone)))["log"]["entries"]
    assert (entry["request"]["method"], entry["response"]["status"]) == ("POST", 200)


# -- what browsers write


def of_chrome(*messages: dict[str, Any], **given: Any) -> bytes:
    """A HAR as DevTools save it: without the headers that the network stack adds."""
    request = {
        "method": "GET",
        "url": "wss://api.openai.com/v1/responses?key=s3cret",
        "headers": [],
    }
    entry = {
        "startedDateTime": "2026-09-21T14:13:20.000Z",
        "time": 3000,
        "timings": {"blocked": -1, "send": 0, "wait": 100, "receive": 0},
        "_resourceType": "websocket",
        "_webSocketMessages": messages,
        "request": request,
        "response": {"status": 101, "statusText": "Switching Protocols", "headers": []},
    }
    return json.dumps({"log": {"version": "1.2", "entries": [entry | given]}}).encode()


def test_devtools_have_no_headers_of_the_upgrade() -> None:
    sent = {"type": "send", "time": STARTED_S + 0.5, "opcode": 1, "data": json.dumps(create("hi"))}
    created = {"type": "response.created", "response": {"id": "resp_1"}}
    came = {"type": "receive", "time": STARTED_S + 1.25, "opcode": 1, "data": json.dumps(created)}
    connection, turn = recordings(imported(Har(io.BytesIO(of_chrome(sent, came)))))
    assert (connection.exchange.target, turn.exchange.method) == (
        "/v1/responses?key=REDACTED",
        "WEBSOCKET",
    )
    assert turn.exchange.started_ns == (STARTED_S * 10 + 5) * 10**8
    assert [(piece.t_ns, json.loads(piece.raw)) for piece in turn.pieces] == [
        (750_000_000, created)
    ]
    assert turn.end is not None
    assert turn.end.status == "truncated"


def test_messages_are_read_without_the_compression_that_they_had() -> None:
    sent = {"type": "send", "time": STARTED_S + 0.5, "opcode": 1, "data": json.dumps(create("hi"))}
    headers = [{"name": "Sec-WebSocket-Extensions", "value": "x-webkit-deflate-frame"}]
    response = {"status": 101, "statusText": "Switching Protocols", "headers": headers}
    connection, turn = recordings(imported(Har(io.BytesIO(of_chrome(sent, response=response)))))
    assert connection.end is not None
    assert (connection.end.undecoded, json.loads(turn.request_body)) == (None, create("hi"))


def test_an_error_ends_the_connection() -> None:
    sent = {"type": "send", "time": STARTED_S + 0.5, "opcode": 1, "data": json.dumps(create("hi"))}
    broken = {"type": "error", "time": STARTED_S + 1, "opcode": -1, "data": "Invalid frame header"}
    _, turn = recordings(imported(Har(io.BytesIO(of_chrome(sent, broken)))))
    assert turn.end is not None
    assert (turn.end.outcome, turn.end.error) == ("upstream_reset", "Invalid frame header")


def test_secrets_of_messages_do_not_come_along() -> None:
    key = "sk-proj-0123456789abcdefghijABCDEFGHIJ"
    sent = {"type": "send", "time": STARTED_S, "opcode": 1, "data": json.dumps(create(key))}
    made = imported(Har(io.BytesIO(of_chrome(sent))))
    assert not any(key.encode() in event.raw for event in made.events)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            {"type": "send", "opcode": 2, "data": "!"},
            "the data of a message over WebSocket cannot be read",
        ),
        ({"type": "shout", "data": "x"}, "Invalid enum value 'shout'"),
        ({"type": "send", "opcode": "1"}, "Expected `int`, got `str`"),
    ],
)
def test_bad_messages_are_refused_in_one_sentence(message: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecorderError, match=f"^it is not a HAR 1.2: .*{reason}"):
        Har(io.BytesIO(of_chrome(message)))
