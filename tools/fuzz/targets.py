"""What must hold whatever the bytes: no error but our own, nothing lost, nothing grown. A function
for each reader.
"""

from __future__ import annotations

import asyncio
import io
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from recorder.cassettes import Entry, Names
from recorder.errors import NotFoundError, RecorderError, UpstreamError, UsageError
from recorder.ingest.assembler import Assembler
from recorder.ingest.capture import Capture
from recorder.journal.format import MAGIC, START, Mark, Record, encode
from recorder.journal.reader import JournalReader, segment_name
from recorder.model.chain import row_root
from recorder.model.events import (
    BODY_KINDS,
    Event,
    Exchange,
    ExchangeEnd,
    RequestHead,
    ResponseHead,
)
from recorder.projections.fold import Folding
from recorder.proxy import admission
from recorder.proxy.http.client_connection import ClientConnection
from recorder.proxy.http.server_connection import ServerConnection, ServerConnections, is_framed
from recorder.proxy.http.server_exchange import Headers, ServerExchange
from recorder.proxy.routing import Routes, parse_upstream
from recorder.recordings.files import cassette_in
from recorder.store.maintain.verify.chain import ChainVerifier
from recorder.wire.dialects import DIALECTS
from recorder.wire.framing.sse import FRAME_LIMIT, Piece, Splitter, parse
from recorder.wire.framing.websocket import Damage, Deflate, Frame, MessageParser, Part
from recorder.wire.redaction.headers import redact_target
from tests.support.rows import START_NS, make_id

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


def websocket(data: bytes) -> None:
    """Frames, messages and damage are the same however the bytes were cut, and no byte is in two
    frames.
    """
    choice, size, body = (data[0] if data else 0), 1 + (data[1] if len(data) > 1 else 0), data[2:]
    deflate = Deflate(choice % 4 == 3, 15) if choice & 2 else None
    whole, cut = (
        _parts(MessageParser(from_client=choice >= 128, deflate=deflate), chunks)
        for chunks in ([body], [body[at : at + size] for at in range(0, len(body), size)])
    )
    assert cut == whole
    framed = sum(part.wire_bytes for part in whole if isinstance(part, Frame))
    assert framed <= len(body)
    assert framed == len(body) or isinstance(whole[-1], Damage)


def _parts(parser: MessageParser, chunks: list[bytes]) -> list[Part]:
    """All that comes of the chunks; damage that goes on is one."""
    parts: list[Part] = []
    for part in [part for chunk in chunks for part in parser.feed(chunk)] + parser.close():
        last = parts[-1] if parts else None
        if isinstance(part, Damage) and isinstance(last, Damage) and part.reason == last.reason:
            parts[-1] = Damage(last.raw + part.raw, part.reason)
        else:
            parts.append(part)
    return parts


_TYPES = ("text/event-stream", "application/json")


