"""A turn over WebSocket and the same turn over HTTP: conversions of requests and answers in both
directions. Pure.

A turn is a request that was a message of the client, and the messages of the server that answer it.
Their payloads are those of server-sent events, so a recorded turn answers a POST as an event
stream, and a recorded event stream answers a message. Rules of this file:

* Payloads pass as they are. Only what one transport has and the other has not is added or left out:
  the field lines of a block, `[DONE]`, comments, the type of a request message.
* A comparison or a replay sees one form, that of HTTP. The recording itself is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Any

import msgspec

from recorder.model.events import (
    STDIO,
    WEBSOCKET,
    WHOLE,
    Event,
    Header,
    Piece,
    Recording,
    ResponseHead,
)
from recorder.wire.dialects import DIALECTS, LiveSession, MessageIds, WebSocketFormat, by_path
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    object_,
    request_object,
    text,
    whole,
    without,
)
from recorder.wire.dialects.keys import DONE
from recorder.wire.framing.sse import BOM, FRAME_LIMIT, parse
from recorder.wire.recording import MessageParts, is_switched

_FORMATS = [each.websocket for each in DIALECTS if each.websocket is not None]
REQUEST_TYPES = frozenset(
    type for each in _FORMATS for type in (each.request_type, each.steer_type) if type
)
"""The types of the client's messages that a turn begins with, which a POST does not have."""

PROTOCOL = "websocket"
"""The value of `Upgrade` in a handshake."""

_OF_THE_CONNECTION = (
    "connection",
    "upgrade",
    "sec-websocket-",
    "content-",
    "transfer-encoding",
    "keep-alive",
)
"""The beginnings of header names in a 101 that are not those of an answer to a POST."""


def is_turn(recorded: Recording) -> bool:
    """Return whether an exchange is a turn over WebSocket."""
    return recorded.request.method == WEBSOCKET


def is_connection(recorded: Recording) -> bool:
    """Return whether an exchange is a handshake of WebSocket, accepted or not, with what followed
    it; or a run of a program with its lines.
    """
    asked = recorded.request
    if asked.method == STDIO:
        return True
    offers = [value for name, value in asked.headers if name.lower() == "upgrade"]
    return asked.method == "GET" and any(value.strip().lower() == PROTOCOL for value in offers)


def has_turns(target: str) -> bool:
    """Return whether each answer on a connection to that target is asked for by one message, as it
    is by a POST.
    """
    format = _format(target)
    return format is not None and format.live is None


def live_session(target: str) -> LiveSession | None:
    """Return what is known of live sessions to that target, whose turns have many messages of
    either side.
    """
    format = _format(target)
    return None if format is None else format.live


def is_live_turn(recorded: Recording) -> bool:
    """Return whether an exchange is a turn of a live session, which no one message asked for."""
    return is_turn(recorded) and live_session(recorded.request.target) is not None


def with_turns(connection: Recording, turns: Iterable[Recording]) -> Recording:
    """Return the connection of a live session with the messages of its turns among its own, by
    their times.
    """
    pieces, sent = [*connection.pieces], [*connection.sent]
    for turn in turns:
        after_ns = turn.exchange.started_ns - connection.exchange.started_ns
        pieces += [each._replace(t_ns=after_ns + each.t_ns) for each in turn.pieces]
        sent += [each._replace(t_ns=after_ns + each.t_ns) for each in turn.sent]
    by_time = attrgetter("t_ns")
    return msgspec.structs.replace(
        connection, pieces=tuple(sorted(pieces, key=by_time)), sent=tuple(sorted(sent, key=by_time))
    )


# -- requests


def is_request(target: str, fields: Object) -> bool:
    """Return whether a message of the client on a connection to that target begins a turn."""
    format = _format(target)
    return format is not None and format.live is None and fields.get("type") == format.request_type


def was_asked_for(target: str, body: bytes) -> bool:
    """Return False for the request of a turn that the server began: the message that steered the
    one before, or nothing.
    """
    return is_request(target, request_object(body))


def begins_response(target: str, payload: bytes) -> bool:
    """Return whether a message of the server on a connection to that target begins a response."""
    format = _format(target)
    return format is not None and request_object(payload).get("type") in format.begin_types


def message_ids(target: str, payload: bytes) -> MessageIds:
    """Return the ids of a message on a connection to that target."""
    format = _format(target)
    return MessageIds() if format is None else format.ids(payload)


def _format(target: str) -> WebSocketFormat | None:
    return by_path("POST", target).websocket


def is_prewarm(target: str, body: bytes) -> bool:
    """Return whether a request only prepares the next one: the model generates nothing
    (`generate: false`).
    """
    return (
        b'"generate"' in body
        and has_turns(target)
        and request_object(body).get("generate") is False
    )


def as_post(message: bytes) -> bytes:
    """Return the body of the POST that requests the same as a message; a message that is not a JSON
    object as it is.

    An answer over WebSocket is always a stream, so the POST requests one.
    """
    fields = request_object(message)
    if not fields:
        return message
    left_out = {"stream_id"}
    left_out |= {"type"} if text(fields, "type") in REQUEST_TYPES else set()
    left_out |= {"generate"} if fields.get("generate") is True else set()
    return _json({**without(fields, left_out), "stream": True})


def prewarm_id(body: bytes) -> str:
    """Return the id of the response that is made for a prewarm: the same request gets the same id
    each time.
    """
    return f"resp_{sha256(body).hexdigest()[:48]}"


