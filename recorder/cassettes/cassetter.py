"""Cassettes of cassetter (Kludex/cassetter, 0.16), YAML or TOML, as exchanges; a turn on a
WebSocket is another one.

Bodies of JSON are stored as values, and their bytes are made up: compact JSON with the same keys in
the same order. Event streams and other texts are stored as they came, bytes that are not UTF-8 in
hexadecimal.

The file is in the order of its requests, and `recorded_at` is the time at which a response had
arrived, or a connection had ended: exchanges are in the order of these times, and end then. The
times of events over HTTP are made up, one every 10 ms; those of WebSocket messages are stored.
Calls over gRPC are not read.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO, Literal

import msgspec

from recorder.cassettes import refusing
from recorder.cassettes.calls import (
    NO_MASK,
    BodyBudget,
    ImportedCall,
    ImportedConnection,
    ImportedFile,
    Piece,
    check_storable,
    read_whole,
    target_of,
)
from recorder.cassettes.sse_jsonl.lines import SECONDS_LIMIT, nanoseconds
from recorder.cassettes.vcr.reader import (
    NOT_TEXT,
    VcrHeaders,
    VcrInteraction,
    VcrRequest,
    VcrResponse,
    VcrStatus,
    calls,
    missing_host,
    vcr_headers,
)
from recorder.cassettes.vcr.yaml_values import YAML_LIMIT, as_bytes, as_text, read_yaml
from recorder.errors import RecorderError
from recorder.wire.framing.websocket import CONTROL_LIMIT, MESSAGE_LIMIT, encode_frame

VERSION = 1
TOML_LIMIT = 16 * 2**20  # bytes: four seconds of tomllib, which is Python
KEY_PARTS = 32  # of a dotted key, of which a cassette has four: tomllib takes the square of them

_DOTTED = re.compile(rb"^[ \t\[]*(?:[\w-]+[ \t]*\.[ \t]*){%d}" % KEY_PARTS, re.MULTILINE)

_FrameType = Literal["text", "binary", "close"]
_BodyType = Literal["json", "text", "binary", "none"]


class _StoredBody(msgspec.Struct, frozen=True):
    type: _BodyType = "none"
    content: Any = None


class _StoredMessage(msgspec.Struct, frozen=True):
    """What a request and a response have in common: YAML nests the body, TOML has it in two keys of
    the message.
    """

    headers: VcrHeaders | None = None
    body: _StoredBody | None = None
    body_type: _BodyType = "none"
    body_content: str = ""

    def body_bytes(self) -> bytes:
        """Raises `ValueError` if the content does not have the type that it is said to have."""
        if self.body is not None:
            return _bytes(self.body.type, self.body.content)
        if self.body_type == "json":
            return self.body_content.encode()
        return _bytes(self.body_type, self.body_content)


class _StoredRequest(_StoredMessage, frozen=True, kw_only=True):
    method: str
    uri: str


class _StoredResponse(_StoredMessage, frozen=True, kw_only=True):
    status: Annotated[int, msgspec.Meta(ge=100, le=999)]


class _StoredInteraction(msgspec.Struct, frozen=True):
    request: _StoredRequest
    response: _StoredResponse
    recorded_at: str


class _CassetterFrame(msgspec.Struct, frozen=True):
    """A message over WebSocket, or the close of the server: its code in two bytes, then its reason."""

    direction: Literal["send", "recv"]
    frame_type: _FrameType
    body: _StoredBody
    offset_ms: Annotated[int, msgspec.Meta(ge=0, le=SECONDS_LIMIT * 1000)] = 0


class _StoredConnection(msgspec.Struct, frozen=True):
    uri: str
    recorded_at: str
    headers: VcrHeaders | None = None
    frames: tuple[_CassetterFrame, ...] = ()


class _Stored(msgspec.Struct, frozen=True):
    version: int
    interactions: tuple[Any, ...] = ()
    ws_interactions: tuple[Any, ...] = ()


class Cassetter(ImportedFile):
    """A cassette of cassetter, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if it is none, or has no interaction over HTTP or WebSocket."""
        data = read_whole(file, ", too much for YAML: split it", YAML_LIMIT)
        stored = _stored(data)
        budget = BodyBudget()
        given = list(_interactions(stored))
        read = calls(enumerate((interaction for interaction, _ in given), 1), "cassetter", budget)
        found: list[tuple[int, ImportedCall]] = []
        for (_, ended_ns), (_, call) in zip(given, read, strict=True):
            found.append((ended_ns, call))
        found += _connections(stored, budget)
        found.sort(key=lambda ended: ended[0])
        dated = (call._replace(started_ns=end_ns - call.end_ns) for end_ns, call in found)
        super().__init__(dated, "there is no interaction over HTTP or WebSocket in it")


def _stored(data: bytes) -> _Stored:
    """Decode the document. Raises `RecorderError`."""
    with refusing("it is not a cassette of cassetter"):
        stored = msgspec.convert(
            _toml(data) if looks_like_toml(data) else read_yaml(data, is_typed=True), _Stored
        )
    if stored.version != VERSION:
        raise RecorderError(
            f"version {stored.version} of cassetter cassettes is not known here, only {VERSION}"
        )
    return stored


def looks_like_toml(data: bytes) -> bool:
    """Return whether the version is written as TOML has it."""
    return re.match(rb"\s*version\s*=", data) is not None


def _toml(data: bytes) -> dict[str, Any]:
    """Raises `ValueError`."""
    if len(data) > TOML_LIMIT:
        raise ValueError(f"it is over {TOML_LIMIT >> 20} MiB, too much for TOML: save it as YAML")
    if found := _DOTTED.search(data):
        line = data.count(b"\n", 0, found.start()) + 1
        raise ValueError(f"line {line}: a key has over {KEY_PARTS} parts")
    return tomllib.loads(data.decode())


def _interactions(stored: _Stored) -> Iterator[tuple[VcrInteraction, int]]:
    """Yield the interactions in the form of VCR, each with the time at which it had ended.

    Raises `RecorderError`.
    """
    for number, each in enumerate(stored.interactions, 1):
        with refusing(f"interaction {number} is none of a cassetter cassette"):
            interaction = _interaction(msgspec.convert(each, _StoredInteraction))
        yield interaction


def _interaction(given: _StoredInteraction) -> tuple[VcrInteraction, int]:
    """Raises `ValueError`."""
    request, response = given.request, given.response
    interaction = VcrInteraction(
        VcrRequest(request.method, request.uri, request.headers, as_text(request.body_bytes())),
        VcrResponse(VcrStatus(response.status), response.headers, as_text(response.body_bytes())),
    )
    return interaction, nanoseconds(given.recorded_at)


def _connections(stored: _Stored, budget: BodyBudget) -> Iterator[tuple[int, ImportedConnection]]:
    """Yield the connections, each with the time at which it had ended. Raises `RecorderError`."""
    for number, each in enumerate(stored.ws_interactions, 1):
        with refusing(f"WebSocket interaction {number} is none of a cassetter cassette"):
            given = msgspec.convert(each, _StoredConnection)
            ended_ns, connection = nanoseconds(given.recorded_at), _connection(given)
        budget.take(connection.size_bytes)
        yield ended_ns, connection


def _connection(given: _StoredConnection) -> ImportedConnection:
    """Raises `ValueError`. The answer of a connection was not stored."""
    check_storable(NOT_TEXT, given.uri)
    headers = vcr_headers(given.headers)
    pieces, at_ns = list[Piece](), 0
    for frame in given.frames:
        at_ns = max(at_ns, frame.offset_ms * 10**6)
        payload, mask = (
            _bytes(frame.body.type, frame.body.content),
            NO_MASK if frame.direction == "send" else None,
        )
        if len(payload) > (MESSAGE_LIMIT if frame.frame_type != "close" else CONTROL_LIMIT):
            raise ValueError(
                f"a {frame.frame_type} frame has {len(payload):,} bytes, more than any recorder takes"
            )
        pieces.append((at_ns, encode_frame(frame.frame_type, payload, mask=mask)))
    sent = [*missing_host(given.uri, headers), *headers]
    return ImportedConnection.of(target_of(given.uri), sent, pieces, end_ns=at_ns)


def _bytes(type: _BodyType, content: Any) -> bytes:
    """Return the bytes of a stored body. Raises `ValueError` if the content has another type."""
    if type == "none":
        return b""
    if type == "json":
        return msgspec.json.encode(content)
    if not isinstance(content, str):
        raise ValueError(f"a body of type {type} is a text, not {content!r:.40}")
    return as_bytes(content) if type == "text" else bytes.fromhex(content)
