"""Bytes that the log has in pieces, as a request body or a long event, put together up to a limit.
Pure.
"""

from __future__ import annotations

_BLANK = b" \t\r\n\0"  # around JSON; of UTF-16, NUL is half a character


class Pieces:
    """Bytes that belong together and came one after another, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self.size_bytes = 0

    def add(self, piece: bytes) -> None:
        self.size_bytes += len(piece)
        if self.size_bytes <= self._limit:
            self._pieces.append(piece)
        else:
            self._pieces.clear()

    @property
    def is_half_json(self) -> bool:
        """Return True if they begin with an object or an array, and do not end with the end of one."""
        first = next((piece for each in self._pieces if (piece := each.lstrip(_BLANK))), b"")
        last = next(
            (piece for each in reversed(self._pieces) if (piece := each.rstrip(_BLANK))), b""
        )
        return first.startswith((b"{", b"[")) and not last.endswith((b"}", b"]"))

    def take(self) -> bytes | None:
        """Return all pieces joined, or None if they passed the limit, and drop them."""
        whole = None if self.size_bytes > self._limit else b"".join(self._pieces)
        self._pieces, self.size_bytes = [], 0
        return whole
