"""Recorded exchanges → HAR 1.2, for the tools that read archives of browsers. Pure.

The events of a stream are in `_eventSourceMessages` with their times, as Chrome writes them, beside the body with all
its bytes. A turn over WebSocket is written as a POST and its stream; messages of no turn are in `_webSocketMessages`.
Data that HAR cannot express is lost: reads, gaps, and how exactly an exchange broke off.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from recorder import __version__
from recorder.cassettes.calls import url
from recorder.cassettes.sse_jsonl.header import instant
from recorder.model.events import WHOLE
from recorder.model.payloads import Header
from recorder.model.recording import Recording
from recorder.wire.sse import Fields, parse
from recorder.wire.turns import as_http, is_connection

_ERRORS = {"client_disconnect": "net::ERR_ABORTED", "upstream_unreachable": "net::ERR_CONNECTION_FAILED"}
_OPENING = b'{"log":{"version":"1.2","creator":{"name":"recorder","version":"%b"},"entries":[\n' % __version__.encode()
_CLOSING = b"\n]}}\n"


def har_lines(recordings: Iterable[Recording], *, was_imported: bool = False) -> Iterator[bytes]:
    """Yield the document, an entry at a time; `was_imported` is True if the exchanges come from an import."""
    yield _OPENING
    for number, each in enumerate(recordings):
        yield (b",\n" if number else b"") + msgspec.json.encode(_entry(each, was_imported))
    yield _CLOSING


def _entry(each: Recording, was_imported: bool) -> dict[str, Any]:
    each = as_http(each)
    sent_and_received = _messages(each)
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
        "response": _response(each),
        "cache": {},
        "timings": {"send": 0, "wait": each.head_ns / 1e6, "receive": (each.end_ns - each.head_ns) / 1e6},
        **({"_eventSourceMessages": messages} if messages else {}),
        **({"_webSocketMessages": sent_and_received} if sent_and_received else {}),
    }


def _messages(each: Recording) -> list[dict[str, Any]]:
    """Return the messages of a WebSocket connection, those of both sides, as Chrome writes them."""
    if not is_connection(each):
        return []
    sent = [("send", message.t_ns, message.raw) for message in each.sent if message.is_message]
    both = [*sent, *(("receive", piece.t_ns, piece.raw) for piece in each.pieces)]
    return [
        {"type": type, "time": (each.exchange.started_ns + t_ns) / 1e9, **_data(raw)}
        for type, t_ns, raw in sorted(both, key=lambda each: each[1])
    ]


def _data(raw: bytes) -> dict[str, Any]:
    """Return the payload of a message, and its opcode: bytes that are no text are of a binary one."""
    try:
        return {"opcode": 1, "data": raw.decode()}
    except UnicodeDecodeError:
        return {"opcode": 2, "data": b64encode(raw).decode()}


def _events(each: Recording) -> Iterator[tuple[Any, Fields]]:
    """Yield the pieces that are events, with their fields."""
    if _mime_type(each.headers).startswith("text/event-stream"):
        for piece in each.pieces:
            fields = parse(piece.raw)
            if fields.data is not None:
                yield piece, fields


def _request(each: Recording, was_imported: bool) -> dict[str, Any]:
    request = each.request
    body = {"mimeType": _mime_type(request.headers), "text": each.request_body.decode("utf-8", "replace")}
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


def _response(each: Recording) -> dict[str, Any]:
    head, outcome = each.response, each.end.outcome if each.end else "recorder_crash"
    error = {} if outcome in WHOLE else {"_error": _ERRORS.get(outcome, "net::ERR_CONNECTION_CLOSED")}
    return {
        "status": head.status if head else 0,
        "statusText": head.reason if head else "",
        "httpVersion": f"HTTP/{head.http_version if head else '1.1'}",
        "headers": _pairs(each.headers),
        "cookies": [],
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": each.end.wire_bytes if each.end else -1,
        "content": _content(b"" if is_connection(each) else each.body, _mime_type(each.headers)),
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


def _mime_type(headers: Iterable[Header]) -> str:
    return next((value for name, value in headers if name.lower() == "content-type"), "")


def _text(given: bytes | None) -> str:
    return (given or b"").decode("utf-8", "replace")