def prewarm_answer(body: bytes) -> Sequence[bytes]:
    """Return the messages that answer a prewarm of which there is no recording."""
    response = {
        "id": prewarm_id(body),
        "object": "response",
        "created_at": 0,  # a replay reads no calendar
        "status": "in_progress",
        "model": text(request_object(body), "model"),
        "output": [],
    }
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    ended = {**response, "status": "completed", "usage": usage}
    return [
        _json({"type": "response.created", "sequence_number": 0, "response": response}),
        _json({"type": "response.completed", "sequence_number": 1, "response": ended}),
    ]


# -- answers


def as_sse(recorded: Recording) -> Recording:
    """Return a recorded turn as its answer to a POST: an event stream, or the error that the server
    sent in its place.

    Each message has its own time; its reads are left out, because the bytes around the payload are
    not theirs.
    """
    if recorded.response is None:
        return recorded
    messages = recorded.pieces
    error = request_object(messages[0].raw) if messages else {}
    status = whole(error, "status") if error.get("type") == "error" else None
    if status is not None and status in range(400, 600):
        return _as_error(recorded, messages[0], status, _headers_of(error))
    kept = [
        (name, value)
        for name, value in recorded.response.headers
        if not _is_of_the_connection(name)
    ]
    head = ResponseHead(200, "OK", [*kept, ("content-type", "text/event-stream")])
    pieces = tuple(each._replace(raw=as_block(each.raw)) for each in messages)
    return msgspec.structs.replace(recorded, response=head, pieces=pieces, reads=())


def as_http(recorded: Recording) -> Recording:
    """Return a recorded turn as a POST and its answer, for formats of HTTP alone; any other
    exchange as it is.
    """
    if not is_turn(recorded):
        return recorded
    head, body = recorded.request, as_post(recorded.request_body)
    kept = [(name, value) for name, value in head.headers if not _is_of_the_connection(name)]
    request = msgspec.structs.replace(
        head,
        method="POST",
        headers=[*kept, ("content-type", "application/json")],
        wire_bytes=len(body),
        body_bytes=len(body),
        websocket=msgspec.UNSET,
    )
    return msgspec.structs.replace(as_sse(recorded), request=request, request_body=body)


def as_block(payload: bytes) -> bytes:
    """Return the payload of a message as a block of an event stream, with its type as the event's
    name.
    """
    type = text(request_object(payload), "type")
    lines = [
        b"data: " + line
        for line in payload.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    ]
    named = [f"event: {type}".encode()] if type is not None and type.isprintable() else []
    return b"\n".join([*named, *lines, b"", b""])


class StreamedBody:
    """The bytes of a response body, event by event; messages over WebSocket become blocks of an
    event stream.
    """

    def __init__(self) -> None:
        self._is_switched = False  # to WebSocket
        self._parts = MessageParts()

    def feed(self, event: Event) -> bytes:
        """Return the bytes that an event adds.

        The head of the response, which adds none, says what they are.
        """
        if event.kind == "response":
            self._is_switched = is_switched(event.raw)
            return b""
        if not self._is_switched or event.kind not in ("frame", "part"):
            return event.raw
        message = self._parts.add(event.raw) if event.kind == "part" else event.raw
        return b"" if message is None else as_block(message)


def payload_of(block: bytes) -> bytes | None:
    """Return the message that a block of an event stream is over WebSocket; None for `[DONE]` and
    comments.
    """
    data = parse(block.removeprefix(BOM)).data
    return None if data is None or data.strip() == DONE.encode() else data


def error_message(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the message that stands for an error response over HTTP:
    `{"type":"error","status":…,"error":{…}}`.
    """
    given = request_object(body)
    error = given.get("error", given) or {"message": body[:FRAME_LIMIT].decode("utf-8", "replace")}
    more = {"headers": dict(headers)} if headers else {}
    return _json({"type": "error", "status": status, "error": error, **more})


def with_stream_id(payload: bytes, stream_id: str | None) -> bytes:
    """Return a message with the id of the stream that it belongs to; one without an id as it was."""
    fields = request_object(payload) if stream_id is not None else {}
    return _json({**fields, "stream_id": stream_id}) if fields else payload


def stream_id_of(fields: Object) -> str | None:
    """Return the id of the stream that a message names."""
    return text(fields, "stream_id")


def _as_error(recorded: Recording, message: Piece, status: int, headers: list[Header]) -> Recording:
    body = _json({"error": request_object(message.raw).get("error")})
    head = ResponseHead(status, "", [*headers, ("content-type", "application/json")])
    end = recorded.end
    # the connection broke off behind the error, which is whole
    if end is not None and end.outcome not in WHOLE:
        end = msgspec.structs.replace(end, outcome="eof", error=None)
    pieces = (message._replace(raw=body),)
    return msgspec.structs.replace(
        recorded, response=head, pieces=pieces, reads=(), end=end, end_ns=message.t_ns
    )


def _headers_of(error: Object) -> list[Header]:
    """Return the headers that an error in a message has, such as `retry-after`."""
    given = object_(error, "headers")
    return [
        (name, value)
        for name, value in given.items()
        if isinstance(value, str) and not _is_of_the_connection(name)
    ]


def _is_of_the_connection(name: str) -> bool:
    return name.lower().startswith(_OF_THE_CONNECTION)


def _json(value: Any) -> bytes:
    return as_json(value).encode()
