"""WebSocket frames as bytes: where one ends and the next begins, and the messages that they carry.

The framing is that of RFC 6455 section 5, the compression that of RFC 7692. No library parser will
do: each of them stops at the first broken rule, and drops the shape of the frames.

The invariant of this file: whatever the cuts, the same frames, messages and damage come out, where
damage that follows damage of the same reason is one. Nothing is ever refused. Work is linear in the
input and in what it inflates to. At most a message and a frame of `MESSAGE_LIMIT` bytes each are
held, however many fragments a message has.
"""

from __future__ import annotations

import codecs
import zlib
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha1
from typing import Literal, NamedTuple

import msgspec

MESSAGE_LIMIT = 64 * 2**20
"""The most bytes of one message, before and after inflating: tungstenite, a library of clients, has
the same default.

A length over it is damage: memory is bounded, and a connection whose lengths are random is not
waited for.
"""

FINAL_BLOCKS_LIMIT = (
    # of one message: each copies what is left of it, and senders use one (RFC 7692 section 7.2.3.4)
    16
)
PIECE_BYTES = 64 * 1024  # of text that is checked at a time, so that its characters need no memory
CONTROL_LIMIT = 125  # bytes of the payload of a control frame, RFC 6455 section 5.5

_FIN, _RSV1, _RSV23, _RESERVED, _CONTROL, _OPCODE = 0x80, 0x40, 0x30, 0x70, 0x08, 0x0F
_MASKED, _LENGTH = 0x80, 0x7F
_WHOLE_TEXT = _FIN | 0x1
LONGEST_WINDOW = 15

Opcode = Literal["text", "binary", "ping", "pong", "close"]
_OPCODES: dict[int, Opcode] = {0x1: "text", 0x2: "binary", 0x8: "close", 0x9: "ping", 0xA: "pong"}
_NUMBERS: dict[str, int] = {
    "continuation": 0,
    **{name: number for number, name in _OPCODES.items()},
}


class Frame(NamedTuple):
    """The shape of one frame, emitted with its last byte."""

    first: int  # its first byte: FIN, RSV1 to RSV3, opcode
    wire_bytes: int  # of its header, with the masking key, and its payload


class Message(NamedTuple):
    """A whole message or control frame, emitted behind its last `Frame`."""

    opcode: Opcode
    payload: bytes  # unmasked and inflated
    # the first rule that it breaks, as a short reason; it is understood nevertheless
    fault: str | None = None


class Damage(NamedTuple):
    """Bytes that cannot be framed or decoded.

    They are either the payload of a message whose frames were emitted, unmasked but not inflated,
    or bytes that belong to no `Frame`: the header as on the wire, and the payload, unmasked if it
    is the unfinished frame at the end.
    """

    raw: bytes
    reason: str


class Deflate(NamedTuple):
    """The parameters of permessage-deflate of one sender, RFC 7692 section 7.1."""

    context_takeover: bool
    window_bits: int


Part = Frame | Message | Damage


class _Fragments(msgspec.Struct):
    """The message that is not finished, of which control frames may stand between the fragments."""

    first: int  # byte of its first frame
    fault: str | None
    # One buffer: a list of a million fragments of one byte would need 50 times as much.
    payload: bytearray = msgspec.field(default_factory=bytearray)


