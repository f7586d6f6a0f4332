"""WebSocket in HAR, both directions: `_webSocketMessages` of an entry, as Chrome's DevTools write them. Pure.

    {"type": "send" | "receive", "time": seconds since the epoch, "opcode": 1 | 2, "data": text, or base64 of opcode 2}

An entry is a connection, and its messages are those of both sides in order. The log has each turn as an exchange of its
own: written, its messages are among those of its connection; read, the messages are a connection again
(`recorder.cassettes.calls`).
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from recorder.cassettes.calls import TimedMessage, message_of
from recorder.model.payloads import Side, WebSocketTurn
from recorder.model.recording import Recording
from recorder.model.text import counted
from recorder.wire.websocket import Opcode

TEXT, BINARY = 1, 2  # opcodes, RFC 6455 section 5.2
_OPCODES: Mapping[int, Opcode] = {TEXT: "text", BINARY: "binary", 8: "close", 9: "ping", 10: "pong"}


# -- to HAR


class WrittenConnection(NamedTuple):
    """A connection and those of its turns that are written with it, or any other exchange, which has none."""

    recording: Recording
    turns: list[Recording]


def connections(recordings: Iterable[Recording]) -> list[WrittenConnection]:
    """Return the exchanges in their order, each turn with its connection if that is among them."""
    found: dict[str, WrittenConnection] = {}
    for each in recordings:
        place = each.request.websocket
        of = found.get(place.connection) if isinstance(place, WebSocketTurn) else None
        if of is None:
            found[each.exchange.exchange_id] = WrittenConnection(each, [])
        else:
            of.turns.append(each)
    return list(found.values())


def websocket_messages(connection: WrittenConnection) -> list[dict[str, Any]]:
    """Return the messages of a connection and of its turns, in the order of their times."""
    binary = {side: _binary(connection, side) for side in ("client", "server")}
    numbers = Counter[str]()
    messages = []
    for at_ns, side, raw in sorted(_messages(connection), key=lambda each: each[0]):
        is_binary = numbers[side] in binary[side]
        numbers[side] += 1
        type = "send" if side == "client" else "receive"
        messages.append({"type": type, "time": at_ns / 1e9, **_data(raw, is_binary=is_binary)})
    return messages


def _messages(connection: WrittenConnection) -> Iterator[tuple[int, Side, bytes]]:
    """Yield the messages of both sides with their wall times: of each exchange those of the client first."""
    for each in (connection.recording, *connection.turns):
        began_ns = each.exchange.started_ns
        if each is not connection.recording:
            yield began_ns, "client", each.request_body
        for message in each.sent:
            if message.is_message:
                yield began_ns + message.t_ns, "client", message.raw
        for piece in each.pieces:
            yield began_ns + piece.t_ns, "server", piece.raw


def _binary(connection: WrittenConnection, side: Side) -> set[int]:
    """Return the numbers of the binary messages of a side, by the opcodes of their first frames. Frames that are not
    those of the written messages say nothing of them.
    """
    first = [
        opcode for _, by, byte, _ in connection.recording.frames if by == side and (opcode := byte & 0x0F) in (1, 2)
    ]
    if len(first) != sum(each == side for _, each, _ in _messages(connection)):
        return set()
    return {number for number, opcode in enumerate(first) if opcode == BINARY}


def _data(raw: bytes, *, is_binary: bool) -> dict[str, Any]:
    try:
        text = None if is_binary else raw.decode()
    except UnicodeDecodeError:
        text = None
    return {"opcode": BINARY, "data": b64encode(raw).decode()} if text is None else {"opcode": TEXT, "data": text}


def inexpressible(connection: WrittenConnection) -> str | None:
    """Return what HAR cannot express of a connection, as the rest of a sentence; `None` if nothing is lost."""
    each = connection.recording
    lost = [counted(len(each.control), "control frame")] if each.control else []
    lost += [f"the shapes of {counted(len(each.frames), 'frame')}"] if each.frames else []
    lost += [f"{counted(unread, 'run')} of bytes that are not a message"] if (unread := _unread(each)) else []
    return f"loses {' and '.join(lost)}: HAR has only the messages of a WebSocket connection" if lost else None


def _unread(each: Recording) -> int:
    return sum(not message.is_message for message in each.sent)


# -- from HAR


class WebSocketMessage(msgspec.Struct, frozen=True):
    """A message as DevTools save it; one of type "error" says why the connection broke off."""

    type: Literal["send", "receive", "error"]
    data: str = ""
    opcode: int = TEXT
    time: float | None = None  # seconds since the epoch


def read_message(message: WebSocketMessage, t_ns: int) -> TimedMessage | None:
    """Return a message as a frame; None for an error. Raises `ValueError` if its base64 is none, or it is too long."""
    if message.type == "error":
        return None
    try:
        payload = message.data.encode() if message.opcode == TEXT else b64decode(message.data, validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"the data of a message over WebSocket cannot be read: {error}") from error
    side: Side = "client" if message.type == "send" else "server"
    return message_of(side, t_ns, payload, _OPCODES.get(message.opcode, "binary"))
