"""Level `events`: the sequence of a stream. What is missing, added, moved, and what changed in
events that both have.

Ids are compared by which of them are the same: each id of A goes with one of B. Sequence numbers
may be shifted by events that are missing or added, as they are when a stream is numbered again.

Of runs of deltas and other events whose texts another level owns, that is not matter of this level.
The texts themselves belong to `answer` and `tools`, if the final text of both equals their deltas.
They are reported here if that level cannot see them: deltas that differ from the final item, texts
that are cut into other parts or moved past another event, and the number and the boundaries of
deltas.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, zip_longest
from typing import NamedTuple

import msgspec

from recorder.diff.alignment import (
    Aligned,
    Numbers,
    Stretch,
    aligned,
    changes,
    numbered,
    parting,
    stretches,
)
from recorder.diff.compared import ComparedRecording, FinalTexts
from recorder.diff.levels import compared
from recorder.diff.report import Difference, LevelReport, Terms, cut, found
from recorder.diff.steps import ExchangeSteps, PackedSteps, Step, joined, steps
from recorder.model.text import counted, storable
from recorder.wire.dialects.json_values import as_json

NAMED = 5
"""Deltas that are named each; if more differ, the stream is cut otherwise, or says something else.
"""

PIECES_LIMIT = 20_000
"""Deltas of a run that are put side by side, those that are equal at its ends not counted."""


class TextsReport(NamedTuple):
    """The differences reported of two steps, and the first event of each that is aligned with one
    of the other.
    """

    differences: Sequence[Difference] = ()
    first: tuple[int, int] = (0, 0)


class Texts:
    """The texts of two exchanges."""

    def __init__(self, a: FinalTexts, b: FinalTexts) -> None:
        self._a, self._b = a, b
        self._same_ends: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}
        self._reported: set[tuple[str, str]] = set()

    def differences(self, a: Step, b: Step) -> TextsReport:
        """Return the differences of two steps that are partners."""
        if not (a.is_delta and b.is_delta):
            parts = self._parts(a, b) if a.key == b.key else ()
            return TextsReport([*_repeated(a, b), *parts])
        if a.texts == b.texts and a.count == b.count:
            return TextsReport()
        one, other = a.text, b.text
        if one == other:
            return TextsReport(list(_cuts(a, b)))
        is_seen = not (a.is_open or b.is_open or self._end_alike(a, b))  # at the level of the text
        if not is_seen:
            self._reported.add((one, other))
        found = _each_delta(a, b)
        if found is None or (
            is_seen and any(each.change == "changed" for each in found.differences)
        ):
            words = () if is_seen else _words(a, b, one, other)
            return TextsReport([*_repeated(a, b), *words])
        return found

    def _parts(self, a: Step, b: Step) -> Iterator[Difference]:
        """Yield differences of a text, at the first event that shows it."""
        for one, other in zip_longest(a.texts, b.texts, fillvalue=""):
            if one != other and (one, other) not in self._reported and self._end_alike(a, b):
                self._reported.add((one, other))
                yield Difference(
                    f"{a.name} · text of a part", "changed", *_shown(one, other), a.pos, b.pos
                )

    def _end_alike(self, a: Step, b: Step) -> bool:
        """Return whether the items of two steps have the same final content."""
        items = a.items, b.items
        if items not in self._same_ends:
            ends = [self._a.end(number) for number in a.items]
            self._same_ends[items] = ends == [self._b.end(number) for number in b.items]
        return self._same_ends[items]


def _repeated(a: Step, b: Step) -> Iterator[Difference]:
    """Yield the differences in the number of repetitions."""
    if a.count != b.count:
        yield Difference(f"{a.name} · in a row", "changed", _counted(a), _counted(b), a.pos, b.pos)


def _cuts(a: Step, b: Step) -> Iterator[Difference]:
    """Yield the differences of equal texts in other deltas."""
    yield from _repeated(a, b)
    if a.count == b.count:
        n = parting(a.texts, b.texts)
        if n == min(len(a.texts), len(b.texts)):
            n = 0
        where = f"{a.name} · cut elsewhere, first in delta {n + 1}"
        yield Difference(where, "changed", *_shown(a.texts[n], b.texts[n]), _pos(a, n), _pos(b, n))


def _each_delta(a: Step, b: Step) -> TextsReport | None:
    """Return the differences delta by delta; `None` if they are more than a few, or unclear."""
    is_short = max(len(a.texts), len(b.texts)) <= PIECES_LIMIT
    found = stretches(*numbered(a.texts, b.texts)) if is_short else None
    parting = [each for each in found or () if not each.is_same]
    if found is None or sum(max(len(each.a), len(each.b)) for each in parting) > NAMED:
        return None
    differences = chain.from_iterable(_text_differences(each, a, b) for each in parting)
    first = next((each for each in found if each.is_same), parting[0])
    is_one_each = a.count == len(a.texts) and b.count == len(b.texts)
    starts = (first.a.start, first.b.start) if is_one_each else (0, 0)
    return TextsReport(list(differences), starts)


def _text_differences(stretch: Stretch, a: Step, b: Step) -> Iterator[Difference]:
    for n, m in zip_longest(stretch.a, stretch.b):
        if n is None:
            yield Difference(b.name, "added", None, _piece(b.texts[m]), None, _pos(b, m))
        elif m is None:
            yield Difference(a.name, "missing", _piece(a.texts[n]), None, _pos(a, n), None)
        else:
            sides = _shown(a.texts[n], b.texts[m])
            yield Difference(f"{a.name} · its text", "changed", *sides, _pos(a, n), _pos(b, m))


def _words(a: Step, b: Step, one: str, other: str) -> Iterator[Difference]:
    for words in changes(one, other):
        yield Difference(
            f"{a.name} · text of the deltas", "changed", None, None, a.pos, b.pos, words
        )


def _pos(step: Step, n: int) -> int:
    """Return the position of a text; if an event has none or several, that of the beginning of the
    run.
    """
    return step.positions[n] if len(step.texts) == step.count else step.pos


def _piece(text: str) -> str:
    return cut(as_json(text), SHOWN)


def _shown(one: str, other: str) -> tuple[str, str]:
    return _piece(one), _piece(other)


def _counted(step: Step) -> str:
    return counted(step.count, "delta" if step.is_delta else "time")


# -- runs that another event breaks


def mended(alignment: Aligned, a: PackedSteps, b: PackedSteps) -> Aligned:
    """Join runs of one side that are in pieces on the other: what broke them is reported alone.

    Changes the steps: the first piece becomes the whole.
    """
    return alignment._replace(
        only_a=_joined(alignment.only_a, alignment.a, a),
        only_b=_joined(alignment.only_b, alignment.b, b),
    )


def _joined(alone: Numbers, partners: Numbers, steps: PackedSteps) -> Numbers:
    whole = array("q", (_neighbour(n, partners, steps) for n in alone))
    for n, at in zip(alone, whole, strict=True):
        if 0 <= at < n:
            steps.replace(at, joined(steps.at(at), steps.at(n)))
    for n, at in zip(reversed(alone), reversed(whole), strict=True):
        if at > n:
            steps.replace(at, joined(steps.at(n), steps.at(at)))
    return array("q", (n for n, at in zip(alone, whole, strict=True) if at < 0))


def _neighbour(n: int, partners: Numbers, steps: PackedSteps) -> int:
    """Return the nearest step with a partner, before or after, if it is of the same run; else -1."""
    step, at = steps.at(n), bisect_left(partners, n)
    if step.is_delta:
        for m in partners[max(0, at - 1) : at + 1]:
            if step.run == steps.at(m).run:
                return m
    return -1


# -- the sequence


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
    alignment = aligned(*zip(one.steps.numbers, other.steps.numbers, strict=True))
    if alignment is None:
        of_a, of_b = (f"{len(each.steps):,} events" for each in (one, other))
        return found(
            "events",
            [Difference("too long and too different to be aligned", "changed", of_a, of_b)],
        )
    alignment = mended(alignment, one.steps, other.steps)
    return found("events", _Comparison(one, other, terms).differences(alignment))


class _Comparison:
    def __init__(self, a: ExchangeSteps, b: ExchangeSteps, terms: Terms) -> None:
        self._a, self._b, self._terms = a.steps, b.steps, terms
        self._texts = Texts(a.final_texts, b.final_texts)
        self._of_a: dict[str, str] = {}  # ids, and those that they go with
        self._of_b: dict[str, str] = {}
        self._reported: set[tuple[str | None, ...]] = set()  # of what is repeated
        self._shift: object = 0  # of the numbers, as it was told last

    def differences(self, alignment: Aligned) -> Iterator[Difference]:
        """Yield the differences in order of B; what is missing, before what comes after it."""
        moved = self._moved(alignment)
        gone = {one.n for one in moved.values()}
        ordered = merge(
            ((b, 1, a) for a, b in alignment.pairs),
            ((b, 1, -1) for b in alignment.only_b),
            ((self._after(alignment, a), 0, a) for a in alignment.only_a if a not in gone),
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

    def _moved(self, alignment: Aligned) -> Mapping[int, _MissingStep]:
        """Return, of the steps that are missing in one place and present in another, the first by
        the second.
        """
        waiting: dict[bytes, list[_MissingStep]] = {}
        for n in reversed(alignment.only_a) if alignment.only_b else ():
            step = self._a.at(n)
            waiting.setdefault(step.key, []).append(_MissingStep(n, step.pos))
        moved: dict[int, _MissingStep] = {}
        for n in alignment.only_b:
            line = waiting.get(self._b.at(n).key)
            if line:
                moved[n] = line.pop()
        return moved

    @staticmethod
    def _after(alignment: Aligned, a: int) -> int:
        """Return the place in B of something that only A has."""
        at = bisect_left(alignment.a, a)
        return alignment.b[at] if at < len(alignment.b) else 2**62

    @staticmethod
    def _alone(step: Step, change: str) -> Difference:
        texts = step.text if step.is_delta else ""
        shown = cut(as_json(texts or step.value), SHOWN)
        if change == "missing":
            return Difference(_named(step), "missing", shown, None, step.pos, None)
        return Difference(_named(step), "added", None, shown, None, step.pos)

    def _pair(self, a: Step, b: Step) -> Iterator[Difference]:
        if a.kind != b.kind:
            kinds = _KINDS.get(a.kind, a.kind), _KINDS.get(b.kind, b.kind)
            yield Difference(a.name, "changed", *kinds, a.pos, b.pos)
        if a.key != b.key:
            yield from self._changed(a, b)
        of_texts = self._texts.differences(a, b)
        yield from of_texts.differences
        yield from self._ids(a, b)
        yield from self._numbers(a, b, of_texts)

    def _changed(self, a: Step, b: Step) -> Iterator[Difference]:
        """Yield the changes in the fields of a response, each once although several of its events
        repeat it.
        """
        for each in compared("", a.value, b.value):
            if each.where.startswith(_REPEATED):
                change = (each.where, each.a, each.b)
                if change in self._reported:
                    continue
                self._reported.add(change)
            yield msgspec.structs.replace(
                each, where=f"{a.name} · {each.where}", a_pos=a.pos, b_pos=b.pos
            )

    def _ids(self, a: Step, b: Step) -> Iterator[Difference]:
        """Yield the first id that does not correspond to that of the other side."""
        is_first = True
        for one, other in zip(a.ids, b.ids, strict=False):
            goes = self._of_a.setdefault(one, other) == other
            comes = self._of_b.setdefault(other, one) == one
            if is_first and not (goes and comes):
                is_first = False
                sides = cut(storable(one), SHOWN), cut(storable(other), SHOWN)
                yield Difference(
                    f"{a.name} · another id than before", "changed", *sides, a.pos, b.pos
                )

    def _numbers(self, a: Step, b: Step, of_texts: TextsReport) -> Iterator[Difference]:
        """Yield the first number that differs; within runs, that does not follow the one before."""
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
        if is_known:
            yield from _jumps(a, b)
        else:
            yield _other_number(a, b, n, m)

    def _is_renumbered(self, a: int, b: int) -> bool:
        """Return whether numbers differ only in where counting began."""
        return a == b and not self._terms.exact


class _MissingStep(NamedTuple):
    n: int  # of a step
    pos: int  # of its event in the log


def _other_number(a: Step, b: Step, n: int, m: int) -> Difference:
    """Return the difference of the numbers of two events of steps."""
    sides = str(a.number(n)), str(b.number(m))
    return Difference(
        f"{a.name} · sequence_number", "changed", *sides, a.positions[n], b.positions[m]
    )


def _jumps(a: Step, b: Step) -> Iterator[Difference]:
    """Yield jumps of numbers within runs.

    A number that is missing with its event is reported with that.
    """
    of_a, of_b = _ahead(a), _ahead(b)
    if a.count == b.count:
        n = parting(of_a, of_b)
        if n < a.count:
            yield _other_number(a, b, n, n)
        return
    last_a, last_b = of_a[-1], of_b[-1]
    if (last_b or 0) - (last_a or 0) not in (0, a.count - b.count):
        yield Difference(
            f"{a.name} · numbers missing within", "changed", str(last_a), str(last_b), a.pos, b.pos
        )


def _ahead(step: Step) -> list[int | None]:
    """Return how far each number is ahead of counting, from the first on."""
    base = step.numbers[0] - step.ordinals[0]
    ahead: list[int | None] = []
    for number, ordinal in zip(step.numbers, step.ordinals, strict=True):
        ahead.append(number - ordinal - base if ordinal else None)
    return ahead


def _named(step: Step) -> str:
    return step.name if step.count == 1 else f"{step.name} (×{step.count:,})"
