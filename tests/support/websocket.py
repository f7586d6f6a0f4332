"""Turns and connections over WebSocket made by hand, as the log has them, and a client for them.

turn({"model": "m", "input": "hi"}, *messages)         # a Recording of method WEBSOCKET
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from recorder.journal.format import Mark
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.model.events import (
    CloseRecord,
    EndRecord,
    Exchange,
    ExchangeEnd,
    FrameShape,
    Header,
    Outcome,
    Piece,
    Recording,
    RequestEnd,
    RequestHead,
    RequestRecord,
    ResponseHead,
    Side,
    Status,
    WebSocketTurn,
)
from recorder.model.ids import uuid7
from recorder.wire.framing.websocket import accept_of, encode_close, encode_frame
from recorder.wire.redaction.headers import redact_headers
from tests.support.corpus import TRANSCRIPTS
from tests.support.facts import MS

HANDSHAKE: list[Header] = [
    *(("Host", "127.0.0.1:8787"), ("Connection", "Upgrade"), ("Upgrade", "websocket")),
    *(("Sec-WebSocket-Version", "13"), ("Authorization", "REDACTED (13 bytes)")),
]
SWITCHED = ResponseHead(
    101,
    "Switching Protocols",
    [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", "x"),
        ("openai-model", "m-1"),
    ],
)


def end_of(outcome: Outcome = "eof", status: Status = "completed", **more: Any) -> EndRecord:
    return EndRecord(status, outcome, None, 101, 0, "", 0, "", 0, 0, 0, 0, None, None, True, **more)


def message(type: str, number: int = 0, **fields: Any) -> bytes:
    """A message as a server writes it, with a space after each colon."""
    return json.dumps({"type": type, "sequence_number": number, **fields}).encode()


def answer(id: str, deltas: Sequence[str] = ("Hel", "lo"), **fields: Any) -> list[bytes]:
    """The messages of one response that says something, as a server writes them."""
    return [json.dumps(each).encode() for each in response(id, *deltas, **fields)]


def turn(
    body: dict[str, Any],
    *messages: bytes,
    number: int = 1,
    connection: str = "c-1",
    outcome: Outcome = "eof",
    target: str = "/v1/responses",
    step_ns: int = MS,
) -> Recording:
    """A turn as the log has it: a message each millisecond after the request."""
    raw = json.dumps({"type": "response.create", **body}).encode()
    id, started_ns = f"{connection}-t-{number}", number * 1000 * MS
    exchange = Exchange("s", id, started_ns, "r", "openai", "openai-responses", "WEBSOCKET", target)
    place = WebSocketTurn(connection, number)
    request = RequestRecord(
        "WEBSOCKET", target, "openai", HANDSHAKE, len(raw), "", len(raw), True, websocket=place
    )
    pieces = tuple(Piece(at * step_ns, each) for at, each in enumerate(messages, 1))
    response = SWITCHED if messages else None
    end_ns = len(messages) * step_ns
    return Recording(
        exchange,
        request,
        raw,
        response,
        step_ns,
        pieces,
        (),
        end_of(outcome),
        end_ns,
        f"turn {number}",
    )


def connection(
    *messages: tuple[int, Side, bytes],
    id: str = "c-1",
    target: str = "/v1/responses",
    close: CloseRecord | None = None,
    end_ns: int = 10_000 * MS,
    opcode: int = 0x81,
    response: ResponseHead = SWITCHED,
    outcome: Outcome = "eof",
) -> Recording:
    """A connection as the log has it; `messages` have their time in ms, their sender and their
    payload.
    """
    exchange = Exchange("s", id, 0, "r", "openai", "other", "GET", target)
    request = RequestRecord("GET", target, "openai", HANDSHAKE, 0, "", 0, True)
    frames: list[FrameShape] = [(t * MS, by, opcode, len(raw)) for t, by, raw in messages]
    pieces = tuple(Piece(t * MS, raw) for t, by, raw in messages if by == "server")
    end = end_of(outcome, close=close or CloseRecord(None))
    return Recording(
        exchange, request, b"", response, MS, pieces, (), end, end_ns, frames=tuple(frames)
    )


# -- WebSocket connections as a journal has them: from the transcripts of real clients, and made by
# hand


needs_transcripts = pytest.mark.skipif(
    not TRANSCRIPTS.exists(),
    reason="no transcripts: set RECORDER_WIRE to the folder above websocket/",
)
STARTED_NS = 1_795_360_775_000_000_000
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
MASK = b"\x01\x02\x03\x04"


class Step(NamedTuple):
    """One record of a connection."""

    connection: int
    mark: Mark
    t_ns: int
    payload: bytes


def transcript(name: str) -> list[Step]:
    """Return the connections of a transcript, with an end for each, as the proxy journals them."""
    return list(_steps((TRANSCRIPTS / f"{name}-raw-tcp.jsonl").read_text().splitlines(), name))


def _steps(lines: Iterable[str], name: str) -> Iterator[Step]:
    heads: dict[tuple[int, str], bytes] = {}
    switched: set[tuple[int, str]] = set()
    over: dict[int, set[str]] = {}
    requests = set[int]()  # connections that were never switched
    for line in lines:
        read = json.loads(line)
        connection, side, t_ns = read["conn"], read["dir"].partition("-")[0], round(read["t"] * 1e9)
        place = (connection, side)
        mark = Mark.CLIENT_CHUNK if side == "client" else Mark.CHUNK
        if read.get("eof") and connection not in requests:
            yield Step(connection, mark, t_ns, b"")
            over.setdefault(connection, set()).add(side)
            if len(over[connection]) == 2:
                yield Step(connection, Mark.END, t_ns, msgspec.json.encode(ExchangeEnd("eof")))
        if read.get("eof"):
            continue
        data = bytes.fromhex(read["hex"])
        if connection in requests:
            continue
        if place not in switched:
            heads[place] = heads.get(place, b"") + data
            if b"\r\n\r\n" not in heads[place]:
                continue
            head, _, data = heads[place].partition(b"\r\n\r\n")
            if head.startswith(b"POST"):  # Codex, when it has given up
                requests.add(connection)
                continue
            switched.add(place)
            yield from _head_steps(connection, side, t_ns, head.split(b"\r\n"), name)
        if data:
            yield Step(connection, mark, t_ns, data)


def _head_steps(
    connection: int, side: str, t_ns: int, lines: list[bytes], name: str
) -> Iterator[Step]:
    pairs = [line.partition(b":") for line in lines[1:]]
    headers = redact_headers([(name, value.strip()) for name, _, value in pairs])
    if side == "server":
        status, reason = lines[0].split(b" ", 2)[1:]
        response = ResponseHead(int(status), reason.decode(), headers)
        yield Step(connection, Mark.RESPONSE, t_ns, msgspec.json.encode(response))
        return
    target = lines[0].split(b" ")[1].decode()
    yield from request(connection, t_ns, headers, target)


def request(
    connection: int, t_ns: int, headers: list[tuple[str, str]], target: str, **fields: Any
) -> list[Step]:
    """Return the records of a handshake's request."""
    started_ns = STARTED_NS + t_ns
    head = RequestHead(
        **{
            "exchange_id": uuid7(started_ns, bytes([connection % 256]) * 10),
            "session_id": uuid7(started_ns, bytes([connection % 256, 1]) * 5),
            "started_ns": started_ns,
            "method": "GET",
            "target": target,
            "upstream": "openai",
            "headers": headers,
            **fields,
        }
    )
    return [
        Step(connection, Mark.REQUEST, t_ns, msgspec.json.encode(head)),
        Step(connection, Mark.REQUEST_END, t_ns, msgspec.json.encode(RequestEnd(True))),
    ]


