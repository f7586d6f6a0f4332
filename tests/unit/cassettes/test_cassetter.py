"""`recorder.cassettes.cassetter`: cassettes that cassetter wrote, as exchanges."""

from __future__ import annotations

import io
import json

import pytest

from recorder.cassettes.cassetter import KEY_PARTS, TOML_LIMIT, Cassetter
from recorder.cassettes.content import formats
from recorder.errors import RecorderError
from recorder.model.events import Recording
from tests.support.corpus import DATA
from tests.support.tables import table
from tests.unit.cassettes.test_cassettes import imported, recordings

FILES = DATA / "cassettes"
WRITTEN = (FILES / "cassetter.yaml").read_bytes()
OPENING = (
    b"version: 1\ninteractions:\n- request:\n    method: POST\n    uri: "
    b"https://api.openai.com/v1/chat/completions\n"
)
CLOSING = b"  recorded_at: 2026-11-23T19:27:17.869584+00:00\n"
RESPONSE = b"  response:\n    status: 200\n    headers: {}\n    body:\n      type: none\n"
SOCKET = b"version: 1\nws_interactions:\n- uri: wss://x.test/a\n"


def read(data: bytes) -> list[Recording]:
    return recordings(imported(Cassetter(io.BytesIO(data))))


def body(each: Recording) -> bytes:
    return b"".join(piece.raw for piece in each.pieces)


def asked(content: bytes) -> bytes:
    """The request body of a cassette with this YAML as its JSON."""
    written = b"    headers: {}\n    body:\n      type: json\n      content:\n" + content
    return read(OPENING + written + RESPONSE + CLOSING)[0].request_body


@pytest.mark.parametrize("name", ["cassetter.yaml", "cassetter.toml"])
def test_what_cassetter_wrote_becomes_exchanges_in_the_order_of_their_times(name: str) -> None:
    data = (FILES / name).read_bytes()
    assert formats(data) == ("cassetter",)
    stream, document, refused, gemini, models = read(data)
    chat = ("POST", "/v1/chat/completions")
    assert [(each.request.method, each.request.target) for each in (stream, document, refused)] == [
        chat
    ] * 3
    assert (
        gemini.request.target
        == "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse&key=REDACTED"
    )
    expected = [200, 200, 429, 200]
    assert [
        each.response.status for each in (stream, document, refused, models) if each.response
    ] == expected
    question = json.loads(stream.request_body)
    assert question["messages"] == [
        {"role": "user", "content": "Wie ist das weather in Zürich? 😀"}
    ]
    assert (question["temperature"], question["stream"]) == (0.5, True)
    assert body(stream).endswith(b"\n\ndata: [DONE]\n\n")
    assert len(stream.pieces) == body(stream).count(b"data: ") > 10
    assert body(gemini).count(b"\r\n\r\n") == len(gemini.pieces)
    assert json.loads(body(document))["usage"]["prompt_tokens"] > 0
    assert {
        each.end.lossless for each in (stream, document, refused, gemini, models) if each.end
    } == {True}


