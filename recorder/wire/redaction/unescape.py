"""Text without the escapes that JSON allows and does not need: `\\u002d` is `-`, at any depth of
JSON in JSON.

For a search only: what is found has its place in the body as it was written. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import AnyStr, NamedTuple

from recorder.wire.redaction.shapes import Hit

# of ASCII, but for the quote and the backslash itself
_ESCAPE = re.compile(rb"\\u00(?!22|5[cC])([0-7][0-9A-Fa-f])")
_ANY_ESCAPE = re.compile(rb'\\+(?:["/bfnrt]|u[0-9A-Fa-f]{4})?')
_INSIDE = re.compile(rb"(\\+)(?:u[0-9A-Fa-f]{0,3})?\Z")


class Unescaped:
    """`text` is a body in which those characters are not escaped."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at: list[int] = []  # where such characters are in `text`
        self._after: list[int] = []  # where they end in the body
        self.text = body
        if b"\\u00" in body:
            self.text = b"".join(self._undone())

    def _undone(self) -> Iterator[bytes]:
        body, after, size = self._body, 0, 0
        for match in _ESCAPE.finditer(body):
            start = match.start()
            while start > after and body[start - 1] == ord("\\"):
                start -= 1
            size += start - after
            self._at.append(size)
            self._after.append(match.end())
            yield body[after:start]
            yield bytes([int(match[1], 16)])
            after, size = match.end(), size + 1
        yield body[after:]

    def place(self, hit: Hit) -> tuple[int, int]:
        """Return where a hit is in the body: no escape is taken apart."""
        start, end = self._in_body(hit.start), self._in_body(hit.end)
        inside = _INSIDE.search(self._body, max(0, start - 64), start)
        if inside and len(inside[1]) % 2:
            start = inside.end(1) - 1
        return start, end

    def _in_body(self, place: int) -> int:
        """Return the place in the body: the end of the last escape before it, and as many bytes
        further.
        """
        count = bisect_left(self._at, place)
        return self._after[count - 1] + place - self._at[count - 1] - 1 if count else place


def spliced(text: AnyStr, replacements: Iterable[tuple[int, int, AnyStr]]) -> AnyStr:
    """Return a text with other ones from one place to another, in order."""
    pieces: list[AnyStr] = []
    after = 0
    for start, end, instead in replacements:
        pieces += [text[after:start], instead]
        after = end
    pieces.append(text[after:])
    return text[:0].join(pieces)


class Splice(NamedTuple):
    """A part of a body, and what stands in its place."""

    start: int
    stop: int
    instead: bytes


def spliced_pieces(
    pieces: Sequence[bytes], splices: Sequence[Splice], *, splits: bool
) -> list[bytes]:
    """Return the pieces of a body that is spliced as a whole.

    If one of them ends within a splice, with `splits` each side keeps its part of the replacement;
    else all of it is in the piece in which the splice ends.
    """
    changed = spliced(b"".join(pieces), splices)
    waiting = deque(splices)
    made: list[bytes] = []
    start = end = grown = 0
    for piece in pieces:
        end += len(piece)
        while waiting and waiting[0].stop <= end:
            done = waiting.popleft()
            grown += len(done.instead) - (done.stop - done.start)
        stop = end + grown
        if waiting and waiting[0].start < end:
            cut = waiting[0]
            stop = cut.start + grown
            if splits:
                stop += min(end - cut.start, len(cut.instead))
        made.append(changed[start:stop])
        start = stop
    return made


def plain_size(text: bytes) -> int:
    """Count the bytes of a text, an escape of it as one: the same however it was written."""
    return len(_ANY_ESCAPE.sub(b".", text))
