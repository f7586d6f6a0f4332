"""HTTP calls and WebSocket connections as other tools store them, and their records of a journal.
Pure.

Rules of this file:

* All of these formats keep a body without its content coding, under the headers that it was sent
  with.

* A file is read whole, since its records refer to each other, or are not in the order of their
  times. So three things have a limit: its bytes, the values in one document of it, and the bodies
  that are made from it. Each is held at once.
* A limit is checked before what it limits is made.
* Of tools that decode what they see, bytes are made up from the values: JSON without spaces, and
  each event framed as its API does. Such tools store no time of an event, so a response came, as
  far as anybody knows, when its last byte did. What a tool did not store at all is a gap, with the
  reason: the exchange is then not lossless, and no replay takes it for whole.
* Messages over WebSocket become frames, so that the ingester finds the turns in them as in a
  connection that it records. The frames are made up: one for each message, uncompressed.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from recorder.cassettes import Entry, Names
from recorder.cassettes.sse_jsonl.lines import SECONDS_LIMIT
from recorder.errors import RecorderError
from recorder.journal.format import Gap, Mark
from recorder.model.events import (
    SWITCHED,
    ExchangeEnd,
    Header,
    Imported,
    RequestEnd,
    RequestHead,
    RequestRecord,
    ResponseHead,
    Session,
    Side,
    as_sent,
    header,
    true_headers,
)
from recorder.model.ids import turn_id
from recorder.model.text import UNSTORABLE
from recorder.wire.dialects import by_name, by_path
from recorder.wire.dialects.json_values import as_json, decoded_or_none
from recorder.wire.framing.sse import BOM
from recorder.wire.framing.websocket import MESSAGE_LIMIT, Opcode, encode_frame
from recorder.wire.redaction.headers import redact_headers, redact_record, redact_target
from recorder.wire.turns import PROTOCOL
from recorder.wire.upstreams import url_at

# bytes: hours of a browser, with images, or about 20,000 calls as LiteLLM logs them
FILE_LIMIT = 256 * 2**20
# in one JSON document: of 64 bytes each, where three bytes of a file can be a value
VALUES_LIMIT = 10**7
# bytes of all bodies of a file: a reference or a coding makes them longer than the file
BODIES_LIMIT = 256 * 2**20

# before each value but the first: it has one of its own, or that of what it is in
_PUNCTUATION = (b",", b"[", b"{")
_NEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[,\[{]', re.DOTALL)


def read_whole(file: BinaryIO, advice: str, limit_bytes: int = FILE_LIMIT) -> bytes:
    """Return a file without its byte-order mark.

    Raise `RecorderError`, with the advice, if it is too large.
    """
    file.seek(0)
    data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise RecorderError(f"it is over {limit_bytes >> 20} MiB{advice}")
    return data.removeprefix(BOM)


def check_values(data: bytes) -> bytes:
    """Return JSON that has few enough values to be decoded. Raise `RecorderError`."""
    if sum(map(data.count, _PUNCTUATION)) <= VALUES_LIMIT:  # which counts those in texts, too
        return data
    values = 0
    for match in _NEXT.finditer(data):
        values += data[match.start()] != ord('"')
        if values > VALUES_LIMIT:
            raise RecorderError(
                f"it has over {VALUES_LIMIT:,} values in one document, far more than any call"
            )
    return data


class BodyBudget:
    """The bytes that the bodies of a file may still have."""

    def __init__(self, left_bytes: int | None = None) -> None:
        self.left_bytes = BODIES_LIMIT if left_bytes is None else left_bytes

    def take(self, size_bytes: int) -> None:
        """Raise `RecorderError` if there are not as many."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise RecorderError(f"its bodies are over {BODIES_LIMIT >> 20} MiB together: split it")


NO_BODY = "the file does not have the body of the response"
BODILESS = frozenset({204, 205, 304})  # statuses of responses that have none

BLOCK_BYTES = 256 * 1024  # of a body, in one record of a journal

_LOOPBACK = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?", re.IGNORECASE)


