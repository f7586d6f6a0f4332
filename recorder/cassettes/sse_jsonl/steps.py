"""Steps in the life of an exchange as JSON, and back: request, response, reads, control, frames,
gap, end, note.

    {"exchange":1,"after":0.350123,"response":{"status":200,"reason":"OK","headers":[…]}}

The value under the name of the kind is the event's `raw`, parsed. What follows from the rest of the
exchange (sums, lengths, digests) is left out and found again, so that an edited line makes no other
line a lie; it is written only if it is another value. `raw` that no value gives back exactly is
`{"raw": …}`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from recorder.cassettes.sse_jsonl.lines import (
    PAYLOAD_DEPTH,
    array,
    content,
    content_bytes,
    microseconds,
    seconds,
    text,
    value,
)
from recorder.model.events import (
    BODY_KINDS,
    LEFT_OUT,
    ControlRecord,
    EndRecord,
    Event,
    FrameShape,
    GapRecord,
    Header,
    Kind,
    RequestRecord,
    ResponseHead,
    Side,
    as_sent,
)
from recorder.wire.content_coding import Decoder
from recorder.wire.redaction.headers import redact_headers, redact_target

_RAW = "raw"

_encode = msgspec.json.Encoder().encode


class Sums:
    """The sums over the events of an exchange so far: the usual fields of its `end`."""

    def __init__(self) -> None:
        self._body = sha256()
        self._status: int | None = None
        self._coding: str | None = None
        self._bytes = self._events = self._frames = self._gap_chunks = self._gap_bytes = 0

    def add(self, event: Event) -> None:
        """Add the next event."""
        self._events += 1
        if event.type == LEFT_OUT:
            return
        if event.kind in BODY_KINDS:
            self._body.update(event.raw)
            self._bytes += len(event.raw)
            self._frames += event.kind == "frame"
        elif event.kind == "response":
            head = msgspec.json.decode(event.raw, type=ResponseHead)
            self._status = head.status
            headers = {name.lower(): given for name, given in head.headers}
            self._coding = Decoder(headers.get("content-encoding")).coding
        elif event.kind == "gap":
            gap = msgspec.json.decode(event.raw, type=GapRecord)
            self._gap_chunks += gap.chunks
            self._gap_bytes += gap.size_bytes

    def usual_end(self) -> dict[str, Any]:
        """Return the fields of the `end` of a whole exchange, besides its outcome."""
        digest = self._body.hexdigest()
        sums = {
            "wire_bytes": self._bytes,
            "wire_sha256": digest,
            "body_bytes": self._bytes,
            "body_sha256": digest,
        }
        counts = {"events": self._events, "frames": self._frames}
        gaps = {"gap_chunks": self._gap_chunks, "gap_bytes": self._gap_bytes}
        coding = {"coding": self._coding, "undecoded": None}
        return {
            "error": None,
            "http_status": self._status,
            **sums,
            **counts,
            **gaps,
            **coding,
            "lossless": True,
        }


def usual_request(body: bytes) -> dict[str, Any]:
    """Return the fields of a request whose body arrived whole and without a coding."""
    size, digest = len(body), sha256(body).hexdigest()
    return {
        "wire_bytes": size,
        "wire_sha256": digest,
        "body_bytes": size,
        "complete": True,
        "undecoded": None,
    }


def shorten(kind: Kind, raw: bytes, usual: Mapping[str, Any]) -> Any:
    """Return the short form of `raw` for a line, without its usual fields."""
    raw = _cleaned(kind, raw)
    try:
        short = _shortened(kind, raw, usual)
        again = restore(kind, value(text(short)), usual)
    except ValueError:
        return {_RAW: content(raw)}
    return short if again == _in_microseconds(kind, raw) else {_RAW: content(raw)}


def restore(kind: Kind, given: Any, usual: Mapping[str, Any]) -> bytes:
    """Return `raw` from its short form.

    Raises `ValueError` for a value that no such event can have.
    """
    is_raw = isinstance(given, dict) and list(given) == [_RAW]
    return _cleaned(kind, content_bytes(given[_RAW]) if is_raw else _restored(kind, given, usual))


def _cleaned(kind: Kind, raw: bytes) -> bytes:
    """Return `raw` redacted: no header and no target reaches the log unredacted, whatever program
    wrote it.
    """
    if kind not in _RECORDS:
        return raw
    record = msgspec.json.decode(raw, type=_RECORDS[kind])
    clean = {
        name: clean(getattr(record, name))
        for name, clean in _CLEANED.items()
        if hasattr(record, name)
    }
    redacted = msgspec.structs.replace(record, **clean)
    return raw if redacted == record else _encode(redacted)


def clean_headers(given: Iterable[Header]) -> list[Header]:
    """Redact headers as a recorder does."""
    return redact_headers(as_sent(given))


def _shortened(kind: Kind, raw: bytes, usual: Mapping[str, Any]) -> Any:
    if kind in _RECORDS:
        record = msgspec.to_builtins(msgspec.json.decode(raw, type=_RECORDS[kind]))
        return {
            name: value
            for name, value in record.items()
            if name not in usual or usual[name] != value
        }
    if kind not in _STORED:
        return value(raw, PAYLOAD_DEPTH)  # a note: any bytes, which are JSON as a rule
    before_us, written = 0, []
    for t_ns, *rest in _STORED[kind].decode(raw):
        written.append(array(seconds(t_ns // 1000 - before_us), *rest))
        before_us = t_ns // 1000
    return array(*written)


def _restored(kind: Kind, given: Any, usual: Mapping[str, Any]) -> bytes:
    if kind in _RECORDS:
        if not isinstance(given, dict):
            raise ValueError(f"what {kind} says is an object")
        if unknown := given.keys() - set(_RECORDS[kind].__struct_fields__):
            raise ValueError(
                f"{kind} says {sorted(unknown)[0]!r}, which this version does not know"
            )
        return _encode(msgspec.convert({**usual, **given}, _RECORDS[kind]))
    if kind not in _WRITTEN:
        return text(given).encode()
    at_us, read = 0, []
    for after, *rest in msgspec.convert(given, _WRITTEN[kind]):
        at_us += microseconds(after)
        read.append((at_us * 1000, *rest))
    return _encode(read)


def _in_microseconds(kind: Kind, raw: bytes) -> bytes:
    """Return what a line can give back of `raw`: times of reads and frames to the microsecond."""
    if kind not in _STORED:
        return raw
    return _encode([(t_ns // 1000 * 1000, *rest) for t_ns, *rest in _STORED[kind].decode(raw)])


_CLEANED: Mapping[str, Callable[[Any], Any]] = {"headers": clean_headers, "target": redact_target}
_RECORDS: Mapping[Kind, type[msgspec.Struct]] = {
    "request": RequestRecord,
    "response": ResponseHead,
    "control": ControlRecord,
    "gap": GapRecord,
    "end": EndRecord,
}

# reads: [[seconds since the one before, bytes], …], the first since the exchange began
# frames: [[seconds since the one before, "client" or "server", first byte, bytes], …]
_STORED: Mapping[Kind, msgspec.json.Decoder[Any]] = {
    "reads": msgspec.json.Decoder(list[tuple[int, int]]),
    "frames": msgspec.json.Decoder(list[FrameShape]),
}
_WRITTEN: Mapping[Kind, Any] = {
    "reads": list[tuple[float, int]],
    "frames": list[tuple[float, Side, int, int]],
}
