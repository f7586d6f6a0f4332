"""The server's side of one WebSocket connection, without I/O: bytes of the client in, its messages
and answers out.

It is strict where the recording proxy is not: a client that breaks a rule of RFC 6455 is told so
with the code that the standard has for it, and the connection ends. No extension is agreed on.
Pure.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from recorder.wire.framing.websocket import (
    Damage,
    Message,
    MessageParser,
    accept_of,
    close_of,
    encode_close,
    encode_frame,
)

VERSION = "13"  # of the protocol: the only one, RFC 6455 section 4.1
KEY_BYTES = 16  # of `Sec-WebSocket-Key`, decoded

# RFC 6455 section 7.4.1
PROTOCOL_ERROR, UNSUPPORTED, INVALID_DATA, TOO_BIG = 1002, 1003, 1007, 1009
UNSENDABLE = frozenset({1004, 1005, 1006, 1015})  # codes that no Close frame has

Headers = list[tuple[bytes, bytes]]

MessageKind = Literal["text", "binary"]


class HandshakeError(NamedTuple):
    """The answer to a handshake that cannot be accepted."""

    status: int
    message: str
    headers: Sequence[tuple[str, str]] = ()


def accepted(
    headers: Iterable[tuple[bytes, bytes]], protocol: str | None = None
) -> Headers | HandshakeError:
    """Return the headers of the 101 that answers a handshake (RFC 6455 section 4.2), `protocol` the
    subprotocol.
    """
    given = {name.lower(): value.decode("latin-1").strip() for name, value in headers}
    if given.get(b"sec-websocket-version") != VERSION:
        known = [("sec-websocket-version", VERSION)]
        return HandshakeError(426, f"The version of WebSocket must be {VERSION}.", known)
    key = given.get(b"sec-websocket-key", "")
    if not _is_key(key):
        return HandshakeError(400, f"Sec-WebSocket-Key must be {KEY_BYTES} bytes in base64.")
    answer = [
        *((b"upgrade", b"websocket"), (b"connection", b"Upgrade")),
        (b"sec-websocket-accept", accept_of(key).encode()),
    ]
    return (
        answer
        if protocol is None
        else [*answer, (b"sec-websocket-protocol", protocol.encode("latin-1"))]
    )


def offered_protocols(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """Return the subprotocols that a client offers, the preferred one first."""
    values = [
        value.decode("latin-1")
        for name, value in headers
        if name.lower() == b"sec-websocket-protocol"
    ]
    return [each.strip() for each in ",".join(values).split(",") if each.strip()]


def _is_key(given: str) -> bool:
    try:
        return len(b64decode(given, validate=True)) == KEY_BYTES
    except (Base64Error, ValueError):
        return False


class OutgoingFrame(NamedTuple):
    """A frame of the server, before it is encoded."""

    opcode: Literal["text", "binary", "ping", "continuation"]
    payload: bytes
    fin: bool = True

    def encoded(self) -> bytes:
        return encode_frame(self.opcode, self.payload, fin=self.fin)


class ServerEndpoint:
    """The state of one connection: what the client sends is fed, and what is to be sent is
    returned.

    Pings are answered, a Close is answered, and behind a Close of ours nothing is sent any more.
    """

    def __init__(self, *, takes_binary: bool) -> None:
        self._parser = MessageParser(from_client=True)
        self._takes_binary = takes_binary
        self.is_closing = False  # a Close was sent: nothing may follow it
        self.is_over = False  # a Close came, and was answered

    def receive(self, data: bytes) -> tuple[list[Message], bytes]:
        """Return the messages that a read of the client completes, and the bytes that answer it at
        once.
        """
        messages: list[Message] = []
        answers: list[bytes] = []
        for part in self._parser.feed(data):
            if self.is_over:
                break
            if isinstance(part, Damage):
                answers.append(
                    self.close(TOO_BIG if "longer" in part.reason else PROTOCOL_ERROR, part.reason)
                )
            elif isinstance(part, Message):
                answers.append(self._take(part, messages))
        return messages, b"".join(answers)

    def close(self, code: int | None, reason: str = "") -> bytes:
        """Return a Close frame, or nothing if there was one."""
        if self.is_closing:
            return b""
        self.is_closing = True
        return encode_close(code, reason)

    def _take(self, message: Message, messages: list[Message]) -> bytes:
        if message.fault is not None:
            content = message.payload[2:] if message.opcode == "close" else message.payload
            is_no_text = message.opcode in ("text", "close") and not _is_utf8(content)
            return self.close(INVALID_DATA if is_no_text else PROTOCOL_ERROR, message.fault)
        if message.opcode == "close":
            self.is_over = True
            return self.close(close_of(message.payload)[0])
        if message.opcode == "ping":
            return b"" if self.is_closing else encode_frame("pong", message.payload)
        if message.opcode == "binary" and not self._takes_binary:
            return self.close(UNSUPPORTED, "send JSON as text")
        if message.opcode != "pong" and not self.is_closing:
            messages.append(message)
        return b""


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