def from_base64(written: str) -> bytes:
    """Decode the base64 of a body. Raise `ValueError`."""
    try:
        return b64decode(written, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the base64 of a body is none: {error}") from error


def url(request: RequestRecord, *, was_imported: bool = False) -> str:
    """Return the URL that a client uses without a recorder: that of the upstream, if it is a server
    of one's own; else the host that the client named; of this machine only if that is not a
    recorder."""
    asked = url_at(request.base_url, request.upstream, request.target)
    if request.base_url and asked is not None:
        return asked
    host = header(request.headers, "host")
    is_here = _LOOPBACK.fullmatch(host) is not None
    if host and (was_imported or not is_here):
        return f"{'http' if is_here else 'https'}://{host}{request.target}"
    if asked is not None:
        return asked
    return (
        f"http://{host}{request.target}"
        if host
        else f"https://{request.upstream}.invalid{request.target}"
    )


def target_of(url: str) -> str:
    """Return the target of a request for a URL. Raises `ValueError` if it is none."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def check_storable(message: str, *texts: str) -> None:
    """Raise `ValueError` with a message if one of the texts cannot be a text of a database."""
    if any(map(UNSTORABLE.search, texts)):
        raise ValueError(message)


def in_blocks(data: bytes) -> list[bytes]:
    """Return a body in pieces that fit a record of a journal."""
    return [data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)]


Piece = tuple[int, bytes]
"""A part of a body, and its time in nanoseconds since its call began."""


class ImportedCall(NamedTuple):
    """A call as a recorder would have recorded it. Times are in nanoseconds since it began."""

    method: str
    target: str
    headers: list[Header]
    body: bytes
    response: ResponseHead | None
    pieces: Iterable[Piece]  # of the response body; those of a large file are read as they are told
    end: ExchangeEnd = ExchangeEnd("eof")
    started_ns: int = 0  # wall time
    head_ns: int = 0
    end_ns: int = 0  # it does not end before its last piece
    upstream: str | None = None  # where the path does not say it
    missing_request: str | None = None  # the reason why the file does not have the body
    missing_response: str | None = None
    id: str | None = None  # of its exchange, where that has to be the same each time
    derived: str | None = None  # from what, if the file does not have what was sent at all

    @property
    def size_bytes(self) -> int:
        """Return the size of its bodies."""
        return len(self.body) + sum(len(raw) for _, raw in self.pieces)

    @property
    def events(self) -> int:
        return sum(1 for _ in self.pieces)

    def mark(self, piece: bytes) -> Mark:
        """Return the mark of the records of a piece."""
        return Mark.CHUNK

    def chunks(self) -> Iterator[Entry]:
        """Yield the records of the response body: a long piece has several."""
        for t_ns, piece in self.pieces:
            for block in in_blocks(piece):
                yield Entry(self.mark(piece), t_ns, block)

    def exchange_id(self, names: Names) -> str:
        return self.id or names.new_id()

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield its records."""
        yield Entry(Mark.REQUEST, 0, redact_record(self._head(session, names)))
        for block in in_blocks(self.body):
            yield Entry(Mark.REQUEST_BODY, 0, block)
        if self.missing_request is not None:
            yield Entry(Mark.GAP, 0, _gap_of(Mark.REQUEST_BODY, 0, self.missing_request))
        is_complete = self.missing_request is None and self.derived is None
        yield Entry(Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(complete=is_complete)))
        if self.response is not None:
            yield Entry(Mark.RESPONSE, self.head_ns, redact_record(self.response))
        if self.missing_response is not None:
            yield Entry(
                Mark.GAP, self.head_ns, _gap_of(Mark.CHUNK, self.head_ns, self.missing_response)
            )
        end_ns = self.end_ns
        for chunk in self.chunks():
            end_ns = max(end_ns, chunk.t_ns)
            yield chunk
        yield Entry(Mark.END, end_ns, redact_record(self.end))

    def _head(self, session: Session, names: Names) -> RequestHead:
        return RequestHead(
            exchange_id=self.exchange_id(names),
            session_id=session.session_id,
            started_ns=self.started_ns,
            method=self.method,
            target=redact_target(self.target),
            upstream=self.upstream or by_path(self.method, self.target).upstream,
            headers=self.headers,
            imported=Imported(session),
            derived=msgspec.UNSET if self.derived is None else self.derived,
        )


def _gap_of(mark: Mark, t_ns: int, reason: str) -> bytes:
    """Return a gap of an unknown number of bytes."""
    return msgspec.json.encode(Gap(mark, 1, 0, "", t_ns, t_ns, reason))


def imported_session(name: str, names: Names) -> Session:
    return Session(names.new_id(), names.now_ns(), name, "import", "{}", "import")


