"""From behind to the front of a chain: which events of the one became which of the other, word by
word, how late, and which words were lost or added.

Where the clocks put a word, or a question, in front before it was there behind, they differ by at
least that much: the times of the front are corrected by it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from recorder.diff.alignment import Stretch, numbered, stretches_of_long
from recorder.diff.chain import SHARED, Link, TextField
from recorder.diff.chain_words import Piece, Span, Words

MOST = 0.9  # of the longest delay: it arose where so much of it was there

Change = Literal["same", "lost", "added", "changed"]


class Passage(msgspec.Struct, frozen=True, gc=False):
    """Words, and the events that they came in."""

    change: Change
    "`same`; or `lost`, `added`, `changed` on the way to the front."
    behind: Span | None
    "The events behind; null for what was added."
    front: Span | None
    "The events of the front; null for what was lost."
    behind_text: str | None
    "The words behind, up to 400 characters."
    front_text: str | None
    "The words of the front, up to 400 characters."
    delay_ns: int | None
    "How much later in the front: of the word that waited longest."


class ChainText(msgspec.Struct, frozen=True):
    """A text on its way from behind to the front."""

    field: TextField
    "`text`, `reasoning`, or `arguments` of tools."
    behind_words: int
    "Words and signs behind."
    front_words: int
    "Words and signs of the front."
    same_words: int
    "Those that both have, in order."
    first_delay_ns: int | None
    "From the first word behind to the first of the front."
    longest_at: int | None
    "Place of the passage with the longest delay."
    arose_at: int | None
    "Place of the first passage with nine tenths of it: there it arose."
    is_whole: bool
    "False if a text has more than a million words: the rest is not compared."
    passages: list[Passage]
    "All passages, in order."


class Followed(NamedTuple):
    """The texts of a link on their way, and what was added to the times of the front."""

    texts: list[ChainText]
    clock_ns: int


def followed(link: Link) -> Followed:
    """Return each text of a link on its way. Clocks that differ are corrected."""
    aligned = []
    for field in ("text", "reasoning", "arguments"):
        pieces: list[Piece] = []
        for behind in link.behind:
            pieces += behind.stream.texts.get(field, ())
        if pieces:
            aligned.append(_aligned(field, Words(pieces), Words(link.front.texts.get(field, ()))))
    least_ns = min((each.least_delay_ns() for each in aligned), default=0)
    clock_ns = min(max(0, -least_ns), link.asked_ns)  # nor did it ask before it was asked
    for each in aligned:
        each.front.clock_ns = clock_ns
    return Followed([_text(each) for each in aligned], clock_ns)


class _Aligned(NamedTuple):
    """The words of both sides, side by side."""

    field: TextField
    behind: Words
    front: Words
    stretches: list[Stretch]

    def least_delay_ns(self) -> int:
        """Return the least delay of words that came through in a row; 0 if there are none, or none
        is below it.
        """
        least_ns = 0
        for stretch in self.stretches:
            if stretch.is_same and len(stretch.a) >= SHARED:
                pairs = zip(stretch.a, stretch.b, strict=True)
                least_ns = min(
                    least_ns, min(self.front.t_ns(f) - self.behind.t_ns(b) for b, f in pairs)
                )
        return least_ns


def _aligned(field: TextField, behind: Words, front: Words) -> _Aligned:
    return _Aligned(
        field, behind, front, [*stretches_of_long(*numbered(behind.words, front.words))]
    )


class _Run(msgspec.Struct):
    """A stretch, which grows while it is one of the same words in the same events."""

    is_same: bool
    behind: range
    front: range
    delay_ns: int | None = None


def _text(aligned: _Aligned) -> ChainText:
    behind, front = aligned.behind, aligned.front
    runs: list[_Run] = []
    same_words = 0
    for stretch in aligned.stretches:
        if stretch.is_same:
            same_words += len(stretch.a)
            _add_same(runs, stretch, behind, front)
        else:
            runs.append(_Run(False, stretch.a, stretch.b))
    passages = [_passage(run, behind, front) for run in runs]
    delays = [(each.delay_ns, n) for n, each in enumerate(passages) if each.delay_ns is not None]
    longest_ns = max((delay_ns for delay_ns, _ in delays), default=0)
    late = [n for delay_ns, n in delays if delay_ns >= min(longest_ns, longest_ns * MOST)]
    return ChainText(
        field=aligned.field,
        behind_words=len(behind.words),
        front_words=len(front.words),
        same_words=same_words,
        first_delay_ns=front.t_ns(0) - behind.t_ns(0) if front.words and behind.words else None,
        longest_at=next((n for delay_ns, n in delays if delay_ns == longest_ns), None),
        arose_at=late[0] if late else None,
        is_whole=behind.is_whole and front.is_whole,
        passages=passages,
    )


def _add_same(runs: list[_Run], stretch: Stretch, behind: Words, front: Words) -> None:
    """Add words that both have.

    Those with an event in common are one run, whatever was lost between them.
    """
    run = next((each for each in reversed(runs) if each.is_same), None)
    for b, f in zip(stretch.a, stretch.b, strict=True):
        delay_ns = front.t_ns(f) - behind.t_ns(b)
        if run is not None and _goes_on(run, b, f, behind, front):
            run.behind, run.front = range(run.behind.start, b + 1), range(run.front.start, f + 1)
            run.delay_ns = max(delay_ns, delay_ns if run.delay_ns is None else run.delay_ns)
        else:
            run = _Run(True, range(b, b + 1), range(f, f + 1), delay_ns)
            runs.append(run)


def _goes_on(run: _Run, b: int, f: int, behind: Words, front: Words) -> bool:
    is_shared = behind.shares_event(b, run.behind[-1]) or front.shares_event(f, run.front[-1])
    return is_shared and behind.exchange_id(b) == behind.exchange_id(run.behind[0])


def _passage(run: _Run, behind: Words, front: Words) -> Passage:
    change: Change = "changed"
    if run.is_same:
        change = "same"
    elif not run.behind:
        change = "added"
    elif not run.front:
        change = "lost"
    spans = behind.span(run.behind), front.span(run.front)
    return Passage(change, *spans, behind.text(run.behind), front.text(run.front), run.delay_ns)
