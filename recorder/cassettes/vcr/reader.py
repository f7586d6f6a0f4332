"""Cassettes of VCR, read: what vcrpy and pytest-recording write, as YAML or JSON, and Ruby's VCR,
which came first, and Betamax, whose JSON has the form of Ruby's.

Each interaction becomes an exchange, in their order. VCR knows no times: one exchange follows the
other, and the last ends now; but where `recorded_at` says when, an exchange began then.

Interactions of VCR, and of what has their form, as exchanges: a request, a response, and no time of
an event.

The times of the events are made up, one every 10 ms. Bodies are stored as they were sent, or
decoded although their headers still name the coding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, BinaryIO, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from recorder.cassettes import Entry, Names, refusing
from recorder.cassettes.calls import (
    BLOCK_BYTES,
    BODILESS,
    NO_BODY,
    BodyBudget,
    ImportedCall,
    ImportedFile,
    check_storable,
    check_values,
    from_base64,
    read_whole,
    target_of,
)
from recorder.cassettes.content import looks_like_stream
from recorder.cassettes.plain import STEP_NS
from recorder.cassettes.sse_jsonl.lines import nanoseconds
from recorder.cassettes.vcr.yaml_values import YAML_LIMIT, as_bytes, read_yaml
from recorder.errors import RecorderError
from recorder.model.events import Header, ResponseHead, Session, as_sent, header, true_headers
from recorder.wire.content_coding import Decoder, UndecodableError
from recorder.wire.framing import SSE, Framing, framing_of
from recorder.wire.redaction.headers import redact_headers

NOT_TEXT = "its method, uri or message is not text"

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


def calls(
    given: Iterable[tuple[int, VcrInteraction]], program: str, budget: BodyBudget
) -> Iterator[tuple[int | None, ImportedCall]]:
    """Yield numbered interactions as calls, each with the time at which it began, if that was
    stored.

    Raise `RecorderError`, which names the program.
    """
    for number, each in given:
        with refusing(f"interaction {number} is none of a {program} cassette"):
            started_ns, call = _instant(each.recorded_at), _call(each, budget.left_bytes)
        budget.take(call.size_bytes)
        yield started_ns, call


def _call(each: VcrInteraction, left: int) -> ImportedCall:
    """Decode an interaction. Raises `ValueError` and `TypeError` if it is impossible."""
    method, status = each.request.method.upper(), each.response.status
    check_storable(NOT_TEXT, method, each.request.uri, status.message or "")
    request = _message(each.request.headers, each.request.body, left)
    response = _message(each.response.headers, each.response.body, left)
    pieces = list(_pieces(response))
    # A body that is empty is a text in the file.
    lacks_body = (
        each.response.body in (None, VcrBody()) and status.code not in BODILESS and method != "HEAD"
    )
    return ImportedCall(
        method=method,
        target=target_of(each.request.uri),
        headers=[*missing_host(each.request.uri, request.headers), *request.headers],
        body=request.body,
        response=ResponseHead(status.code, status.message or "", response.headers),
        pieces=pieces,
        end_ns=pieces[-1][0] if pieces else STEP_NS,
        missing_response=NO_BODY if lacks_body else None,
    )


def missing_host(uri: str, headers: Iterable[Header]) -> list[Header]:
    """Return the header that names the host of the URI, if there is one and no header names it yet."""
    host = urlsplit(uri).netloc.rpartition("@")[2]
    is_named = any(name.lower() == "host" for name, _ in headers)
    return redact_headers(as_sent([("host", host)])) if host and not is_named else []


def _message(given: VcrHeaders | None, body: str | VcrBody | None, left: int) -> _DecodedMessage:
    """Return headers and body; the coding is undone and forgotten if that is possible.

    Raises `ValueError`.
    """
    headers = vcr_headers(given)
    data, is_coded = _decoded(header(headers, "content-encoding"), _body(body), left)
    return _DecodedMessage(true_headers(headers, is_coded=is_coded), data)


def vcr_headers(given: VcrHeaders | None) -> list[Header]:
    """Return redacted headers in their order, each value with its name."""
    pairs = []
    for name, values in (given or {}).items():
        listed = values if isinstance(values, list) else [values]
        pairs += [(name, value) for value in listed if value is not None]
    return redact_headers(as_sent(pairs))


def _decoded(coding: str, data: bytes, left: int) -> tuple[bytes, bool]:
    """Return a body, and whether it is still in its coding, cut or huge, as a recorder reports a
    received one.

    What gives nothing, or is text, was never in it: the tools keep the header of a coding that they
    have undone.
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
    return from_base64("".join(given.in_base64.split()))


