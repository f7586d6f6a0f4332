"""Cells of a line for a piece of a response body, and back: `event name, payload`, or its bytes.

    "response.created", {"type": …}     the payload of an event, parsed: its bytes follow from that by the framing
    null, {"raw": "data: [DONE]\\n\\n"}   any other frame; likewise comment, part, tail and body, by their kind
    null, {"type": …}                   over WebSocket: a message, whose bytes are the payload alone

This is never guessed: the written form is read again, and the payload is written parsed only if
that gives the same bytes. So a payload that looks like the second form is written in the second
form. Pure.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from recorder.cassettes.sse_jsonl.lines import (
    CONTENT_LIMIT,
    PAYLOAD_DEPTH,
    content,
    content_bytes,
    value,
)
from recorder.model.events import BODY_KINDS, Kind
from recorder.wire.framing.sse import parse

PAD_LIMIT = 1024  # spaces: Anthropic pads with up to 20; more could make much of a short line
SAMPLES = 20  # frames that a framing is chosen by: one encoder writes a whole stream

Spacing = Literal["compact", "colon", "spaced"]
Escaped = Literal["", "ascii", "<>", "<>&", "<>&='"]

_SEPARATORS: Mapping[Spacing, tuple[str, str]] = {
    "compact": (",", ":"),
    "colon": (",", ": "),
    "spaced": (", ", ": "),
}
# JSON of JavaScript, Python, protobuf, Go, Gson
_ESCAPES: tuple[Escaped, ...] = ("", "ascii", "<>", "<>&", "<>&='")


class Style(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The manner of a JSON encoder: where it puts spaces, and what it escapes besides what must be."""

    json: Spacing = "compact"
    escaped: Escaped = ""

    def text(self, given: Any) -> str:
        """Encode a value. Raises `ValueError` for what JSON cannot hold."""
        ascii = self.escaped == "ascii"
        written = json.dumps(
            given, ensure_ascii=ascii, separators=_SEPARATORS[self.json], allow_nan=False
        )
        for character in "" if ascii else self.escaped:
            written = written.replace(character, f"\\u{ord(character):04x}")
        return written


Form = Literal["event", "message", "line", "binary", "array"]


_AS_BYTES = ("binary", "array")


class Framing(Style, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The manner in which an upstream frames an event name and a payload.

    A message of WebSocket is a payload alone, a line of NDJSON one with its line end. A binary
    frame is never made, nor is an element of an array.
    """

    line_end: Literal["\n", "\r\n"] = "\n"
    space: Literal[" ", ""] = " "
    form: Form = "event"

    def raw(self, name: str | None, payload: Any, pad: int = 0) -> bytes:
        """Return the bytes of a frame. Raises `ValueError` if there are none."""
        written = self.text(payload)
        if pad:
            written = f"{written[:-1]}{' ' * pad}{written[-1]}"
        if self.form != "event":
            if name is not None or self.form in _AS_BYTES:
                raise ValueError("only an event has a name, and a binary frame is bytes")
            return written.encode() + (self.line_end.encode() if self.form == "line" else b"")
        event = "" if name is None else f"event:{self.space}{name}{self.line_end}"
        return f"{event}data:{self.space}{written}{2 * self.line_end}".encode()


_LINE_ENDS: tuple[Literal["\n", "\r\n"], ...] = ("\n", "\r\n")
_SPACES: tuple[Literal[" ", ""], ...] = (" ", "")

STYLES = tuple(itertools.starmap(Style, itertools.product(_SEPARATORS, _ESCAPES)))
FRAMINGS = tuple(
    Framing(style.json, style.escaped, line_end, space)
    for style, line_end, space in itertools.product(STYLES, _LINE_ENDS, _SPACES)
)
_OF_MESSAGES = tuple(Framing(style.json, style.escaped, form="message") for style in STYLES)
_OF_LINES = tuple(
    Framing(style.json, style.escaped, line_end, form="line")
    for style, line_end in itertools.product(STYLES, _LINE_ENDS)
)
_BY_FORM: Mapping[Form, Sequence[Framing]] = {
    "event": FRAMINGS,
    "message": _OF_MESSAGES,
    "line": _OF_LINES,
    "binary": (),
    "array": (),
}


class Frame(NamedTuple):
    """An event of a stream, taken apart."""

    name: str | None
    payload: Any
    pad: int = 0


def parsed(raw: bytes, form: Form = "event") -> Frame | None:
    """Decode a frame; return `None` if no framing can make it."""
    data, name = raw.rstrip(b"\r\n") if form == "line" else raw, None
    if form in _AS_BYTES:
        return None
    if form == "event":
        fields = parse(raw)
        if fields.data is None or fields.data_start is None:
            return None
        data, name = fields.data, fields.event
    try:
        return Frame(
            None if name is None else name.decode(), value(data, PAYLOAD_DEPTH), _pad(data)
        )
    except ValueError:
        return None


def _pad(payload: bytes) -> int:
    """Count the spaces before the last brace."""
    inner = payload[:-1]
    return min(len(inner) - len(inner.rstrip(b" ")), PAD_LIMIT) if payload.endswith(b"}") else 0


def framing_of(frames: Iterable[bytes], form: Form = "event") -> Framing:
    """Return the framing that reproduces most of the first frames; the plainest of several."""
    samples = [
        (raw, frame)
        for raw in itertools.islice(frames, SAMPLES)
        if (frame := parsed(raw, form)) is not None
    ]
    best, most = Framing(form=form), 0
    for framing in _BY_FORM[form]:
        made = sum(_makes(framing, frame, raw) for raw, frame in samples)
        if made > most:
            best, most = framing, made
        if most == len(samples):
            break
    return best


def _makes(framing: Framing, frame: Frame, raw: bytes) -> bool:
    try:
        return framing.raw(*frame) == raw
    except ValueError:
        return False


# -- cells


def cells(kind: Kind, raw: bytes, framing: Framing) -> tuple[str | None, Any, int]:
    """Return the event name, payload and padding of a piece."""
    frame = parsed(raw, framing.form) if kind == "frame" else None
    if frame is not None and not _is_bytes(frame.payload) and _makes(framing, frame, raw):
        return frame
    return None, {_WORDS.get(kind, kind): content(raw)}, 0


def piece(name: Any, payload: Any, pad: Any, framing: Framing) -> tuple[Kind, bytes]:
    """Return the piece that cells describe. Raises `ValueError`."""
    if name is None and _is_bytes(payload):
        [(word, given)] = payload.items()
        return _KINDS[word], bounded(content_bytes(given))
    if not isinstance(name, str | None):
        raise ValueError("an event's name is text or null")
    if not isinstance(pad, int) or not 0 <= pad <= PAD_LIMIT:
        raise ValueError(f"a payload is padded with 0 to {PAD_LIMIT} spaces")
    return "frame", bounded(framing.raw(name, payload, pad))


def bounded(raw: bytes) -> bytes:
    """Return `raw` if a row of the log can hold it. Raises `ValueError`."""
    if len(raw) > CONTENT_LIMIT:
        raise ValueError(
            f"it makes {len(raw):,} bytes, and a row of the log has at most {CONTENT_LIMIT:,}"
        )
    return raw


_WORDS: Mapping[Kind, str] = {"frame": "raw"}
_KINDS: Mapping[str, Kind] = {_WORDS.get(kind, kind): kind for kind in BODY_KINDS}


def _is_bytes(payload: Any) -> bool:
    """Return whether a payload is the form for bytes: an object with one key, which is a kind."""
    return isinstance(payload, dict) and len(payload) == 1 and not _KINDS.keys().isdisjoint(payload)
