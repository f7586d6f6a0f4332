"""The splitting of a stream whose blocks end at a place that can be told: what such framings share.

At most `FRAME_LIMIT` bytes and one chunk are held: a longer block leaves in parts, as one of
server-sent events does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from recorder.wire.framing.sse import FRAME_LIMIT, CommonFields, Piece


class BlockSplitter(ABC):
    """Bytes in any chunking in, `Piece`s out. A framing says where the block ends that it is in."""

    spaces = b""  # bytes that say nothing between blocks

    def __init__(self) -> None:
        self._held = bytearray()  # of blocks that are not complete, without what left in parts
        self._sent_bytes = 0  # of the first of them, that left in parts
        self._scanned = 0  # bytes of it in which a framing found no end

    @abstractmethod
    def _end(self, start: int) -> int:
        """Return where in `_held` the block ends of which the rest begins at `start`; -1 if that is
        not known yet.
        """

    def _is_comment(self, raw: bytes) -> bool:
        """Return whether a block is one without an event."""
        return not raw.strip(self.spaces)

    @property
    def rest(self) -> bytes:
        """Return the bytes after the last piece."""
        return bytes(self._held)

    def common(self, data: bytes) -> CommonFields | None:
        """Return None: there is no faster way."""
        return None

    def feed(self, data: bytes) -> list[Piece]:
        """Add a chunk; returns the pieces that are complete now."""
        self._held += data
        pieces: list[Piece] = []
        start = 0
        while (end := self._end(start)) >= 0:
            last = self._cut_parts(start, end, pieces)
            # the last part is shorter than the others, if empty
            if self._sent_bytes and end - last == FRAME_LIMIT:
                last = self._cut_part(last, pieces)
            pieces.append(self._last_piece(bytes(self._held[last:end])))
            self._sent_bytes = 0
            start = end
        start = self._cut_parts(start, len(self._held), pieces)
        del self._held[:start]
        return pieces

    def close(self) -> list[Piece]:
        """End the stream; returns what is left of a block that is not complete."""
        rest = self.rest
        self._held.clear()
        if not rest:
            return []
        is_blank = not self._sent_bytes and not rest.strip(self.spaces)
        return [Piece("comment" if is_blank else "tail", rest, False)]

    def _last_piece(self, raw: bytes) -> Piece:
        if self._sent_bytes:
            return Piece("part", raw)
        return Piece("comment" if self._is_comment(raw) else "frame", raw)

    def _cut_parts(self, start: int, end: int, pieces: list[Piece]) -> int:
        """Cut full parts off, so that between 1 and `FRAME_LIMIT` bytes are left; returns where
        they begin.
        """
        while end - start > FRAME_LIMIT:
            start = self._cut_part(start, pieces)
        return start

    def _cut_part(self, start: int, pieces: list[Piece]) -> int:
        end = start + FRAME_LIMIT
        pieces.append(Piece("part", bytes(self._held[start:end]), False))
        self._sent_bytes += FRAME_LIMIT
        self._scanned = max(0, self._scanned - FRAME_LIMIT)
        return end