def _instant(written: str | None) -> int | None:
    """Parse a time as Ruby writes it, or as everybody else. Raises `ValueError` and `TypeError`."""
    if written is None:
        return None
    return nanoseconds(parsedate_to_datetime(written) if "," in written else written)


def _pieces(response: _DecodedMessage) -> Iterator[tuple[int, bytes]]:
    """Yield the events of a response body with their times."""
    framing, t_ns, begins = _framing(response), 0, True
    if framing is None:
        if response.body:
            yield STEP_NS, response.body
        return
    splitter = framing.splitter()
    for piece in (*splitter.feed(response.body), *splitter.close()):
        t_ns += STEP_NS if begins else 0
        begins = piece.complete
        yield t_ns, piece.raw


def _framing(response: _DecodedMessage) -> Framing | None:
    """Return the framing of a response, by its content type; if that was filtered away, by its
    look.
    """
    if content_type := header(response.headers, "content-type"):
        return framing_of(content_type)
    return SSE if looks_like_stream(response.body[:BLOCK_BYTES]) else None


VERSION = 1


NOT_VCR = "it is not a VCR cassette"

_T = TypeVar("_T")


class _Document(msgspec.Struct, Generic[_T], frozen=True):
    version: int = VERSION
    interactions: tuple[_T, ...] | None = None
    # and of Betamax
    of_ruby: tuple[_T, ...] | None = msgspec.field(name="http_interactions", default=None)


class Vcr(ImportedFile):
    """A cassette of VCR, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if it is none, or has no interaction."""
        data = read_whole(file, ", too much for YAML: split it", YAML_LIMIT)
        self._found = list(calls(_interactions(data), "VCR", BodyBudget()))
        super().__init__((call for _, call in self._found), "there is no interaction in it")

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield an exchange for each interaction."""
        began_ns = names.now_ns() - sum(call.end_ns for _, call in self._found)
        self._calls = []
        for started_ns, call in self._found:
            self._calls.append(
                call._replace(started_ns=began_ns if started_ns is None else started_ns)
            )
            began_ns += call.end_ns
        yield from super().entries(session, names)


# -- the document


def _interactions(data: bytes) -> Iterator[tuple[int, VcrInteraction]]:
    """Yield the interactions of the document with their numbers. Raises `RecorderError`."""
    document = _document(data)
    if document.version != VERSION:
        version = f"version {document.version} of VCR cassettes is not known here"
        raise RecorderError(f"{version}, only {VERSION}: upgrade recorder")
    found = document.of_ruby if document.interactions is None else document.interactions
    if found is None:
        raise RecorderError(f"{NOT_VCR}: there are no `interactions` in it")
    for number, each in enumerate(found, 1):
        with refusing(f"interaction {number} is none of a VCR cassette"):
            if isinstance(each, msgspec.Raw):
                interaction = msgspec.json.decode(each, type=VcrInteraction)
            else:
                interaction = msgspec.convert(each, VcrInteraction, strict=False)
        yield number, interaction


def _document(data: bytes) -> _Document[Any]:
    if data.lstrip().startswith(b"{"):
        with refusing(NOT_VCR):
            return msgspec.json.decode(check_values(data), type=_Document[msgspec.Raw])
    with refusing("it is not YAML that can be read"):
        given = read_yaml(data)
    if isinstance(given, list):
        raise RecorderError(
            "it is a list: if vcrpy before 1.0 wrote it, migrate it with `python -m vcr.migration`"
        )
    with refusing(NOT_VCR):
        return msgspec.convert(given, _Document[Any], strict=False)