class MessageParser:
    """The bytes of one direction in any cuts in, its frames, messages and damage out."""

    def __init__(self, *, from_client: bool, deflate: Deflate | None = None) -> None:
        self._masked = _MASKED if from_client else 0
        self._inflater = (
            None if deflate is None else _Inflater(keeps_context=deflate.context_takeover)
        )
        self._held = bytearray()  # of the frame that is not finished
        self._need = 0  # bytes of that frame, as far as it is known
        self._fragments: _Fragments | None = None
        self._damage: str | None = None  # why nothing can be framed any more

    @property
    def is_framed(self) -> bool:
        """Return whether the frames of this direction can still be told apart."""
        return self._damage is None

    def feed(self, data: bytes) -> list[Part]:
        """Add a read; returns what is complete now, in the order of the wire."""
        if self._damage is not None:
            return [Damage(data, self._damage)] if data else []
        if self._held:
            self._held += data
            if len(self._held) < self._need:
                return []
            data = bytes(self._held)
            self._held.clear()
        found: list[Part] = []
        start, size = 0, len(data)
        while start < size:
            at, end = _span(data, start, size)
            if end - at > MESSAGE_LIMIT or (
                self._fragments is not None and self._is_too_long(data[start], end - at)
            ):
                self._break(data[start:], found)
                break
            if end > size:
                self._held += data[start:] if start else data
                self._need = end - start
                break
            found.append(Frame(data[start], end - start))
            self._take(data, start, at, end, found)
            start = end
        return found

    def close(self) -> list[Part]:
        """End the direction; returns what is unfinished, as `Damage`."""
        found: list[Part] = []
        if self._fragments is not None:
            found.append(
                Damage(bytes(self._fragments.payload), "the connection ended inside a message")
            )
        if self._held:
            raw, at = bytes(self._held), _span(self._held, 0, len(self._held))[0]
            if len(raw) > at and raw[1] & _MASKED:
                raw = raw[:at] + unmask(raw[at:], raw[at - 4 : at])
            found.append(Damage(raw, "the connection ended inside a frame"))
        self._fragments = None
        self._held.clear()
        return found

    def _is_too_long(self, first: int, length: int) -> bool:
        held = 0 if self._fragments is None or first & _OPCODE else len(self._fragments.payload)
        return held + length > MESSAGE_LIMIT

    def _break(self, rest: bytes, found: list[Part]) -> None:
        """Give up framing at a frame whose length is over the bound."""
        self._damage = f"a message is longer than {MESSAGE_LIMIT >> 20} MiB"
        if self._fragments is not None:
            found.append(Damage(bytes(self._fragments.payload), self._damage))
            self._fragments = None
        found.append(Damage(rest, self._damage))

    def _take(self, data: bytes, start: int, at: int, end: int, found: list[Part]) -> None:
        """Read the frame that stands between `start` and `end`, its payload from `at`."""
        first, second = data[start], data[start + 1]
        payload = data[at:end]
        fault = None
        if second & _MASKED:
            payload = unmask(payload, data[at - 4 : at])
        if second & _MASKED != self._masked:
            fault = (
                "a frame of the client is not masked"
                if self._masked
                else "a frame of the server is masked"
            )
        elif second & _LENGTH > CONTROL_LIMIT and end - at <= (
            CONTROL_LIMIT if second & _LENGTH == 126 else 0xFFFF
        ):
            fault = "a length has more bytes than it needs"
        if first == _WHOLE_TEXT and self._fragments is None:
            found.append(Message("text", payload, fault or _text_fault(payload)))
        elif first & _CONTROL:
            found.append(_control(first, payload, fault))
        elif first & _OPCODE > 2:
            found.append(Damage(payload, f"opcode {first & _OPCODE} is reserved"))
        else:
            self._take_data(first, payload, fault, found)

    def _take_data(self, first: int, payload: bytes, fault: str | None, found: list[Part]) -> None:
        """Read a frame of a message: its only one, its first one, or a continuation."""
        fragments = self._fragments
        if first & _OPCODE:
            if fragments is not None:
                self._lose(fragments.first)
                reason = "a message began before the one before it had ended"
                found.insert(len(found) - 1, Damage(bytes(fragments.payload), reason))
                self._fragments = None
            if first & _FIN:
                found.append(self._message(first, payload, fault))
                return
            fragments = self._fragments = _Fragments(first, fault)
        elif fragments is None:
            found.append(Damage(payload, "a continuation follows no message"))
            return
        elif first & _RESERVED:
            fault = fault or "a reserved bit is set in a continuation"
        fragments.payload += payload
        fragments.fault = fragments.fault or fault
        if first & _FIN:
            self._fragments = None
            found.append(self._message(fragments.first, bytes(fragments.payload), fragments.fault))

    def _message(self, first: int, payload: bytes, fault: str | None) -> Message | Damage:
        """Decode a whole message, by the first byte of its first frame."""
        if first & _RSV23:
            self._lose(first)
            return Damage(payload, "RSV2 or RSV3 is set: an extension that was not agreed on")
        if first & _RSV1:
            if self._inflater is None:
                return Damage(payload, "RSV1 is set: compressed, but no compression was agreed on")
            try:
                payload = self._inflater.inflate(payload)
            except zlib.error as error:
                return Damage(payload, f"cannot be inflated: {error}")
        opcode = _OPCODES[first & _OPCODE]
        return Message(
            opcode, payload, fault or (_text_fault(payload) if opcode == "text" else None)
        )

    def _lose(self, first: int) -> None:
        """Note that a message, which may be compressed, is passed over."""
        if self._inflater is not None and first & _RSV1:
            self._inflater.lose()


