"""The boundaries between the frames of a WebSocket stream (RFC 6455 section 5.2): lengths only, no payload is read.

Pure. For damaged frames the boundaries are wherever their lengths say.
"""

from __future__ import annotations

_CLOSE = 0x8  # opcode
_SHORT, _LONG = 126, 127  # the length follows in 2 bytes, in 8 bytes


class FrameBoundary:
    """The place of a stream in its frames. `has_closed`: it has had a Close frame."""

    def __init__(self) -> None:
        self._left = 0  # bytes to the end of the frame under way
        self._begun = b""  # of a header that does not show the length of its frame yet
        self.has_closed = False

    @property
    def is_here(self) -> bool:
        """True between two frames, and before the first."""
        return not self._left and not self._begun

    def feed(self, data: bytes, *, to_next: bool = False) -> int:
        """Advance over `data`; with `to_next` at most to the next boundary. Return how many bytes that was."""
        begun = len(self._begun)
        if begun:
            data, self._begun = self._begun + data, b""
        end, size = self._left, len(data)
        while end < size:
            if to_next and end:
                self._left = 0
                return end - begun
            length = self._frame_bytes(data, end, size)
            if not length:
                self._left, self._begun = 0, data[end:]
                return size - begun
            end += length
        self._left = end - size
        return size - begun

    def _frame_bytes(self, data: bytes, at: int, size: int) -> int:
        """Return the length of the frame that begins at `at`, header included; 0 if that cannot be seen yet."""
        if size - at < 2:
            return 0
        second = data[at + 1]
        length = second & 0x7F
        header = 2
        if length >= _SHORT:
            header = 4 if length < _LONG else 10
            if size - at < header:
                return 0
            length = int.from_bytes(data[at + 2 : at + header])
        if data[at] & 0xF == _CLOSE:
            self.has_closed = True
        return header + length + (4 if second & 0x80 else 0)  # the masking key
