"""The words of a text that came in pieces, each with the events that it came in.

Words count, not blanks: events cut a text anywhere, and a gateway may cut it again.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from recorder.diff.alignment import SHOWN

# of a text: five megabytes, aligned in seconds; what comes after is not compared
WORDS_LIMIT = 1_000_000

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s]")


class Piece(NamedTuple):
    """A piece of text, and the event that it came in."""

    exchange_id: str
    pos: int
    t_ns: int  # wall time
    text: str


class Span(msgspec.Struct, frozen=True, gc=False):
    """Events of one exchange."""

    exchange_id: str
    "Id of the exchange, a UUIDv7."
    first: int
    "Position of the first event."
    last: int
    "Position of the last event."


class Words:
    """The words of a text, and for each the pieces that it begins and ends in."""

    clock_ns = 0
    """What is added to its times."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self._text = "".join(piece.text for piece in pieces)
        self.words: list[str] = []
        self._starts, self._ends = array("q"), array("q")
        self.first, self.last = array("q"), array("q")
        at, until = -1, 0  # the piece, and where it ends
        matches = _WORD.finditer(self._text)
        for match in islice(matches, WORDS_LIMIT):
            start, end = match.span()
            while until <= start:
                at += 1
                until += len(pieces[at].text)
            self.first.append(at)
            while until < end:
                at += 1
                until += len(pieces[at].text)
            self.last.append(at)
            self.words.append(match[0])
            self._starts.append(start)
            self._ends.append(end)
        self.is_whole = next(matches, None) is None

    def t_ns(self, word: int) -> int:
        """Return when the last character of a word came."""
        return self.pieces[self.last[word]].t_ns + self.clock_ns

    def text(self, words: range) -> str | None:
        """Return words with the blanks between them, cut to what is shown; None if there is none."""
        if not words:
            return None
        whole = self._text[self._starts[words[0]] : self._ends[words[-1]]]
        return whole if len(whole) <= SHOWN else f"{whole[:SHOWN]}…"

    def span(self, words: range) -> Span | None:
        """Return the events of words; of several exchanges those of the first."""
        if not words:
            return None
        begin, last = self.pieces[self.first[words[0]]], self.last[words[-1]]
        while self.pieces[last].exchange_id != begin.exchange_id:
            last -= 1
        return Span(begin.exchange_id, begin.pos, self.pieces[last].pos)

    def shares_event(self, word: int, before: int) -> bool:
        return self.first[word] <= self.last[before]

    def exchange_id(self, word: int) -> str:
        return self.pieces[self.first[word]].exchange_id
