"""`recorder.ingest.capture`: what passed, as events, byte for byte and the same every time."""

from __future__ import annotations

import gzip
import itertools
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import brotli
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recorder.ingest.capture import READS_PART, Capture
from recorder.model.chain import link, root
from recorder.model.events import (
    BODY_KINDS,
    EndRecord,
    Event,
    ExchangeEnd,
    GapRecord,
    Outcome,
    RequestHead,
    RequestRecord,
    ResponseHead,
)
from recorder.wire.dialects import by_name
from recorder.wire.framing.sse import BOM, FRAME_LIMIT, begins_stream
from tests.support.corpus import corpus_files, needs_corpus
from tests.support.zstandard import zstd
from tests.unit.wire.framing.test_sse import cut_streams

IDS = ("01a00000-0000-7000-8000-000000000001", "01a00000-0000-7000-8000-000000000002")
HEAD = RequestHead(
    IDS[1], IDS[0], 1, "POST", "/v1/responses", "openai", [("content-type", "application/json")]
)
SSE = "text/event-stream; charset=utf-8"
CREATED = b'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n'
COMPLETED = (
    b'event: response.completed\ndata: {"type":"response.completed","sequence_number":1}\n\n'
)


def capture(
    chunks: list[bytes],
    *,
    api: str = "openai-responses",
    content_type: str = SSE,
    coding: str | None = None,
    status: int = 200,
    outcome: Outcome = "eof",
    request: bytes = b"{}",
    quick: bool = False,
) -> list[Event]:
    """An exchange whose chunks arrive a millisecond apart; with `quick` each is tried as a common
    frame first.
    """
    one = Capture(*IDS, by_name(api), 1_000)
    headers = [("Content-Type", content_type)] + ([("content-encoding", coding)] if coding else [])
    events = one.request(HEAD, request, wire=request)
    events += one.response(2_000, ResponseHead(status, "OK", headers))
    for number, chunk in enumerate(chunks, 1):
        usual = one.common(1_000 + number * 1_000_000, chunk) if quick else None
        events += [usual] if usual else one.chunk(1_000 + number * 1_000_000, chunk)
    return events + one.end(1_000 + (len(chunks) + 1) * 1_000_000, ExchangeEnd(outcome))


def body(events: list[Event]) -> bytes:
    return b"".join(event.raw for event in events if event.kind in BODY_KINDS)


def ending(events: list[Event]) -> EndRecord:
    return msgspec.json.decode(events[-1].raw, type=EndRecord)


def reads(events: list[Event]) -> list[list[int]]:
    return list(
        itertools.chain.from_iterable(
            msgspec.json.decode(e.raw) for e in events if e.kind == "reads"
        )
    )


def without_reads(events: list[Event]) -> list[tuple[Any, ...]]:
    """What must not depend on the chunking: everything but times, reads, and what is chained to
    them.
    """
    return [
        (e.kind, e.type, e.sequence_number, e.raw) for e in events if e.kind not in ("reads", "end")
    ]


FRAMES = st.sampled_from(
    [
        *(
            CREATED,
            COMPLETED,
            b": ping\n\n",
            b'data: {"type":"x"}\n\n',
            b"data: [DONE]\n\n",
            b"data: {\n\n",
        ),
        *(
            b'event: a\r\ndata: {"type":"x"}\r\n\r\n',
            b"event: a\ndata: 1\ndata: 2\n\n",
            b"event: a\ndata: 1",
        ),
        *(
            b'event: a\ndata: {"type":"x"}\n\n' * 2,
            b"\n\n",
            b"\n",
            b"",
            b'event: error\ndata: {"error":1}\n\n',
        ),
        *(
            b'event: response.created\ndata: {"type":"y"}\r\n\n',
            b"event: response.created\ndata: x\ndata: y\n\n",
        ),
    ]
)
APIS = st.sampled_from(["openai-responses", "openai-chat", "anthropic", "gemini", "other"])