class _Inflater:
    """The decompressor of one direction, RFC 7692 section 7.2.2.

    It has the longest window whatever was agreed on: a longer window inflates a stream to the same
    bytes, and zlib deflates with 9 bits where 8 were agreed on.
    """

    def __init__(self, *, keeps_context: bool) -> None:
        self._keeps_context = keeps_context
        self._is_lost = False  # what later messages may refer to
        self._stream = zlib.decompressobj(-LONGEST_WINDOW)
        # the latest output, for a stream that begins anew: zlib does not give its own
        self._window = bytearray()

    def lose(self) -> None:
        """Note that a message was not inflated: with context takeover no later one can be."""
        self._is_lost = self._keeps_context

    def inflate(self, data: bytes) -> bytes:
        """Return the payload of a message.

        Raises `zlib.error` with the reason, also for one over `MESSAGE_LIMIT`.
        """
        if self._is_lost:
            raise zlib.error("an earlier message, to which it may refer, is damaged")
        if not data:  # of an empty message, to some senders; the standard has one byte
            return b""
        try:
            payload = self._inflated(data)
        except zlib.error:
            self._is_lost = self._keeps_context
            self._renew()
            raise
        if not self._keeps_context:
            self._renew()
        return payload

    def _renew(self) -> None:
        self._stream = zlib.decompressobj(-LONGEST_WINDOW)
        self._window.clear()

    def _inflated(self, data: bytes) -> bytes:
        payload, final_blocks = self._piece(data, MESSAGE_LIMIT + 1), 0
        # a block with BFINAL: what follows it is a stream of its own over the same window
        while self._stream.eof:
            final_blocks += 1
            if final_blocks > FINAL_BLOCKS_LIMIT:
                raise zlib.error(f"more than {FINAL_BLOCKS_LIMIT} final blocks")
            data = self._stream.unused_data
            self._stream = zlib.decompressobj(-LONGEST_WINDOW, zdict=bytes(self._window))
            if not data:
                return payload
            payload += self._piece(data, MESSAGE_LIMIT + 1 - len(payload))
        if len(payload) > MESSAGE_LIMIT:
            raise zlib.error(f"it inflates to more than {MESSAGE_LIMIT >> 20} MiB")
        if self._stream.decompress(_END_OF_MESSAGE, 1) or self._stream.eof:
            raise zlib.error("it ends inside a block")
        return payload

    def _piece(self, data: bytes, limit: int) -> bytes:
        piece = self._stream.decompress(data, max(limit, 1))
        self._window += piece[-_WINDOW_BYTES:]
        if len(self._window) > 2 * _WINDOW_BYTES:
            del self._window[:-_WINDOW_BYTES]
        return piece


_WINDOW_BYTES = 1 << LONGEST_WINDOW
_END_OF_MESSAGE = b"\0\0\xff\xff" + b"\0\0\0\xff\xff"
"""The end of an empty block, which senders cut off, and one more: at any other place they are
output or no block.
"""


def _span(data: bytes | bytearray, start: int, size: int) -> tuple[int, int]:
    """Return where the payload of the frame at `start` begins and ends; the same place twice if
    that is not known yet.

    A place behind `size` is one up to which bytes are missing.
    """
    at = start + 2
    if at > size:
        return at, at
    second = data[start + 1]
    length = second & _LENGTH
    if length > CONTROL_LIMIT:
        at += 2 if length == 126 else 8
        if at > size:
            return at, at
        length = int.from_bytes(data[start + 2 : at])
    if second & _MASKED:
        at += 4
    return at, at + length


def _control(first: int, payload: bytes, fault: str | None) -> Message | Damage:
    opcode = _OPCODES.get(first & _OPCODE)
    if opcode is None:
        return Damage(payload, f"opcode {first & _OPCODE} is reserved")
    if not first & _FIN:
        fault = fault or "a control frame is fragmented"
    elif first & _RESERVED:
        fault = fault or "a reserved bit is set in a control frame"
    elif len(payload) > CONTROL_LIMIT:
        fault = fault or f"a control frame has more than {CONTROL_LIMIT} bytes"
    elif opcode == "close" and payload:
        fault = fault or _close_fault(payload)
    return Message(opcode, payload, fault)