class ImportedFile:
    """A file of another program, checked: a `Cassette` of calls and connections."""

    def __init__(
        self, calls: Iterable[ImportedCall], nothing: str | None, budget: BodyBudget | None = None
    ) -> None:
        """Hold the calls of a file, as far as their bodies have room in a budget.

        Raise `RecorderError`; `nothing` says that there are none, where that is an error.
        """
        self.events = 0
        self._calls: list[ImportedCall] = []
        budget = budget or BodyBudget()
        for each in calls:
            budget.take(each.size_bytes)
            self._calls.append(each)
        if not self._calls and nothing is not None:
            raise RecorderError(nothing)

    def session(self, name: str, names: Names) -> Session:
        return imported_session(name, names)

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield an exchange for each call, in their order."""
        for each in self._calls:
            self.events += each.events
            yield from each.entries(session, names)


NOT_TEXT = "its method, path or error has characters that are not text"


def framed(line: bytes, dialect: str) -> bytes:
    """Return a payload, framed as its API does."""
    spoken = by_name(dialect)
    line = line.replace(b"\r", b" ")  # white space in JSON, the end of a line in a stream
    payload = decoded_or_none(line) if spoken.has_event_lines else None
    type = payload.get("type") if isinstance(payload, dict) else None
    if isinstance(type, str) and type and type.isprintable():
        return b"event: %b\ndata: %b\n\n" % (type.encode(), line)
    return b"data: %b%b" % (line, 2 * spoken.line_end)


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON without spaces; nothing for None, and text that was not JSON as it is."""
    if value is None:
        return b""
    return (value if isinstance(value, str) else as_json(value)).encode("utf-8", "surrogatepass")


def block(payload: Any, dialect: str, event: str | None = None) -> bytes:
    """Return the payload of an event as a block of its stream; `event` is a name that does not
    follow from it.
    """
    data = json_bytes(payload).replace(b"\r", b" ").replace(b"\n", b"\ndata: ")
    made = framed(data, dialect)
    if event is None or made.startswith(b"event: "):
        return made
    return b"event: %b\n%b" % (" ".join(event.split()).encode("utf-8", "replace"), made)


def header_list(given: Mapping[str, str], **changed: str) -> list[Header]:
    """Return redacted headers that are true for a decoded body; `changed` are values of those that
    are there.
    """
    pairs = (
        (name, changed.get(name.lower().replace("-", "_"), value)) for name, value in given.items()
    )
    return true_headers(redact_headers(as_sent(pairs)))


def milliseconds(given: float | None) -> int:
    """Return a duration in nanoseconds that a journal can hold."""
    return journal_ns((given or 0) / 1000)


def journal_ns(seconds: float) -> int:
    """Return nanoseconds that a journal can hold; a double of today is exact to the microsecond."""
    return round(max(0.0, min(seconds, SECONDS_LIMIT)) * 1e6) * 1000


MASKED = 0x80  # of the second byte of a frame: only those of a client are, RFC 6455 section 5.1
NO_MASK = bytes(4)  # the frame of a client must be masked; this key leaves the payload as it is

_EXTENSIONS = "sec-websocket-extensions"  # the messages are stored without their compression
_KEY, _ACCEPT = "sec-websocket-key", "sec-websocket-accept"


def message_of(side: Side, t_ns: int, payload: bytes, opcode: Opcode = "text") -> Piece:
    """Return a message as a frame. Raises `ValueError` if it is longer than a recorder takes."""
    if len(payload) > MESSAGE_LIMIT:
        raise ValueError(f"a message over WebSocket has over {MESSAGE_LIMIT >> 20} MiB")
    return t_ns, encode_frame(opcode, payload, mask=NO_MASK if side == "client" else None)


SWITCHING = ResponseHead(SWITCHED, "Switching Protocols", [])


class ImportedConnection(ImportedCall):
    """A connection as a recorder would have recorded it. Its pieces are frames, of both sides."""

    @classmethod
    def of(
        cls,
        target: str,
        headers: list[Header],
        frames: list[Piece],
        response: ResponseHead = SWITCHING,
        **known: Any,
    ) -> ImportedConnection:
        """Return a connection; `known` are further fields of a call."""
        # A key without its answer is left out: nothing can be checked with it.
        is_answered = any(name.lower() == _ACCEPT for name, _ in response.headers)
        untrue = {_EXTENSIONS} if is_answered else {_EXTENSIONS, _KEY}
        response = replace(response, headers=_upgraded(response.headers, untrue))
        upstream = by_path("POST", target).upstream
        return cls(
            "GET",
            target,
            _upgraded(headers, untrue),
            b"",
            response,
            frames,
            upstream=upstream,
            **known,
        )

    def mark(self, piece: bytes) -> Mark:
        is_of_client = piece[1] & MASKED
        return Mark.CLIENT_CHUNK if is_of_client else Mark.CHUNK

    def exchange_id(self, names: Names) -> str:
        """Return an id right behind which the ids of its turns sort."""
        return turn_id(names.new_id(), 0)


def _upgraded(given: Sequence[Header], untrue: set[str]) -> list[Header]:
    """Return the headers of a handshake that are true for messages without compression; both sides
    offer and accept it, also where the browser did not save them.
    """
    kept = [(name, value) for name, value in given if name.lower() not in untrue]
    names = {name.lower() for name, _ in kept}
    needed = [
        each for each in (("connection", "Upgrade"), ("upgrade", PROTOCOL)) if each[0] not in names
    ]
    return [*needed, *kept]
