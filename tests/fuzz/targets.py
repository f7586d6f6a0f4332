"""What must hold whatever the bytes: no error but our own, nothing lost, nothing grown. A function for each reader."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from recorder.cassettes import Entry, Names
from recorder.commands.ui.files import cassette_in
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.ingest.assembler import Assembler
from recorder.ingest.capture import Capture
from recorder.journal.format import MAGIC, START, Mark, Record, encode
from recorder.journal.reader import JournalReader, segment_name
from recorder.model.chain import row_root
from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.model.payloads import ExchangeEnd, RequestHead, ResponseHead
from recorder.projections.fold import Folding
from recorder.proxy import admission
from recorder.proxy.http import framing
from recorder.proxy.routing import Routes, parse_upstream
from recorder.store.verify.chain import Verifier
from recorder.wire.dialects import DIALECTS
from recorder.wire.redaction.headers import redact_target
from recorder.wire.sse import FRAME_LIMIT, Piece, Splitter, parse
from tests.log_rows import START_NS, make_id

IDS = Names(lambda: make_id(1), lambda: START_NS)
NEXT_SEGMENT = b"--next segment--"


def splitter(data: bytes) -> None:
    """What went in comes out, in the same pieces however it was cut, and each is small."""
    size, body = 1 + (data[0] if data else 0), data[1:]
    pieces = _split([body[at : at + size] for at in range(0, len(body), size)])
    assert b"".join(piece.raw for piece in pieces) == body
    assert pieces == _split([body])
    for piece in pieces:
        assert len(piece.raw) <= FRAME_LIMIT
        said = parse(piece.raw)
        if said.data_start is not None and said.data_length is not None:
            assert piece.raw[said.data_start : said.data_start + said.data_length] == said.data


def _split(chunks: list[bytes]) -> list[Piece]:
    split = Splitter()
    return [piece for chunk in chunks for piece in split.feed(chunk)] + split.close()


_PATHS = ("/v1/responses", "/v1/chat/completions", "/v1/messages", "/v1beta/models/m:streamGenerateContent", "/x")
_TYPES = ("text/event-stream", "application/json")


def dialects(data: bytes) -> None:
    """The log has the body, its chain holds, and projections of it are rows."""
    choice, body = (data[0] if data else 0), data[1:]
    dialect = DIALECTS[choice % len(DIALECTS)]
    request, _, body = body.partition(b"\n\n\n")
    session_id, exchange_id = make_id(1), make_id(2)
    target = _PATHS[choice % len(DIALECTS)]
    row = Exchange(session_id, exchange_id, START_NS, "r", "openai", dialect.name, "POST", target)
    head = RequestHead(exchange_id, session_id, START_NS, "POST", target, "openai", [])
    capture = Capture(session_id, exchange_id, dialect, 0, row_root(row))
    events = capture.request(head, request, wire=request)
    events += capture.response(1, ResponseHead(200, "OK", [("content-type", _TYPES[choice // 64 % 2])]))
    half = len(body) // 2
    for number, chunk in enumerate((body[:half], body[half:])):
        events += capture.chunk(2 + number, chunk)
    events += capture.end(9, ExchangeEnd("eof"))
    assert b"".join(event.raw for event in events if event.kind in BODY_KINDS) == body
    _check(row, events)


def _check(row: Exchange, events: list[Event]) -> None:
    verifier, folding = Verifier(row.session_id, row.exchange_id, row), Folding(row)
    for event in events:
        verifier.tell(event)
    assert verifier.close() == []
    folding.tell_all(events)
    assert folding.rows()["exchanges"]


def journal(data: bytes) -> None:
    """What a dead recorder left is read to its end, and nothing is told that is not there."""
    with tempfile.TemporaryDirectory() as folder:
        for number, segment in enumerate(data.split(NEXT_SEGMENT)):
            (Path(folder) / segment_name(number + 1)).write_bytes(segment)
        reader, told = JournalReader(Path(folder)), 0
        with suppress(RecorderError):
            while records := reader.read(1 << 16, writer_is_dead=True):
                told += sum(len(record.payload) for record in records)
    assert told <= len(data)


def records(data: bytes) -> None:
    """Records that are whole, and make no sense: each costs its exchange at most."""
    told, marks = list[Record](), list(Mark)
    for number, line in enumerate(data.split(b"\n")):
        head, payload = line[:1] or b"\0", line[1:]
        told.append(Record(1 + head[0] // 16 % 2, marks[head[0] % len(marks)], number, payload, START))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / segment_name(1)).write_bytes(b"".join(encode(told)))
        assembler = Assembler("recorder-1", lambda head, grouping: None)
        for record in JournalReader(Path(folder)).read(1 << 24, writer_is_dead=True):
            assembler.tell(record, START)
        assembler.lose("damaged")
        assembler.end_all()
    assert not assembler.open


def cassettes(data: bytes) -> None:
    """A file is read, and can be entered into a log, or refused in a sentence."""
    with suppress(RecorderError):
        cassette = cassette_in(io.BytesIO(data))
        session = cassette.session("fuzzed", IDS)
        assembler = Assembler("recorder-1", lambda head, grouping: None)
        for number, entry in enumerate(cassette.entries(session, IDS)):
            _enter(assembler, number, entry)


def _enter(assembler: Assembler, number: int, entry: Entry) -> None:
    assembler.tell(Record(1, entry.mark, entry.t_ns, entry.payload, START), START)


def heads(data: bytes) -> None:
    """The head of a request is let through or refused."""
    start, *lines = data.split(b"\r\n")
    method, _, target = start.partition(b" ")
    fields = [line.partition(b":") for line in lines]
    headers = [(name.lower(), value.strip()) for name, _, value in fields]
    by_name = dict(headers)
    hosts = sum(name == b"host" for name, _ in headers)
    admission.refusal(method.decode("latin-1"), by_name, hosts, {"name.example"}, 2**20)
    admission.without_token(b"token", target, headers)
    framing.is_framed(headers, "1.1")
    redact_target(target.decode("latin-1"))
    with suppress(UsageError, NotFoundError):
        route = Routes().route(target.decode("latin-1"), headers)
        assert route.url_target.startswith("/")
        assert route.url.startswith(route.upstream.base.rstrip("/"))
    with suppress(UsageError):
        parse_upstream(data.decode("utf-8", "replace"))


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    each.__name__: each for each in (splitter, dialects, journal, records, cassettes, heads)
}

_FRAME = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"x"}\n\n'
_SEGMENT = b"".join(encode([Record(1, mark, 1, b"{}", START) for mark in Mark]))
SEEDS: Mapping[str, list[bytes]] = {
    "splitter": [b"\x02" + _FRAME, b"\x00\xef\xbb\xbfdata: a\r\rdata: b\r\n\r\n: c\n\n", b"\x07data: cut"],
    "dialects": [bytes([number]) + b'{"model":"m"}\n\n\n' + _FRAME for number in range(len(DIALECTS))],
    "journal": [_SEGMENT, _SEGMENT + NEXT_SEGMENT + _SEGMENT, _SEGMENT[:-3], MAGIC, b"", bytes(40)],
    "records": [b"\x00{}\n\x02{}\n\x03{}\n\x04data: 1\n\x06{}", b"\x10{}\n\x15{}"],
    "cassettes": [_FRAME, b'{"log":{"entries":[]}}', b"version: 1\ninteractions: []\n", b'data: {"id":1}\n\n'],
    "heads": [
        b"POST /v1/responses?key=x\r\nHost: localhost:1\r\nContent-Length: 2",
        b"GET /s/name/v1/models\r\nHost: [::1]\r\nOrigin: null\r\nTransfer-Encoding: chunked",
        b"openai=https://h.example/v1",
    ],
}
