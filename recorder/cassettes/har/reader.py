"""HAR 1.2, what browsers save: each event stream and WebSocket connection in it, and each call of
an API that is known, becomes an exchange, and each turn on a connection another one.

Chrome keeps the events of a stream with their times in `_eventSourceMessages`. They give the times
of the body's bytes if the body was saved, and replace it if it was not: then the fields are known
and the bytes are made up. A body without them came, as far as anybody knows, when its last byte
did. Bodies are saved without their content coding.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Literal

import msgspec

from recorder.cassettes import refusing
from recorder.cassettes.calls import (
    BODILESS,
    NO_BODY,
    ImportedCall,
    ImportedConnection,
    ImportedFile,
    Piece,
    check_values,
    from_base64,
    message_of,
    read_whole,
    target_of,
)
from recorder.cassettes.sse_jsonl.lines import SECONDS_LIMIT, nanoseconds
from recorder.model.events import (
    SWITCHED,
    ExchangeEnd,
    Header,
    Outcome,
    ResponseHead,
    Side,
    as_sent,
    true_headers,
)
from recorder.wire.dialects import by_path
from recorder.wire.framing.sse import Splitter, parse
from recorder.wire.framing.websocket import Opcode
from recorder.wire.redaction.headers import redact_headers

_BEFORE_HEAD = ("blocked", "dns", "connect", "send", "wait")  # `ssl` is part of `connect`
_VERSIONS = {
    "http/1.0": "1.0",
    "http/2": "2",
    "http/2.0": "2",
    "h2": "2",
    "h3": "3",
    "http/3": "3",
    "http/3.0": "3",
}
_OUTCOMES: dict[str, Outcome] = {"net::ERR_ABORTED": "client_disconnect"}


class _Pair(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class _Post(msgspec.Struct, frozen=True):
    text: str | None = None


class _HarRequest(msgspec.Struct, frozen=True):
    method: str
    url: str
    headers: tuple[_Pair, ...] = ()
    post: _Post | None = msgspec.field(name="postData", default=None)


class _Content(msgspec.Struct, frozen=True, rename="camel"):
    mime_type: str = ""
    size: Any = 0  # -1 if it is not known
    text: str | None = None
    encoding: str | None = None

    @property
    def is_stream(self) -> bool:
        return self.mime_type.startswith("text/event-stream")


class _HarResponse(msgspec.Struct, frozen=True):
    status: int
    reason: str = msgspec.field(name="statusText", default="")
    version: str = msgspec.field(name="httpVersion", default="")
    headers: tuple[_Pair, ...] = ()
    content: _Content = _Content()
    body_size: Any = msgspec.field(name="bodySize", default=0)
    error: str | None = msgspec.field(name="_error", default=None)


class _HarMessage(msgspec.Struct, frozen=True, rename="camel"):
    time: float | None = None  # seconds since the epoch
    event_name: str | None = None
    event_id: str | None = None
    data: str = ""


# RFC 6455 section 5.2
_OPCODES: Mapping[int, Opcode] = {1: "text", 2: "binary", 8: "close", 9: "ping", 10: "pong"}


class WebSocketMessage(msgspec.Struct, frozen=True):
    """A message as DevTools save it; one of type "error" says why the connection broke off."""

    type: Literal["send", "receive", "error"]
    data: str = ""
    opcode: int = 1
    time: float | None = None  # seconds since the epoch


def read_message(message: WebSocketMessage, t_ns: int) -> Piece | None:
    """Return a message as a frame; None for an error.

    Raises `ValueError` if its base64 is none, or it is too long.
    """
    if message.type == "error":
        return None
    try:
        payload = (
            message.data.encode() if message.opcode == 1 else b64decode(message.data, validate=True)
        )
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"the data of a message over WebSocket cannot be read: {error}") from error
    side: Side = "client" if message.type == "send" else "server"
    return message_of(side, t_ns, payload, _OPCODES.get(message.opcode, "binary"))


class _Call(msgspec.Struct, frozen=True):
    started: str = msgspec.field(name="startedDateTime")
    request: _HarRequest
    response: _HarResponse
    time: float | None = None  # milliseconds
    timings: dict[str, float | str | None] = {}
    messages: tuple[_HarMessage, ...] | None = msgspec.field(
        name="_eventSourceMessages", default=None
    )
    both_sides: tuple[WebSocketMessage, ...] | None = msgspec.field(
        name="_webSocketMessages", default=None
    )

    @property
    def is_websocket(self) -> bool:
        """Return whether it is a connection that was switched to WebSocket."""
        return self.both_sides is not None and self.response.status == SWITCHED


class _Log(msgspec.Struct, frozen=True):
    entries: tuple[_Call, ...]


class _Document(msgspec.Struct, frozen=True):
    log: _Log


class Har(ImportedFile):
    """A HAR file, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if it is none, or has nothing in it that a recorder would have
        recorded.
        """
        data = read_whole(file, ": save the calls of the API alone")
        with refusing("it is not a HAR 1.2"):
            entries = msgspec.json.decode(check_values(data), type=_Document).log.entries
            calls = map(_read, filter(_is_wanted, entries))
            super().__init__(
                calls,
                "there is no event stream or WebSocket in it, and no call of an API that is known",
            )


def _lacks_body(call: _Call) -> bool:
    """Return whether the file has no body of a response that had one: many tools leave those of
    streams out.
    """
    content = call.response.content
    if content.text is not None or call.response.status in BODILESS:
        return False
    return content.is_stream or any(
        size not in (0, None) for size in (content.size, call.response.body_size)
    )


def _is_wanted(call: _Call) -> bool:
    path = target_of(call.request.url).partition("?")[0]
    known = by_path(call.request.method.upper(), path).name != "other"
    return known or call.is_websocket or bool(call.messages) or call.response.content.is_stream


def _times(call: _Call) -> tuple[int, int, int]:
    """Return when a call began, and when its response began and ended since then.

    Raises `ValueError`.
    """
    waited_ms = sum(
        max(0.0, ms)
        for name in _BEFORE_HEAD
        if isinstance(ms := call.timings.get(name), int | float)
    )
    head_ns = _ns(waited_ms * 1e6)
    return nanoseconds(call.started), head_ns, max(head_ns, _ns((call.time or 0.0) * 1e6))


def _read(call: _Call) -> ImportedCall:
    return _connection(call) if call.is_websocket else _exchange(call)


def _connection(call: _Call) -> ImportedConnection:
    """Decode a WebSocket connection. Raises `ValueError` if it is impossible."""
    started_ns, head_ns, end_ns = _times(call)
    given, answer = call.both_sides or (), call.response
    read = []
    at_ns = head_ns
    for each in given:
        if each.time is not None:
            at_ns = max(at_ns, _ns(each.time * 1e9 - started_ns))
        read.append(read_message(each, at_ns))
    error = next((each.data for each in given if each.type == "error"), None)
    return ImportedConnection.of(
        target_of(call.request.url),
        _headers(call.request.headers),
        [each for each in read if each is not None],
        ResponseHead(answer.status, answer.reason, _headers(answer.headers)),
        end=_end(answer) if error is None else ExchangeEnd("upstream_reset", error),
        started_ns=started_ns,
        head_ns=head_ns,
        end_ns=end_ns,
    )


def _exchange(call: _Call) -> ImportedCall:
    """Decode a call. Raises `ValueError` if it is impossible."""
    started_ns, head_ns, came_ns = _times(call)
    pieces = list(_pieces(call, started_ns, head_ns, came_ns))
    body = (call.request.post.text or "") if call.request.post else ""
    return ImportedCall(
        method=call.request.method.upper(),
        target=target_of(call.request.url),
        headers=_headers(call.request.headers),
        body=body.encode(),
        response=_response_head(call.response) if call.response.status > 0 else None,
        pieces=pieces,
        end=_end(call.response),
        started_ns=started_ns,
        head_ns=head_ns,
        end_ns=came_ns,
        missing_response=NO_BODY if not pieces and _lacks_body(call) else None,
    )


def _end(response: _HarResponse) -> ExchangeEnd:
    error = response.error or None
    if response.status <= 0:
        return ExchangeEnd("upstream_unreachable", error or "there was no response")
    return (
        ExchangeEnd(_OUTCOMES.get(error, "upstream_reset"), error) if error else ExchangeEnd("eof")
    )


def _response_head(response: _HarResponse) -> ResponseHead:
    headers = _headers(response.headers)
    if "content-type" not in {name.lower() for name, _ in headers} and response.content.mime_type:
        headers.append(("content-type", response.content.mime_type))
    return ResponseHead(
        response.status, response.reason, headers, _VERSIONS.get(response.version.lower(), "1.1")
    )


def _headers(pairs: tuple[_Pair, ...]) -> list[Header]:
    """Return redacted headers without pseudo-headers, and without those of the coding, which is
    undone.
    """
    given = as_sent((pair.name, pair.value) for pair in pairs if not pair.name.startswith(":"))
    return true_headers(redact_headers(given))


def _pieces(
    call: _Call, started_ns: int, head_ns: int, came_ns: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of the body with their times. Raises `ValueError`."""
    body, messages = _body(call.response.content), call.messages or ()
    times = []
    at_ns = 0
    for each in messages:
        at_ns = max(at_ns, head_ns if each.time is None else _ns(each.time * 1e9) - started_ns)
        times.append(at_ns)
    if not body:
        yield from zip(times, map(_framed, messages), strict=True)
        return
    splitter = Splitter()
    blocks = [piece.raw for piece in (*splitter.feed(body), *splitter.close())]
    events = [parse(block).data is not None for block in blocks]
    if not messages or sum(events) != len(messages):
        yield came_ns, body
        return
    due = iter(times)
    at_ns = head_ns
    for block, is_event in zip(blocks, events, strict=True):
        at_ns = next(due) if is_event else at_ns
        yield at_ns, block


def _body(content: _Content) -> bytes:
    text = content.text or ""
    return text.encode() if content.encoding != "base64" else from_base64(text)


def _framed(message: _HarMessage) -> bytes:
    """Frame an event as most servers do."""
    fields = [
        ("event", message.event_name if message.event_name != "message" else None),
        ("id", message.event_id),
    ]
    lines = [f"{name}: {_one_line(value)}" for name, value in fields if value]
    lines += [f"data: {each}" for each in message.data.replace("\r", "\n").split("\n")]
    return ("\n".join(lines) + "\n\n").encode()


def _one_line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ")


def _ns(given: float) -> int:
    """Return nanoseconds that a journal can hold; they are no more exact than to the microsecond."""
    return round(max(0.0, min(given, SECONDS_LIMIT * 1e9)) / 1000) * 1000
