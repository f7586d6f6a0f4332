"""Calls as tools store them that decode what they see: JSON in place of bytes, and when a call began and ended. Pure.

Bytes are made up from the values: JSON without spaces, and each event framed as its API does. Such tools store no time
of an event, so a response came, as far as anybody knows, when its last byte did. What a tool did not store at all is a
gap, with the reason: the exchange is then not lossless, and no replay takes it for whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from recorder.cassettes import Entry, Names
from recorder.cassettes.calls import gap_of, true_headers
from recorder.cassettes.plain import framed
from recorder.cassettes.sse_jsonl.lines import SECONDS_LIMIT
from recorder.journal.format import Mark
from recorder.model.events import Session
from recorder.model.payloads import ExchangeEnd, Header, Imported, RequestEnd, RequestHead, ResponseHead
from recorder.wire.dialects.json_values import as_json
from recorder.wire.redaction.headers import redact_headers, redact_record, redact_target

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # what no text of a database has
BLOCK_BYTES = 256 * 1024  # of a body, in one record of a journal


class DecodedCall(NamedTuple):
    """A call, and what its tool stored of it. Times are in nanoseconds."""

    method: str
    target: str
    upstream: str
    headers: list[Header]
    started_ns: int
    duration_ns: int
    body: bytes
    response: ResponseHead | None
    pieces: Sequence[bytes]
    end: ExchangeEnd
    missing_request: str | None = None  # the reason why the request body was not stored
    missing_response: str | None = None

    @property
    def size_bytes(self) -> int:
        """Return the size of its bodies."""
        return len(self.body) + sum(map(len, self.pieces))

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield the records of the exchange."""
        head = RequestHead(
            exchange_id=names.new_id(),
            session_id=session.session_id,
            started_ns=self.started_ns,
            method=self.method,
            target=redact_target(self.target),
            upstream=self.upstream,
            headers=self.headers,
            imported=Imported(session),
        )
        yield Entry(Mark.REQUEST, 0, redact_record(head))
        for at in range(0, len(self.body), BLOCK_BYTES):
            yield Entry(Mark.REQUEST_BODY, 0, self.body[at : at + BLOCK_BYTES])
        if self.missing_request is not None:
            yield Entry(Mark.GAP, 0, gap_of(Mark.REQUEST_BODY, 0, self.missing_request))
        yield Entry(Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(self.missing_request is None)))
        if self.response is not None:
            yield Entry(Mark.RESPONSE, self.duration_ns, redact_record(self.response))
        if self.missing_response is not None:
            yield Entry(Mark.GAP, self.duration_ns, gap_of(Mark.CHUNK, self.duration_ns, self.missing_response))
        for piece in self.pieces:
            for at in range(0, len(piece), BLOCK_BYTES):
                yield Entry(Mark.CHUNK, self.duration_ns, piece[at : at + BLOCK_BYTES])
        yield Entry(Mark.END, self.duration_ns, redact_record(self.end))


def require_storable(call: DecodedCall) -> DecodedCall:
    """Return the call. Raises `ValueError` if the log cannot hold its method, its target or its error."""
    if any(map(_UNSTORABLE.search, (call.method, call.target, call.end.error or ""))):
        raise ValueError("its method, path or error has characters that are not text")
    return call


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON without spaces; nothing for None, and text that was not JSON as it is."""
    if value is None:
        return b""
    return (value if isinstance(value, str) else as_json(value)).encode("utf-8", "surrogatepass")


def block(payload: Any, dialect: str, event: str | None = None) -> bytes:
    """Return the payload of an event as a block of its stream; `event` is a name that does not follow from it."""
    data = json_bytes(payload).replace(b"\r", b" ").replace(b"\n", b"\ndata: ")
    made = framed(data, dialect)
    if event is None or made.startswith(b"event: "):
        return made
    return b"event: %b\n%b" % (" ".join(event.split()).encode("utf-8", "replace"), made)


def header_list(given: Mapping[str, str], **changed: str) -> list[Header]:
    """Return redacted headers that are true for a decoded body; `changed` are values of those that are there."""
    pairs = ((name, changed.get(name.lower().replace("-", "_"), value)) for name, value in given.items())
    raw = [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in pairs]
    return true_headers(redact_headers(raw))


def milliseconds(given: float | None) -> int:
    """Return a duration in nanoseconds that a journal can hold."""
    return round(max(0.0, min((given or 0) / 1000, SECONDS_LIMIT)) * 1e6) * 1000
