"""Recordings of claude-tap: its trace as JSON lines, and the compact bundle that
`claude-tap export` writes.

A record is one call, decoded: request and response bodies as JSON, and the events of a stream only
if claude-tap ran with `--tap-store-stream-events`. Without them the response is what claude-tap put
together from its events: it is imported as a document, with a gap. A WebSocket connection is one
record: messages of both sides, but not in which order they came. The client's came, as far as
anybody knows, when the connection began, and the server's when it ended.

In a bundle, values of over 512 bytes are stored once and referred to (`claude_tap/compact_trace.py`
of claude-tap).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Literal
from urllib.parse import urlsplit

import msgspec

from recorder.cassettes import refusing
from recorder.cassettes.calls import (
    NOT_TEXT,
    BodyBudget,
    ImportedCall,
    ImportedConnection,
    ImportedFile,
    block,
    check_storable,
    check_values,
    header_list,
    json_bytes,
    message_of,
    milliseconds,
    read_whole,
    target_of,
)
from recorder.cassettes.sse_jsonl.lines import nanoseconds
from recorder.errors import RecorderError
from recorder.model.events import ExchangeEnd, ResponseHead, header
from recorder.wire.dialects import by_name, by_path
from recorder.wire.dialects.json_values import decoded_or_none, object_
from recorder.wire.framing import SSE, framing_of

BUNDLE, RECORD, REFERENCE = (
    "__claude_tap_compact_trace__",
    "__claude_tap_compact_record__",
    "__claude_tap_blob_ref__",
)
VERSION = 1  # of a bundle, its records and its references

NOT_STORED = (
    "claude-tap did not store the events of this stream: run it with --tap-store-stream-events"
)
JSON = "application/json"
BINARY = "claude-tap does not store bodies that are binary"


class _TapEvent(msgspec.Struct, frozen=True):
    event: str
    data: Any = None

    @property
    def name(self) -> str | None:
        return self.event if self.event != "message" else None


class _TapRequest(msgspec.Struct, frozen=True):
    method: str
    path: str
    headers: dict[str, str] = {}
    body: Any = None
    ws_events: tuple[Any, ...] = ()


class _TapResponse(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str] = {}
    body: Any = None
    sse_events: tuple[_TapEvent, ...] = ()
    ws_events: tuple[Any, ...] = ()
    error: str | None = None


class _TapRecord(msgspec.Struct, frozen=True):
    timestamp: str  # when the call had ended
    request: _TapRequest
    response: _TapResponse
    duration_ms: float | None = None
    transport: Literal["http", "websocket"] = "http"
    base_url: str = msgspec.field(name="upstream_base_url", default="")

    @property
    def duration_ns(self) -> int:
        return milliseconds(self.duration_ms)

    @property
    def started_ns(self) -> int:
        """Return when the call began.

        Raises `ValueError`, also for a time that the log cannot hold.
        """
        began_ns = nanoseconds(self.timestamp) - self.duration_ns
        if began_ns < -(2**63):
            raise ValueError(f"it began too long before {self.timestamp}")
        return began_ns


class ClaudeTap(ImportedFile):
    """A trace of claude-tap, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` with the line or the record that cannot be read."""
        data = read_whole(file, ": export fewer turns")
        budget = BodyBudget()
        calls = _bundle(data, budget) if f'"{BUNDLE}"'.encode() in data[:200] else _lines(data)
        super().__init__(calls, "there is no record of claude-tap in it", budget)


def _lines(data: bytes) -> Iterator[ImportedCall]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            yield _call(decoded_or_none(check_values(line)), f"line {number}")


def _bundle(data: bytes, budget: BodyBudget) -> Iterator[ImportedCall]:
    document = object_(decoded_or_none(check_values(data)))
    marker, records, blobs = map(document.get, (BUNDLE, "records", "blobs"))
    if not isinstance(records, list) or not isinstance(blobs, dict):
        raise RecorderError(
            "it is not a bundle of claude-tap, or it was cut off: `records` and `blobs` are not there"
        )
    _check_version(marker, "the bundle")
    stored = _Blobs(blobs)
    for number, record in enumerate(records, 1):
        place = f"record {number}"
        packed = object_(record).get(RECORD)
        if packed is not None:
            _check_version(packed, place)
            record = _unpacked(
                object_(record).get("record"), stored, place, BodyBudget(budget.left_bytes)
            )
        yield _call(record, place)


def _check_version(marker: Any, place: str) -> None:
    if (version := object_(marker).get("version")) != VERSION:
        raise RecorderError(
            f"{place} has version {version!r:.20} of claude-tap's format, only {VERSION} is known"
        )


class _Blobs:
    """The values of a bundle that are stored once, by their digests."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self._stored = stored
        self._sizes: dict[str, int] = {}

    def value(self, name: Any, place: str, budget: BodyBudget) -> Any:
        """Return the value of a reference, which takes from the budget what it adds to a body."""
        found = self._stored.get(name) if isinstance(name, str) else None
        if not isinstance(found, dict) or "payload" not in found:
            raise RecorderError(
                f"{place} refers to a value that is not in the bundle: {name!r:.80}"
            )
        payload = found.get("payload")
        if name not in self._sizes:
            self._sizes[name] = len(json_bytes(payload))
        budget.take(self._sizes[name])
        return payload


def _unpacked(record: Any, blobs: _Blobs, place: str, budget: BodyBudget) -> Any:
    """Return a record with its references followed: values of a body, and the items of its lists."""
    unpacked = record
    for side in ("request", "response"):
        body = object_(object_(record).get(side)).get("body")
        if isinstance(body, dict):
            whole = {name: _followed(each, blobs, place, budget) for name, each in body.items()}
            unpacked = {**unpacked, side: {**record[side], "body": whole}}
    return unpacked


def _followed(given: Any, blobs: _Blobs, place: str, budget: BodyBudget) -> Any:
    if isinstance(given, list):
        followed = []
        for each in given:
            followed.append(
                _followed(each, blobs, place, budget) if isinstance(each, dict) else each
            )
        return followed
    reference = object_(given).get(REFERENCE)
    if reference is None:
        return given
    return blobs.value(object_(reference).get("hash"), place, budget)


def _call(record: Any, place: str) -> ImportedCall:
    """Raises `RecorderError`."""
    with refusing(f"{place} is not a call that claude-tap recorded"):
        read = msgspec.convert(record, _TapRecord)
        check_storable(NOT_TEXT, read.request.method, read.request.path, read.response.error or "")
        return _connection(read) if read.transport == "websocket" else _exchange(read)


def _connection(record: _TapRecord) -> ImportedConnection:
    request, end_ns = record.request, record.duration_ns
    sent = [message_of("client", 0, _message(each)) for each in request.ws_events]
    came = [message_of("server", end_ns, _message(each)) for each in record.response.ws_events]
    return ImportedConnection.of(
        target_of(request.path),
        header_list(request.headers, **_host(record)),
        [*sent, *came],
        end=_end(record),
        started_ns=record.started_ns,
        end_ns=end_ns,
    )


def _message(given: Any) -> bytes:
    """Return the payload of a message: one that was not JSON is `{"raw": …}`."""
    is_raw = isinstance(given, dict) and given.keys() == {"raw"}
    return json_bytes(given["raw"] if is_raw else given)


def _exchange(record: _TapRecord) -> ImportedCall:
    request, response, duration_ns = record.request, record.response, record.duration_ns
    target = target_of(request.path)
    dialect = by_path(request.method, target).name
    is_stream = framing_of(header(response.headers.items(), "content-type")) is SSE
    is_cut = is_stream and not response.sse_events and response.body is not None
    changed = {"content_type": JSON} if is_cut else {}
    pieces = [block(each.data, dialect, each.name) for each in response.sse_events] or [
        json_bytes(response.body)
    ]
    is_binary = isinstance(request.body, dict) and "_encoding" in request.body
    return ImportedCall(
        method=request.method.upper(),
        target=target,
        upstream=by_name(dialect).upstream,
        headers=header_list(request.headers, **_host(record)),
        started_ns=record.started_ns,
        head_ns=duration_ns,
        end_ns=duration_ns,
        body=b"" if is_binary else json_bytes(request.body),
        response=ResponseHead(response.status, "", header_list(response.headers, **changed)),
        pieces=[(duration_ns, each) for each in pieces],
        end=_end(record),
        missing_request=BINARY if is_binary else None,
        missing_response=NOT_STORED if is_cut else None,
    )


def _host(record: _TapRecord) -> dict[str, str]:
    """Return the host of the upstream, in whose place the client named that of claude-tap."""
    host = urlsplit(record.base_url).netloc.rpartition("@")[2]
    return {"host": host} if host else {}


def _end(record: _TapRecord) -> ExchangeEnd:
    error = record.response.error
    return ExchangeEnd("eof") if error is None else ExchangeEnd("upstream_reset", error)
