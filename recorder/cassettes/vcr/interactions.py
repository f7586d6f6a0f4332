"""Interactions of VCR, and of what has their form, as exchanges: a request, a response, and no time of an event.

The times of the events are made up, one every 10 ms. Bodies are stored as they were sent, or decoded although their
headers still name the coding.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

import msgspec

from recorder.cassettes import Entry, Names
from recorder.cassettes.budget import BodyBudget
from recorder.cassettes.calls import BODILESS, NO_BODY, exchange_entries, target_of, true_headers
from recorder.cassettes.content import looks_like_stream
from recorder.cassettes.plain import BLOCK_BYTES, STEP_NS
from recorder.cassettes.sse_jsonl.header import nanoseconds
from recorder.cassettes.vcr.yaml_values import as_bytes
from recorder.errors import RecorderError
from recorder.model.events import Session
from recorder.model.payloads import ExchangeEnd, Imported, RequestHead, ResponseHead
from recorder.wire.content_coding import Decoder, UndecodableError
from recorder.wire.dialects import by_name, by_path, framing
from recorder.wire.redaction.headers import Header, redact_headers, redact_target
from recorder.wire.sse import Splitter

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # bytes that are not UTF-8, and what no text of a database has

VcrHeaders = dict[str, str | list[str | None] | None]


class VcrBody(msgspec.Struct, frozen=True):
    string: str | None = None
    in_base64: str | None = msgspec.field(name="base64_string", default=None)
    state: tuple[str | None, ...] = ()  # of a file that was sent


class VcrRequest(msgspec.Struct, frozen=True):
    method: str
    uri: str
    headers: VcrHeaders | None = None
    body: str | VcrBody | None = None


class VcrStatus(msgspec.Struct, frozen=True):
    code: Annotated[int, msgspec.Meta(ge=100, le=999)]
    message: str | None = None


class VcrResponse(msgspec.Struct, frozen=True):
    status: VcrStatus
    headers: VcrHeaders | None = None
    body: str | VcrBody | None = None


class VcrInteraction(msgspec.Struct, frozen=True):
    request: VcrRequest
    response: VcrResponse
    recorded_at: str | None = None


class _DecodedMessage(NamedTuple):
    """A request or a response: headers that are true for the body."""

    headers: list[Header]
    body: bytes

    @property
    def content_type(self) -> str:
        return next((value.decode("latin-1") for name, value in self.headers if name.lower() == b"content-type"), "")


class VcrExchange(NamedTuple):
    """An interaction as a recorder would have recorded it."""

    interaction: VcrInteraction
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

    def entries(self, session: Session, names: Names, started_ns: int) -> Iterator[Entry]:
        """Yield its records, as those of an exchange that began at `started_ns`."""
        head, end = self.request_head(session, names, started_ns), ExchangeEnd("eof")
        yield from exchange_entries(
            *(head, self.request.body, self.response_head(), self.pieces, end),
            end_ns=self.end_ns,
            missing_response=NO_BODY if self._lacks_body else None,
        )

    @property
    def _lacks_body(self) -> bool:
        """Return whether the file has no body of a response that had one: an empty one is a text in it."""
        response, method = self.interaction.response, self.interaction.request.method
        is_there = response.body is not None and response.body != VcrBody()
        return not is_there and response.status.code not in BODILESS and method.upper() != "HEAD"

    def response_head(self) -> ResponseHead:
        status = self.interaction.response.status
        return ResponseHead(status.code, status.message or "", redact_headers(self.response.headers))


def exchanges(given: Iterable[tuple[int, VcrInteraction]], program: str, budget: BodyBudget) -> Iterator[VcrExchange]:
    """Yield the exchanges of numbered interactions. Raises `RecorderError`, which names the program."""
    for number, each in given:
        try:
            exchange = _exchange(each, budget.left_bytes)
        except (ValueError, TypeError) as error:
            raise RecorderError(f"interaction {number} is none of a {program} cassette: {error}") from error
        budget.take(len(exchange.request.body) + len(exchange.response.body))
        yield exchange


def _exchange(each: VcrInteraction, left: int) -> VcrExchange:
    """Decode an interaction. Raises `ValueError` and `TypeError` if it is impossible."""
    check_storable(each.request.method, each.request.uri, each.response.status.message or "")
    request = _message(each.request.headers, each.request.body, left)
    request.headers[:0] = missing_host(each.request.uri, request.headers)
    response = _message(each.response.headers, each.response.body, left)
    pieces = list(_pieces(response))
    end_ns = pieces[-1][0] if pieces else STEP_NS
    return VcrExchange(each, target_of(each.request.uri), _instant(each.recorded_at), request, response, pieces, end_ns)


def check_storable(*texts: str) -> None:
    """Raises `ValueError` if one of the texts cannot be a text of a database."""
    if any(map(_UNSTORABLE.search, texts)):
        raise ValueError("its method, uri or message is not text")


def missing_host(uri: str, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the header that names the host of the URI, if there is one and no header names it yet."""
    host = urlsplit(uri).netloc.rpartition("@")[2]
    is_named = any(name.lower() == b"host" for name, _ in headers)
    return [(b"host", _latin(host))] if host and not is_named else []


def _message(given: VcrHeaders | None, body: str | VcrBody | None, left: int) -> _DecodedMessage:
    """Return headers and body; the coding is undone and forgotten if that is possible. Raises `ValueError`."""
    headers = header_pairs(given)
    coding = next((value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding"), None)
    data, is_coded = _decoded(coding, _body(body), left)
    return _DecodedMessage(true_headers(headers, is_coded=is_coded), data)


def header_pairs(given: VcrHeaders | None) -> list[tuple[bytes, bytes]]:
    """Return headers in their order, each value with its name."""
    return [(_latin(name), _latin(value)) for name, values in (given or {}).items() for value in _listed(values)]


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
        pieces.append(decoder.close())
    except UndecodableError:
        return data, bool(pieces) and not _is_text(data)
    return b"".join(pieces), False


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _body(given: str | VcrBody | None) -> bytes:
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
