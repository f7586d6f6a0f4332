"""Two sequences put side by side: the elements that both have, in order, and those between them.

Elements are numbers in arrays, equal ones for equal elements: a sequence may be long, and objects
are large. rapidfuzz aligns them bit-parallel in linear memory: 100,000 against 100,000 of which
nothing is equal take 2.5 seconds.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple, TypeAlias

from recorder.diff.report import Word

PRODUCT_LIMIT = 20_000_000_000
"""Length of one by that of the other, what is equal at the ends not counted: five seconds of work.
"""


Numbers: TypeAlias = "array[int]"

NEAR = 8
"""If less than an eighth differs, they are near."""


class Stretch(NamedTuple):
    """A stretch of both sequences: `is_same` means element by element; otherwise one replaces the
    other.
    """

    is_same: bool
    a: range
    b: range


def numbered(a: Iterable[Hashable], b: Iterable[Hashable]) -> tuple[Numbers, Numbers]:
    """Return numbers for elements, equal ones for equal ones."""
    numbers: dict[Hashable, int] = {}
    one = array("q", (numbers.setdefault(each, len(numbers)) for each in a))
    return one, array("q", (numbers.setdefault(each, len(numbers)) for each in b))


def stretches(a: Numbers, b: Numbers) -> list[Stretch] | None:
    """Return both sequences in alternating stretches; `None` if they are too long and too different
    to be aligned.
    """
    start = parting(a, b)
    end = parting(a[start:][::-1], b[start:][::-1])
    left_a, left_b = len(a) - start - end, len(b) - start - end
    if left_a * left_b > PRODUCT_LIMIT:
        return None
    if not left_a and not left_b:
        return [Stretch(True, range(start), range(start))] if start else []
    # of no use to equal sequences, and it takes long to load
    from rapidfuzz.distance import Levenshtein

    found: list[Stretch] = []
    at_a = at_b = 0
    for block in Levenshtein.opcodes(a, b, score_hint=_least_distance(a, b)).as_matching_blocks():
        if block.a > at_a or block.b > at_b:
            found.append(Stretch(False, range(at_a, block.a), range(at_b, block.b)))
        at_a, at_b = block.a + block.size, block.b + block.size
        if block.size:
            found.append(Stretch(True, range(block.a, at_a), range(block.b, at_b)))
    return found


def parting(a: Sequence[object], b: Sequence[object]) -> int:
    """Count the elements that the beginnings share."""
    for number, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return number
    return min(len(a), len(b))


def _least_distance(a: Numbers, b: Numbers) -> int | None:
    """Return a lower bound of the distance, if that is near: then the search is a narrow band, and
    20 times as fast.
    """
    counts = Counter(a)
    counts.subtract(b)
    only_a = sum(count for count in counts.values() if count > 0)
    least = max(only_a, only_a + len(b) - len(a))
    return least if least <= max(len(a), len(b)) // NEAR else None


def _moved(span: range, by: int) -> range:
    return range(span.start + by, span.stop + by)


class Aligned(NamedTuple):
    """The places of both that are partners, in order, and those that have none."""

    a: Numbers
    b: Numbers
    only_a: Numbers
    only_b: Numbers

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        return zip(self.a, self.b, strict=True)


def aligned(*keys: tuple[Numbers, Numbers]) -> Aligned | None:
    """Align two sequences by several keys, the surest first: each is tried where the one before has
    left gaps.

    `None` if they are too long and too different.
    """
    found = Aligned(array("q"), array("q"), array("q"), array("q"))
    all_a, all_b = keys[0]
    between = [(range(len(all_a)), range(len(all_b)))]
    for of_a, of_b in keys:
        gaps: list[tuple[range, range]] = []
        for in_a, in_b in between:
            parts = stretches(of_a[in_a.start : in_a.stop], of_b[in_b.start : in_b.stop])
            if parts is None:
                return None
            for part in parts:
                part_a, part_b = _moved(part.a, in_a.start), _moved(part.b, in_b.start)
                if part.is_same:
                    found.a.extend(part_a)
                    found.b.extend(part_b)
                else:
                    gaps.append((part_a, part_b))
        between = gaps
    for in_a, in_b in between:
        found.only_a.extend(in_a)
        found.only_b.extend(in_b)
    return Aligned(*(array("q", sorted(numbers)) for numbers in found))


# -- long sequences, from anchor to anchor


ANCHOR = 4
"""Elements in a row: fewer words stand in two places of a long text by chance."""

ANCHORS_APART = 2_000
"""Elements: near enough for a quick alignment between them."""

GAP_LIMIT = 2_000_000_000
"""Length of one by that of the other between two anchors: half a second of work. A longer gap is
not aligned.
"""


def stretches_of_long(a: Numbers, b: Numbers) -> Iterator[Stretch]:
    """Yield the stretches of both.

    They are cut where both have the same elements that stand nowhere else, and aligned piece by
    piece: so the time grows with the length, and not with its square.
    """
    at_a = at_b = 0
    for next_a, next_b in [*_anchors(a, b), (len(a), len(b))]:
        in_a, in_b = range(at_a, next_a), range(at_b, next_b)
        found = None
        if len(in_a) * len(in_b) <= GAP_LIMIT:
            found = stretches(a[at_a:next_a], b[at_b:next_b])
        for each in (
            [Stretch(False, range(len(in_a)), range(len(in_b)))] if found is None else found
        ):
            yield Stretch(each.is_same, _moved(each.a, at_a), _moved(each.b, at_b))
        at_a, at_b = next_a, next_b


def _anchors(a: Numbers, b: Numbers) -> Iterator[tuple[int, int]]:
    """Yield places, some way apart and in order in both, of elements in a row that each has once."""
    if min(len(a), len(b)) <= ANCHORS_APART:
        return
    of_b = _once(b)
    places = [(at, of_b[key]) for key, at in _once(a).items() if key in of_b]
    last_a = last_b = 0
    for at_a, at_b in _rising(places):
        if at_a - last_a >= ANCHORS_APART and at_b - last_b >= ANCHORS_APART:
            yield at_a, at_b
            last_a, last_b = at_a, at_b


def _once(numbers: Numbers) -> dict[int, int]:
    """Return the places of elements in a row that stand in one place only, by their hash, in order."""
    places: dict[int, int] = {}
    repeated: set[int] = set()
    for at, row in enumerate(zip(*(numbers[n:] for n in range(ANCHOR)), strict=False)):
        key = hash(row)
        if places.setdefault(key, at) != at:
            repeated.add(key)
    for key in repeated:
        del places[key]
    return places


def _rising(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the most places that rise in both: a longest increasing subsequence, in n log n."""
    lowest: list[int] = []  # the last place in B of the best sequence of each length
    ends: list[int] = []  # its number among the places
    before: list[int] = []
    for number, (_, at_b) in enumerate(places):
        length = bisect_left(lowest, at_b)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [at_b]
        ends[length : length + 1] = [number]
    found = []
    number = ends[-1] if ends else -1
    while number >= 0:
        found.append(places[number])
        number = before[number]
    return found[::-1]


