"""The report of a comparison: pairs of exchanges, each level by level. Plain data, which is also the JSON of `diff`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from recorder.replay.matching.noise import DEFAULT_RULES, Rules

Level = Literal["request", "answer", "tools", "usage", "timing", "events", "bytes", "shape"]

ALL: tuple[Level, ...] = get_args(Level)
"""Every level, in the order in which they are told."""

EXACT: tuple[Level, ...] = tuple(level for level in ALL if level != "shape")
"""Those that are compared if nothing is noise. The shape repeats what others say."""

DEFAULT: tuple[Level, ...] = tuple(level for level in EXACT if level != "bytes")
"""Those that are compared if nothing else is said. Ids alone make the bytes of any two recordings differ."""

DIFFERENCES_LIMIT = 1_000
"""Differences of one level and pair that are kept; all are counted. Nobody reads more, and no report grows past it."""

Change = Literal["changed", "missing", "added", "moved"]
"""`missing` is only in A, `added` only in B."""

How = Literal["exact", "noise", "position", "order", "alone"]
"""What made two exchanges partners: rungs of the matching ladder, their order, or that each side has but one."""

Same = Literal["=", "-", "+"]


class Word(NamedTuple):
    """A piece of a text: in both, only in A, or only in B."""

    of: Same
    text: str


class Terms(msgspec.Struct, frozen=True):
    """The terms of a comparison: what counts as a difference."""

    exact: bool = False  # nothing is noise, and no level owns what another one has too
    tolerance: float = 1.25  # see `recorder.diff.levels`
    rules: Rules = DEFAULT_RULES  # of requests


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place. A text has `words`, with a little of the text around them; another value is given for each side."""

    where: str
    change: Change = "changed"
    a: str | None = None
    b: str | None = None
    a_pos: int | None = None  # the event, by its position in the log
    b_pos: int | None = None
    words: list[Word] | None = None


class Measure(msgspec.Struct, frozen=True):
    """A number on each side, whether it differs or not; `None` where nothing was reported."""

    name: str
    unit: Literal["tokens", "ns", "count"]
    a: int | None
    b: int | None
    ratio: float | None  # of b to a
    differs: bool


class LevelReport(msgspec.Struct, frozen=True):
    """The findings of one level for one pair. `count` includes the measures that differ, and what was not kept."""

    level: Level
    count: int
    differences: list[Difference]
    measures: list[Measure] = []
    note: str | None = None  # why it was not compared
    is_compared: bool = True


class Which(msgspec.Struct, frozen=True):
    """An exchange."""

    number: int  # in its session; 1 is the first
    exchange_id: str
    asked: str  # method and path


class Pair(msgspec.Struct, frozen=True):
    """Two exchanges that were compared."""

    a: Which
    b: Which
    how: How
    levels: list[LevelReport]
    items: list[tuple[int | None, int | None]] = []
    """The items that were compared with each other, by their index in the output of each side, from 0; None where one
    side has no partner. Empty if neither `answer` nor `tools` was compared."""

    @property
    def count(self) -> int:
        return sum(each.count for each in self.levels)


class Report(msgspec.Struct, frozen=True):
    """A whole comparison."""

    levels: tuple[Level, ...]  # that were compared
    pairs: list[Pair]
    missing: list[Which]  # exchanges that only A has
    added: list[Which]  # exchanges that only B has

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.added or any(pair.count for pair in self.pairs))

    def of(self, level: Level) -> list[LevelReport]:
        """Return the reports of a level, pair by pair."""
        if level not in self.levels:
            return []
        index = self.levels.index(level)
        return [pair.levels[index] for pair in self.pairs]

    def count(self, level: Level) -> int:
        """Count the differences of a level in all pairs."""
        return sum(each.count for each in self.of(level))

    def uncompared(self, level: Level) -> int:
        """Count the pairs in which a level was not compared."""
        return sum(not each.is_compared for each in self.of(level))

    @property
    def alike_up_to(self) -> int:
        """The number of the last exchange up to which all have the same number on both sides, and differ in nothing
        but the time that they took; 0 if the first differs."""
        for number, pair in enumerate(self.pairs, 1):
            count = sum(each.count for each in pair.levels if each.level != "timing")
            if count or (pair.a.number, pair.b.number) != (number, number):
                return number - 1
        return len(self.pairs)

    @property
    def differing(self) -> tuple[Level, ...]:
        """The levels at which something differs."""
        return tuple(level for level in self.levels if self.count(level))


def document(a: str, b: str, report: Report) -> dict[str, Any]:
    """Return the object of `recorder diff --json`; `a` and `b` are the names of both sides."""
    levels = {level: report.count(level) for level in report.levels}
    fields: dict[str, Any] = msgspec.to_builtins(report)
    return {"a": a, "b": b, "is_equal": report.is_equal, **fields, "levels": levels}


def found(level: Level, differences: Iterable[Difference], measures: Sequence[Measure] = ()) -> LevelReport:
    """Return a level's report: the first differences kept, all of them counted."""
    rest = iter(differences)
    listed = list(islice(rest, DIFFERENCES_LIMIT))
    count = len(listed) + sum(1 for _ in rest) + sum(each.differs for each in measures)
    return LevelReport(level, count, listed, list(measures))


def unknown(level: Level, why: str) -> LevelReport:
    """Return the report of a level that was not compared."""
    return LevelReport(level, 0, [], [], f"not compared: {why}", is_compared=False)


def cut(text: str, limit: int) -> str:
    """Shorten a text to the length that is shown, with a sign at its end."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def ratio(a: int | None, b: int | None) -> float | None:
    """Return b divided by a, or `None`."""
    return round(b / a, 4) if a and b is not None else None
