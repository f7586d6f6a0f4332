"""Level `events`: the sequence of a stream. What is missing, added, moved, and what changed in events that both have.

Ids are compared by which of them are the same: each id of A goes with one of B. Sequence numbers may be shifted by
events that are missing or added, as they are when a stream is numbered anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from heapq import merge
from typing import NamedTuple

import msgspec

from recorder.diff.alignment import Aligned, aligned
from recorder.diff.compared import ComparedRecording
from recorder.diff.report import Difference, LevelReport, Terms, cut, found
from recorder.diff.request import compared
from recorder.diff.runs import Texts, TextsReport, mended
from recorder.diff.steps import ExchangeSteps, Step, steps
from recorder.model.text import storable
from recorder.wire.dialects.json_values import as_json

_REPEATED = "response."

SHOWN = 120  # characters of an event that stands on one side only

_KINDS = {
    "frame": "an event with its blank line",
    "tail": "what stands unended at the end",
    "part": "an event in parts",
    "body": "a document",
    "comment": "a comment",
}


def events(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare the two sequences of events."""
    one, other = steps(a, terms), steps(b, terms)
    places = aligned(*zip(one.steps.numbers, other.steps.numbers, strict=True))
    if places is None:
        of_a, of_b = (f"{len(each.steps):,} events" for each in (one, other))
        return found("events", [Difference("too long and too different to be aligned", "changed", of_a, of_b)])
    places = mended(places, one.steps, other.steps)
    return found("events", _Comparison(one, other, terms).differences(places))


