"""What of an exchange gets into a journal at the level `shape`, however its bytes come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from recorder.journal.format import Mark
from recorder.model.events import (
    ExchangeEnd,
    Header,
    Recording,
    RequestEnd,
    RequestHead,
    ResponseHead,
)
from recorder.proxy.content_level import ShapedJournal
from recorder.proxy.recording import ExchangeJournal
from recorder.recordings.memory import MemoryJournal
from recorder.wire.content.filler import FillerKey

KEY = FillerKey(b"k" * 32)
IDS = ("01a222ba-0662-7593-8e61-7174aa8ef998", "01a222ba-0662-72c8-8493-eba8754d7d7a")
DELTAS = ("Cities ", "in Fra", "nce:\n", "Paris 日本")
EVENTS = [
    f"event: response.output_text.delta\ndata: {json.dumps({'type': 'response.output_text.delta', 'delta': each})}\n\n"
    for each in DELTAS
]
STREAM = b": ping\n\n" + "".join(EVENTS).encode() + b"data: {}\n\ndata: [DONE]\n\n"
SSE = [("content-type", "text/event-stream")]


def recorded(
    journal: MemoryJournal,
    through: ExchangeJournal,
    chunks: Iterable[bytes],
    headers: Sequence[Header] = SSE,
    status: int = 200,
) -> Recording:
    """An exchange whose chunks come a nanosecond after one another."""
    head = RequestHead(*IDS, 1, "POST", "/v1/responses", "openai", [])
    writer = through.exchange()
    writer.write(Mark.REQUEST, 0, msgspec.json.encode(head))
    writer.write(
        Mark.REQUEST_BODY, 0, json.dumps({"model": "m", "input": "Which cities?"}).encode()
    )
    writer.write(Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(complete=True)))
    writer.write(Mark.RESPONSE, 1, msgspec.json.encode(ResponseHead(status, "OK", list(headers))))
    last = 2
    for last, chunk in enumerate(chunks, 2):
        writer.write(Mark.CHUNK, last, chunk)
    writer.end(last + 1, msgspec.json.encode(ExchangeEnd("eof")))
    [recording] = journal.recordings(IDS[1])
    return recording


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=12))
def test_events_and_reads_keep_their_times_and_sizes_however_they_are_cut(cuts: list[int]) -> None:
    chunks = [STREAM[start:end] for start, end in pairwise(sorted({0, *cuts, len(STREAM)}))]
    whole, shapes = MemoryJournal(), MemoryJournal()
    full = recorded(whole, whole, chunks)
    shape = recorded(shapes, ShapedJournal(shapes, KEY), chunks)
    assert list(shape.reads) == list(full.reads)
    assert [(e.kind, e.type, e.t_ns, len(e.raw)) for e in shape.events[:-1]] == [
        (e.kind, e.type, e.t_ns, len(e.raw)) for e in full.events[:-1]
    ]
    deltas = [json.loads(piece.raw.split(b"data: ")[1])["delta"] for piece in shape.pieces[1:5]]
    assert "".join(deltas) == json.loads(
        b'"%b"' % KEY.filled(json.dumps("".join(DELTAS))[1:-1].encode())
    )
    assert b"Which" not in shape.request_body


def test_of_a_connection_that_is_switched_and_of_a_coding_that_cannot_be_undone_nothing_is_kept() -> (
    None
):
    for status, headers in (
        (101, [("upgrade", "websocket")]),
        (200, [*SSE, ("content-encoding", "gzip")]),
    ):
        journal = MemoryJournal()
        kept = recorded(
            journal, ShapedJournal(journal, KEY), [b"secret words", b"and more"], headers, status
        )
        assert [gap.of for gap in kept.gaps] == ["response"]
        assert not [
            event for event in kept.events if b"secret" in event.raw or b"more" in event.raw
        ]
