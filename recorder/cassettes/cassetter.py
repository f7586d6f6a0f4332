"""Cassettes of cassetter (Kludex/cassetter, 0.16), YAML or TOML, as exchanges: the interactions over HTTP.

Bodies of JSON are stored as values, and their bytes are made up: compact JSON with the same keys in the same order.
Event streams and other texts are stored as they came, bytes that are no UTF-8 in hexadecimal.

The file is in the order of its requests, and `recorded_at` is the time at which a response had arrived: exchanges are
in the order of these times, and end then. The times of events are made up, one every 10 ms.

Calls over gRPC and WebSocket connections are not read.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO, Literal

import msgspec

from recorder.cassettes import Entry, Names
from recorder.cassettes.sse_jsonl.header import nanoseconds
from recorder.cassettes.vcr.interactions import (
    VcrHeaders,
    VcrInteraction,
    VcrRequest,
    VcrResponse,
    VcrStatus,
    exchanges,
)
from recorder.cassettes.vcr.yaml_values import YAML_LIMIT, as_bytes, as_text, read_yaml
from recorder.errors import RecorderError
from recorder.model.events import Session
from recorder.wire.sse import BOM

VERSION = 1
TOML_LIMIT = 16 * 2**20  # bytes: four seconds of tomllib, which is Python
KEY_PARTS = 32  # of a dotted key, of which a cassette has four: tomllib takes the square of them

_DOTTED = re.compile(rb"^[ \t\[]*(?:[\w-]+[ \t]*\.[ \t]*){%d}" % KEY_PARTS, re.MULTILINE)

_BodyType = Literal["json", "text", "binary", "none"]


class _StoredBody(msgspec.Struct, frozen=True):
    type: _BodyType = "none"
    content: Any = None


class _StoredMessage(msgspec.Struct, frozen=True):
    """What a request and a response have in common: YAML nests the body, TOML has it in two keys of the message."""

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


class _Stored(msgspec.Struct, frozen=True):
    version: int
    interactions: tuple[Any, ...] = ()
    ws_interactions: tuple[Any, ...] = ()
    grpc_interactions: tuple[Any, ...] = ()


class Cassetter:
    """A cassette of cassetter, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if it is none, or has no interaction over HTTP."""
        file.seek(0)
        data = file.read(YAML_LIMIT + 1).removeprefix(BOM)
        if len(data) > YAML_LIMIT:
            raise RecorderError(f"it is over {YAML_LIMIT >> 20} MiB, too much for YAML: split it")
        stored = _stored(data)
        given, ended = zip(*_interactions(stored), strict=True) if stored.interactions else ((), ())
        read = exchanges(enumerate(given, 1), "cassetter")
        self._exchanges = sorted(zip(ended, read, strict=True), key=lambda each: each[0])
        if not self._exchanges:
            raise RecorderError(_nothing_in(stored))
        self.events = 0

    def session(self, name: str, names: Names) -> Session:
        return Session(names.new_id(), names.now_ns(), name, "import", "{}", "import")

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield an exchange for each interaction, in the order of their times."""
        for ended_ns, each in self._exchanges:
            self.events += len(each.pieces)
            yield from each.entries(session, names, ended_ns - each.end_ns)


def _stored(data: bytes) -> _Stored:
    """Decode the document. Raises `RecorderError`."""
    try:
        stored = msgspec.convert(_toml(data) if looks_like_toml(data) else read_yaml(data, is_typed=True), _Stored)
    except (ValueError, RecursionError) as error:
        raise RecorderError(f"it is no cassette of cassetter: {error}") from error
    if stored.version != VERSION:
        raise RecorderError(f"version {stored.version} of cassetter cassettes is not known here, only {VERSION}")
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
    """Yield the interactions in the form of VCR, each with the time at which it had ended. Raises `RecorderError`."""
    for number, each in enumerate(stored.interactions, 1):
        try:
            yield _interaction(msgspec.convert(each, _StoredInteraction))
        except (ValueError, RecursionError) as error:
            raise RecorderError(f"interaction {number} is none of a cassetter cassette: {error}") from error


def _interaction(given: _StoredInteraction) -> tuple[VcrInteraction, int]:
    """Raises `ValueError`."""
    request, response = given.request, given.response
    interaction = VcrInteraction(
        VcrRequest(request.method, request.uri, request.headers, as_text(request.body_bytes())),
        VcrResponse(VcrStatus(response.status), response.headers, as_text(response.body_bytes())),
    )
    return interaction, nanoseconds(given.recorded_at)


def _bytes(type: _BodyType, content: Any) -> bytes:
    """Return the bytes of a stored body. Raises `ValueError` if the content has another type."""
    if type == "none":
        return b""
    if type == "json":
        return msgspec.json.encode(content)
    if not isinstance(content, str):
        raise ValueError(f"a body of type {type} is a text, not {content!r:.40}")
    return as_bytes(content) if type == "text" else bytes.fromhex(content)


def _nothing_in(stored: _Stored) -> str:
    others = [("WebSocket", stored.ws_interactions), ("gRPC", stored.grpc_interactions)]
    found = " and ".join(name for name, each in others if each)
    return (
        f"there are only interactions over {found} in it, which are not read"
        if found
        else "there is no interaction in it"
    )