# -- two texts word by word: removed and added words, with a little of the text around them


AROUND = 40
"""Characters shown before and after a change: enough to find it."""

SHOWN = 400
"""Characters shown of a change: a paragraph."""

_WORD = re.compile(r"\s*(?:[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s])|\s+")
"""A word, or one character where words are not written apart or there is none; with the blanks
before it.
"""


def changes(a: str, b: str) -> Iterator[list[Word]]:
    """Yield the places in which two texts differ.

    Changes that are close together are one passage.
    """
    found = stretches(*numbered(_words(a), _words(b)))
    if found is None:
        yield [Word("-", _cut(a)), Word("+", _cut(b))]
        return
    of_a, of_b = _Words(a), _Words(b)
    passage: list[Word] = []
    before = ""  # what stands before the next change
    for each in found:
        if not each.is_same:
            passage = [*passage, *_unchanged(before), *_changed(each, of_a, of_b)]
            before = ""
            continue
        text = of_a.text(each.a)
        if passage and len(text) > 2 * AROUND:
            yield _joined([*passage, *_unchanged(f"{text[:AROUND]}…")])
            passage = []
        before = text if len(text) <= 2 * AROUND or not text else f"…{text[-AROUND:]}"
    if passage:
        yield _joined([*passage, *_unchanged(before)])


def _words(text: str) -> Iterator[str]:
    return (match[0] for match in _WORD.finditer(text))


class _Words:
    """The words of a text, held as the places where they end: there may be very many."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = array("q", chain([0], (match.end() for match in _WORD.finditer(text))))

    def text(self, span: range) -> str:
        """Return some words that stand one after the other."""
        return self._text[self._ends[span.start] : self._ends[span.stop]]


def _joined(passage: Sequence[Word]) -> list[Word]:
    """Join neighbours that are both kept."""
    return [
        Word(of, "".join(word.text for word in words))
        for of, words in groupby(passage, lambda word: word.of)
    ]


def _unchanged(text: str) -> list[Word]:
    return [Word("=", text)] if text else []


def _changed(stretch: Stretch, of_a: _Words, of_b: _Words) -> list[Word]:
    """Return the words of a change. Blanks before a word are not changed with it."""
    gone, come = of_a.text(stretch.a), of_b.text(stretch.b)
    blanks = _blanks(gone) if gone and come and _blanks(gone) == _blanks(come) else ""
    changed = Word("-", _cut(gone.removeprefix(blanks))), Word("+", _cut(come.removeprefix(blanks)))
    return [*_unchanged(blanks), *(each for each in changed if each.text)]


def _blanks(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"
