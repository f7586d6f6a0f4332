"""`recorder.cassettes`, `recorder.model.jsonl`, `ImportedExchange`: text files in, records of a
journal out.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.cassettes import Cassette, Entry, Names
from recorder.cassettes.content import Format, formats
from recorder.cassettes.jsonl import Jsonl
from recorder.cassettes.plain import STEP_NS, PlainRequest, PlainStream, read_request
from recorder.errors import RecorderError
from recorder.ingest.assembler import Assembler
from recorder.ingest.pending import Batch
from recorder.journal.format import START, Gap, Mark, Record
from recorder.model.events import (
    BODY_KINDS,
    Event,
    ExchangeEnd,
    Imported,
    Outcome,
    Recording,
    RequestEnd,
    RequestHead,
    ResponseHead,
)
from recorder.model.jsonl import closing_line, event_line, exchange_line, opening_line, read_event
from recorder.recordings.files import cassette_in
from recorder.wire.framing.sse import FRAME_LIMIT
from recorder.wire.recording import recording_of
from tests.support.rows import START_NS, make_events, make_exchange, make_id, make_session
from tests.support.tables import table

RESPONSES = '{"type":"response.created","sequence_number":0}'
CHAT = '{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}'
ANTHROPIC = '{"type":"message_start","message":{"id":"msg_1"}}'
GEMINI = '{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}],"modelVersion":"gemini-2.5-pro"}'
OTHER = '{"type":"message-start","id":"1"}'


def fixed_names() -> Names:
    numbers = itertools.count(100)
    return Names(lambda: make_id(next(numbers)), lambda: START_NS)


def told(entries: Iterable[Entry]) -> Batch:
    """What becomes of entries that a journal is told."""
    assembler = Assembler("recorder-1", lambda head, grouping: None)
    number = 0
    for mark, t_ns, payload in entries:
        number += mark is Mark.REQUEST
        assembler.feed(Record(number, mark, t_ns, payload, START), START)
    assert not assembler.open
    return assembler.batch


def imported(cassette: Cassette) -> Batch:
    names = fixed_names()
    return told(cassette.entries(cassette.session("it", names), names))


def recordings(batch: Batch) -> list[Recording]:
    events: dict[str, list[Event]] = {exchange.exchange_id: [] for exchange in batch.exchanges}
    for event in batch.events:
        events[event.exchange_id].append(event)
    ordered = sorted(batch.exchanges, key=lambda each: each.exchange_id)
    return [
        recording_of(each, events[each.exchange_id], number=at)
        for at, each in enumerate(ordered, 1)
    ]


def foreign(
    data: str | bytes, format: Format | None = None, *, dialect: str | None = None, **request: Any
) -> Batch:
    data = data.encode() if isinstance(data, str) else data
    asked = PlainRequest(**request) if request else None
    return imported(PlainStream(io.BytesIO(data), format or formats(data)[0], dialect, asked))


def body(events: Iterable[Event]) -> bytes:
    return b"".join(event.raw for event in events if event.kind in BODY_KINDS)


# -- what a file is


@table(
    ("data", "format"),
    [
        (b"data: {}\n\n", "sse"),
        (b"\xef\xbb\xbfdata: {}\n\n", "sse"),
        (b"event: ping\r\ndata: {}\r\n\r\n", "sse"),
        (b": keep-alive\n\n", "sse"),
        (b"error: it broke\n\n", "sse"),
        (f"{RESPONSES}\n{RESPONSES}\n".encode(), "payloads"),
        (f"\n{RESPONSES}".encode(), "payloads"),
        (CHAT.encode(), "payloads"),
        (GEMINI.encode(), "json"),
        (b'{"object":"chat.completion","choices":[]}\n', "json"),
        (b'{\n  "a": 1\n}\n', "json"),
        (f"[{GEMINI},\n{GEMINI}]".encode(), "json"),
        (b'{"recorder_export":1,"session":{}}\n', "jsonl"),
    ],
)
def test_the_format_is_told_by_the_content(data: bytes, format: str) -> None:
    assert formats(data)[0] == format


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0", b"data: \0\0\n\n", b"Dear diary,\n"])
def test_what_is_nothing_of_that_has_no_format(data: bytes) -> None:
    assert formats(data) == ()


@given(st.binary(max_size=200))
def test_no_bytes_are_too_odd_to_be_looked_at(data: bytes) -> None:
    for format in formats(data):
        with contextlib.suppress(RecorderError):
            imported(cassette_in(io.BytesIO(data), format))


@table(
    ("payload", "api", "target"),
    [
        (RESPONSES, "openai-responses", "/v1/responses"),
        (CHAT, "openai-chat", "/v1/chat/completions"),
        (ANTHROPIC, "anthropic", "/v1/messages"),
        (GEMINI, "gemini", "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        (OTHER, "other", "/"),
    ],
)
def test_the_dialect_is_told_by_the_first_payload_that_says_so(
    payload: str, api: str, target: str
) -> None:
    for data in (f'data: {{"x":1}}\n\ndata: {payload}\n\n', f"{payload}\n{payload}\n"):
        [exchange] = foreign(data).exchanges
        assert (exchange.api, exchange.target, exchange.method) == (api, target, "POST")


def test_an_event_that_is_longer_than_what_is_looked_at_says_what_it_is_in_its_event_line() -> None:
    data = b'event: response.created\ndata: {"type":"response.created","x":"%b"}\n\n' % (
        b"x" * 2**20
    )
    assert foreign(data).exchanges[0].api == "openai-responses"


def test_the_dialect_that_the_user_names_stands_above_the_content_and_the_url() -> None:
    [exchange] = foreign(f"data: {CHAT}\n\n", dialect="anthropic", target="/v1/responses").exchanges
    assert (exchange.api, exchange.target, exchange.provider) == (
        "anthropic",
        "/v1/messages",
        "anthropic",
    )


@pytest.mark.parametrize("document", [GEMINI, f"[{GEMINI}]"])
def test_a_document_of_gemini_was_not_asked_for_as_a_stream(document: str) -> None:
    [exchange] = foreign(document).exchanges
    assert exchange.target == "/v1beta/models/gemini-2.5-pro:generateContent"
    assert exchange.api == "gemini"


# -- streams of others


@given(
    st.lists(
        st.sampled_from(
            [
                b"data: {}\n\n",
                b"data: a\r\n\r\n",
                b": x\n\n",
                b"\n",
                b"data: \xff\xfe",
                b"id: 1\r\r",
            ]
        )
    )
)
def test_no_byte_of_a_stream_is_lost(blocks: list[bytes]) -> None:
    data = b"data: first\n\n" + b"".join(blocks)
    batch = foreign(data, "sse")
    assert body(batch.events) == data
    assert json.loads(batch.events[-1].raw)["lossless"] is True


def test_a_stream_has_an_event_every_10_ms_and_is_marked_as_imported() -> None:
    batch = foreign(b"data: 1\n\n: c\n\ndata: " + b"x" * 2 * FRAME_LIMIT + b"\n\ndata: 2\n\nrest")
    kinds = [
        (event.kind, event.t_ns // STEP_NS) for event in batch.events if event.kind in BODY_KINDS
    ]
    assert kinds == [("frame", 1), ("comment", 2), *[("part", 3)] * 3, ("frame", 4), ("tail", 5)]
    [session] = batch.sessions
    assert (session.name, session.source, session.origin) == ("it", "import", "import")


@table(
    ("payload", "framed"),
    [
        (RESPONSES, f"event: response.created\ndata: {RESPONSES}\n\n"),
        (ANTHROPIC, f"event: message_start\ndata: {ANTHROPIC}\n\n"),
        (CHAT, f"data: {CHAT}\n\n"),
        (GEMINI, f"data: {GEMINI}\r\n\r\n"),
        (OTHER, f"data: {OTHER}\n\n"),
    ],
)
def test_payloads_are_framed_as_their_api_frames_them(payload: str, framed: str) -> None:
    assert body(foreign(f"{payload}\n\n{payload}\r\n", "payloads").events).decode() == 2 * framed


def test_white_space_in_a_payload_ends_no_line_of_the_stream() -> None:
    payloads = b'{"type":\r"response.created"}\n{"type":"a\\nb"}\n[DONE]\n'
    events = foreign(payloads, "payloads", dialect="openai-responses").events
    frames = [(event.kind, event.type) for event in events if event.kind in BODY_KINDS]
    assert frames == [("frame", "response.created"), ("frame", "a\nb"), ("frame", "[DONE]")]


def test_a_document_is_a_body_without_frames() -> None:
    batch = foreign(b'{"object":"response","output":[]}')
    assert [event.kind for event in batch.events] == ["request", "response", "body", "reads", "end"]
    assert batch.exchanges[0].api == "openai-responses"
    assert json.loads(batch.events[1].raw)["headers"] == [["content-type", "application/json"]]


@table(
    ("format", "data", "reason"),
    [
        ("sse", b"Dear diary", "not a stream"),
        ("payloads", b'{"a":1}\n{"a":\n', "payload 2 is not a JSON object"),
        ("payloads", b'{"a":1}\n3\n', "payload 2 is not a JSON object"),
        ("json", b'{"a":1}\n{"a":1}\n', "not a JSON document"),
        ("json", b'"text"', "not a JSON document"),
    ],
)
def test_a_file_that_is_not_of_its_format_is_refused_before_anything_is_told(
    format: Format, data: bytes, reason: str
) -> None:
    with pytest.raises(RecorderError, match=reason):
        PlainStream(io.BytesIO(data), format, None, None)


def test_half_an_emoji_is_json() -> None:
    line = rb'{"object":"chat.completion.chunk","choices":[{"delta":{"content":"\ud83d"}}]}'
    assert body(foreign(line + b"\n" + line, "payloads").events) == b"data: %b\n\n" % line * 2


# -- the request beside a stream


def test_a_request_is_kept_with_its_secrets_redacted() -> None:
    headers = {
        "Authorization": "Bearer sk-123",
        "user-agent": "codex_exec/0.1",
        "content-encoding": "gzip",
    }
    stored = {
        "method": "post",
        "url": "https://x.test/v1/responses?key=s3cret",
        "headers": headers,
        "body": {"a": 1},
    }
    request = read_request(json.dumps(stored).encode())
    batch = foreign(f"data: {RESPONSES}\n\n", **request._asdict())
    [exchange] = batch.exchanges
    assert (exchange.method, exchange.target) == ("POST", "/v1/responses?key=REDACTED")
    assert exchange.client == "codex_exec"
    head, asked = (event.raw for event in batch.events[:2])
    assert asked == b'{"a": 1}'
    assert b"sk-123" not in head
    assert b"Authorization" in head


@pytest.mark.parametrize(
    ("written", "sent"), [("null", b""), ('"a=b"', b"a=b"), ("[1, 2]", b"[1, 2]")]
)
def test_the_body_of_a_request_is_json_or_text_or_nothing(written: str, sent: bytes) -> None:
    assert read_request(f'{{"url":"/v1/x","body":{written}}}'.encode()).body == sent


def test_a_request_may_be_its_body_alone() -> None:
    assert read_request(b'{"model":"gpt"}') == PlainRequest(body=b'{"model":"gpt"}')
    with pytest.raises(ValueError, match="not JSON"):
        read_request(b"model=gpt")


# -- our own export


def export(batch: Batch) -> bytes:
    """As `recorder export` writes it."""
    lines = [opening_line(batch.sessions[0])]
    for exchange in batch.exchanges:
        lines.append(exchange_line(exchange))
        lines += [
            event_line(event) for event in batch.events if event.exchange_id == exchange.exchange_id
        ]
    return b"".join([*lines, closing_line(len(batch.exchanges), len(batch.events))])


def comparable(batch: Batch) -> list[tuple[Any, ...]]:
    """The events without what hangs on ids, exchange by exchange."""
    order = [exchange.exchange_id for exchange in batch.exchanges]
    events = sorted(batch.events, key=lambda event: (order.index(event.exchange_id), event.pos))
    return [msgspec.structs.astuple(event)[2:-1] for event in events]


CODERS: dict[str | None, Callable[[bytes], bytes]] = {
    None: bytes,
    "unheard-of": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}
BLOCKS = [
    *(
        b"data: {}\n\n",
        b'event: a\r\ndata: {"type":"b","sequence_number":7}\r\n\r\n',
        b": c\n\n",
        b"data: \xff\n\n",
    ),
    *(
        "data: \U0001f600\n\n".encode(),
        b"data: " + b"\xc3\xa9" * FRAME_LIMIT + b"\n\n",
        b"unended",
        b"x\r\r",
        b"\0",
    ),
]
OUTCOMES: list[Outcome] = ["eof", "client_disconnect", "upstream_reset", "recorder_crash"]


@st.composite
def exchanges(draw: st.DrawFn, number: int) -> list[Entry]:
    """An exchange as a recorder journals it: whatever passed, cut anywhere, with a gap at times."""
    session = make_session(1, origin="live", labels='{"a":1}')
    head = RequestHead(
        *(
            make_id(number),
            session.session_id,
            START_NS + number,
            "POST",
            "/v1/responses",
            "openai",
        ),
        headers=[("user-agent", "codex_exec/0.1")],
        imported=Imported(session),
    )
    coding = draw(st.sampled_from(list(CODERS)))
    headers = [("content-type", draw(st.sampled_from(["text/event-stream", "application/json"])))]
    headers += [("content-encoding", coding)] if coding else []
    wire = CODERS[coding](b"".join(draw(st.lists(st.sampled_from(BLOCKS), max_size=8))))
    if draw(st.booleans()):
        wire = wire[: draw(st.integers(0, len(wire)))]
    cuts = sorted({0, len(wire), *draw(st.lists(st.integers(0, len(wire)), max_size=6))})
    chunks = [wire[start:end] for start, end in itertools.pairwise(cuts)]
    entries = [
        Entry(Mark.REQUEST, 5, msgspec.json.encode(head)),
        Entry(Mark.REQUEST_BODY, 6, draw(st.sampled_from([b"", b'{"a":1}', b"\xff"]))),
        Entry(Mark.REQUEST_END, 7, msgspec.json.encode(RequestEnd(complete=True))),
        Entry(Mark.RESPONSE, 8, msgspec.json.encode(ResponseHead(200, "OK", headers))),
        *(Entry(Mark.CHUNK, 10 + 3 * at, chunk) for at, chunk in enumerate(chunks)),
    ]
    if draw(st.booleans()):
        gap = Entry(Mark.GAP, 20, msgspec.json.encode(Gap(Mark.CHUNK, 2, 300, "", 12, 20, "full")))
        entries.insert(draw(st.integers(4, len(entries))), gap)
    return [
        *entries,
        Entry(Mark.END, 99, msgspec.json.encode(ExchangeEnd(draw(st.sampled_from(OUTCOMES))))),
    ]


@given(exchanges(2), exchanges(3))
def test_what_was_exported_comes_back_as_it_was(first: list[Entry], second: list[Entry]) -> None:
    recorded = told([*first, *second])
    restored = imported(Jsonl(io.BytesIO(export(recorded))))
    assert comparable(restored) == comparable(recorded)
    for before, after in zip(recorded.exchanges, restored.exchanges, strict=True):
        assert msgspec.structs.astuple(before)[2:] == msgspec.structs.astuple(after)[2:]
        assert before.exchange_id != after.exchange_id
    [session] = restored.sessions
    fresh = {"session_id": session.session_id, "name": "it", "source": "import", "origin": "import"}
    assert session == msgspec.structs.replace(recorded.sessions[0], **fresh)
    again = imported(Jsonl(io.BytesIO(export(restored))))  # its hashes hold, or it would be refused
    assert comparable(again) == comparable(recorded)


@given(st.binary(max_size=50))
def test_any_bytes_stand_in_a_line(raw: bytes) -> None:
    [event] = make_events(make_exchange(make_session()), [raw])
    line = event_line(event)
    assert read_event(line) == event
    assert line.count(b"\n") == 1


def small_export() -> list[bytes]:
    exchange = make_exchange(make_session())
    events = make_events(exchange, [b"one", b"two", b"{}"], ["request", "frame", "end"])
    return [
        opening_line(make_session()),
        exchange_line(exchange),
        *map(event_line, events),
        closing_line(1, 3),
    ]


def mutilated() -> Iterator[tuple[list[bytes], str]]:
    opening, exchange, first, second, end, closing = small_export()
    changed = second.replace(b'"two"', b'"2"')  # which its hash shows
    yield (
        [opening, exchange, first, changed],
        "^line 4 is not as `recorder export` wrote it: it was changed",
    )
    yield [opening, exchange, second, end], "line 3 .* is missing before it"
    yield [opening, first], "line 2 .* is missing before it"
    yield [opening, exchange, first, second, end[:-20]], "line 5"
    yield [opening, exchange, first, second, end, b"\n"], "line 6"
    yield [opening, exchange, first, second, end, second], "line 6"
    yield [opening, closing_line(0, 0)], "no exchange"
    yield [opening], "cut off after line 1"
    yield (
        [opening, exchange, first, second, end],
        "cut off after line 5: the last line of an export is missing",
    )
    yield (
        [opening, exchange, first, second, closing],
        "line 5 .* 1 of 3 events are missing before it",
    )
    yield [opening, exchange, first, second, end, closing, end], "line 7 .* after the last line"
    yield (
        [opening, exchange, first.replace(b'"t_ns":0', b'"t_ns":-1')],
        "line 3 .* before the request",
    )
    yield [opening.replace(b'export":1', b'export":2'), exchange], "line 1 .* version 2"
    yield (
        [opening, exchange.replace(make_id(1).encode(), make_id(9).encode())],
        "line 2 .* of another session",
    )
    yield [opening, exchange, first.replace(b'"pos":0', b'"pos":%d' % 2**70)], "line 3"
    yield [opening, exchange, first.replace(b'"request"', b'"wish"')], "line 3"


@table(("lines", "reason"), list(mutilated()))
def test_what_is_no_whole_export_is_refused_with_its_line(lines: list[bytes], reason: str) -> None:
    with pytest.raises(RecorderError, match=reason):
        Jsonl(io.BytesIO(b"".join(lines)))


def test_an_exchange_that_was_exported_before_its_end_is_ended_with_a_gap() -> None:
    batch = imported(Jsonl(io.BytesIO(b"".join([*small_export()[:-2], closing_line(1, 2)]))))
    assert [event.kind for event in batch.events] == ["request", "frame", "gap", "end"]
    end = json.loads(batch.events[-1].raw)
    assert (end["status"], end["lossless"]) == ("recorder_crash", False)
    assert "exported before it had ended" in end["error"]
