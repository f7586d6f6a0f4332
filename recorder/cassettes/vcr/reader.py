"""Cassettes of VCR, read: what vcrpy and pytest-recording write, as YAML or JSON, and Ruby's VCR, which came first.

Each interaction becomes an exchange, in their order. VCR knows no times: they are made up, one event every 10 ms, one
exchange after the other, and the last ends now; but where `recorded_at` says when, an exchange began then.

Bodies are stored as they were sent, or decoded although their headers still name the coding.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

import msgspec

from recorder.cassettes import Entry, Names
from recorder.cassettes.calls import exchange_entries, target_of, true_headers
from recorder.cassettes.content import looks_like_stream
from recorder.cassettes.plain import BLOCK_BYTES, STEP_NS
from recorder.cassettes.sse_jsonl.header import nanoseconds
from recorder.cassettes.vcr.yaml_values import YAML_LIMIT, as_bytes, read_yaml
from recorder.errors import RecorderError
from recorder.model.events import Session
from recorder.model.payloads import ExchangeEnd, Imported, RequestHead, ResponseHead
from recorder.wire.content_coding import Decoder, UndecodableError
from recorder.wire.dialects import by_name, by_path, framing
from recorder.wire.redaction.headers import Header, redact_headers, redact_target
from recorder.wire.sse import BOM, Splitter

VERSION = 1
BODIES_LIMIT = 256 * 2**20  # of all bodies, decoded, in memory: four times what the file may have

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # bytes that are no UTF-8, and what no text of a database has

_Headers = dict[str, str | list[str | None] | None]


class _VcrBody(msgspec.Struct, frozen=True):
    string: str | None = None
    in_base64: str | None = msgspec.field(name="base64_string", default=None)
    state: tuple[str | None, ...] = ()  # of a file that was sent


class _VcrRequest(msgspec.Struct, frozen=True):
    method: str
    uri: str
    headers: _Headers | None = None
    body: str | _VcrBody | None = None


class _Status(msgspec.Struct, frozen=True):
    code: Annotated[int, msgspec.Meta(ge=100, le=999)]
    message: str | None = None


class _VcrResponse(msgspec.Struct, frozen=True):
    status: _Status
    headers: _Headers | None = None
    body: str | _VcrBody | None = None


class _Interaction(msgspec.Struct, frozen=True):
    request: _VcrRequest
    response: _VcrResponse
    recorded_at: str | None = None


class _Document(msgspec.Struct, frozen=True):
    version: int = VERSION
    interactions: tuple[Any, ...] | None = None
    of_ruby: tuple[Any, ...] | None = msgspec.field(name="http_interactions", default=None)


class _JsonDocument(msgspec.Struct, frozen=True):
    interactions: tuple[msgspec.Raw, ...]
    version: int = VERSION


class Vcr:
    """A cassette of VCR, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if it is none, or has no interaction."""
        file.seek(0)
        data = file.read(YAML_LIMIT + 1).removeprefix(BOM)
        if len(data) > YAML_LIMIT:
            raise RecorderError(f"it is over {YAML_LIMIT >> 20} MiB, too much for YAML: split it")
        self._exchanges = list(_exchanges(_interactions(data)))
        if not self._exchanges:
            raise RecorderError("there is no interaction in it")
        self.events = 0

    def session(self, name: str, names: Names) -> Session:
        return Session(names.new_id(), names.now_ns(), name, "import", "{}", "import")

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield an exchange for each interaction."""
        began_ns = names.now_ns() - sum(exchange.end_ns for exchange in self._exchanges)
        for each in self._exchanges:
            started_ns = began_ns if each.started_ns is None else each.started_ns
            began_ns += each.end_ns
            self.events += len(each.pieces)
            head, end = each.request_head(session, names, started_ns), ExchangeEnd("eof")
            yield from exchange_entries(
                head, each.request.body, each.response_head(), each.pieces, end, end_ns=each.end_ns
            )


class _DecodedMessage(NamedTuple):
    """A request or a response: headers that are true for the body."""

    headers: list[Header]
    body: bytes

    @property
    def content_type(self) -> str:
        return next((value.decode("latin-1") for name, value in self.headers if name.lower() == b"content-type"), "")


class _VcrExchange(NamedTuple):
    """An interaction as a recorder would have recorded it."""

    interaction: _Interaction
    target: str
    started_ns: int | None
    request: _DecodedMessage
    response: _DecodedMessage
    pieces: list[tuple[int, bytes]]
    end_ns: int

    def request_head(self, session: Session, names: Names, started_ns: int) -> RequestHead:
        method = self.interaction.request.method.upper()
        dialect = by_path(method, self.target.partition("?")[0]).name
        return RequestHead(
            exchange_id=names.new_id(),
            session_id=session.session_id,
            started_ns=started_ns,
            method=method,
            target=redact_target(self.target),
            upstream=by_name(dialect).upstream,
            headers=redact_headers(self.request.headers),
            imported=Imported(session),
        )

    def response_head(self) -> ResponseHead:
        status = self.interaction.response.status
        return ResponseHead(status.code, status.message or "", redact_headers(self.response.headers))


def _exchanges(given: Iterator[tuple[int, _Interaction]]) -> Iterator[_VcrExchange]:
    """Raises `RecorderError`."""
    left = BODIES_LIMIT
    for number, each in given:
        try:
            exchange = _exchange(each, left)
        except (ValueError, TypeError) as error:
            raise RecorderError(f"interaction {number} is none of a VCR cassette: {error}") from error
        left -= len(exchange.request.body) + len(exchange.response.body)
        if left < 0:
            raise RecorderError(f"up to interaction {number} its bodies are over {BODIES_LIMIT >> 20} MiB: split it")
        yield exchange


