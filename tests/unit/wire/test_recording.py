"""`recorder.wire.recording`: body and headers of a recording are true together."""

from __future__ import annotations

import gzip

import msgspec
import pytest

from recorder.ingest.capture import Capture
from recorder.model.events import ExchangeEnd, Header, Recording, RequestHead, ResponseHead
from recorder.replay.transport import answer
from recorder.wire.dialects import by_name
from recorder.wire.recording import recording_of
from tests.support.facts import EXCHANGE, MS

BODY = b'data: {"type":"x"}\n\n' * 50
KEPT: Header = ("Content-Type", "text/event-stream")


def of_coding(coding: str, *chunks: bytes) -> Recording:
    """What is recorded of a response in that content coding."""
    head = RequestHead("x", "s", 0, "POST", "/v1/responses", "openai", [])
    capture = Capture("s", "x", by_name("openai-responses"), 0)
    events = capture.request(head, b"", wire=b"")
    fields = [KEPT, ("Content-Encoding", coding), ("Content-Length", "7")]
    events += capture.response(MS, ResponseHead(200, "OK", fields))
    for number, chunk in enumerate(chunks, 2):
        events += capture.chunk(number * MS, chunk)
    events += capture.end(9 * MS, ExchangeEnd("eof"))
    return recording_of(EXCHANGE, events)


def body(made: Recording) -> bytes:
    return b"".join(piece.raw for piece in made.pieces)


def test_a_body_whose_coding_was_undone_has_no_coding_in_its_headers() -> None:
    made = of_coding("gzip", gzip.compress(BODY))
    assert (body(made), made.headers) == (BODY, [KEPT])


@pytest.mark.parametrize("coding", ["snappy", "gzip"])
def test_a_body_that_is_still_coded_keeps_the_coding_in_its_headers(coding: str) -> None:
    made = of_coding(coding, b"\xff\x06\x00", b"\x00sNaPpY")
    assert (body(made), made.headers) == (
        b"\xff\x06\x00\x00sNaPpY",
        [KEPT, ("Content-Encoding", coding)],
    )


def test_a_body_that_is_still_coded_is_played_in_the_reads_that_were_recorded() -> None:
    chunks = answer(of_coding("snappy", b"\xff\x06\x00", b"\x00sNaPpY")).chunks
    assert [(chunk.t_ns, chunk.data) for chunk in chunks] == [
        (2 * MS, b"\xff\x06\x00"),
        (3 * MS, b"\x00sNaPpY"),
    ]


def test_a_body_whose_coding_was_undone_in_part_is_not_said_to_be_coded() -> None:
    made = of_coding("gzip", gzip.compress(BODY), b"no member")
    assert body(made).startswith(BODY)
    assert made.headers == [KEPT]


def test_of_a_recording_that_goes_no_further_the_coding_was_undone() -> None:
    made = msgspec.structs.replace(of_coding("gzip", gzip.compress(BODY)), end=None)
    assert made.headers == [KEPT]
