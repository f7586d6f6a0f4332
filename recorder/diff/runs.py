"""Runs of deltas and other events whose texts another level owns: what of them is not matter of that level.

The texts themselves belong to `answer` and `tools`, if the final text of both equals their deltas. They are reported
here if that level cannot see them: deltas that differ from the final item, texts that are cut into other parts or moved
past another event, and the number and the boundaries of deltas.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from recorder.diff.alignment import Aligned, Numbers, Stretch, numbered, parting, stretches
from recorder.diff.final_texts import FinalTexts
from recorder.diff.packed_steps import PackedSteps
from recorder.diff.report import Difference, cut
from recorder.diff.steps import Step, joined
from recorder.diff.words import changes
from recorder.model.text import counted
from recorder.wire.dialects.json_values import as_json

SHOWN = 120  # characters of a delta

NAMED = 5
"""Deltas that are named each; if more differ, the stream is cut otherwise, or says something else."""

PIECES_LIMIT = 20_000
"""Deltas of a run that are put side by side, those that are equal at its ends not counted."""


class TextsReport(NamedTuple):
    """The differences reported of two steps, and the first event of each that is aligned with one of the other."""

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
        found = _named(a, b)
        if found is None or (is_seen and any(each.change == "changed" for each in found.differences)):
            words = () if is_seen else _words(a, b, one, other)
            return TextsReport([*_repeated(a, b), *words])
        return found

    def _parts(self, a: Step, b: Step) -> Iterator[Difference]:
        """Yield differences of a text, at the first event that shows it."""
        for one, other in zip_longest(a.texts, b.texts, fillvalue=""):
            if one != other and (one, other) not in self._reported and self._end_alike(a, b):
                self._reported.add((one, other))
                yield Difference(f"{a.name} · text of a part", "changed", *_shown(one, other), a.pos, b.pos)

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


def _named(a: Step, b: Step) -> TextsReport | None:
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
        yield Difference(f"{a.name} · text of the deltas", "changed", None, None, a.pos, b.pos, words)


def _pos(step: Step, n: int) -> int:
    """Return the position of a text; if an event has none or several, that of the beginning of the run."""
    return step.positions[n] if len(step.texts) == step.count else step.pos


def _piece(text: str) -> str:
    return cut(as_json(text), SHOWN)


def _shown(one: str, other: str) -> tuple[str, str]:
    return _piece(one), _piece(other)


def _counted(step: Step) -> str:
    return counted(step.count, "delta" if step.is_delta else "time")


# -- runs that another event breaks


def mended(alignment: Aligned, a: PackedSteps[Step], b: PackedSteps[Step]) -> Aligned:
    """Join runs of one side that are in pieces on the other: what broke them is reported alone.

    Changes the steps: the first piece becomes the whole.
    """
    return alignment._replace(
        only_a=_joined(alignment.only_a, alignment.a, a),
        only_b=_joined(alignment.only_b, alignment.b, b),
    )


def _joined(alone: Numbers, partners: Numbers, steps: PackedSteps[Step]) -> Numbers:
    whole = array("q", (_neighbour(n, partners, steps) for n in alone))
    for n, at in zip(alone, whole, strict=True):
        if 0 <= at < n:
            steps.replace(at, joined(steps.at(at), steps.at(n)))
    for n, at in zip(reversed(alone), reversed(whole), strict=True):
        if at > n:
            steps.replace(at, joined(steps.at(n), steps.at(at)))
    return array("q", (n for n, at in zip(alone, whole, strict=True) if at < 0))


def _neighbour(n: int, partners: Numbers, steps: PackedSteps[Step]) -> int:
    """Return the nearest step with a partner, before or after, if it is of the same run; else -1."""
    step, at = steps.at(n), bisect_left(partners, n)
    if step.is_delta:
        for m in partners[max(0, at - 1) : at + 1]:
            if step.run == steps.at(m).run:
                return m
    return -1
