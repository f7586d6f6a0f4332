"""`recorder.cassettes.vcr.reader*`: cassettes of VCR, as exchanges, and exchanges as cassettes of
VCR.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from recorder.cassettes import Entry
from recorder.cassettes.content import formats
from recorder.cassettes.vcr.reader import Vcr
from recorder.cassettes.vcr.writer import CLOSING, OPENING, inexpressible, interaction
from recorder.cassettes.vcr.yaml_values import (
    DEPTH_LIMIT,
    VALUES_LIMIT,
    YAML_LIMIT,
    as_bytes,
    as_text,
    read_yaml,
)
from recorder.errors import RecorderError
from recorder.ingest.pending import Batch
from recorder.model.events import BODY_KINDS, Header, Recording
from recorder.wire.redaction.headers import redact_headers as redacted
from tests.support.rows import START_NS
from tests.support.tables import table
from tests.unit.cassettes.test_cassettes import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    body,
    imported,
    recordings,
    told,
)
from tests.unit.cassettes.test_sse_jsonl import STREAM, taped

# As vcrpy 9.4.2 wrote it of httpx 0.28.1.
WRITTEN = rb"""interactions:
- request:
    body: "{\"stream\":true,\"input\":\"\xFC\\n\"}"
    headers:
      accept:
      - '*/*'
      accept-encoding:
      - identity
      authorization:
      - Bearer s3cret
      content-length:
      - '30'
      host:
      - 127.0.0.1:8765
    method: POST
    uri: http://127.0.0.1:8765/v1/responses
  response:
    body:
      string: "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0}\n\nevent:
        response.completed\ndata: {\"type\":\"response.completed\",\"t\":\"Gr\xFC\xDFe
        \U0001F600\"}\n\n"
    headers:
      content-length:
      - '161'
      content-type:
      - text/event-stream; charset=utf-8
      set-cookie:
      - a=1
      - b=2
      x-request-id:
      - req_1
    status:
      code: 200
      message: OK
- request:
    body: null
    headers: {}
    method: POST
    uri: https://user:s3cret@api.example/v1/chat/completions?key=s3cret
  response:
    body:
      string: !!binary |
        H4sIAAAAAAACAx3MMQrDMAwF0N2nKH82IbPmFjo1BwgZHFkQt6kUiAIF47s37fqGl5MnulTY/BR2
        EHhJ3rG9t1W8mHa8HPpCPN0Kyw4aK4pm+YD6iCyrJ1AFm7roL7gXtDa1EPK/Hq/D4zaF8AV4tbV0
        aQAAAA==
    headers:
      content-encoding:
      - gzip
      content-length:
      - '118'
      content-type:
      - text/event-stream; charset=utf-8
    status:
      code: 200
      message: OK
version: 1
"""
BODIES = [
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n'
    b'event: response.completed\ndata: {"type":"response.completed","t":"Gr\xc3\xbc\xc3\x9fe \xf0\x9f\x98\x80"}\n\n',
    b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\ndata: [DONE]\n\n',
]
TARGETS = {
    "/v1/responses": RESPONSES,
    "/v1/chat/completions": CHAT,
    "/v1/messages": ANTHROPIC,
    "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse": GEMINI,
}
PIECES = [
    b"data: ",
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"\t",
    b"x",
    b"'",
    b'"',
    b"\\",
    b"\xff",
    b"#",
    b"- a",
    b"...",
    b"%",
]
UNSEEN = [char.encode() for char in "\0\x1b\x7f\x85\u2028\u202e\ufeff\uffff\u00a0ü😀"]


def call(**given: Any) -> dict[str, Any]:
    """An interaction, as values."""
    request = {
        "method": "POST",
        "uri": "https://api.openai.com/v1/responses",
        "headers": {},
        "body": "",
    }
    response = {
        "status": {"code": 200, "message": "OK"},
        "headers": {},
        "body": {"string": "data: 1\n\n"},
    }
    return {
        "request": request | given.get("request", {}),
        "response": response | given.get("response", {}),
    }


def document(*calls: Any, **given: Any) -> bytes:
    return yaml.safe_dump({"interactions": list(calls), "version": 1} | given).encode()


def read(data: bytes) -> Batch:
    return imported(Vcr(io.BytesIO(data)))


def bodies(batch: Batch) -> list[bytes]:
    return [b"".join(piece.raw for piece in each.pieces) for each in recordings(batch)]


def written(recordings: Sequence[Recording]) -> bytes:
    return OPENING + b"".join(map(interaction, recordings)) + CLOSING


def tape(*reads: bytes, **given: Any) -> Batch:
    return told(taped(*reads, **given))


# -- in


def test_what_vcrpy_wrote_becomes_exchanges_in_its_order() -> None:
    batch = read(WRITTEN)
    assert [(each.api, each.provider, each.target) for each in batch.exchanges] == [
        ("openai-responses", "openai", "/v1/responses"),
        ("openai-chat", "openai", "/v1/chat/completions?key=REDACTED"),
    ]
    assert bodies(batch) == BODIES
    asked = [each.request_body for each in recordings(batch)]
    assert asked == ['{"stream":true,"input":"ü\\n"}'.encode(), b""]
    assert {each.end.lossless for each in recordings(batch) if each.end} == {True}


def test_no_secret_comes_along() -> None:
    batch = read(WRITTEN)
    assert not any(b"s3cret" in event.raw for event in batch.events)
    assert ("host", "api.example") in recordings(batch)[1].request.headers
    [first, _] = recordings(batch)
    assert [said for name, said in first.headers if name == "set-cookie"] == [
        "REDACTED (3 bytes)"
    ] * 2


def test_times_are_made_up_and_exchanges_follow_one_another() -> None:
    first, second = recordings(read(WRITTEN))
    assert [piece.t_ns for piece in first.pieces] == [10_000_000, 20_000_000]
    assert second.exchange.started_ns == first.exchange.started_ns + first.end_ns
    assert second.exchange.started_ns + second.end_ns == START_NS


def test_a_cassette_in_json_is_read_too() -> None:
    value = {"version": 1, "interactions": [call(request={"body": None}), call()]}
    assert bodies(read(json.dumps(value, indent=4).encode())) == [b"data: 1\n\n"] * 2


def test_a_cassette_of_betamax_is_read() -> None:
    asked = {"body": {"encoding": "utf-8", "string": "{}"}, "headers": {"Accept": ["*/*"]}}
    answered = {"body": {"encoding": "utf-8", "string": "data: 1\n\n"}, "url": "http://127.0.0.1/"}
    value = {
        "http_interactions": [call(request=asked, response=answered)],
        "recorded_with": "betamax/0.9.0",
    }
    assert bodies(read(json.dumps(value).encode())) == [b"data: 1\n\n"]


def test_a_cassette_of_ruby_is_read_with_the_time_it_says() -> None:
    data = b"""---
http_interactions:
- request:
    method: post
    uri: https://api.openai.com/v1/responses
    body:
      encoding: UTF-8
      string: '{}'
    headers:
      Accept:
      - "*/*"
  response:
    status:
      code: 200
      message: OK
    headers:
      Content-Type:
      - application/json
    body:
      encoding: ASCII-8BIT
      base64_string: |
        eyJh
        IjoxfQ==
    http_version:
  recorded_at: Mon, 21 Sep 2026 14:13:20 GMT
recorded_with: VCR 6.1.0
"""
    assert formats(data) == ("vcr",)
    [each] = recordings(read(data))
    assert (each.request.method, each.request_body) == ("POST", b"{}")
    assert each.exchange.started_ns == 1_790_000_000 * 10**9
    assert b"".join(piece.raw for piece in each.pieces) == b'{"a":1}'


@pytest.mark.parametrize(
    "saved", [gzip.compress(b"data: \xff\n\n", mtime=0), b"data: \xff\n\n", b"data: 1\n\n"]
)
def test_a_body_is_decoded_whether_or_not_its_headers_are_still_true(saved: bytes) -> None:
    headers = {"Content-Encoding": ["gzip"], "content-type": ["text/event-stream"]}
    [each] = recordings(
        read(document(call(response={"headers": headers, "body": {"string": saved}})))
    )
    assert b"".join(piece.raw for piece in each.pieces) in (b"data: \xff\n\n", b"data: 1\n\n")
    assert each.end is not None
    assert (each.end.undecoded, each.end.coding) == (None, None)


def test_a_body_that_was_cut_in_its_coding_is_told_as_one_that_was_received() -> None:
    cut = gzip.compress(b"data: 1\n\n" * 1000)[:-8]
    headers = {"content-encoding": ["gzip"], "content-type": ["text/event-stream"]}
    [each] = recordings(
        read(document(call(response={"headers": headers, "body": {"string": cut}})))
    )
    assert each.end is not None
    assert each.end.undecoded


def test_a_stream_whose_headers_were_filtered_away_is_known_by_its_look() -> None:
    batch = read(document(call(response={"headers": None, "body": {"string": "data: 1\n\n" * 3}})))
    assert [event.t_ns // 10**6 for event in batch.events if event.kind in BODY_KINDS][-1] == 30


def test_a_file_that_was_sent_is_a_body() -> None:
    data = document(call()).replace(
        b"body: ''",
        b"body: !!python/object/new:_io.BytesIO\n      state: !!python/tuple [!!binary /w==, 0, null]",
    )
    assert recordings(read(data))[0].request_body == b"\xff"


@pytest.mark.parametrize(
    ("response", "is_whole"),
    [
        ({"body": None}, False),
        ({"body": {}}, False),
        ({"body": {"string": ""}}, True),
        ({"body": None, "status": {"code": 204, "message": ""}}, True),
    ],
)
def test_a_body_that_the_file_does_not_have_is_a_gap(
    response: dict[str, Any], is_whole: bool
) -> None:
    [each] = recordings(read(document(call(response=response))))
    assert each.end is not None
    assert each.end.lossless == is_whole


def test_a_header_may_be_alone_and_a_status_a_text() -> None:
    data = document(
        call(response={"headers": {"retry-after": "7"}, "status": {"code": "429", "message": None}})
    )
    [each] = recordings(read(data))
    assert each.response is not None
    assert (each.response.status, each.headers) == (429, [("retry-after", "7")])


@table(
    "data",
    [
        WRITTEN,
        b"# by hand\n---\ninteractions: []",
        b"version: 1\ninteractions:\n- request:\n",
        b'{"version": 1, "interactions": [',
        b'{\n    "interactions": [',
        b'{"http_interactions": [',
    ],
)
def test_a_cassette_is_known_by_its_beginning(data: bytes) -> None:
    assert formats(data) == ("vcr",)


def test_what_is_no_cassette_is_not_taken_for_one() -> None:
    assert formats(b"version: 2\nservices:\n  web: x\n") == ()
    assert "vcr" not in formats(b'{"interactions":7}')


# -- what is refused


@table(
    ("data", "reason"),
    [
        (
            b"interactions:\n- a: [\n",
            "it is not YAML that can be read: line 3: did not find expected node content",
        ),
        (b"interactions:\n- a: \x01\n", "line 2: control characters are not allowed"),
        (b"interactions:\n- a: !!binary '#'\n", "line 2: the base64 is none"),
        (b"interactions: []\n---\na: b\n", "line 2: a second document begins"),
        (b"interactions:\n- [a]: b\n", "line 2: a key must be a text"),
        (b"interactions: !!python/object/apply:os.system [ls]", "line 1: the tag .* is not read"),
        (
            b"interactions: &a [*a]",
            "line 1: an alias stands for nothing that is complete before it",
        ),
        (b"# nothing\n", "there is nothing in it"),
        (b"a: b\n", "there are no `interactions` in it"),
        (b"just a text", "it is not a VCR cassette: Expected `object`, got `str`"),
        (b"- request: {}\n", "it is a list: if vcrpy before 1.0 wrote it"),
        (b"interactions: []\n", "there is no interaction in it"),
        (b"interactions: []\nversion: 2\n", "version 2 of VCR cassettes is not known"),
        (b'{"interactions": [}', "it is not a VCR cassette: JSON is malformed"),
        (
            document(call(), call(request={"method": None})),
            "interaction 2 is none of a VCR cassette: Expected `str`",
        ),
        (document(call(response={"status": {"code": 9}})), "interaction 1 .*>= 100"),
        (
            document(call(request={"method": b"\xff"})),
            "interaction 1 .*its method, uri or message is not text",
        ),
        (document(call(request={"uri": "http://["})), "interaction 1 .*Invalid IPv6 URL"),
        (
            document(call(), {"recorded_at": "now"} | call()),
            "interaction 2 .*now is not an instant",
        ),
        (document(call(response={"body": {"base64_string": "#"}})), "the base64 of a body is none"),
        (document(7), "interaction 1 .*Expected `object`"),
    ],
)
def test_what_is_no_cassette_is_refused_in_one_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(RecorderError, match=reason):
        Vcr(io.BytesIO(data))


@given(
    st.one_of(
        st.text(),
        st.binary().map(as_text),
        st.lists(st.sampled_from(WRITTEN.decode().split())).map(" ".join),
    )
)
def test_no_text_raises_anything_but_a_refusal(text: str) -> None:
    for opening in (b"", b"interactions:\n- request: ", b'{"interactions": ['):
        with contextlib.suppress(RecorderError):
            Vcr(io.BytesIO(opening + text.encode("utf-8", "surrogatepass")))


def test_a_short_file_cannot_say_a_long_one() -> None:
    laughs = [
        "a0: &a0 [x, x]",
        *(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 30)),
    ]
    with pytest.raises(ValueError, match=f"over {VALUES_LIMIT:,} values"):
        read_yaml("\n".join(laughs).encode())
    long = b"- &a " + b"x" * 2**20 + b"\n" + b"- *a\n" * (YAML_LIMIT >> 20)
    with pytest.raises(ValueError, match="with its aliases written out it is over 64 MiB"):
        read_yaml(long)
    assert read_yaml(b"- &a [x]\n- *a\n") == [["x"], ["x"]]


def test_nothing_is_too_deep_too_many_or_too_large_to_be_refused() -> None:
    for deep in (b"[" * 10**6, b"- " * 10**6, b"? " * 10**6):
        with pytest.raises(ValueError, match=f"nested deeper than {DEPTH_LIMIT}"):
            read_yaml(deep)
    with pytest.raises(ValueError, match="declares over 1000 tags"):
        read_yaml(b"%TAG !a! b\n" * 1001)
    with pytest.raises(RecorderError, match="it is over 64 MiB, too much for YAML"):
        Vcr(io.BytesIO(b"#" * (YAML_LIMIT + 1)))
    with pytest.raises(RecorderError, match="it is not a VCR cassette"):
        Vcr(io.BytesIO(b'{"interactions":' + b"[" * 10**6))


@pytest.mark.long
def test_bodies_that_inflate_beyond_reason_are_left_as_they_are() -> None:
    bomb = gzip.compress(bytes(300 * 2**20), 1)
    headers = {"content-encoding": ["gzip"], "content-type": ["text/event-stream"]}
    [each] = recordings(
        read(document(call(response={"headers": headers, "body": {"string": bomb}})))
    )
    assert each.end is not None
    assert each.end.undecoded


# -- scalars


@given(st.binary())
def test_bytes_as_text_are_these_bytes_again(data: bytes) -> None:
    assert as_bytes(as_text(data)) == data


@table("plain", ["yes", "1.0", "2026-01-31", "0x1f", "1:30", "!!int 7", "!!str null"])
def test_a_scalar_is_its_text(plain: str) -> None:
    assert read_yaml(f"a: {plain}".encode()) == {"a": plain.split()[-1]}


def test_null_is_null_only_where_it_is_plain() -> None:
    assert read_yaml(b"[~, null, 'null', '', !!null x]") == [None, None, "null", "", None]


# -- and out


@given(
    st.lists(st.sampled_from(PIECES + UNSEEN), max_size=12).map(b"".join), st.binary(max_size=20)
)
def test_bodies_come_back_byte_for_byte(answer: bytes, asked: bytes) -> None:
    for data, other in ((answer, asked), (asked, answer)):
        before = tape(data, asked=other)
        again = read(written(recordings(before)))
        assert body(again.events) == body(before.events) == data
        assert recordings(again)[0].request_body == other


@given(st.lists(st.sampled_from(PIECES + UNSEEN), max_size=12).map(b"".join))
def test_a_plain_yaml_reader_reads_the_same(answer: bytes) -> None:
    [each] = recordings(tape(answer, asked=b"x\r\ny"))
    for loader in (yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        [found] = yaml.load(OPENING + interaction(each), Loader=loader)["interactions"]
        string = found["response"]["body"]["string"]
        assert (string if isinstance(string, bytes) else string.encode()) == answer
        assert found["request"]["body"] == "x\r\ny"


names = st.text(st.characters(codec="latin-1", exclude_characters=":"), min_size=1, max_size=30)


@given(
    st.dictionaries(
        names | names.map(lambda name: name * 60),
        st.text(st.characters(codec="latin-1")),
        max_size=4,
    )
)
def test_headers_come_back(given: dict[str, str]) -> None:
    kept = [(f"x-{name}", said) for name, said in given.items()]
    before = recordings(tape(b"data: 1\n\n", headers=[STREAM, *kept]))
    [after] = recordings(read(written(before)))
    as_sent = [
        (name.encode("latin-1"), said.encode("latin-1")) for name, said in merged(before[0].headers)
    ]
    assert after.headers == redacted(as_sent)


def merged(headers: list[Header]) -> list[Header]:
    """Headers of one name together, under the first writing of it."""
    first: dict[str, str] = {}
    for name, _ in headers:
        first.setdefault(name.lower(), name)
    return [
        (name, said)
        for lower, name in first.items()
        for other, said in headers
        if other.lower() == lower
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_an_exchange_of_every_api_comes_back(target: str) -> None:
    end = "\r\n\r\n" if "gemini" in target else "\n\n"
    before = tape(*(f"data: {TARGETS[target]}{end}".encode() for _ in range(3)), path=target)
    after = read(written(recordings(before)))
    for batch in (before, after):
        [each] = batch.exchanges
        assert (each.api, each.target) == (before.exchanges[0].api, target)
    frames = [
        [event.raw for event in batch.events if event.kind == "frame"] for batch in (before, after)
    ]
    assert len(frames[0]) == 3
    assert frames[0] == frames[1]


def test_a_body_is_written_to_be_read() -> None:
    [each] = recordings(tape(b'data: {"a":1}\n\ndata: 2\n\n', asked=b'{"model":"it\'s"}'))
    assert written([each]).decode() == (
        "interactions:\n"
        "- request:\n"
        "    body: '{\"model\":\"it''s\"}'\n"
        "    headers:\n"
        "      user-agent:\n      - codex_exec/0.1\n"
        "      authorization:\n      - 'REDACTED (51 bytes)'\n"
        "    method: POST\n"
        "    uri: https://api.openai.com/v1/responses\n"
        "  response:\n"
        "    body:\n"
        "      string: |+\n"
        '        data: {"a":1}\n\n        data: 2\n\n'
        "    headers:\n"
        "      content-type:\n      - text/event-stream\n"
        "    status:\n      code: 200\n      message: OK\n"
        "version: 1\n"
    )
    [crlf] = recordings(tape(b"data: 1\r\n\r\n"))
    assert b'string: "data: 1\\r\\n\\\n        \\r\\n\\\n        "\n' in interaction(crlf)
    [binary] = recordings(tape(b"data: \xff\n\n"))
    assert b"string: !!binary |\n        " + b64encode(b"data: \xff\n\n") in interaction(binary)


@table(
    ("uri", "exported"),
    [
        ("http://127.0.0.1:4141/v1/responses", "https://api.openai.com/v1/responses"),
        ("http://127.0.0.1:8787/openai/v1/responses", "https://api.openai.com/v1/responses"),
        ("http://127.0.0.1:8787/openai/responses", "https://api.openai.com/v1/responses"),
        ("http://127.0.0.1:8787/responses", "https://api.openai.com/v1/responses"),
        ("https://openrouter.ai/api/v1/responses", "https://openrouter.ai/api/v1/responses"),
        ("http://localhost:11434/api/chat", "http://localhost:11434/api/chat"),
        ("/api/talk", "https://other.invalid/api/talk"),
    ],
)
def test_a_uri_is_where_a_client_asks_without_a_recorder(uri: str, exported: str) -> None:
    [each] = recordings(read(document(call(request={"uri": uri}))))
    assert yaml.safe_load(interaction(each))[0]["request"]["uri"] == exported
    kept = yaml.safe_load(interaction(each, was_imported=True))[0]["request"]["uri"]
    assert kept == (uri if uri.startswith("http") else exported)


def test_what_vcr_cannot_say_is_said() -> None:
    assert inexpressible(recordings(tape(b"data: 1\n\n"))[0]) is None
    [cut] = recordings(tape(b"data: 1\n\n", outcome="upstream_reset"))
    assert "broke off" in (inexpressible(cut) or "")
    [unheard] = recordings(told(without_response(taped(outcome="upstream_unreachable"))))
    assert "has no response" in (inexpressible(unheard) or "")
    with pytest.raises(ValueError, match="has no response"):
        interaction(unheard)


def without_response(told: list[Entry]) -> list[Entry]:
    return [entry for entry in told if entry.mark.name not in ("RESPONSE", "CHUNK")]
