"""Recorded exchanges → HAR 1.2, for the tools that read archives of browsers. Pure.

The events of a stream are in `_eventSourceMessages` with their times, as Chrome writes them, beside
the body with all its bytes. The messages of a WebSocket connection, those of its turns among them,
are its `_webSocketMessages`; a turn without its connection is written as a POST and its stream.
Data that HAR cannot express is lost: reads, gaps, and how exactly an exchange broke off.

Messages are as Chrome's DevTools write them:

    {"type": "send" | "receive", "time": seconds since the epoch, "opcode": 1 | 2, "data": text, or base64 of opcode 2}
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from recorder import __version__
from recorder.cassettes.calls import url
from recorder.cassettes.sse_jsonl.lines import instant
from recorder.model.events import WHOLE, Header, Recording, Side, WebSocketTurn, header
from recorder.model.text import counted
from recorder.wire.framing.sse import Fields, parse
from recorder.wire.turns import as_http, is_connection, is_turn, live_session

_ERRORS = {
    "client_disconnect": "net::ERR_ABORTED",
    "upstream_unreachable": "net::ERR_CONNECTION_FAILED",
}
_OPENING = (
    b'{"log":{"version":"1.2","creator":{"name":"recorder","version":"%b"},"entries":[\n'
    % __version__.encode()
)
_CLOSING = b"\n]}}\n"


TEXT, BINARY = 1, 2  # opcodes, RFC 6455 section 5.2


class WrittenConnection(NamedTuple):
    """A connection and those of its turns that are written with it, or any other exchange, which
    has none.
    """

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
    """Yield the messages of both sides with their wall times: of each exchange those of the client
    first.
    """
    for each in (connection.recording, *connection.turns):
        began_ns = each.exchange.started_ns
        if each is not connection.recording and live_session(each.request.target) is None:
            yield began_ns, "client", each.request_body
        for message in each.sent:
            if message.is_message:
                yield began_ns + message.t_ns, "client", message.raw
        for piece in each.pieces:
            yield began_ns + piece.t_ns, "server", piece.raw


def _binary(connection: WrittenConnection, side: Side) -> set[int]:
    """Return the numbers of the binary messages of a side, by the opcodes of their first frames.

    Frames that are not those of the written messages say nothing of them.
    """
    first = [
        opcode
        for _, by, byte, _ in connection.recording.frames
        if by == side and (opcode := byte & 0x0F) in (1, 2)
    ]
    if len(first) != sum(each == side for _, each, _ in _messages(connection)):
        return set()
    return {number for number, opcode in enumerate(first) if opcode == BINARY}


def _data(raw: bytes, *, is_binary: bool) -> dict[str, Any]:
    try:
        text = None if is_binary else raw.decode()
    except UnicodeDecodeError:
        text = None
    return (
        {"opcode": BINARY, "data": b64encode(raw).decode()}
        if text is None
        else {"opcode": TEXT, "data": text}
    )


def inexpressible(connection: WrittenConnection) -> str | None:
    """Return what HAR cannot express of a connection, as the rest of a sentence; `None` if nothing
    is lost.
    """
    each = connection.recording
    lost = [counted(len(each.control), "control frame")] if each.control else []
    lost += [f"the shapes of {counted(len(each.frames), 'frame')}"] if each.frames else []
    if unread := sum(not message.is_message for message in each.sent):
        lost.append(f"{counted(unread, 'run')} of bytes that are not a message")
    return (
        f"loses {' and '.join(lost)}: HAR has only the messages of a WebSocket connection"
        if lost
        else None
    )


def har_lines(recordings: Iterable[Recording], *, was_imported: bool = False) -> Iterator[bytes]:
    """Yield the document, an entry at a time; `was_imported` is True if the exchanges come from an
    import.
    """
    yield _OPENING
    for number, each in enumerate(connections(recordings)):
        yield (b",\n" if number else b"") + msgspec.json.encode(_entry(each, was_imported))
    yield _CLOSING


def losses(recordings: Iterable[Recording]) -> Iterator[str]:
    """Yield a sentence for each exchange that HAR cannot express as a whole."""
    for each in connections(recordings):
        recording = each.recording
        if is_turn(recording):
            yield f"Exchange {recording.number} is a turn without its WebSocket connection: it is written as a POST."
        elif is_connection(recording) and (lost := inexpressible(each)):
            yield f"Exchange {recording.number} {lost}."
        for one in (recording, *each.turns):
            if one.has_gap:
                yield f"Exchange {one.number} has gaps, which HAR cannot mark: what was not recorded is missing."


def _entry(connection: WrittenConnection, was_imported: bool) -> dict[str, Any]:
    each = as_http(connection.recording)
    is_websocket = is_connection(each) and each.is_switched
    messages = [
        {
            "time": (each.exchange.started_ns + piece.t_ns) / 1e9,
            "eventName": _text(fields.event) or "message",
            "eventId": _text(fields.id),
            "data": _text(fields.data),
        }
        for piece, fields in _events(each)
    ]
    return {
        "startedDateTime": instant(each.exchange.started_ns),
        "time": each.end_ns / 1e6,
        "request": _request(each, was_imported),
        "response": _response(each, connection.turns),
        "cache": {},
        "timings": {
            "send": 0,
            "wait": each.head_ns / 1e6,
            "receive": (each.end_ns - each.head_ns) / 1e6,
        },
        **({"_eventSourceMessages": messages} if messages else {}),
        **({"_webSocketMessages": websocket_messages(connection)} if is_websocket else {}),
    }


def _events(each: Recording) -> Iterator[tuple[Any, Fields]]:
    """Yield the pieces that are events, with their fields."""
    if header(each.headers, "content-type").startswith("text/event-stream"):
        for piece in each.pieces:
            fields = parse(piece.raw)
            if fields.data is not None:
                yield piece, fields


def _request(each: Recording, was_imported: bool) -> dict[str, Any]:
    request = each.request
    body = {
        "mimeType": header(request.headers, "content-type"),
        "text": each.request_body.decode("utf-8", "replace"),
    }
    return {
        "method": request.method,
        "url": url(request, was_imported=was_imported),
        "httpVersion": "HTTP/1.1",
        "headers": _pairs(request.headers),
        "cookies": [],
        "headersSize": -1,
        "bodySize": request.wire_bytes,
        "queryString": _pairs(parse_qsl(urlsplit(request.target).query, keep_blank_values=True)),
        **({"postData": body} if each.request_body else {}),
    }


def _response(each: Recording, turns: Iterable[Recording]) -> dict[str, Any]:
    head, outcome = each.response, each.end.outcome if each.end else "recorder_crash"
    if any(turn.end is not None and turn.end.outcome == "client_disconnect" for turn in turns):
        outcome = "client_disconnect"  # the log has it with the turn that the client left
    error = (
        {} if outcome in WHOLE else {"_error": _ERRORS.get(outcome, "net::ERR_CONNECTION_CLOSED")}
    )
    return {
        "status": head.status if head else 0,
        "statusText": head.reason if head else "",
        "httpVersion": f"HTTP/{head.http_version if head else '1.1'}",
        "headers": _pairs(each.headers),
        "cookies": [],
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": each.end.wire_bytes if each.end else -1,
        "content": _content(
            b"" if is_connection(each) else each.body, header(each.headers, "content-type")
        ),
        **error,
    }


def _content(body: bytes, mime_type: str) -> dict[str, Any]:
    about = {"size": len(body), "mimeType": mime_type}
    try:
        return {**about, "text": body.decode()}
    except UnicodeDecodeError:
        return {**about, "text": b64encode(body).decode(), "encoding": "base64"}


def _pairs(given: Iterable[Header]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in given]


def _text(given: bytes | None) -> str:
    return (given or b"").decode("utf-8", "replace")