class Connection:
    """A connection made by hand, step by step, a millisecond each."""

    def __init__(
        self,
        target: str = "/v1/responses",
        *headers: tuple[str, str],
        number: int = 1,
        answer: Iterable[tuple[str, str]] = (),
        upgrade: str | None = "websocket",
        **fields: Any,
    ) -> None:
        self.number, self.t_ns = number, 0
        offered = [("connection", "Upgrade"), ("upgrade", upgrade)] if upgrade else []
        asked = [
            *offered,
            ("sec-websocket-key", KEY),
            ("user-agent", "OpenAI/Python 3.54.0"),
            *headers,
        ]
        self.steps = request(number, self._later(), asked, target, **fields)
        given = {"upgrade": "websocket", "sec-websocket-accept": accept_of(KEY), **dict(answer)}
        head = ResponseHead(101, "Switching Protocols", list(given.items()))
        self._add(Mark.RESPONSE, msgspec.json.encode(head))

    def client(self, message: object = None, *, raw: bytes | None = None) -> Connection:
        """Add a message of the client, or bytes."""
        data = encode_frame("text", as_payload(message), mask=MASK) if raw is None else raw
        return self._add(Mark.CLIENT_CHUNK, data)

    def server(self, *messages: object, raw: bytes | None = None) -> Connection:
        """Add messages of the server in one read, or bytes."""
        data = (
            b"".join(encode_frame("text", as_payload(each)) for each in messages)
            if raw is None
            else raw
        )
        return self._add(Mark.CHUNK, data)

    def answer(self, id: str, *texts: str, **fields: Any) -> Connection:
        """Add all of a response."""
        for message in response(id, *texts, **fields):
            self.server(message)
        return self

    def close(self, code: int = 1000, reason: str = "") -> Connection:
        """Add a Close of the client, that of the server, the end of both directions and of the
        exchange.
        """
        self._add(Mark.CLIENT_CHUNK, encode_close(code, reason, mask=MASK))
        self._add(Mark.CHUNK, encode_close(code, reason))
        self._add(Mark.CHUNK, b"")
        self._add(Mark.CLIENT_CHUNK, b"")
        return self.end("eof")

    def end(self, outcome: Outcome, error: str | None = None) -> Connection:
        return self._add(Mark.END, msgspec.json.encode(ExchangeEnd(outcome, error)))

    def _later(self) -> int:
        self.t_ns += 1_000_000
        return self.t_ns

    def _add(self, mark: Mark, payload: bytes) -> Connection:
        self.steps.append(Step(self.number, mark, self._later(), payload))
        return self

    add = _add