class _Comparison:
    def __init__(self, a: ExchangeSteps, b: ExchangeSteps, terms: Terms) -> None:
        self._a, self._b, self._terms = a.steps, b.steps, terms
        self._texts = Texts(a.final_texts, b.final_texts)
        self._of_a: dict[str, str] = {}  # ids, and those that they go with
        self._of_b: dict[str, str] = {}
        self._reported: set[tuple[str | None, ...]] = set()  # of what is repeated
        self._shift: object = 0  # of the numbers, as it was told last

    def differences(self, places: Aligned) -> Iterator[Difference]:
        """Yield the differences in order of B; what is missing, before what comes after it."""
        moved = self._moved(places)
        gone = {one.n for one in moved.values()}
        ordered = merge(
            ((b, 1, a) for a, b in places.pairs),
            ((b, 1, -1) for b in places.only_b),
            ((self._after(places, a), 0, a) for a in places.only_a if a not in gone),
        )
        for b, is_there, a in ordered:
            if not is_there:
                yield self._alone(self._a.at(a), "missing")
            elif a >= 0:
                yield from self._pair(self._a.at(a), self._b.at(b))
            elif b in moved:
                other = self._b.at(b)
                yield Difference(_named(other), "moved", None, None, moved[b].pos, other.pos)
            else:
                yield self._alone(self._b.at(b), "added")

    def _moved(self, places: Aligned) -> Mapping[int, _MissingStep]:
        """Return, of the steps that are missing in one place and present in another, the first by the second."""
        waiting: dict[bytes, list[_MissingStep]] = {}
        for n in reversed(places.only_a) if places.only_b else ():
            step = self._a.at(n)
            waiting.setdefault(step.key, []).append(_MissingStep(n, step.pos))
        return {n: line.pop() for n in places.only_b if (line := waiting.get(self._b.at(n).key))}

    @staticmethod
    def _after(places: Aligned, a: int) -> int:
        """Return the place in B of something that only A has."""
        at = bisect_left(places.a, a)
        return places.b[at] if at < len(places.b) else 2**62

    @staticmethod
    def _alone(step: Step, change: str) -> Difference:
        texts = step.text if step.is_delta else ""
        shown = cut(as_json(texts or step.value), SHOWN)
        if change == "missing":
            return Difference(_named(step), "missing", shown, None, step.pos, None)
        return Difference(_named(step), "added", None, shown, None, step.pos)

    def _pair(self, a: Step, b: Step) -> Iterator[Difference]:
        if a.kind != b.kind:
            yield Difference(a.name, "changed", _KINDS.get(a.kind, a.kind), _KINDS.get(b.kind, b.kind), a.pos, b.pos)
        if a.key != b.key:
            yield from self._changed(a, b)
        of_texts = self._texts.differences(a, b)
        yield from of_texts.differences
        for each in (self._ids(a, b), self._numbers(a, b, of_texts)):
            if each is not None:
                yield Difference(f"{a.name} · {each.what}", "changed", each.a, each.b, each.a_pos, each.b_pos)

    def _changed(self, a: Step, b: Step) -> Iterator[Difference]:
        """Yield the changes in the fields of a response, each once although several of its events repeat it."""
        for each in compared("", a.value, b.value):
            if each.where.startswith(_REPEATED):
                change = (each.where, each.a, each.b)
                if change in self._reported:
                    continue
                self._reported.add(change)
            yield msgspec.structs.replace(each, where=f"{a.name} · {each.where}", a_pos=a.pos, b_pos=b.pos)

    def _ids(self, a: Step, b: Step) -> _Deviation | None:
        """Return the first id that does not correspond to that of the other side."""
        wrong = None
        for one, other in zip(a.ids, b.ids, strict=False):
            goes = self._of_a.setdefault(one, other) == other
            comes = self._of_b.setdefault(other, one) == one
            if wrong is None and not (goes and comes):
                wrong = _Deviation(
                    "another id than before", cut(storable(one), SHOWN), cut(storable(other), SHOWN), a.pos, b.pos
                )
        return wrong

    def _numbers(self, a: Step, b: Step, of_texts: TextsReport) -> _Deviation | None:
        """Return the first number that differs; within runs, that does not follow the one before."""
        n, m = of_texts.first
        one, other = a.number(n), b.number(m)
        if (one is None) != (other is None):
            shift: object = "one side"
        elif (
            one is None
            or other is None
            or one == other
            or self._is_renumbered(one - a.ordinals[n], other - b.ordinals[m])
        ):
            shift = 0
        else:
            shift = other - one
        is_known, self._shift = shift in (0, self._shift), shift
        if not is_known:
            return _Deviation("sequence_number", str(one), str(other), a.positions[n], b.positions[m])
        return _jumps(a, b)

    def _is_renumbered(self, a: int, b: int) -> bool:
        """Return whether numbers differ only in where counting began."""
        return a == b and not self._terms.exact


class _MissingStep(NamedTuple):
    n: int  # of a step
    pos: int  # of its event in the log


class _Deviation(NamedTuple):
    what: str
    a: str
    b: str
    a_pos: int
    b_pos: int


def _jumps(a: Step, b: Step) -> _Deviation | None:
    """Return jumps of numbers within runs. A number that is missing with its event is reported with that."""
    of_a, of_b = _ahead(a), _ahead(b)
    if a.count == b.count:
        n = next((n for n, pair in enumerate(zip(of_a, of_b, strict=True)) if pair[0] != pair[1]), None)
        if n is None:
            return None
        return _Deviation("sequence_number", str(a.number(n)), str(b.number(n)), a.positions[n], b.positions[n])
    jump = (of_b[-1] or 0) - (of_a[-1] or 0)
    if jump in (0, a.count - b.count):
        return None
    return _Deviation("numbers missing within", str(of_a[-1]), str(of_b[-1]), a.pos, b.pos)


def _ahead(step: Step) -> list[int | None]:
    """Return how far each number is ahead of counting, from the first on."""
    base = step.numbers[0] - step.ordinals[0]
    ahead: list[int | None] = []
    for number, ordinal in zip(step.numbers, step.ordinals, strict=True):
        ahead.append(number - ordinal - base if ordinal else None)
    return ahead


def _named(step: Step) -> str:
    return step.name if step.count == 1 else f"{step.name} (×{step.count:,})"