@given(
    st.lists(FRAMES, max_size=12),
    APIS,
    st.sampled_from([None, "gzip"]),
    st.sampled_from([SSE, "text/plain"]),
)
@example([CREATED] * 3, "openai-responses", None, SSE)
@example([CREATED, COMPLETED], "openai-responses", None, SSE)
@example([CREATED, *[b"event: a\ndata: {}\n\n"] * 3], "openai-responses", None, SSE)
def test_a_common_frame_is_the_event_that_any_other_way_gives(
    chunks: list[bytes], api: str, coding: str | None, content_type: str
) -> None:
    plain, quick = (
        capture(
            chunks,
            api=api,
            coding=coding,
            content_type=content_type,
            quick=quick,
            outcome="client_disconnect",
        )
        for quick in (False, True)
    )
    assert quick == plain


def test_a_common_frame_is_reported_among_the_reads() -> None:
    chunks = [CREATED] * (2 * READS_PART + 5)
    assert capture(chunks, quick=True) == capture(chunks)


@pytest.mark.parametrize("t_ns", [-5, 0, 7])
def test_a_common_frame_has_the_time_of_any_other(t_ns: int) -> None:
    quick, plain = (Capture(*IDS, by_name("openai-responses"), 1_000) for _ in range(2))
    for each in (quick, plain):
        each.response(1_000, ResponseHead(200, "OK", [("content-type", SSE)]))
        each.chunk(1_000, CREATED)
    event = quick.common(1_000 + t_ns, COMPLETED)
    assert event is not None
    assert [event] == plain.chunk(1_000 + t_ns, COMPLETED)


@given(cut_streams())
@example((b"\x1f\x8b", [b"\x1f\x8b"]))
def test_body_events_are_the_body(stream: tuple[bytes, list[bytes]]) -> None:
    data, chunks = stream
    events = capture(chunks)
    assert body(events) == data
    assert ending(events).body_sha256 == ending(events).wire_sha256 == sha256(data).hexdigest()
    assert ending(events).body_bytes == len(data)
    assert ending(events).lossless


@given(cut_streams())
def test_chunking_changes_only_the_reads(stream: tuple[bytes, list[bytes]]) -> None:
    data, chunks = stream
    assert without_reads(capture(chunks)) == without_reads(capture([data]))


@given(cut_streams())
def test_positions_have_no_hole_and_hashes_chain(stream: tuple[bytes, list[bytes]]) -> None:
    events = capture(stream[1])
    previous = root(*IDS)
    for pos, event in enumerate(events):
        assert event.pos == pos
        fields = msgspec.structs.astuple(event)
        previous = link(previous, *fields[2:12])
        assert event.hash == previous
    assert [event.t_ns for event in events] == sorted(event.t_ns for event in events)


@given(cut_streams())
def test_told_the_same_again_it_makes_the_same_events(stream: tuple[bytes, list[bytes]]) -> None:
    assert capture(stream[1]) == capture(stream[1])


@given(cut_streams(), st.sampled_from(["gzip", "br", "zstd"]), st.integers(1, 50))
def test_a_coded_body_is_recorded_decoded(
    stream: tuple[bytes, list[bytes]], coding: str, size: int
) -> None:
    data = stream[0]
    wire = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstd.compress}[coding](data)
    events = capture([wire[i : i + size] for i in range(0, len(wire), size)], coding=coding)
    assert body(events) == data
    end = ending(events)
    assert (end.wire_bytes, end.wire_sha256) == (len(wire), sha256(wire).hexdigest())
    assert (end.body_sha256, end.coding, end.lossless) == (sha256(data).hexdigest(), coding, True)


def test_an_unlabelled_gzip_stream_is_recorded_decoded() -> None:
    events = capture([gzip.compress(CREATED + COMPLETED)])
    assert [event.type for event in events if event.kind == "frame"] == [
        "response.created",
        "response.completed",
    ]
    assert ending(events).coding == "gzip"