def as_payload(message: object) -> bytes:
    return message if isinstance(message, bytes) else msgspec.json.encode(message)


def create(text: str = "hello", **fields: Any) -> dict[str, Any]:
    """Return a request."""
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {"type": "response.create", "model": "gpt-5", "input": [said], **fields}


def response(id: str, *texts: str, **fields: Any) -> list[dict[str, Any]]:
    """Return the messages of a response that says these texts."""
    item = {"type": "message", "id": f"msg_{id}", "role": "assistant", "status": "completed"}
    whole = {
        **item,
        "content": [{"type": "output_text", "text": "".join(texts), "annotations": []}],
    }
    begun = {
        "id": id,
        "object": "response",
        "model": "gpt-5",
        "status": "in_progress",
        "output": [],
    }
    usage = {"input_tokens": 7, "output_tokens": len(texts), "total_tokens": 7 + len(texts)}
    place = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    messages: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        *({"type": "response.output_text.delta", **place, "delta": text} for text in texts),
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {
            "type": "response.completed",
            "response": {**begun, "status": "completed", "output": [whole], "usage": usage},
        },
    ]
    return [
        {**message, "sequence_number": number, **fields} for number, message in enumerate(messages)
    ]


def write(
    journal: Journal, steps: Iterable[Step], writers: dict[int, ExchangeWriter] | None = None
) -> None:
    """Write connections into a journal; `writers` are those of connections that are open already."""
    writers = {} if writers is None else writers
    for step in steps:
        writer = writers.get(step.connection) or writers.setdefault(
            step.connection, journal.exchange()
        )
        if step.mark == Mark.END:
            writer.end(step.t_ns, step.payload)
        else:
            writer.write(step.mark, step.t_ns, step.payload)


def deflated(payload: bytes) -> bytes:
    """Return a payload compressed as permessage-deflate has it."""
    compressor = zlib.compressobj(wbits=-15)
    return (compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]