def dialects(data: bytes) -> None:
    """The log has the body, its chain holds, and projections of it are rows."""
    choice, body = (data[0] if data else 0), data[1:]
    dialect = DIALECTS[choice % len(DIALECTS)]
    request, _, body = body.partition(b"\n\n\n")
    session_id, exchange_id = make_id(1), make_id(2)
    target = dialect.target(False, ())
    row = Exchange(session_id, exchange_id, START_NS, "r", "openai", dialect.name, "POST", target)
    head = RequestHead(exchange_id, session_id, START_NS, "POST", target, "openai", [])
    capture = Capture(session_id, exchange_id, dialect, 0, row_root(row))
    events = capture.request(head, request, wire=request)
    events += capture.response(
        1, ResponseHead(200, "OK", [("content-type", _TYPES[choice // 64 % 2])])
    )
    half = len(body) // 2
    for number, chunk in enumerate((body[:half], body[half:])):
        events += capture.chunk(2 + number, chunk)
    events += capture.end(9, ExchangeEnd("eof"))
    assert b"".join(event.raw for event in events if event.kind in BODY_KINDS) == body
    _check(row, events)


def _check(row: Exchange, events: list[Event]) -> None:
    verifier, folding = ChainVerifier(row.session_id, row.exchange_id, row), Folding(row)
    for event in events:
        verifier.feed(event)
    assert verifier.close() == []
    folding.apply_all(events)
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
    """Records that are whole, and invalid: each costs its exchange at most."""
    told, marks = list[Record](), list(Mark)
    for number, line in enumerate(data.split(b"\n")):
        head, payload = line[:1] or b"\0", line[1:]
        told.append(
            Record(1 + head[0] // 16 % 2, marks[head[0] % len(marks)], number, payload, START)
        )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / segment_name(1)).write_bytes(b"".join(encode(told)))
        assembler = Assembler("recorder-1", lambda head, grouping: None)
        for record in JournalReader(Path(folder)).read(1 << 24, writer_is_dead=True):
            assembler.feed(record, START)
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
    assembler.feed(Record(1, entry.mark, entry.t_ns, entry.payload, START), START)


def heads(data: bytes) -> None:
    """The head of a request is let through or refused."""
    start, *lines = data.split(b"\r\n")
    method, _, target = start.partition(b" ")
    fields = [line.partition(b":") for line in lines]
    headers = [(name.lower(), value.strip()) for name, _, value in fields]
    admission.refusal(method.decode("latin-1"), headers, {"name.example"}, 2**20)
    admission.shown_token(target, headers)
    is_framed(headers, "1.1")
    redact_target(target.decode("latin-1"))
    with suppress(UsageError, NotFoundError):
        route = Routes().route(target.decode("latin-1"), headers)
        assert route.url_target.startswith("/")
        assert route.url.startswith(route.base.rstrip("/"))
    with suppress(UsageError):
        parse_upstream(data.decode("utf-8", "replace"))


class _Transport(asyncio.Transport):
    """A socket that takes whatever is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    def abort(self) -> None:
        self._closing = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class _Request(NamedTuple):
    method: str
    path: bytes
    query: bytes
    headers: Headers
    body: bytes


def requests(data: bytes) -> None:
    """The server sees the same requests however the bytes are cut, and leaves nothing.

    Of bytes in one piece it may see fewer: one that it refuses takes those with it that are not
    answered yet.
    """
    size, sent = 1 + (data[0] if data else 0), data[1:]
    cut = asyncio.run(_served([sent[at : at + size] for at in range(0, len(sent), size)]))
    whole = asyncio.run(_served([sent]))
    assert cut[: len(whole)] == whole
    for request in cut:
        assert is_framed(request.headers, "1.1")
        assert request.path.isascii()
    assert sum(len(request.path) + len(request.body) for request in cut) <= len(sent)


async def _served(pieces: list[bytes]) -> list[_Request]:
    seen: list[_Request] = []

    async def answer(exchange: ServerExchange) -> None:
        body = b""
        while piece := await exchange.read():
            body += piece
        seen.append(
            _Request(exchange.method, exchange.path, exchange.query, exchange.headers, body)
        )
        exchange.respond(200, [], body)

    connections, transport = ServerConnections(answer, lambda: None, lambda: None), _Transport()
    connection = ServerConnection(connections, asyncio.get_running_loop())
    connection.connection_made(transport)
    for piece in pieces:
        if transport.is_closing():
            break
        connection.data_received(piece)
        await asyncio.sleep(0)
    for _ in range(2 * sum(map(len, pieces)) + 2):  # each request takes a turn or two
        if not connections.answering or transport.is_closing():
            break
        await asyncio.sleep(0)
    connection.connection_lost(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not connections.answering
    assert not connections.connections
    return seen


class _Response(NamedTuple):
    status: int
    reason: bytes
    headers: Headers
    body: bytes
    outcome: str


def responses(data: bytes) -> None:
    """The client reads the same response however the bytes are cut, and no error but
    `UpstreamError` comes of them.
    """
    choice, size, sent = (data[0] if data else 0), 1 + (data[1] if len(data) > 1 else 0), data[2:]
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    cut, whole = (asyncio.run(_received(each, is_head=choice == 1)) for each in (pieces, [sent]))
    assert cut == whole
    assert len(cut.body) <= len(sent)


async def _received(pieces: list[bytes], *, is_head: bool) -> _Response:
    with socket.socket() as unconnected:
        connection, transport = ClientConnection(unconnected), _Transport()
        connection.connection_made(transport)
        response = connection.begin(b"GET / HTTP/1.1\r\n\r\n", None, chunked=False, is_head=is_head)
        for piece in pieces:
            if not transport.is_closing():
                connection.data_received(piece)
        connection.connection_lost(None)
        body, outcome = b"", "eof"
        try:
            await response.head()
            while chunk := await response.read():
                body += chunk
        except UpstreamError as error:
            outcome = error.outcome
        response.close()
        if not response.status:  # no head: what came of it is nobody's
            return _Response(0, b"", [], body, outcome)
        return _Response(response.status, response.reason, response.headers, body, outcome)


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        splitter,
        websocket,
        dialects,
        journal,
        records,
        cassettes,
        heads,
        requests,
        responses,
    )
}

_FRAME = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"x"}\n\n'
_SEGMENT = b"".join(encode([Record(1, mark, 1, b"{}", START) for mark in Mark]))
SEEDS: Mapping[str, list[bytes]] = {
    "splitter": [
        b"\x02" + _FRAME,
        b"\x00\xef\xbb\xbfdata: a\r\rdata: b\r\n\r\n: c\n\n",
        b"\x07data: cut",
    ],
    "websocket": [
        b"\x00\x02\x01\x02{}\x89\x00\x80\x00\x81\x7e\x00\x7e" + 126 * b"x" + b"\x88\x02\x03\xe8",
        b"\x03\x00\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00\xc1\x05\xf2\x00\x11\x00\x00\xc2\x08\xf3\x48\xcd\xc9\xc9\x07\x00\x00",
        b"\x82\x05\x81\x82abcd\x13\x0b\x81\xff" + 8 * b"\xff",
    ],
    "dialects": [
        bytes([number]) + b'{"model":"m"}\n\n\n' + _FRAME for number in range(len(DIALECTS))
    ],
    "journal": [_SEGMENT, _SEGMENT + NEXT_SEGMENT + _SEGMENT, _SEGMENT[:-3], MAGIC, b"", bytes(40)],
    "records": [b"\x00{}\n\x02{}\n\x03{}\n\x04data: 1\n\x06{}", b"\x10{}\n\x15{}"],
    "cassettes": [
        _FRAME,
        b'{"log":{"entries":[]}}',
        b"version: 1\ninteractions: []\n",
        b'data: {"id":1}\n\n',
    ],
    "heads": [
        b"POST /v1/responses?key=x\r\nHost: localhost:1\r\nContent-Length: 2",
        b"GET /s/name/v1/models\r\nHost: [::1]\r\nOrigin: null\r\nTransfer-Encoding: chunked",
        b"openai=https://h.example/v1",
    ],
    "requests": [
        b"\x02POST /v1/x?a=b HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"\x09PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;a\r\n12\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.0\n\n",
        b"\xffPOST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\nExpect: x\r\n\r\nabc",
        b"\x05GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET /behind HTTP/1.1\r\n\r\n\x81\x00",
    ],
    "responses": [
        b"\x00\x01HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodyHTTP/1.1 200 OK\r\n\r\n",
        b"\x00\x09HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n4 ;x\r\nbody\r\n0\r\nX: y\r\n\r\n",
        b"\x00\xffHTTP/1.0 200 OK\nSet-Cookie: a\nSet-Cookie: b\n\nto the end",
        b"\x01\x05HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n",
        b"\x00\x03HTTP/1.1 101 OK\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello\x88\x00",
    ],
}