@pytest.mark.parametrize(
    "wire",
    [
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"\x1f\x8bdata: x\n\n",
        gzip.compress(CREATED, mtime=0)[:10],
    ],
)
@pytest.mark.parametrize("outcome", ["eof", "truncated"])
def test_a_body_that_only_looks_like_gzip_is_exact(wire: bytes, outcome: Outcome) -> None:
    for size in (1, 5, 100):
        events = capture([wire[i : i + size] for i in range(0, len(wire), size)], outcome=outcome)
        end = ending(events)
        assert body(events) == wire
        assert end.body_sha256 == end.wire_sha256 == sha256(wire).hexdigest()
        assert (end.coding, end.undecoded, end.lossless) == (None, None, True)


def test_a_file_that_happens_to_be_gzip_is_recorded_as_it_is() -> None:
    wire = gzip.compress(b"a backup of the user's")
    assert body(capture([wire], content_type="application/octet-stream")) == wire


def test_what_cannot_be_decoded_is_kept_as_it_was_sent_and_flagged() -> None:
    good = gzip.compress(CREATED)
    events = capture([good, b"\x1f\x8bnot gzip", b" at all"], coding="gzip")
    assert body(events) == CREATED + b"\x1f\x8bnot gzip at all"
    assert [event.kind for event in events if event.kind in BODY_KINDS] == ["frame", "body", "body"]
    assert ending(events).undecoded
    assert not ending(events).lossless


@pytest.mark.parametrize(
    ("coding", "coder"), [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstd.compress)]
)
@pytest.mark.parametrize("outcome", ["eof", "truncated", "client_disconnect"])
def test_a_coded_body_that_ends_too_early_is_not_called_lossless(
    coding: str, coder: Callable[[bytes], bytes], outcome: Outcome
) -> None:
    wire = coder(b"data: " + random.Random(1).randbytes(20_000))
    for cut in (10, 5_000, len(wire) - 4):
        end = ending(events := capture([wire[:cut]], coding=coding, outcome=outcome))
        kept = body(events)
        assert end.lossless is (outcome != "eof" and end.undecoded is None)
        assert kept, "what could not be decoded is kept as it was sent"


def test_a_recording_that_was_killed_is_not_called_lossless() -> None:
    assert not ending(capture([CREATED], outcome="recorder_crash")).lossless
    assert ending(capture([CREATED], outcome="client_disconnect")).lossless


def test_times_are_those_of_the_last_byte() -> None:
    events = capture([CREATED[:10], CREATED[10:] + COMPLETED[:5], COMPLETED[5:]])
    assert [event.t_ns for event in events if event.kind == "frame"] == [2_000_000, 3_000_000]
    sizes = [10, len(CREATED) - 5, len(COMPLETED) - 5]
    assert reads(events) == [[1_000_000, sizes[0]], [2_000_000, sizes[1]], [3_000_000, sizes[2]]]


def test_reads_stand_before_the_end_and_long_streams_report_them_in_parts() -> None:
    events = capture([b":\n\n"] * (READS_PART * 2 + 5))
    assert [event.kind for event in events[-2:]] == ["reads", "end"]
    assert len(reads(events)) == READS_PART * 2 + 5
    assert max(len(event.raw) for event in events) <= FRAME_LIMIT


STATUSES = [
    ("openai-responses", [CREATED, COMPLETED], 200, "eof", "completed"),
    ("openai-responses", [CREATED, COMPLETED], 200, "client_disconnect", "completed"),
    ("openai-responses", [CREATED, COMPLETED], 200, "recorder_crash", "completed"),
    ("openai-responses", [CREATED], 200, "eof", "incomplete"),
    ("openai-responses", [CREATED], 200, "client_disconnect", "client_disconnect"),
    ("openai-responses", [CREATED], 200, "truncated", "truncated"),
    ("openai-responses", [CREATED, b'data: {"type":"response.failed"}\n\n'], 200, "eof", "failed"),
    ("openai-responses", [b'data: {"type":"error"}\n\n', COMPLETED], 200, "eof", "failed"),
    ("openai-responses", [b'data: {"type":"response.incomplete"}\n\n'], 200, "eof", "incomplete"),
    ("openai-responses", [b'data: {"type":"error"}\n\n'], 429, "eof", "error_status"),
    ("openai-chat", [b"data: {}\n\n"], 200, "eof", "completed"),
    ("openai-chat", [b'data: {"error":{}}\n\n', b"data: [DONE]\n\n"], 200, "eof", "completed"),
    (
        "openai-chat",
        [b'data: {"error":{"message":"x"}}\n\n', b"data: [DONE]\n\n"],
        200,
        "eof",
        "failed",
    ),
    (
        "anthropic",
        [b'event: message_start\ndata: {"type":"message_start"}\n\n'],
        200,
        "eof",
        "incomplete",
    ),
    (
        "anthropic",
        [b'event: message_stop\ndata: {"type":"message_stop"}\n\n'],
        200,
        "eof",
        "completed",
    ),
    ("gemini", [b'data: {"candidates":[]}\r\n\r\n'], 200, "eof", "completed"),
    ("other", [b"data: x\n\n"], 200, "upstream_reset", "upstream_reset"),
]


