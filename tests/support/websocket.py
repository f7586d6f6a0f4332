"""Turns and connections over WebSocket made by hand, as the log has them, and a client for them.

turn({"model": "m", "input": "hi"}, *messages)         # a Recording of method WEBSOCKET
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from recorder.model.events import Exchange, Outcome, Status
from recorder.model.payloads import (
    CloseRecord,
    EndRecord,
    FrameShape,
    Header,
    RequestRecord,
    ResponseHead,
    Side,
    WebSocketTurn,
)
from recorder.model.recording import Piece, Recording
from tests.support.facts import MS

HANDSHAKE: list[Header] = [
    *(("Host", "127.0.0.1:8787"), ("Connection", "Upgrade"), ("Upgrade", "websocket")),
    *(("Sec-WebSocket-Version", "13"), ("Authorization", "REDACTED (13 bytes)")),
]
SWITCHED = ResponseHead(
    101,
    "Switching Protocols",
    [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", "x"), ("openai-model", "m-1")],
)


def end_of(outcome: Outcome = "eof", status: Status = "completed", **more: Any) -> EndRecord:
    return EndRecord(status, outcome, None, 101, 0, "", 0, "", 0, 0, 0, 0, None, None, True, **more)


def message(type: str, number: int = 0, **fields: Any) -> bytes:
    """A message as a server writes it, with a space after each colon."""
    return json.dumps({"type": type, "sequence_number": number, **fields}).encode()


def answer(id: str, deltas: Sequence[str] = ("Hel", "lo"), **fields: Any) -> list[bytes]:
    """The messages of one response that says something."""
    head = {"id": id, "object": "response", "model": "m", "output": []}
    text = "".join(deltas)
    item: dict[str, Any] = {"id": f"msg_{id}", "type": "message", "role": "assistant", "status": "completed"}
    item["content"] = [{"type": "output_text", "text": text, "annotations": []}]
    return [
        message("response.created", 0, response={**head, "status": "in_progress"}, **fields),
        *(
            message("response.output_text.delta", number, delta=delta, item_id=item["id"], output_index=0, **fields)
            for number, delta in enumerate(deltas, 1)
        ),
        message("response.completed", 9, response={**head, "status": "completed", "output": [item]}, **fields),
    ]


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
    request = RequestRecord("WEBSOCKET", target, "openai", HANDSHAKE, len(raw), "", len(raw), True, websocket=place)
    pieces = tuple(Piece(at * step_ns, each) for at, each in enumerate(messages, 1))
    response = SWITCHED if messages else None
    end_ns = len(messages) * step_ns
    return Recording(exchange, request, raw, response, step_ns, pieces, (), end_of(outcome), end_ns, f"turn {number}")


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
    """A connection as the log has it; `messages` have their time in ms, their sender and their payload."""
    exchange = Exchange("s", id, 0, "r", "openai", "other", "GET", target)
    request = RequestRecord("GET", target, "openai", HANDSHAKE, 0, "", 0, True)
    frames: list[FrameShape] = [(t * MS, by, opcode, len(raw)) for t, by, raw in messages]
    pieces = tuple(Piece(t * MS, raw) for t, by, raw in messages if by == "server")
    end = end_of(outcome, close=close or CloseRecord(None))
    return Recording(exchange, request, b"", response, MS, pieces, (), end, end_ns, frames=tuple(frames))
