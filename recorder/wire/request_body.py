"""The body of a request as it is recorded: without its content codings, without what is a secret.
Pure.

A body that cannot be decoded to its end might hold a secret that cannot be found. It is counted but
not stored, unless it is plain JSON in spite of its head.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from recorder.model.events import GapRecord, RequestHead, RequestRecord
from recorder.wire.content_coding import CODINGS, UndecodableError, codings, decode, decode_all
from recorder.wire.grouping.session import Grouping, group
from recorder.wire.redaction.bodies import PLACEHOLDER, Redactor, is_json, placeholder
from recorder.wire.redaction.headers import redact_text

REQUEST_LIMIT = 64 * 2**20  # of a request body, wire and decoded: what the proxy lets through


class Body(NamedTuple):
    """The body of one request."""

    raw: bytes  # as it is recorded
    wire: bytes  # that sizes and digest of the record are of
    undecoded: str | None = None  # why it is not decoded
    redactions: Mapping[str, int] | None = None
    sent: bytes | None = None  # decoded, with all its secrets: for the name of the session only


class LoggedRequest(NamedTuple):
    """A request that is in the log already: its head, and the `raw` of its events.

    `sent` is that of further messages and control frames of the client, in order, which are
    redacted as bodies are. It can be read once.
    """

    record: RequestRecord
    raws: Sequence[bytes]
    sent: Iterable[bytes] = ()

    def body(self) -> Body:
        raw = b"".join(self.raws[1:])
        return Body(raw, raw, self.record.undecoded)


def recorded_body(head: RequestHead, wire: bytes, redactor: Redactor, *, complete: bool) -> Body:
    """Make a body ready for the log. Without `complete` it breaks off."""
    decoded, undecoded = decoded_body(head.headers, wire)
    raw, counts = redactor.redact(decoded, cut=not complete)
    if undecoded and decoded is not wire:
        counts = {"coded": 1}
    # What was sent is not what is kept: without a secret in it, and without a coding that no header
    # names.
    is_as_kept = bool(counts) or not codings(head.headers)
    return Body(raw, raw if is_as_kept else wire, undecoded, counts, decoded)


def body_of(
    earlier: LoggedRequest | None,
    head: RequestHead,
    wire: bytes,
    redactor: Redactor,
    *,
    complete: bool,
) -> Body:
    """Return a body as the log has it already, else one that is ready for it."""
    if earlier is not None:
        return earlier.body()
    return recorded_body(head, wire, redactor, complete=complete)


def grouped(head: RequestHead, body: Body, redactor: Redactor) -> Grouping:
    """Find out which session a request names.

    A name that is a secret is another than that of another secret.
    """
    grouping = group(head, None if body.undecoded else body.raw)
    if (
        not body.redactions
        or body.undecoded
        or not PLACEHOLDER.search((grouping.name or "").encode())
    ):
        return grouping
    name = redact_text(group(head, body.sent).name or "")
    return (
        grouping
        if redactor.redact(name.encode()).counts
        else msgspec.structs.replace(grouping, name=name)
    )


def decoded_body(headers: Iterable[tuple[str, str]], wire: bytes) -> tuple[bytes, str | None]:
    """Undo all codings of a body; or return its replacement, and the reason."""
    named = codings(headers)
    try:
        decoded = decode_all(named, wire, REQUEST_LIMIT)
        unknown = [coding for coding in named if coding not in CODINGS]
        # what looks like text may be parts of one, with a secret in two of them
        if unknown and not is_json(decoded):
            raise UndecodableError(f"the coding {unknown[0]!r} is not known", wire)
        return _without_unnamed(decoded), None
    except UndecodableError as error:
        return wire if is_json(wire) or not wire else placeholder("coded", len(wire)), str(error)


_UNNAMED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"\x78": "deflate"}


def _without_unnamed(body: bytes) -> bytes:
    """Undo a coding that no header names, if there is JSON in it: a client that forgot the header."""
    coding = _UNNAMED.get(body[:2]) or _UNNAMED.get(body[:1])
    if coding is None:
        return body
    try:
        decoded = decode(coding, body, REQUEST_LIMIT)
    except UndecodableError:
        return body
    return decoded if is_json(decoded) else body


def overwritten(size_bytes: int, now_ns: int) -> GapRecord:
    """Return the gap for a body that neither the journal nor the log has any more."""
    reason = "the body went into another log, and is overwritten in the journal since"
    return GapRecord("request", 1, size_bytes, "", now_ns, now_ns, reason)