@pytest.mark.parametrize(("api", "chunks", "http_status", "outcome", "expected"), STATUSES)
def test_the_status_is_what_the_provider_said_or_else_how_the_connection_ended(
    api: str, chunks: list[bytes], http_status: int, outcome: Outcome, expected: str
) -> None:
    end = ending(capture(chunks, api=api, status=http_status, outcome=outcome))
    assert (end.status, end.http_status) == (expected, http_status)


def test_an_exchange_without_a_response_ends_too() -> None:
    one = Capture(*IDS, by_name("openai-responses"), 0)
    events = one.request(HEAD, b"", wire=b"")
    events += one.end(5, ExchangeEnd("upstream_unreachable", "connection refused"))
    assert [event.kind for event in events] == ["request", "end"]
    end = ending(events)
    assert (end.status, end.error, end.http_status) == (
        "upstream_unreachable",
        "connection refused",
        None,
    )


def test_the_request_is_its_head_and_its_body_in_parts() -> None:
    sent = bytes(range(256)) * 3000
    head, *parts = [event for event in capture([], request=sent) if event.kind == "request"]
    record = msgspec.json.decode(head.raw, type=RequestRecord)
    assert (record.method, record.target, record.headers) == (
        HEAD.method,
        HEAD.target,
        HEAD.headers,
    )
    assert (record.wire_bytes, record.wire_sha256, record.complete) == (
        len(sent),
        sha256(sent).hexdigest(),
        True,
    )
    assert {part.type for part in parts} == {"body"}
    assert b"".join(part.raw for part in parts) == sent


def test_a_long_frame_has_its_keys_on_its_last_part() -> None:
    payload = (
        b'{"type":"response.created","image":"' + b"x" * FRAME_LIMIT * 2 + b'","sequence_number":7}'
    )
    parts = [event for event in capture([b"data: " + payload + b"\n\n"]) if event.kind == "part"]
    assert [event.type for event in parts] == [None, None, "response.created"]
    assert (parts[-1].sequence_number, parts[-1].data_start) == (7, None)


@pytest.mark.parametrize("mark", [b"", BOM])
def test_data_start_points_at_the_payload_also_behind_a_byte_order_mark(mark: bytes) -> None:
    frames = [event for event in capture([mark + CREATED, COMPLETED]) if event.kind == "frame"]
    assert [frame.type for frame in frames] == ["response.created", "response.completed"]
    for frame in frames:
        assert frame.data_start is not None
        assert frame.data_length is not None
        assert (
            msgspec.json.decode(frame.raw[frame.data_start :][: frame.data_length])["type"]
            == frame.type
        )


@pytest.mark.parametrize("coding", [None, "gzip"])
def test_a_gap_is_counted_and_what_follows_is_kept(coding: str | None) -> None:
    encode = gzip.compress if coding else bytes
    one = Capture(*IDS, by_name("openai-responses"), 1_000)
    events = one.request(HEAD, b"", wire=b"")
    events += one.response(
        1_000, ResponseHead(200, "OK", [("content-type", SSE), ("content-encoding", coding or "")])
    )
    first, last = encode(CREATED + b"data: torn"), encode(COMPLETED)
    events += one.chunk(2_000, first)
    events += one.gap(
        GapRecord("response", 3, 999, "digest", 3_000, 4_000, "the journal is at its bound")
    )
    events += one.chunk(5_000, last)
    events += one.end(6_000, ExchangeEnd("eof"))
    kinds = [event.kind for event in events]
    assert kinds == [
        "request",
        "response",
        "frame",
        "tail",
        "gap",
        "body" if coding else "frame",
        "reads",
        "end",
    ]
    gap = msgspec.json.decode(events[4].raw, type=GapRecord)
    assert (gap.chunks, gap.size_bytes, gap.from_ns, gap.to_ns) == (3, 999, 2_000, 3_000)
    end = ending(events)
    assert end.wire_bytes == len(first) + 999 + len(last)
    assert (end.gap_chunks, end.gap_bytes, end.lossless) == (3, 999, False)


