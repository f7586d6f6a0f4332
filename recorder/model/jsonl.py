"""A session as lines of JSON: what `recorder export` writes and `recorder import` reads.

    {"recorder_export": 1, "session": {…}}     the first line, with the version of the format
    {"exchange": {…}}                          an exchange
    {"session_id": …, "kind": "frame", …}      its events after it, in order
    {"exported": {"exchanges": 1, "events": 9}}  the last line: what came before it

The keys are the columns of the log. `raw` is text, or `{"base64": …}` if it is not UTF-8; `hash` is
in hex, so that it can be proved that an event is as it was recorded. Pure: lines in and out, no
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from recorder.model.events import SHARED, Event, Exchange, Kind, Session
from recorder.model.text import UNSTORABLE, json_value

VERSION = 1
RAW_LIMIT = 2**20  # bytes of an event: the recorder cuts at a quarter of it

Row = TypeVar("Row", bound=msgspec.Struct)

_WHOLE = range(-(2**63), 2**63)  # a bigint


class Opening(msgspec.Struct, frozen=True):
    """The first line."""

    recorder_export: int
    session: Session


class Chapter(msgspec.Struct, frozen=True):
    """The line that comes before the events of an exchange."""

    exchange: Exchange


class Counts(msgspec.Struct, frozen=True):
    """How much came before the last line."""

    exchanges: int
    events: int


class Closing(msgspec.Struct, frozen=True):
    """The last line: without it, the file was cut off."""

    exported: Counts


class _Bytes(msgspec.Struct, frozen=True):
    base64: bytes


class _Row(msgspec.Struct, frozen=True):
    session_id: str
    exchange_id: str
    pos: int
    kind: Kind
    t_ns: int
    type: str | None
    sequence_number: int | None
    item_id: str | None
    output_index: int | None
    raw: str | _Bytes
    data_start: int | None
    data_length: int | None
    hash: str


_encode = msgspec.json.Encoder().encode
_decode_opening = msgspec.json.Decoder(Opening).decode
_decode_row = msgspec.json.Decoder(_Row).decode
_decode_closing = msgspec.json.Decoder(Closing).decode
_decode_chapter = msgspec.json.Decoder(Chapter).decode


def opening_line(session: Session) -> bytes:
    return _encode(Opening(VERSION, session)) + b"\n"


def closing_line(exchanges: int, events: int) -> bytes:
    return _encode(Closing(Counts(exchanges, events))) + b"\n"


def exchange_line(exchange: Exchange) -> bytes:
    return _encode(Chapter(exchange)) + b"\n"


def event_line(event: Event) -> bytes:
    return _encode(event_row(event)) + b"\n"


def event_row(event: Event) -> Mapping[str, Any]:
    """Return an event as JSON has it: the columns of the log."""
    return {**msgspec.structs.asdict(event), "raw": json_value(event.raw), "hash": event.hash.hex()}


def read_opening(line: bytes) -> Session:
    """Return the session that a first line names.

    Raises `ValueError` for any other line, or another version.
    """
    opening = _decode_opening(line)
    if opening.recorder_export != VERSION:
        raise ValueError(f"version {opening.recorder_export} of the format is not known here")
    return storable_row(opening.session)


def read_line(line: bytes) -> Exchange | Event | Counts:
    """Return the row that any other line holds.

    Raises `ValueError` for a line that no export has.
    """
    if line.startswith(b'{"exported":'):
        return _decode_closing(line).exported
    if line.startswith(b'{"exchange":'):
        return storable_row(_decode_chapter(line).exchange)
    return read_event(line)


def read_event(line: bytes) -> Event:
    row = _decode_row(line)
    raw = row.raw.encode() if isinstance(row.raw, str) else row.raw.base64
    if row.type == SHARED and row.kind == "request":
        raise ValueError("it has the type of a row that is not an event")
    if len(raw) > RAW_LIMIT or row.t_ns < 0:
        raise ValueError(
            "it is not an event of a log: its bytes are too many, or its time is before the request"
        )
    columns = {**msgspec.structs.asdict(row), "raw": raw, "hash": bytes.fromhex(row.hash)}
    return storable_row(Event(**columns))


def storable_row(row: Row) -> Row:
    """Return a row that every engine can hold.

    Raises `ValueError` for a number over bigint, or a text with NUL or half a character."""
    for value in msgspec.structs.astuple(row):
        if (isinstance(value, int) and value not in _WHOLE) or (
            isinstance(value, str) and UNSTORABLE.search(value)
        ):
            raise ValueError("it holds a value that no log can hold")
    return row
