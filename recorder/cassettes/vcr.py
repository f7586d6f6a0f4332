"""Cassettes of VCR, read: what vcrpy and pytest-recording write, as YAML or JSON, and Ruby's VCR, which came first.

Each interaction becomes an exchange, in their order. VCR knows no times: they are made up, one event every 10 ms, one
exchange after the other, and the last ends now; but where `recorded_at` says when, an exchange began then.

Bodies stand there as they were sent, or decoded although their headers still name the coding.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

import msgspec

from recorder.cassettes import Entry, Names
from recorder.cassettes.calls import true_headers
from recorder.cassettes.content import looks_like_stream
from recorder.cassettes.foreign import BLOCK_BYTES, STEP_NS
from recorder.cassettes.header import nanoseconds
from recorder.cassettes.vcr_document import Body, Headers, Interaction, interactions
from recorder.cassettes.vcr_yaml import YAML_LIMIT, as_bytes
from recorder.errors import RecorderError
from recorder.journal.format import Mark
from recorder.model.events import Session
from recorder.model.payloads import ExchangeEnd, Imported, RequestEnd, RequestHead, ResponseHead
from recorder.wire.content_coding import Decoder, UndecodableError
from recorder.wire.dialects import by_name, by_path, framing
from recorder.wire.redaction.headers import Header, redact_headers, redact_record, redact_target
from recorder.wire.sse import BOM, Splitter

BODIES_LIMIT = 256 * 2**20  # of all bodies, decoded, in memory: four times what the file may have

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # bytes that are no UTF-8, and what no text of a database has


class Vcr:
    """A cassette of VCR, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if it is none, or has no interaction."""
        file.seek(0)
        data = file.read(YAML_LIMIT + 1).removeprefix(BOM)
        if len(data) > YAML_LIMIT:
            raise RecorderError(f"it is over {YAML_LIMIT >> 20} MiB, too much for YAML: split it")
        self._heard = list(_all_heard(interactions(data)))
        if not self._heard:
            raise RecorderError("there is no interaction in it")
        self.events = 0

    def session(self, name: str, names: Names) -> Session:
        return Session(names.new_id(), names.now_ns(), name, "import", "{}", "import")

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """An exchange for each interaction."""
        began_ns = names.now_ns() - sum(heard.end_ns for heard in self._heard)
        for heard in self._heard:
            started_ns = began_ns if heard.started_ns is None else heard.started_ns
            began_ns += heard.end_ns
            yield Entry(Mark.REQUEST, 0, redact_record(heard.request_head(session, names, started_ns)))
            if heard.asked.body:
                yield Entry(Mark.REQUEST_BODY, 0, heard.asked.body)
            yield Entry(Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(complete=True)))
            yield Entry(Mark.RESPONSE, 0, redact_record(heard.response_head()))
            for t_ns, piece in heard.pieces:
                self.events += 1
                yield Entry(Mark.CHUNK, t_ns, piece)
            yield Entry(Mark.END, heard.end_ns, msgspec.json.encode(ExchangeEnd("eof")))


class _Message(NamedTuple):
    """A request or a response: headers that are true for the body."""

    headers: list[Header]
    body: bytes

    @property
    def content_type(self) -> str:
        return next((said.decode("latin-1") for name, said in self.headers if name.lower() == b"content-type"), "")


class _Heard(NamedTuple):
    """An interaction as a recorder tells it."""

    interaction: Interaction
    target: str
    started_ns: int | None
    asked: _Message
    answered: _Message
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
            headers=redact_headers(self.asked.headers),
            imported=Imported(session),
        )

    def response_head(self) -> ResponseHead:
        status = self.interaction.response.status
        return ResponseHead(status.code, status.message or "", redact_headers(self.answered.headers))


def _all_heard(given: Iterator[tuple[int, Interaction]]) -> Iterator[_Heard]:
    """Raises `RecorderError`."""
    left = BODIES_LIMIT
    for number, each in given:
        try:
            heard = _heard(each, left)
        except (ValueError, TypeError) as error:
            raise RecorderError(f"interaction {number} is none of a VCR cassette: {error}") from error
        left -= len(heard.asked.body) + len(heard.answered.body)
        if left < 0:
            raise RecorderError(f"up to interaction {number} its bodies are over {BODIES_LIMIT >> 20} MiB: split it")
        yield heard


def _heard(each: Interaction, left: int) -> _Heard:
    """Raises `ValueError` and `TypeError` for what no interaction can be."""
    if any(map(_UNSTORABLE.search, (each.request.method, each.request.uri, each.response.status.message or ""))):
        raise ValueError("its method, uri or message is no text")
    parts = urlsplit(each.request.uri)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    asked = _message(each.request.headers, each.request.body, left)
    if parts.netloc and not any(name.lower() == b"host" for name, _ in asked.headers):
        asked.headers.insert(0, (b"host", _latin(parts.netloc.rpartition("@")[2])))
    answered = _message(each.response.headers, each.response.body, left)
    pieces = list(_pieces(answered))
    end_ns = pieces[-1][0] if pieces else STEP_NS
    return _Heard(each, target, _instant(each.recorded_at), asked, answered, pieces, end_ns)


def _message(given: Headers | None, body: str | Body | None, left: int) -> _Message:
    """Headers and body, the coding undone if that is possible, and forgotten if it is undone. Raises `ValueError`."""
    headers = [(_latin(name), _latin(said)) for name, values in (given or {}).items() for said in _listed(values)]
    coding = next((said.decode("latin-1") for name, said in headers if name.lower() == b"content-encoding"), None)
    data, is_coded = _decoded(coding, _body(body), left)
    return _Message(true_headers(headers, is_coded=is_coded), data)


def _decoded(coding: str | None, data: bytes, left: int) -> tuple[bytes, bool]:
    """A body, and whether it is still in its coding, cut or huge: then a recorder says so, as of one that it received.

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


def _body(given: str | Body | None) -> bytes:
    if given is None or isinstance(given, str):
        return as_bytes(given or "")
    if given.in_base64 is None:
        return as_bytes(given.string or (given.state or (None,))[0] or "")
    try:
        return b64decode("".join(given.in_base64.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the base64 of a body is none: {error}") from error


def _listed(values: str | list[str | None] | None) -> list[str]:
    return [said for said in (values if isinstance(values, list) else [values]) if said is not None]


def _latin(said: str) -> bytes:
    return said.encode("latin-1", "replace")


def _instant(written: str | None) -> int | None:
    """As Ruby writes it, or as everybody else. Raises `ValueError` and `TypeError`."""
    if written is None:
        return None
    return nanoseconds(parsedate_to_datetime(written) if "," in written else written)


def _pieces(answered: _Message) -> Iterator[tuple[int, bytes]]:
    """The body of a response in events, and when they came."""
    splitter, t_ns, begins = Splitter(), 0, True
    if not _is_stream(answered):
        body = answered.body
        yield from ((STEP_NS, body[at : at + BLOCK_BYTES]) for at in range(0, len(body), BLOCK_BYTES))
        return
    for piece in (*splitter.feed(answered.body), *splitter.close()):
        t_ns += STEP_NS if begins else 0
        begins = piece.complete
        yield t_ns, piece.raw


def _is_stream(answered: _Message) -> bool:
    """By its content type; if that was filtered away, by its look."""
    if answered.content_type:
        return framing(answered.content_type) == "sse"
    return looks_like_stream(answered.body[:BLOCK_BYTES])
