"""What of an exchange gets into a journal at the level `shape`, however its bytes come."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recorder.commands.serving.recording import levels_of, parse_level
from recorder.journal.format import Mark
from recorder.model.events import (
    Event,
    ExchangeEnd,
    Header,
    Recording,
    RequestEnd,
    RequestHead,
    ResponseHead,
)
from recorder.proxy.content_level import journal_at
from recorder.proxy.recording import ExchangeJournal
from recorder.proxy.routing import Origin
from recorder.recordings.memory import MemoryJournal
from recorder.wire.content import Level
from recorder.wire.content.filler import FillerKey
from recorder.wire.framing.websocket import accept_of, encode_close, encode_frame

SECRET = b"k" * 32
KEY = FillerKey(SECRET)
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
    shape = recorded(shapes, journal_at("shape", shapes, SECRET), chunks)
    assert list(shape.reads) == list(full.reads)
    assert [(e.kind, e.type, e.t_ns, len(e.raw)) for e in shape.events[1:-1]] == [
        (e.kind, e.type, e.t_ns, len(e.raw)) for e in full.events[1:-1]
    ]
    deltas = [json.loads(piece.raw.split(b"data: ")[1])["delta"] for piece in shape.pieces[1:5]]
    assert "".join(deltas) == json.loads(
        b'"%b"' % KEY.filled(json.dumps("".join(DELTAS))[1:-1].encode())
    )
    assert b"Which" not in shape.request_body


def test_of_what_cannot_be_read_nothing_is_kept_but_its_size() -> None:
    for status, headers in (
        (101, [("sec-websocket-extensions", "of-our-own")]),
        (101, []),
        (200, [*SSE, ("content-encoding", "gzip")]),
    ):
        journal = MemoryJournal()
        shapes = journal_at("shape", journal, SECRET)
        kept = recorded(journal, shapes, [b"secret words", b"and more"], headers, status)
        assert [gap.of for gap in kept.gaps] == ["response"]
        assert not [
            event for event in kept.events if b"secret" in event.raw or b"more" in event.raw
        ]


def conversed(
    level: Level, client: Sequence[bytes], server: Sequence[bytes], headers: Sequence[Header]
) -> list[Event]:
    """The events of a WebSocket connection and of its turns, as a journal of that level has them."""
    journal = MemoryJournal()
    writer = journal_at(level, journal, SECRET).exchange()
    offer = [("upgrade", "websocket"), ("sec-websocket-key", KEY_OFFERED)]
    agreed = [("upgrade", "websocket"), ("sec-websocket-accept", accept_of(KEY_OFFERED)), *headers]
    head = RequestHead(*IDS, 1, "GET", "/v1/responses", "openai", offer)
    writer.write(Mark.REQUEST, 0, msgspec.json.encode(head))
    writer.write(Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(complete=True)))
    writer.write(Mark.RESPONSE, 1, msgspec.json.encode(ResponseHead(101, "", agreed)))
    for mark, chunks in ((Mark.CLIENT_CHUNK, client), (Mark.CHUNK, server)):
        for chunk in (*chunks, b""):
            writer.write(mark, 2, chunk)
    writer.end(3, msgspec.json.encode(ExchangeEnd("eof")))
    return [event for each in journal.recordings(IDS[1]) for event in each.events]


ASKED = {"type": "response.create", "model": "gpt-5", "input": "Which cities lie there?"}
SAID = [
    {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5"}},
    *({"type": "response.output_text.delta", "output_index": 0, "delta": each} for each in DELTAS),
    {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
]
KEY_OFFERED = "dGhlIHNhbXBsZSBub25jZQ=="
DEFLATE = [("sec-websocket-extensions", "permessage-deflate")]


def deflated(payloads: Iterable[bytes]) -> Iterable[bytes]:
    deflate = zlib.compressobj(wbits=-15)
    for payload in payloads:
        data = deflate.compress(payload) + deflate.flush(zlib.Z_SYNC_FLUSH)
        yield encode_frame("text", data.removesuffix(b"\0\0\xff\xff"), rsv1=True)


@given(st.booleans(), st.lists(st.integers(1, 300), max_size=9))
def test_messages_keep_types_and_sizes_however_they_are_compressed_and_cut(
    is_compressed: bool, cuts: list[int]
) -> None:
    said = [json.dumps(each).encode() for each in SAID]
    frames = deflated(said) if is_compressed else (encode_frame("text", each) for each in said)
    sent = b"".join((*frames, encode_frame("ping", b"Cities"), encode_close(1000, "Which cities")))
    chunks = [sent[start:end] for start, end in pairwise(sorted({0, *cuts, len(sent)}))]
    asked = encode_frame("text", json.dumps(ASKED).encode(), mask=b"mask")
    conversation = [asked[:50], asked[50:]], chunks, DEFLATE if is_compressed else []
    full, shape = (conversed(level, *conversation) for level in ("full", "shape"))
    kept = ("frame", "sent", "control", "request")
    assert [(each.kind, each.type, each.t_ns) for each in shape if each.kind in kept] == [
        (each.kind, each.type, each.t_ns) for each in full if each.kind in kept
    ]
    frames_of = [[len(each.raw) for each in log if each.kind == "frame"] for log in (full, shape)]
    assert frames_of[0] == frames_of[1] != []
    written = b"".join(each.raw for each in shape)
    words = {b"Cities", b"cities", b"France", b"Paris", b"Cities".hex().encode()}
    assert not [word for word in words if word in written]


def test_of_the_levels_that_are_for_a_request_the_least_counts() -> None:
    levels = levels_of(map(parse_level, ["shape", "openai=full", "s/hr-*=none"]))
    asked = Origin("openai", "/v1/responses", [])
    assert levels.level(asked) == "full"
    assert levels.level(replace(asked, upstream="anthropic")) == "shape"
    assert levels.level(replace(asked, content="shape")) == "shape"
    assert levels.level(replace(asked, session="hr-may")) == "none"