def _close_fault(payload: bytes) -> str | None:
    code = int.from_bytes(payload[:2])
    if len(payload) < 2:
        return "a close has half a code"
    if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
        return f"{code} is not a code to be sent in a close"
    return _text_fault(payload[2:]) and "the reason of a close is not UTF-8"


def _text_fault(payload: bytes) -> str | None:
    if payload.isascii():
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(payload), PIECE_BYTES):
            decoder.decode(payload[at : at + PIECE_BYTES], at + PIECE_BYTES >= len(payload))
    except UnicodeDecodeError:
        return "a text is not UTF-8"
    return None


def unmask(payload: bytes, key: bytes) -> bytes:
    """Return a payload with its mask taken off, or put on: RFC 6455 section 5.3."""
    size = len(payload)
    mask = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(mask, "little")).to_bytes(
        size, "little"
    )


def encode_frame(
    opcode: Opcode | Literal["continuation"],
    payload: bytes = b"",
    *,
    mask: bytes | None = None,
    fin: bool = True,
    rsv1: bool = False,
) -> bytes:
    """Return a frame as on the wire.

    With `rsv1` the payload is compressed already; `mask` is a key of four bytes.
    """
    first = _NUMBERS[opcode] | (_FIN if fin else 0) | (_RSV1 if rsv1 else 0)
    size, masked = len(payload), 0 if mask is None else _MASKED
    if size <= CONTROL_LIMIT:
        header = bytes((first, masked | size))
    elif size <= 0xFFFF:
        header = bytes((first, masked | 126)) + size.to_bytes(2)
    else:
        header = bytes((first, masked | 127)) + size.to_bytes(8)
    return header + (payload if mask is None else mask + unmask(payload, mask))


def encode_close(code: int | None, reason: str = "", *, mask: bytes | None = None) -> bytes:
    """Return a Close frame as on the wire; without a code it is empty.

    A reason that is too long is cut.
    """
    if code is None:
        return encode_frame("close", mask=mask)
    text = reason.encode("utf-8", "replace")[: CONTROL_LIMIT - 2].decode("utf-8", "ignore")
    return encode_frame("close", code.to_bytes(2) + text.encode(), mask=mask)


def close_of(payload: bytes) -> tuple[int | None, str | None]:
    """Return the code and the reason in the payload of a Close frame; of one without a code `None`
    twice.
    """
    if len(payload) < 2:
        return None, None
    return int.from_bytes(payload[:2]), payload[2:].decode("utf-8", "replace")


def accept_of(key: str) -> str:
    """Return the `Sec-WebSocket-Accept` that answers a `Sec-WebSocket-Key`: RFC 6455 section 4.2.2."""
    told = key.strip().encode("utf-8", "replace") + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    return b64encode(sha1(told, usedforsecurity=False).digest()).decode()


def negotiated(headers: Iterable[tuple[str, str]]) -> tuple[Deflate | None, Deflate | None] | str:
    """Return how client and server compress, by the headers of the response; a `str` says why that
    is not known.
    """
    values = [value for name, value in headers if name.lower() == "sec-websocket-extensions"]
    extensions = [each.strip() for each in ",".join(values).split(",") if each.strip()]
    if not extensions:
        return None, None
    extension, *parameters = [each.strip() for each in extensions[0].split(";")]
    if extension.lower() != "permessage-deflate":
        return f"the extension {extension!r} is not known"
    if len(extensions) > 1:
        return "there is more than one extension"
    found: dict[str, str] = {}
    for parameter in parameters:
        name, _, value = (each.strip(' \t"') for each in parameter.lower().partition("="))
        if name in found or value not in _VALUES.get(name, ()):
            return f"the parameter {parameter!r} of permessage-deflate is not known"
        found[name] = value
    client, server = (
        Deflate(
            f"{side}_no_context_takeover" not in found,
            int(found.get(f"{side}_max_window_bits", LONGEST_WINDOW)),
        )
        for side in ("client", "server")
    )
    return client, server


_WINDOW_SIZES = [str(bits) for bits in range(8, LONGEST_WINDOW + 1)]
_VALUES = {
    **{f"{side}_no_context_takeover": [""] for side in ("client", "server")},
    **{f"{side}_max_window_bits": _WINDOW_SIZES for side in ("client", "server")},
}
