"""`recorder.wire.framing.sse`: nothing is lost, whatever the chunking; the events are those of the
WHATWG algorithm.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import httpx_sse
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recorder.wire.framing.sse import (
    BOM,
    FRAME_LIMIT,
    Fields,
    Piece,
    Splitter,
    common_fields,
    ends_block,
    parse,
)
from tests.support.corpus import corpus_files, needs_corpus
from tests.support.tables import table

LINES = [
    *(
        b"data: x",
        b"data:y",
        b"data",
        b"data:  two",
        b"da",
        b"data: \xff\xfe",
        "data: \u2028\x0c\x85é".encode(),
    ),
    *(b"event: e", b"event", b": c", b":", b"id: 1", b"id: \0", b"retry: 5", b"retry: x", b"z: 1"),
    *(b"", BOM, BOM + b"data: b"),
]
ENDS = [b"\n", b"\r", b"\r\n"]
USUAL = b"event: e\ndata: x\n\n"

grammar = st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(ENDS))).map(
    lambda lines: b"".join(itertools.chain.from_iterable(lines))
)
streams = st.one_of(
    grammar, grammar.map(lambda s: BOM + s), st.binary(), st.text("\r\n:da x").map(str.encode)
)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    data = draw(streams)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return data, [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]


def split(chunks: list[bytes]) -> list[Piece]:
    splitter = Splitter()
    return [piece for chunk in chunks for piece in fed(splitter, chunk)] + splitter.close()


def fed(splitter: Splitter, chunk: bytes) -> list[Piece]:
    fields = splitter.common(chunk)
    assert fields in (None, common_fields(chunk))
    return [Piece("frame", chunk)] if fields else splitter.feed(chunk)


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def whatwg(stream: bytes) -> list[tuple[bytes | None, bytes]]:
    """The algorithm of the standard, written line by line as the standard has it: the oracle of
    these tests.
    """
    text = stream.removeprefix(BOM)
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]
    events: list[tuple[bytes | None, bytes]] = []
    name: bytes | None = None
    data: list[bytes] = []
    for line in lines:
        if not line:
            if data:
                events.append((name, b"\n".join(data)))
            name, data = None, []
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"event":
            name = value
        elif field == b"data":
            data.append(value)
    return events


def events(pieces: list[Piece]) -> list[tuple[bytes | None, bytes]]:
    frames = [piece.raw for piece in pieces if piece.kind == "frame"]
    if pieces:
        frames = [raw.removeprefix(BOM) if raw is pieces[0].raw else raw for raw in frames]
    return [(fields.event, fields.data) for fields in map(parse, frames) if fields.data is not None]


@given(cut_streams())
def test_no_byte_is_lost(stream: tuple[bytes, list[bytes]]) -> None:
    data, chunks = stream
    assert b"".join(piece.raw for piece in split(chunks)) == data


@given(cut_streams())
@example((USUAL * 2 + b"\n" + USUAL, [USUAL, USUAL, b"\n" + USUAL]))
@example((USUAL + b"\r" + USUAL * 2, [USUAL, b"\r" + USUAL, USUAL]))
@example((USUAL + b"data: y" + USUAL, [USUAL, b"data: y", USUAL]))
def test_chunking_does_not_matter(stream: tuple[bytes, list[bytes]]) -> None:
    data, chunks = stream
    assert split(chunks) == split([data]) == split(bytewise(data))


@given(cut_streams())
@example((b"data: x\n\ndata: y\n\n", [b"data: x\n", b"\n", b"data: y\n", b"\n"]))
def test_a_block_leaves_with_its_last_byte(stream: tuple[bytes, list[bytes]]) -> None:
    """And not when more has come: the time that it is given is the one of that byte."""
    data, chunks = stream
    whole, cut = Splitter(), Splitter()
    assert [piece for chunk in chunks for piece in fed(cut, chunk)] == whole.feed(data)


@given(streams)
def test_events_are_those_of_the_standard(data: bytes) -> None:
    assert events(split([data])) == whatwg(data)


@given(streams)
def test_only_the_last_piece_is_a_tail(data: bytes) -> None:
    assert all(piece.kind != "tail" for piece in split([data])[:-1])


@given(
    st.one_of(
        streams,
        st.from_regex(rb"(event: ?[\r\n:da x]*\n)?data: ?[\r\n:da x]*\n{1,3}", fullmatch=True),
    )
)
@example(b"data: x\ry\n\n")
@example(b"event: e\rf\ndata: x\n\n")
@example(b"data: x\n\ndata: y\n\n")
@example(b"event: e\n\ndata: x\n\n")
@example(b"data: x\n")
def test_a_common_block_is_one_frame_with_the_fields_that_the_standard_reads(block: bytes) -> None:
    common = common_fields(block)
    if common is not None:
        event, data, start = common
        assert split([block]) == [Piece("frame", block)]
        assert whatwg(block) == [(event, data)]
        assert block[start : start + len(data)] == data


@given(st.binary())
def test_parse_never_raises(data: bytes) -> None:
    fields = parse(data)
    if fields.data_start is not None and fields.data_length is not None:
        assert data[fields.data_start : fields.data_start + fields.data_length] == fields.data


CASES = [
    (b"data: x\n\n", [("frame", b"data: x\n\n")]),
    (
        b"data: x\r\n\r\ndata: y\r\n\r\n",
        [("frame", b"data: x\r\n\r\n"), ("frame", b"data: y\r\n\r\n")],
    ),
    (b"data: x\r\rdata: y\r\r", [("frame", b"data: x\r\r"), ("frame", b"data: y\r\r")]),
    (b"data: x\n\r\ndata: y\r\n\n", [("frame", b"data: x\n\r\n"), ("frame", b"data: y\r\n\n")]),
    (b"data: x\r\n\rdata: y\r\r\n", [("frame", b"data: x\r\n\r"), ("frame", b"data: y\r\r\n")]),
    (b"data: x\r\ndata: y\r\n\r\n", [("frame", b"data: x\r\ndata: y\r\n\r\n")]),
    (b": ping\n\ndata: x\n\n", [("comment", b": ping\n\n"), ("frame", b"data: x\n\n")]),
    (b": ping\ndata: x\n\n", [("frame", b": ping\ndata: x\n\n")]),
    (
        b"\n\n\ndata: x\n\n\n",
        [("comment", b"\n")] * 3 + [("frame", b"data: x\n\n"), ("comment", b"\n")],
    ),
    (BOM + b"data: x\n\n", [("frame", BOM + b"data: x\n\n")]),
    (BOM + b"\ndata: x\n\n", [("comment", BOM + b"\n"), ("frame", b"data: x\n\n")]),
    (BOM + b": c\n\n", [("comment", BOM + b": c\n\n")]),
    (b"data: x\n", [("tail", b"data: x\n")]),
    (b"data: x", [("tail", b"data: x")]),
    (b"data: x\n\ndata: y\n", [("frame", b"data: x\n\n"), ("tail", b"data: y\n")]),
    (b"\r", [("comment", b"\r")]),
    ("data: a\u2028\u0085\x0bb\n\n".encode(), [("frame", "data: a\u2028\u0085\x0bb\n\n".encode())]),
    (b"data: \0\xff\n\n", [("frame", b"data: \0\xff\n\n")]),
    (b"", []),
]


@table(("data", "expected"), CASES)
def test_blocks_end_where_the_standard_ends_them(
    data: bytes, expected: list[tuple[str, bytes]]
) -> None:
    for chunks in ([data], bytewise(data)):
        assert [(piece.kind, piece.raw) for piece in split(chunks)] == expected


PARSED = [
    (b"event: e\ndata: x\n\n", Fields(b"e", b"x", 15, 1)),
    (b"data: x\nevent: e\n\n", Fields(b"e", b"x", 6, 1)),
    (b"data:x\n\n", Fields(None, b"x", 5, 1)),
    (b"data:  x\n\n", Fields(None, b" x", 6, 2)),
    (b"id:  7 \ndata:  x \n\n", Fields(None, b" x ", 14, 3, b" 7 ")),
    (b"data: x\r\n\r\n", Fields(None, b"x", 6, 1)),
    (b"data: x\ndata: y\n\n", Fields(None, b"x\ny")),
    (b"data\n\n", Fields(None, b"", 4, 0)),
    (b"data: x\nid: 7\nretry: 9\n\n", Fields(None, b"x", 6, 1, b"7", b"9")),
    (b"id: a\0b\nretry: 1s\ndata: x\n\n", Fields(None, b"x", 24, 1)),
    (b"event: a\nevent: b\ndata: x\n\n", Fields(b"b", b"x", 24, 1)),
    (b"data: x: y\n\n", Fields(None, b"x: y", 6, 4)),
    (b"data: x", Fields(None, b"x", 6, 1)),
    (b"event: e\n\n", Fields(b"e")),
    (b"error: {}\n\n", Fields()),
    (b"Data: x\n data: x\n\n", Fields()),
]


@table(("raw", "expected"), PARSED)
def test_parse_reads_the_fields(raw: bytes, expected: Fields) -> None:
    assert parse(raw) == expected


@pytest.mark.long
@table("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"])
@table("extra", range(-3, 4))
def test_a_long_frame_leaves_in_equal_parts_whatever_the_chunking(end: bytes, extra: int) -> None:
    data = b"data: " + b"x" * (FRAME_LIMIT - 6 - len(end) + extra) + end + b"data: y\n\n"
    whole = split([data])
    assert b"".join(piece.raw for piece in whole) == data
    assert [piece.kind for piece in whole] == (["frame"] if extra <= 0 else ["part", "part"]) + [
        "frame"
    ]
    assert [piece.complete for piece in whole if piece.kind == "part"] in ([], [False, True])
    for cut in range(FRAME_LIMIT - 6, FRAME_LIMIT + 6):
        assert split([data[:cut], data[cut:]]) == whole
    assert split([data[i : i + 61] for i in range(0, len(data), 61)]) == whole


def test_an_endless_frame_needs_bounded_memory() -> None:
    splitter = Splitter()
    sizes = [len(piece.raw) for _ in range(200) for piece in splitter.feed(b"x" * 60_000)]
    assert sizes == [FRAME_LIMIT] * (200 * 60_000 // FRAME_LIMIT)
    assert len(splitter._held) <= FRAME_LIMIT + 60_000
    assert [piece.kind for piece in splitter.close()] == ["tail"]


@pytest.mark.timed
@pytest.mark.parametrize("filler", [b"x", b"x\r", b"x\n", b"\r\n: "])
def test_work_is_linear_in_single_bytes(filler: bytes) -> None:
    def cost(size: int) -> float:
        chunks = bytewise((filler * size)[:size])
        best = float("inf")
        for _ in range(3):
            started = time.perf_counter()
            split(chunks)
            best = min(best, time.perf_counter() - started)
        return best

    assert cost(120_000) < 12 * cost(20_000), (
        "six times the input may not cost more than twelve times the work"
    )


@pytest.mark.long
@needs_corpus
@table("path", corpus_files())
def test_recorded_streams_split_alike_in_any_chunking(path: Path) -> None:
    data = path.read_bytes()
    whole = split([data])
    assert b"".join(piece.raw for piece in whole) == data
    assert events(whole) == whatwg(data)
    for size in (1, 7, 4096):
        assert split([data[i : i + size] for i in range(0, len(data), size)]) == whole


HTTPX_SSE_DIFFERS = {
    "form feed": b"data: a\x0cb\n\n",
    "vertical tab": b"data: a\x0bb\n\n",
    "next line": "data: a\u0085b\n\n".encode(),
    "line separator": "data: a\u2028b\n\n".encode(),
    "byte order mark": BOM + b"data: x\n\n",
    "event without data": b"event: e\n\n",
    "id without data": b"id: 1\n\n",
    "retry without data": b"retry: 5\n\n",
}
"""Where httpx-sse 0.4.3 departs from the standard: it cuts lines as `str.splitlines` does and keeps
the BOM.
"""


def httpx_sse_events(data: bytes) -> list[tuple[str, str]]:
    decoder = httpx_sse._decoders.SSEDecoder()
    found = [decoder.decode(line) for line in data.decode("utf-8", "replace").splitlines()]
    return [(event.event, event.data) for event in found if event is not None]


def our_events(data: bytes) -> list[tuple[str, str]]:
    return [
        ((name or b"message").decode("utf-8", "replace"), payload.decode("utf-8", "replace"))
        for name, payload in events(split([data]))
    ]


USUAL_LINES = [b"data: x", b"data:y", b"data", b"data:  two", b"da", b": c", b":", b"z: 1", b""]


@given(
    st.lists(st.tuples(st.sampled_from(USUAL_LINES), st.sampled_from(ENDS)).map(b"".join)).map(
        b"".join
    )
)
@settings(max_examples=100)
def test_events_are_those_of_httpx_sse_where_that_one_is_right(data: bytes) -> None:
    assert our_events(data) == httpx_sse_events(data)


@table("name", HTTPX_SSE_DIFFERS)
def test_the_known_differences_of_httpx_sse_still_stand(name: str) -> None:
    data = HTTPX_SSE_DIFFERS[name]
    assert our_events(data) != httpx_sse_events(data), (
        "httpx-sse has changed: take this case off the list"
    )


@table("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n", b"\r\r\n", b"\r\n\r", b"\n\r"])
@table("more", range(-3, 4))
def test_the_last_part_of_a_block_is_known_by_its_bytes(end: bytes, more: int) -> None:
    block = b"data: ".ljust(2 * FRAME_LIMIT + more - len(end), b"x") + end
    splitter = Splitter()
    pieces = [*splitter.feed(block + b"data: next\n\n"), *splitter.close()]
    parts = [piece for piece in pieces if piece.kind == "part"]
    assert b"".join(part.raw for part in parts) == block
    is_hidden = [
        part.raw[-2:] in (b"\r\r", b"\n\r") and len(part.raw) == FRAME_LIMIT for part in parts
    ]
    told = [
        (ends_block(part.raw), part.complete)
        for part, hidden in zip(parts, is_hidden, strict=True)
        if not hidden
    ]
    assert all(one == other for one, other in told)