@pytest.mark.long
@needs_corpus
@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: path.stem[-60:])
@pytest.mark.parametrize("size", [1, 1000])
def test_recorded_streams_are_kept_byte_for_byte(path: Path, size: int) -> None:
    data = path.read_bytes()[:200_000]
    events = capture([data[i : i + size] for i in range(0, len(data), size)], api=path.parent.name)
    assert body(events) == data


OTHER_TYPES = ("text/plain", "application/json", "application/octet-stream", "")


@given(cut_streams(), st.sampled_from(OTHER_TYPES))
def test_a_stream_of_another_type_is_framed_as_any(
    stream: tuple[bytes, list[bytes]], content_type: str
) -> None:
    data, chunks = stream
    events = capture(chunks, content_type=content_type)
    assert body(events) == data
    assert ending(events).lossless
    framed = [event[0:4:3] for event in without_reads(capture(chunks))[3:]]
    told = [event[0:4:3] for event in without_reads(events)[3:]]
    if begins_stream(data):
        assert told == framed
    else:
        assert {kind for kind, _ in told} <= {"body"}


@pytest.mark.parametrize("content_type", OTHER_TYPES)
@pytest.mark.parametrize("coding", [None, "gzip"])
@pytest.mark.parametrize("begins", [b"", b": hello\n\n", BOM, b"id: 1\n", b"retry: 5\n\n"])
def test_a_stream_of_another_type_has_its_end(
    content_type: str, coding: str | None, begins: bytes
) -> None:
    data = begins + CREATED + COMPLETED
    wire = gzip.compress(data) if coding else data
    events = capture([wire[:3], wire[3:]], content_type=content_type, coding=coding)
    assert [event.type for event in events if event.kind == "frame"][-2:] == [
        "response.created",
        "response.completed",
    ]
    assert ending(events).status == "completed"
    cut = capture([begins + CREATED], content_type=content_type)
    assert ending(cut).status == "incomplete"


@pytest.mark.parametrize(
    "data", [b'{"a": "data: b"}', b"[1]", b"dat", b"data", b"<html>", b"\n\ndata: x\n\n", BOM, b""]
)
def test_what_does_not_begin_as_a_stream_is_a_body(data: bytes) -> None:
    for chunks in ([data], [data[i : i + 1] for i in range(len(data))]):
        events = capture(chunks, content_type="text/plain")
        assert body(events) == data
        assert {event.kind for event in events} <= {"request", "response", "body", "reads", "end"}
        assert ending(events).status == "completed"


def test_on_an_unknown_path_only_the_type_says_that_it_is_a_stream() -> None:
    events = capture([CREATED], api="other", content_type="text/plain")
    assert [event.kind for event in events if event.kind in BODY_KINDS] == ["body"]


def test_a_gap_in_what_may_become_a_stream_loses_no_byte() -> None:
    one = Capture(*IDS, by_name("openai-chat"), 0)
    events = one.request(HEAD, b"{}", wire=b"{}")
    events += one.response(1, ResponseHead(200, "OK", [("content-type", "text/plain")]))
    events += one.chunk(2, b"da")
    events += one.gap(GapRecord("response", 1, 5, "", 2, 3, "lost"))
    events += one.chunk(4, b"ta: {}\n\n")
    events += one.end(5, ExchangeEnd("eof"))
    assert body(events) == b"data: {}\n\n"
    assert [event.kind for event in events][3:6] == ["body", "gap", "body"]
