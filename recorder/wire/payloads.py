"""The payloads of a recorded response: of a stream those of its events, of a WebSocket turn its messages, else the one
document. Pure; never raises on what was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recorder.model.recording import Piece, Recording
from recorder.wire.dialects import framing
from recorder.wire.sse import BOM, begins_stream, parse

_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n")


def payloads(recording: Recording) -> Iterator[bytes]:
    """Yield the payloads in order; none of a response that was not received."""
    if recording.is_switched:
        yield from (piece.raw for piece in recording.pieces)
    elif is_stream(recording):
        yield from payloads_of(joined(recording.pieces))
    elif body := recording.body:
        yield body


def is_stream(recording: Recording) -> bool:
    """Return whether a response is a stream of server-sent events, by its content type or by how it begins."""
    content_type = next((value for name, value in recording.headers if name.lower() == "content-type"), None)
    return framing(content_type) == "sse" or begins_stream(recording.body) is True


def joined(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Yield the blocks of a stream; the log has a long one in several pieces."""
    parts: list[bytes] = []
    for piece in pieces:
        parts.append(piece.raw)
        if piece.raw.endswith(_BLANK_LINES):
            yield b"".join(parts)
            parts = []
    if parts:
        yield b"".join(parts)


def payloads_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the payloads of the blocks of a stream that have one."""
    for number, block in enumerate(blocks):
        data = parse(block if number else block.removeprefix(BOM)).data
        if data is not None:
            yield data
