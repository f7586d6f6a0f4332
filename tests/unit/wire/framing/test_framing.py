"""`recorder.wire.framing`: nothing is lost, whatever the chunking, and each event has its payload."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.wire.framing import AWS_EVENT_STREAM, JSON_ARRAY, NDJSON, Framing, framing_of
from recorder.wire.framing.sse import FRAME_LIMIT, Fields, Piece
from tests.support.aws_messages import aws_event, aws_message
from tests.support.tables import table

CHUNK = aws_event("contentBlockDelta", {"delta": {"text": "Zürich"}, "contentBlockIndex": 0})
WRONG = CHUNK[:-1] + bytes([CHUNK[-1] ^ 1])
NO_LENGTH = bytes([CHUNK[0], CHUNK[1] ^ 1]) + CHUNK[2:]

_LINES = [b'{"a": 1}\n', b'{"b": 2}\r\n', b"\n", b"  \n", b"no JSON\n", b"\xff\n", b'{"half": ']
_ELEMENTS = [
    b"[",
    b"]",
    b"{",
    b"}",
    b'"',
    b"\\",
    b",",
    b" ",
    b"\r\n",
    b"1",
    b"null",
    b'"a\\"]"',
    b'{"b":[{}]}',
    b"\xff",
]
_MESSAGES = [CHUNK, aws_message({}, b""), WRONG, NO_LENGTH, b"\0", CHUNK[:40]]
streams = st.one_of(
    st.tuples(st.just(NDJSON), st.lists(st.sampled_from(_LINES)).map(b"".join)),
    st.tuples(st.just(AWS_EVENT_STREAM), st.lists(st.sampled_from(_MESSAGES)).map(b"".join)),
    st.tuples(st.just(JSON_ARRAY), st.lists(st.sampled_from(_ELEMENTS)).map(b"".join)),
    st.tuples(st.sampled_from([NDJSON, AWS_EVENT_STREAM, JSON_ARRAY]), st.binary()),
)


def split(framing: Framing, *chunks: bytes) -> list[Piece]:
    splitter = framing.splitter()
    fed = [splitter.feed(chunk) for chunk in chunks]
    return [*itertools.chain.from_iterable(fed), *splitter.close()]


@given(streams, st.lists(st.integers(0, 600), max_size=8))
def test_the_pieces_are_the_stream_and_the_same_in_any_chunking(
    stream: tuple[Framing, bytes], cuts: list[int]
) -> None:
    framing, data = stream
    ends = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = split(framing, *(data[start:end] for start, end in itertools.pairwise(ends)))
    assert b"".join(piece.raw for piece in pieces) == data
    assert (
        pieces
        == split(framing, data)
        == split(framing, *(data[i : i + 1] for i in range(len(data))))
    )
    assert [piece.kind for piece in pieces[:-1]].count("tail") == 0


@given(st.binary())
def test_fields_of_any_bytes_never_raise(data: bytes) -> None:
    NDJSON.fields(data)
    AWS_EVENT_STREAM.fields(data)
    JSON_ARRAY.fields(data)


_SCALARS = st.none() | st.booleans() | st.integers() | st.text('"\\[]{},a\n ')
_values = st.recursive(_SCALARS, lambda each: st.lists(each) | st.dictionaries(st.text("]}"), each))


@given(
    st.lists(_values), st.sampled_from([None, 1]), st.sampled_from([(",", ":"), (" ,\r\n", " : ")])
)
def test_the_elements_of_an_array_are_what_json_reads(
    values: list[object], indent: int | None, separators: tuple[str, str]
) -> None:
    data = json.dumps(values, indent=indent, separators=separators).encode() + b"\n"
    pieces = split(JSON_ARRAY, data)
    assert [
        json.loads(JSON_ARRAY.fields(each.raw).data or b"")
        for each in pieces
        if each.kind == "frame"
    ] == values
    assert {each.kind for each in pieces[len(values) :]} == {"comment"}
    cut = split(JSON_ARRAY, data[: data.rindex(b"]") - 1])
    assert cut[: max(0, len(values) - 1)] == pieces[: max(0, len(values) - 1)]


@table(
    ("framing", "data", "kinds"),
    [
        (NDJSON, b'{"a":1}\n\r\n{"b"', ["frame", "comment", "tail"]),
        (NDJSON, b'{"a":1}\n \r', ["frame", "comment"]),
        (JSON_ARRAY, b'[{"a": 1}\r\n', ["frame", "comment"]),
        (JSON_ARRAY, b'[{"a": 1}\r\n,', ["frame", "tail"]),
        (JSON_ARRAY, b' [{"a": "]"},\r\n [1] \n]\n', ["frame", "frame", "comment", "comment"]),
        (JSON_ARRAY, b"[]", ["comment"]),
        (JSON_ARRAY, b"[1, 2]]", ["frame", "frame", "comment", "tail"]),
        (JSON_ARRAY, b'[{"a": 1}, {"b": [', ["frame", "tail"]),
        (AWS_EVENT_STREAM, CHUNK + CHUNK[:-1], ["frame", "tail"]),
        (AWS_EVENT_STREAM, CHUNK + WRONG + CHUNK, ["frame", "frame", "frame"]),
        (AWS_EVENT_STREAM, CHUNK + NO_LENGTH + CHUNK, ["frame", "tail"]),
    ],
)
def test_pieces_end_where_the_framing_says(framing: Framing, data: bytes, kinds: list[str]) -> None:
    assert [piece.kind for piece in split(framing, data)] == kinds


@pytest.mark.parametrize("extra", [-1, 0, 1, FRAME_LIMIT])
@pytest.mark.parametrize("framing", [NDJSON, AWS_EVENT_STREAM], ids=lambda framing: framing.name)
def test_a_long_frame_leaves_in_parts_of_which_the_last_is_known(
    framing: Framing, extra: int
) -> None:
    payload = b'{"x": "' + b"y" * (FRAME_LIMIT + extra) + b'"}'
    raw = payload + b"\n" if framing is NDJSON else aws_message({}, payload)
    pieces = split(framing, *(raw[i : i + 1000] for i in range(0, len(raw), 1000)), raw)
    first, second = pieces[: len(pieces) // 2], pieces[len(pieces) // 2 :]
    assert first == second == split(framing, raw)
    assert [piece.complete for piece in first] == [framing.ends(piece.raw) for piece in first]
    assert framing.fields(raw).data == payload


# Of the test suite of the AWS SDKs: https://github.com/awslabs/aws-c-event-stream, tests
_OF_AWS = "0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936"


@table(
    ("framing", "raw", "fields"),
    [
        (NDJSON, b'{"a":1}\r\n', Fields(None, b'{"a":1}', 0, 7)),
        (NDJSON, b"\n", Fields()),
        (AWS_EVENT_STREAM, bytes.fromhex(_OF_AWS), Fields(None, b"{'foo':'bar'}", 12, 13)),
        (AWS_EVENT_STREAM, aws_event("messageStop", 1), Fields(b"messageStop", b"1", 93, 1)),
        (
            AWS_EVENT_STREAM,
            aws_message({":exception-type": "throttling"}, b"{}"),
            Fields(b"throttling", b"{}", 41, 2),
        ),
        (AWS_EVENT_STREAM, WRONG, Fields()),
        (AWS_EVENT_STREAM, CHUNK[:-1], Fields()),
    ],
)
def test_fields_are_the_event_and_its_payload(framing: Framing, raw: bytes, fields: Fields) -> None:
    assert framing.fields(raw) == fields


def test_work_is_linear_in_single_bytes() -> None:
    def seconds(size: int) -> float:
        splitter = NDJSON.splitter()
        began = time.process_time()
        for _ in range(size):
            splitter.feed(b"x")
        return time.process_time() - began

    assert min(seconds(100_000) for _ in range(3)) < 20 * min(seconds(10_000) for _ in range(3))


@table(
    ("content_type", "name"),
    [
        ("text/event-stream", "sse"),
        ("Text/Event-Stream ; charset=utf-8", "sse"),
        ("application/x-ndjson", "ndjson"),
        ("application/vnd.amazon.eventstream", "aws_event_stream"),
        ("application/json", None),
        ("", None),
        (None, None),
    ],
)
def test_the_content_type_says_the_framing(content_type: str | None, name: str | None) -> None:
    framing = framing_of(content_type)
    assert (framing.name if framing else None) == name
