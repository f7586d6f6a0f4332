"""The JSON payload of a frame: one strict decode for all that is as expected, a tolerant one for
all that is not.

A dialect declares the few fields it wants as a struct and says which of them are which key;
everything else in the payload is skipped, though checked. A field that the log cannot hold (wrong
type, over 512 characters, with NUL or a lone surrogate, no bigint) is left out, and only that
field. Nothing in here raises, on any bytes, and the result depends only on the bytes: a journal
that is ingested twice gives the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Generic, NoReturn, TypeVar

import msgspec
from msgspec import Meta

from recorder.wire.dialects.json_values import SHALLOW, too_deep
from recorder.wire.framing.sse import CommonFields, Fields, parse

TEXT_LIMIT = 512
"""Characters of a text kept as a column. The longest id of 462 recorded streams has 83, the longest
type 52.
"""

Text = Annotated[str, Meta(max_length=TEXT_LIMIT)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

Named = tuple[str | None, int | None, str | None, int | None]
"""type, sequence_number, item_id, output_index."""

_BACKSLASH = ord("\\")  # a number is found sooner than a text

DONE = "[DONE]"
ERROR = "error"


class Keys(msgspec.Struct, frozen=True, gc=False):
    """The keys of a frame, each `None` where the frame has none: columns of the log, never keys,
    never trusted.

    Every text fits PostgreSQL's text (no NUL, no lone surrogate) and has at most 512 characters;
    every number fits a bigint. `raw[data_start:][:data_length]` is valid JSON in UTF-8.
    """

    type: str | None = None
    sequence_number: int | None = None
    item_id: str | None = None
    output_index: int | None = None
    data_start: int | None = None
    data_length: int | None = None


class Payload(msgspec.Struct):
    """The fields that any payload may have.

    A truthy `error` is an error whatever its shape, as it is to the SDKs.
    """

    type: Text | None = None
    error: Any = None


Shape = TypeVar("Shape", bound=Payload)


class KeyExtractor(Generic[Shape]):
    """Frames → keys, from the fields that a dialect wants and what they mean.

    The type is that of the payload, else of the `event:` line; in the reverse order with
    `event_line_first`.
    """

    def __init__(
        self, shape: type[Shape], name: Callable[[Shape], Named], *, event_line_first: bool = False
    ) -> None:
        self._shape = shape
        self._name = name
        self._decode = msgspec.json.Decoder(shape).decode
        self._event_line_first = event_line_first

    def __call__(self, raw: bytes, common: CommonFields | None = None) -> Keys:
        """Return the keys of a block, with or without its terminator.

        `common` is what `common_fields` gives, if it was asked before.
        """
        if common is None:
            return self.of_fields(raw, parse(raw))
        event, data, start = common
        return self._keys(event, data, start, len(data))

    def of_fields(self, raw: bytes, fields: Fields) -> Keys:
        """Return the keys of a frame of any framing, by the fields that this gives."""
        event, data, start, length, _, _ = fields
        if data is None:
            return self._keys_without_data(raw, event)
        return self._keys(event, data, start, length)

    def _keys(
        self, event: bytes | None, data: bytes, start: int | None, length: int | None
    ) -> Keys:
        named = self._named(data)
        if named is None:
            named = DONE if data.strip() == b"[DONE]" else None, None, None, None
            start = length = None
        type, sequence_number, item_id, output_index = named
        if not type or self._event_line_first:
            type = _text(event) or type or None
        return Keys(type, sequence_number, item_id, output_index, start, length)

    def of_message(self, payload: bytes) -> Keys:
        """Return the keys of a WebSocket message; what is not JSON has none, but for `[DONE]`."""
        named = self._named(payload)
        if named is None:
            return Keys(DONE) if payload.strip() == b"[DONE]" else Keys()
        return Keys(named[0] or None, *named[1:], 0, len(payload))

    def _keys_without_data(self, raw: bytes, event: bytes | None) -> Keys:
        """Return the keys of what is not an event to the standard: an error as bare JSON (Gemini),
        or as a field `error:` (llama.cpp).
        """
        named = self._named(raw)
        is_error = raw.startswith(b"error:") or (named is not None and named[0] == ERROR)
        return Keys(ERROR if is_error else _text(event))

    def _named(self, data: bytes) -> Named | None:
        """Return the values of `data`; `None` if it is not JSON, or too deep."""
        if len(data) > SHALLOW and too_deep(data):
            return None
        try:
            named = self._name(self._decode(data))
            if (_BACKSLASH not in data or b"\\u0000" not in data) and (
                data.isascii() or data.decode() is not None
            ):
                return named
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        return self._tolerant(data)

    def _tolerant(self, data: bytes) -> Named | None:
        """Return the values of `data` without the fields that do not fit."""
        try:
            value = json.loads(
                data.decode(), object_pairs_hook=_storable, parse_int=_whole, parse_constant=refuse
            )
        except (ValueError, RecursionError):
            return None
        return (
            self._name(_fitting(value, self._shape))
            if isinstance(value, dict)
            else (None, None, None, None)
        )


def _fitting(value: dict[str, Any], shape: type[Shape]) -> Shape:
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(shape):
        given = value.get(field.encode_name)
        try:
            fields[field.name] = msgspec.convert(
                given[:1] if isinstance(given, list) else given, field.type
            )
        except msgspec.ValidationError:
            fields[field.name] = None
    return shape(**fields)


_UNFIT = object()  # there, and truthy, but of no type that a dialect wants


def _storable(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    stored = dict(pairs)
    for name, value in stored.items():
        if isinstance(value, str) and not _fits(value):
            stored[name] = _UNFIT
    return stored


def _whole(digits: str) -> Any:
    return int(digits) if len(digits) <= len(str(-(2**63))) else _UNFIT


def refuse(constant: str) -> NoReturn:
    """Raise `ValueError` at `NaN` and its like."""
    raise ValueError(f"{constant} is not JSON")


def _fits(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _text(event: bytes | None) -> str | None:
    """Return the value of an `event:` line, decoded as the standard decodes it, if the log can hold
    it.
    """
    text = event.decode("utf-8", "replace") if event else ""
    return text if 0 < len(text) <= TEXT_LIMIT and "\0" not in text else None
