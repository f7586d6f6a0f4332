"""The payloads of a recorded response: of a stream those of its events, of a WebSocket turn its messages, else the one
document. Pure; never raises on what was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from recorder.model.recording import Piece, Recording
from recorder.wire.dialects import framing
from recorder.wire.sse import BOM, FRAME_LIMIT, begins_stream, parse

TURN = "WEBSOCKET"
"""The method of an exchange that is one request over WebSocket, with the messages that answer it."""

_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n")


def payloads(recording: Recording) -> Iterator[bytes]:
    """Yield the payloads in order; none of a response that was not received."""
    if recording.exchange.method == TURN:
        yield from _joined(recording.pieces, lambda raw: len(raw) != FRAME_LIMIT)
    elif _is_stream(recording):
        for block in _joined(recording.pieces, lambda raw: raw.endswith(_BLANK_LINES)):
            if (data := parse(block.removeprefix(BOM)).data) is not None:
                yield data
    elif body := recording.body:
        yield body


def _is_stream(recording: Recording) -> bool:
    content_type = next((value for name, value in recording.headers if name.lower() == "content-type"), None)
    return framing(content_type) == "sse" or begins_stream(recording.body) is True


def _joined(pieces: Iterable[Piece], ends: Callable[[bytes], bool]) -> Iterator[bytes]:
    """Yield whole events or messages: the log has a long one in parts, of which `ends` finds the last."""
    parts: list[bytes] = []
    for piece in pieces:
        parts.append(piece.raw)
        if ends(piece.raw):
            yield b"".join(parts)
            parts = []
    if parts:
        yield b"".join(parts)
