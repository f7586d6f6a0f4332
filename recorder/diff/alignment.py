"""Two sequences put side by side: the elements that both have, in order, and those between them.

Elements are numbers in arrays, equal ones for equal elements: a sequence may be long, and objects are large. rapidfuzz
aligns them bit-parallel in linear memory: 100,000 against 100,000 of which nothing is equal take 2.5 seconds.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

PRODUCT_LIMIT = 20_000_000_000
"""Length of one by that of the other, what is equal at the ends not counted: five seconds of work."""


Numbers: TypeAlias = "array[int]"

NEAR = 8
"""If less than an eighth differs, they are near."""


class Stretch(NamedTuple):
    """A stretch of both sequences: `is_same` means element by element; otherwise one replaces the other."""

    is_same: bool
    a: range
    b: range


def numbered(a: Iterable[Hashable], b: Iterable[Hashable]) -> tuple[Numbers, Numbers]:
    """Return numbers for elements, equal ones for equal ones."""
    numbers: dict[Hashable, int] = {}
    one = array("q", (numbers.setdefault(each, len(numbers)) for each in a))
    return one, array("q", (numbers.setdefault(each, len(numbers)) for each in b))


def stretches(a: Numbers, b: Numbers) -> list[Stretch] | None:
    """Return both sequences in alternating stretches; `None` if they are too long and too different to be aligned."""
    start = parting(a, b)
    end = parting(a[start:][::-1], b[start:][::-1])
    inner_a, inner_b = range(start, len(a) - end), range(start, len(b) - end)
    if len(inner_a) * len(inner_b) > PRODUCT_LIMIT:
        return None
    found = chain(
        [Stretch(True, range(start), range(start))],
        _aligned(a, b, inner_a, inner_b),
        [Stretch(True, range(inner_a.stop, len(a)), range(inner_b.stop, len(b)))],
    )
    return list(_merged(found))


def parting(a: Sequence[object], b: Sequence[object]) -> int:
    """Count the elements that the beginnings share."""
    for number, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return number
    return min(len(a), len(b))


def _aligned(a: Numbers, b: Numbers, in_a: range, in_b: range) -> Iterator[Stretch]:
    if not in_a and not in_b:
        return
    from rapidfuzz.distance import Levenshtein  # of no use to equal sequences, and it takes long to load

    one, other = a[in_a.start : in_a.stop], b[in_b.start : in_b.stop]
    for step in Levenshtein.opcodes(one, other, score_hint=_least_distance(one, other)):
        from_a, from_b = range(step.src_start, step.src_end), range(step.dest_start, step.dest_end)
        yield Stretch(step.tag == "equal", _moved(from_a, in_a.start), _moved(from_b, in_b.start))


def _least_distance(a: Numbers, b: Numbers) -> int | None:
    """Return a lower bound of the distance, if that is near: then the search is a narrow band, and 20 times as fast."""
    counts = Counter(a)
    counts.subtract(b)
    only_a = sum(count for count in counts.values() if count > 0)
    least = max(only_a, only_a + len(b) - len(a))
    return least if least <= max(len(a), len(b)) // NEAR else None


def _moved(span: range, by: int) -> range:
    return range(span.start + by, span.stop + by)


def _merged(found: Iterable[Stretch]) -> Iterator[Stretch]:
    last: Stretch | None = None
    for each in found:
        if not each.a and not each.b:
            continue
        if last is not None and last.is_same == each.is_same:
            last = Stretch(last.is_same, range(last.a.start, each.a.stop), range(last.b.start, each.b.stop))
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


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
    """Align two sequences by several keys, the surest first: each is tried where the one before has left gaps.

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