def test_an_exchange_ends_when_its_response_had_arrived() -> None:
    stream = read(WRITTEN)[0]
    # the first is that of the models
    written = WRITTEN.decode().split("recorded_at: ")[2].split("\n")[0]
    ended_us = (stream.exchange.started_ns + stream.end_ns) // 1000
    assert str(ended_us % 10**6).zfill(6) == written[20:26]
    assert [piece.t_ns // 10**6 for piece in stream.pieces][:2] == [10, 20]


def test_yaml_and_toml_say_the_same_but_for_ids_and_texts_of_the_model() -> None:
    of_yaml, of_toml = (read((FILES / f"cassetter.{end}").read_bytes()) for end in ("yaml", "toml"))
    assert [each.request_body for each in of_yaml] == [each.request_body for each in of_toml]
    wires = [
        next(value for name, value in each.request.headers if name == "host") for each in of_yaml
    ]
    assert set(wires) == {"127.0.0.1:8917"}


def test_a_value_of_json_keeps_its_type() -> None:
    content = (
        b'        a: 1.0\n        b: 1.0e-7\n        c: "1"\n        d: "true"\n        '
        b"e: null\n        f: true\n"
    )
    content += b"        g: -3\n        h: 2020-10-01\n        i: yes\n        j: 0x1f\n        k: []\n        l: {}\n"
    assert asked(content) == (
        b'{"a":1.0,"b":1e-7,"c":"1","d":"true","e":null,"f":true,"g":-3,"h":"2020-10-01","i":"yes","j":"0x1f",'
        b'"k":[],"l":{}}'
    )


def test_bytes_that_are_no_text_are_read_from_hexadecimal() -> None:
    stored = b"  response:\n    status: 200\n    body:\n      type: binary\n      content: 646174613a20fffe0a0a\n"
    [each] = read(OPENING + stored + CLOSING)
    assert body(each) == b"data: \xff\xfe\n\n"


def test_messages_over_websocket_become_a_connection_and_its_turns() -> None:
    data = (FILES / "cassetter-websocket.yaml").read_bytes()
    assert formats(data) == ("cassetter",)
    connection, first, second = read(data)
    assert (connection.request.method, connection.request.target) == ("GET", "/v1/responses")
    assert [each.request.method for each in (first, second)] == ["WEBSOCKET"] * 2
    assert [json.loads(each.request_body)["input"] for each in (first, second)] == [
        "weather",
        "weather again",
    ]
    offsets = [
        int(line.split(b": ")[1])
        for line in data.splitlines()
        if line.startswith(b"    offset_ms: ")
    ]
    times = {
        first.exchange.started_ns - connection.exchange.started_ns + piece.t_ns
        for piece in first.pieces
    }
    assert times <= {ms * 10**6 for ms in offsets}
    assert len(first.pieces) + len(second.pieces) + 2 == len(offsets)


def test_no_secret_comes_along() -> None:
    headers = (
        b"    headers:\n      authorization:\n      - Bearer s3cret\n    body:\n      type: none\n"
    )
    batch = imported(Cassetter(io.BytesIO(OPENING + headers + RESPONSE + CLOSING)))
    assert not any(b"s3cret" in event.raw for event in batch.events)
    assert not any(
        b"key-of-mine" in event.raw for event in imported(Cassetter(io.BytesIO(WRITTEN))).events
    )


@table(
    ("data", "reason"),
    [
        (b"version: 1\ninteractions: [\n", "it is not a cassette of cassetter: line 3"),
        (
            b"version = 1\n[[interactions]]\na = \n",
            r"it is not a cassette of cassetter: Invalid value \(at line 3",
        ),
        (
            b"version = 1\nx." + b"a." * KEY_PARTS + b"b = 1\n",
            f"line 2: a key has over {KEY_PARTS} parts",
        ),
        (b"version = 1\n#" + b"x" * TOML_LIMIT, "over 16 MiB, too much for TOML: save it as YAML"),
        (b"version: 2\ninteractions: []\n", "version 2 of cassetter cassettes is not known here"),
        (b"version: 1\ninteractions: []\n", "there is no interaction over HTTP or WebSocket in it"),
        (
            b"version: 1\ngrpc_interactions: [{}]\n",
            "there is no interaction over HTTP or WebSocket in it",
        ),
        (
            OPENING + RESPONSE + b"  recorded_at: now\n",
            "interaction 1 is none of a cassetter cassette: now is not an in",
        ),
        (OPENING + CLOSING, "interaction 1 is none of a cassetter cassette: .*`response`"),
        (
            OPENING + RESPONSE.replace(b"none", b"texts") + CLOSING,
            "interaction 1 .*Invalid enum value 'texts'",
        ),
        (
            OPENING + RESPONSE.replace(b"none", b"text") + CLOSING,
            "interaction 1 .*body of type text is a text, not None",
        ),
        (
            OPENING + RESPONSE.replace(b"none", b"binary\n      content: x") + CLOSING,
            "interaction 1 .*non-hexadecimal",
        ),
        (
            OPENING.replace(b"https://", b"http://[") + RESPONSE + CLOSING,
            "interaction 1 .*Invalid IPv6",
        ),
        (
            OPENING.replace(b"https://api", b'"\\0"') + RESPONSE + CLOSING,
            "it is not a cassette of cassetter: line",
        ),
        (
            SOCKET + CLOSING + b"  frames: [{}]\n",
            "WebSocket interaction 1 is none of a cassetter cassette: .*direction",
        ),
    ],
)
def test_what_is_no_cassette_is_refused_in_one_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(RecorderError, match=reason):
        Cassetter(io.BytesIO(data))


FRAME = b"  frames:\n  - direction: send\n    frame_type: text\n"
FRAME += b"    body:\n      type: text\n      content: a\n    offset_ms: 7\n"
TOML = b'version = 1\n[[interactions]]\nrecorded_at = "2026-11-23T19:27:30+00:00"\n'
TOML += b'[interactions.request]\nmethod = "GET"\nuri = "http://x.test/v1"\n'
TOML += b'[interactions.response]\nstatus = 200\nbody_type = "json"\nbody_content = \'{"a":1}\'\n'
