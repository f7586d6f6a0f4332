"""Calls as tools store them that decode what they see: JSON in place of bytes, and when a call began and ended. Pure.

Bytes are made up from the values: JSON without spaces, and each event framed as its API does. Such tools store no time
of an event, so a response came, as far as anybody knows, when its last byte did. What a tool did not store at all is a
gap, with the reason: the exchange is then not lossless, and no replay takes it for whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recorder.cassettes.calls import ImportedCall, Piece, in_blocks, latin, true_headers
from recorder.cassettes.plain import framed
from recorder.cassettes.sse_jsonl.lines import SECONDS_LIMIT
from recorder.model.payloads import Header
from recorder.wire.dialects.json_values import as_json
from recorder.wire.redaction.headers import redact_headers

NOT_TEXT = "its method, path or error has characters that are not text"


class DecodedCall(ImportedCall):
    """A call whose events are not told apart by time: one of them may have several records."""

    def chunks(self) -> Iterator[Piece]:
        for t_ns, piece in self.pieces:
            for block in in_blocks(piece):
                yield t_ns, block


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
    return true_headers(redact_headers(latin(pairs)))


def milliseconds(given: float | None) -> int:
    """Return a duration in nanoseconds that a journal can hold."""
    return round(max(0.0, min((given or 0) / 1000, SECONDS_LIMIT)) * 1e6) * 1000