def _exchange(each: _Interaction, left: int) -> _VcrExchange:
    """Decode an interaction. Raises `ValueError` and `TypeError` if it is impossible."""
    if any(map(_UNSTORABLE.search, (each.request.method, each.request.uri, each.response.status.message or ""))):
        raise ValueError("its method, uri or message is no text")
    parts = urlsplit(each.request.uri)
    request = _message(each.request.headers, each.request.body, left)
    if parts.netloc and not any(name.lower() == b"host" for name, _ in request.headers):
        request.headers.insert(0, (b"host", _latin(parts.netloc.rpartition("@")[2])))
    response = _message(each.response.headers, each.response.body, left)
    pieces = list(_pieces(response))
    end_ns = pieces[-1][0] if pieces else STEP_NS
    return _VcrExchange(
        each, target_of(each.request.uri), _instant(each.recorded_at), request, response, pieces, end_ns
    )


def _message(given: _Headers | None, body: str | _VcrBody | None, left: int) -> _DecodedMessage:
    """Return headers and body; the coding is undone and forgotten if that is possible. Raises `ValueError`."""
    headers = [(_latin(name), _latin(value)) for name, values in (given or {}).items() for value in _listed(values)]
    coding = next((value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding"), None)
    data, is_coded = _decoded(coding, _body(body), left)
    return _DecodedMessage(true_headers(headers, is_coded=is_coded), data)


def _decoded(coding: str | None, data: bytes, left: int) -> tuple[bytes, bool]:
    """Return a body, and whether it is still in its coding, cut or huge, as a recorder reports a received one.

    What gives nothing, or is text, was never in it: the tools keep the header of a coding that they have undone.
    """
    decoder, pieces = Decoder(coding), list[bytes]()
    try:
        for piece in decoder.feed(data):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise UndecodableError("the bodies are too large")
        decoder.close()
    except UndecodableError:
        return data, bool(pieces) and not _is_text(data)
    return b"".join(pieces), False


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _body(given: str | _VcrBody | None) -> bytes:
    if given is None or isinstance(given, str):
        return as_bytes(given or "")
    if given.in_base64 is None:
        return as_bytes(given.string or (given.state or (None,))[0] or "")
    try:
        return b64decode("".join(given.in_base64.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the base64 of a body is none: {error}") from error


def _listed(values: str | list[str | None] | None) -> list[str]:
    return [value for value in (values if isinstance(values, list) else [values]) if value is not None]


def _latin(value: str) -> bytes:
    return value.encode("latin-1", "replace")


def _instant(written: str | None) -> int | None:
    """Parse a time as Ruby writes it, or as everybody else. Raises `ValueError` and `TypeError`."""
    if written is None:
        return None
    return nanoseconds(parsedate_to_datetime(written) if "," in written else written)


def _pieces(response: _DecodedMessage) -> Iterator[tuple[int, bytes]]:
    """Yield the events of a response body with their times."""
    splitter, t_ns, begins = Splitter(), 0, True
    if not _is_stream(response):
        body = response.body
        yield from ((STEP_NS, body[at : at + BLOCK_BYTES]) for at in range(0, len(body), BLOCK_BYTES))
        return
    for piece in (*splitter.feed(response.body), *splitter.close()):
        t_ns += STEP_NS if begins else 0
        begins = piece.complete
        yield t_ns, piece.raw


def _is_stream(response: _DecodedMessage) -> bool:
    """Return whether a response is an event stream, by its content type; if that was filtered away, by its look."""
    if response.content_type:
        return framing(response.content_type) == "sse"
    return looks_like_stream(response.body[:BLOCK_BYTES])


# -- the document


def _interactions(data: bytes) -> Iterator[tuple[int, _Interaction]]:
    """Yield the interactions of the document with their numbers. Raises `RecorderError`."""
    raw = _json_interactions(data) if data.lstrip().startswith(b"{") else _yaml_interactions(data)
    for number, each in enumerate(raw, 1):
        try:
            if isinstance(each, msgspec.Raw):
                yield number, msgspec.json.decode(each, type=_Interaction)
            else:
                yield number, msgspec.convert(each, _Interaction, strict=False)
        except (ValueError, RecursionError) as error:
            raise RecorderError(f"interaction {number} is none of a VCR cassette: {error}") from error


def _json_interactions(data: bytes) -> Sequence[Any]:
    try:
        document = msgspec.json.decode(data, type=_JsonDocument)
    except (ValueError, RecursionError) as error:
        raise RecorderError(f"it is no VCR cassette: {error}") from error
    _check_version(document.version)
    return document.interactions


def _yaml_interactions(data: bytes) -> Sequence[Any]:
    try:
        given = read_yaml(data)
    except ValueError as error:
        raise RecorderError(f"it is no YAML that can be read: {error}") from error
    if isinstance(given, list):
        raise RecorderError("it is a list: if vcrpy before 1.0 wrote it, migrate it with `python -m vcr.migration`")
    try:
        document = msgspec.convert(given, _Document, strict=False)
    except ValueError as error:
        raise RecorderError(f"it is no VCR cassette: {error}") from error
    _check_version(document.version)
    found = document.of_ruby if document.interactions is None else document.interactions
    if found is None:
        raise RecorderError("it is no VCR cassette: there are no `interactions` in it")
    return found


def _check_version(version: int) -> None:
    if version != VERSION:
        raise RecorderError(f"version {version} of VCR cassettes is not known here, only {VERSION}: upgrade recorder")
