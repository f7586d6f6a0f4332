"""Streams as other tools store them: the bytes of a body, payloads line by line, or one JSON
document.

The bytes of a body stay as they are. Payloads are framed as their API frames them. The times of the
events were not stored: the times are made up, one event every 10 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

from recorder.cassettes import Entry, Names
from recorder.cassettes.calls import (
    BLOCK_BYTES,
    ImportedCall,
    check_values,
    framed,
    imported_session,
    target_of,
)
from recorder.cassettes.content import (
    HEAD_BYTES,
    Format,
    dialect_of,
    is_payload,
    looks_like_stream,
    payloads_in,
)
from recorder.errors import RecorderError
from recorder.model.events import (
    MEMORY_LIMIT,
    Header,
    Recording,
    ResponseHead,
    Session,
    true_headers,
)
from recorder.wire.dialects import by_name, by_path
from recorder.wire.dialects.json_values import decoded_or_none
from recorder.wire.framing import SSE
from recorder.wire.framing.sse import BOM, Splitter
from recorder.wire.recording import blocks, framing_in_head
from recorder.wire.redaction.headers import redact_headers, redact_target

STEP_NS = 10_000_000  # between two events: about what a quick model does
LINE_LIMIT = 64 * 2**20  # of a payload: above any image that a provider sends in one event
# of a JSON document, held several times over as bytes, text and values: as for a payload
DOCUMENT_LIMIT = 64 * 2**20


class PlainRequest(NamedTuple):
    """The request of a stream, as far as it is known."""

    method: str = "POST"
    target: str | None = None
    headers: tuple[Header, ...] = ()
    body: bytes = b""


class _RequestFile(msgspec.Struct, frozen=True):
    """A request as a file has it beside its stream."""

    url: str
    method: str | None = None
    headers: dict[str, str] | None = None
    body: msgspec.Raw = msgspec.Raw(b"null")


def read_request(data: bytes) -> PlainRequest:
    """Decode a request from JSON: `{"method", "url", "headers", "body"}`, or the body alone.

    Raises `ValueError`.
    """
    if len(data) > DOCUMENT_LIMIT:
        raise ValueError(f"it is over {DOCUMENT_LIMIT >> 20} MiB, more than any API takes")
    if decoded_or_none(check_values(data)) is None:
        raise ValueError("it is not JSON")
    try:
        stored = msgspec.json.decode(data, type=_RequestFile)
    except (msgspec.DecodeError, RecursionError):
        return PlainRequest(body=data)
    target = redact_target(target_of(stored.url))
    given = [(name.encode(), text.encode()) for name, text in (stored.headers or {}).items()]
    headers = true_headers(redact_headers(given))
    return PlainRequest(
        (stored.method or "POST").upper(), target, tuple(headers), _body(bytes(stored.body))
    )


def _body(raw: bytes) -> bytes:
    """Return the bytes of a stored body. A body that is not JSON is a string in the file."""
    given = decoded_or_none(raw)
    if isinstance(given, str):
        return given.encode("utf-8", "surrogatepass")
    return raw if given is not None else b""


class PlainStream:
    """A stream or document of others, checked. It becomes one exchange."""

    def __init__(
        self, file: BinaryIO, format: Format, dialect: str | None, request: PlainRequest | None
    ) -> None:
        """Raises `RecorderError` if that is not what the file holds.

        `dialect` is guessed if it is `None`.
        """
        file.seek(0)
        head = file.read(HEAD_BYTES if format != "json" else DOCUMENT_LIMIT + 1)
        _CHECKS[format](file, head)
        payloads = list(payloads_in(format, head))
        self._file, self._format = file, format
        self._dialect = dialect or dialect_of(payloads)
        self._request = request or PlainRequest()
        self._path = self._chosen_path(given=dialect is not None, payloads=payloads)
        self._method = self._request.method
        if self._request.target is None and by_path(self._method, self._path).name != self._dialect:
            self._method = "GET"  # all that a declared dialect may have
        self.events = 0

    def session(self, name: str, names: Names) -> Session:
        return imported_session(name, names)

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield one exchange: the request, a plain response head, and a chunk for each event."""
        call = ImportedCall(
            method=self._method,
            target=self._path,
            headers=list(self._request.headers),
            body=self._request.body,
            response=ResponseHead(200, "OK", [("content-type", self._content_type)]),
            pieces=self._chunks(),
            started_ns=names.now_ns(),
            upstream=by_name(self._dialect).upstream,
        )
        yield from call.entries(session, names)

    @property
    def _content_type(self) -> str:
        if self._format == "json":
            return "application/json"
        return "application/x-ndjson" if self._is_of_lines else "text/event-stream"

    @property
    def _is_of_lines(self) -> bool:
        """Return whether the API sends its payloads as lines, as they are in the file."""
        return self._format == "payloads" and by_name(self._dialect).framing == "ndjson"

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        t_ns = 0
        for piece, begins in self._pieces():
            t_ns += STEP_NS if begins else 0
            self.events += 1
            yield t_ns, piece

    def _pieces(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the body in events; with each whether it begins one, or continues a long one."""
        self._file.seek(0)
        if self._format == "payloads":
            for line in _lines(self._file):
                event = line + b"\n" if self._is_of_lines else framed(line, self._dialect)
                yield event, True
            return
        splitter, begins = Splitter(), True
        for block in iter(lambda: self._file.read(BLOCK_BYTES), b""):
            if self._format == "json":  # all of it is one event, however it is read
                yield block, begins
                begins = False
                continue
            for piece in splitter.feed(block):
                yield piece.raw, begins
                begins = piece.complete
        for piece in splitter.close():
            yield piece.raw, begins

    def _chosen_path(self, *, given: bool, payloads: list[Any]) -> str:
        """Return the known target, if it is one of the dialect that the user named; else a usual
        one.
        """
        known = self._request.target
        if known is not None:
            spoken = by_path(self._request.method, known).name
            if not given or spoken == self._dialect:
                return known
        return by_name(self._dialect).target(self._format == "json", payloads)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    for line in iter(lambda: file.readline(LINE_LIMIT + 1), b""):
        if stripped := line.removeprefix(BOM).strip():
            yield stripped


def _check_stream(file: BinaryIO, head: bytes) -> None:
    if b"\0" in head or not looks_like_stream(head):
        raise RecorderError(
            "it is not a stream of server-sent events: no line begins with `data:` or the like"
        )


def _check_payloads(file: BinaryIO, head: bytes) -> None:
    file.seek(0)
    for number, line in enumerate(_lines(file), 1):
        if len(line) > LINE_LIMIT or not is_payload(check_values(line)):
            raise RecorderError(f"payload {number} is not a JSON object on a line of its own")


def _check_document(file: BinaryIO, data: bytes) -> None:
    if len(data) > DOCUMENT_LIMIT:
        raise RecorderError(
            f"it is over {DOCUMENT_LIMIT >> 20} MiB, more than any API sends as one JSON document"
        )
    if not isinstance(decoded_or_none(check_values(data.removeprefix(BOM))), dict | list):
        raise RecorderError("it is not a JSON document")


_CHECKS: dict[str, Callable[[BinaryIO, bytes], None]] = {
    "sse": _check_stream,
    "payloads": _check_payloads,
    "json": _check_document,
}


def payload_lines(recording: Recording) -> Iterator[bytes]:
    """Yield the payload of each event that has one, as a line of JSON."""
    framing = framing_in_head(recording.exchange, recording.response)
    is_first = framing is SSE
    for block in blocks(recording.exchange, recording.events, MEMORY_LIMIT):
        if block.raw is None or block.kind not in ("frame", "message"):
            continue
        data = framing.fields(block.raw.removeprefix(BOM) if is_first else block.raw).data
        is_first = False
        line = b"" if data is None else data.replace(b"\n", b" ")  # white space, where JSON has it
        if is_payload(line):
            yield line + b"\n"
