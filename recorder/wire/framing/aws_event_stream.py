"""The binary event stream of AWS: messages with a prelude, headers, a payload and two checksums.
Bedrock streams so.

https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html and smithy.io, "Amazon
Event Stream":

    total length (4) | length of headers (4) | CRC32 of these 8 bytes | headers | payload | CRC32 of all before it

A prelude whose checksum is wrong says no length that could be trusted: all that follows is one
block without an end. A message whose own checksum is wrong is a frame without data: its bytes are
kept, and no client reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from zlib import crc32

from recorder.wire.framing.blocks import BlockSplitter
from recorder.wire.framing.sse import Fields

MESSAGE_LIMIT = 24 * 2**20 + 128 * 2**10 + 16
"""Bytes of a message: 24 MiB of payload, 128 KiB of headers, as the specification bounds them."""

_PRELUDE_BYTES = 12
_CRC_BYTES = 4
# by the type of a header; 6 and 7 say their length
_VALUE_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_WITH_LENGTH = (6, 7)  # bytes and text: two bytes of length before them

_NAMES = (b":event-type", b":exception-type", b":error-code")


class Splitter(BlockSplitter):
    """A splitter into messages."""

    def __init__(self) -> None:
        super().__init__()
        self._is_broken = False
        self._size_bytes: int | None = None  # of the block that it is in, with what left of it

    def _end(self, start: int) -> int:
        if (
            self._size_bytes is None
            and not self._is_broken
            and len(self._held) - start >= _PRELUDE_BYTES
        ):
            self._size_bytes = _message_bytes(self._held[start : start + _PRELUDE_BYTES])
            self._is_broken = self._size_bytes is None
        if self._size_bytes is None:
            return -1
        end = start + self._size_bytes - self._sent_bytes
        if end > len(self._held):
            return -1
        self._size_bytes = None
        return end


def _message_bytes(prelude: bytes | bytearray) -> int | None:
    """Return the length that a prelude says; None if it cannot be trusted."""
    total, headers, checksum = (int.from_bytes(prelude[at : at + 4], "big") for at in (0, 4, 8))
    is_possible = _PRELUDE_BYTES + headers + _CRC_BYTES <= total <= MESSAGE_LIMIT
    return total if is_possible and crc32(prelude[:8]) == checksum else None


def fields(raw: bytes) -> Fields:
    """Return the fields of a whole message: its event is the type in its headers, its data the
    payload.

    Without data if a checksum is wrong, or the headers cannot be read.
    """
    is_whole = _message_bytes(raw[:_PRELUDE_BYTES]) == len(raw)
    if not is_whole or crc32(raw[:-_CRC_BYTES]) != int.from_bytes(raw[-_CRC_BYTES:], "big"):
        return Fields()
    start = _PRELUDE_BYTES + int.from_bytes(raw[4:8], "big")
    try:
        texts = dict(_texts(raw[_PRELUDE_BYTES:start]))
    except (IndexError, KeyError):
        return Fields()
    event = next((texts[name] for name in _NAMES if name in texts), None)
    data = raw[start:-_CRC_BYTES]
    return Fields(event, data, start, len(data))


def event(type: str, payload: bytes) -> bytes:
    """Encode an event in JSON."""
    return message(
        {":event-type": type, ":content-type": "application/json", ":message-type": "event"},
        payload,
    )


def exception(type: str, payload: bytes) -> bytes:
    """Encode an error in JSON."""
    return message(
        {
            ":exception-type": type,
            ":content-type": "application/json",
            ":message-type": "exception",
        },
        payload,
    )


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Encode a message whose headers are texts."""
    encoded = bytearray()
    for name, value in headers.items():
        encoded += (
            bytes([len(name)])
            + name.encode()
            + b"\7"
            + len(value).to_bytes(2, "big")
            + value.encode()
        )
    return _message(bytes(encoded), payload)


def with_data(raw: bytes, fields: Fields, data: bytes) -> bytes:
    """Return a whole message with another payload."""
    return _message(raw[_PRELUDE_BYTES : fields.data_start], data)


def _message(headers: bytes, payload: bytes) -> bytes:
    total_bytes = _PRELUDE_BYTES + len(headers) + len(payload) + _CRC_BYTES
    lengths = total_bytes.to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    begun = lengths + crc32(lengths).to_bytes(4, "big") + headers + payload
    return begun + crc32(begun).to_bytes(4, "big")


def _texts(headers: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers that are texts. Raises `LookupError` for what cannot be read."""
    at = 0
    while at < len(headers):
        name_end = at + 1 + headers[at]
        name, kind = headers[at + 1 : name_end], headers[name_end]
        at = name_end + 1
        if kind in _WITH_LENGTH:
            size_bytes = int.from_bytes(headers[at : at + 2], "big")
            at += 2
        else:
            size_bytes = _VALUE_BYTES[kind]
        if at + size_bytes > len(headers):
            raise IndexError("a header goes over the end")
        if kind == 7:
            yield name, headers[at : at + size_bytes]
        at += size_bytes
