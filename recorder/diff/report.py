"""The report of a comparison: pairs of exchanges, each level by level. Plain data, which is also
the JSON of `diff`.

For a person it is lines: spans of text, each with a style. Nothing here knows a terminal. What was
recorded is in the spans as it was: the caller that prints them must escape them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from recorder.errors import UsageError
from recorder.model.text import counted
from recorder.replay.matching.noise import DEFAULT_RULES, Rules

Level = Literal["request", "answer", "tools", "usage", "timing", "events", "bytes", "shape"]

ALL: tuple[Level, ...] = get_args(Level)
"""Every level, in the order in which they are told."""

EXACT: tuple[Level, ...] = tuple(level for level in ALL if level != "shape")
"""Those that are compared if nothing is noise. The shape repeats what others say."""

DEFAULT: tuple[Level, ...] = tuple(level for level in EXACT if level != "bytes")
"""Those that are compared if nothing else is said. Ids alone make the bytes of any two recordings
differ.
"""

DIFFERENCES_LIMIT = 1_000
"""Differences of one level and pair that are kept; all are counted. Nobody reads more, and no
report grows past it.
"""


def levels_in(text: str, missing: str = "There is") -> tuple[Level, ...]:
    """Return levels by their names, with commas between them.

    Raises `UsageError`, which begins with `missing`.
    """
    named: dict[str, Level] = {level: level for level in ALL}
    words = [word for word in map(str.strip, text.split(",")) if word]
    for word in words:
        if word not in named:
            raise UsageError(f"{missing} no level {word!r}: the levels are {', '.join(ALL)}.")
    return tuple(named[word] for word in words)


Change = Literal["changed", "missing", "added", "moved"]
"""`missing` is only in A, `added` only in B."""

How = Literal["exact", "noise", "position", "order", "alone"]
"""What made two exchanges partners: rungs of the matching ladder, their order, or that each side
has but one.
"""

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
    """One difference."""

    where: str
    "The place."
    change: Change = "changed"
    "Kind of the difference; absent if a value changed."
    a: str | None = None
    "The value in A."
    b: str | None = None
    "The value in B."
    a_pos: int | None = None
    "Position of the event in A."
    b_pos: int | None = None
    "Position of the event in B."
    words: list[Word] | None = None  # of a text, in place of a value for each side
    "The changed text in pieces: in both (`=`), only in A (`-`), only in B (`+`)."


class Measure(msgspec.Struct, frozen=True):
    """A number of both sides."""

    name: str
    "What is measured."
    unit: Literal["tokens", "ns", "count"]
    "Its unit."
    a: int | None
    "In A; null if it was not reported."
    b: int | None
    "In B; null if it was not reported."
    ratio: float | None
    "B divided by A."
    differs: bool
    "Whether it counts as a difference."


class LevelReport(msgspec.Struct, frozen=True):
    """A pair at one level."""

    level: Level
    "The level."
    count: int  # of the measures that differ, too
    "Number of differences, also of those that are not listed."
    differences: list[Difference]
    "The first differences."
    measures: list[Measure] = []
    "Numbers of both sides, whether they differ or not."
    note: str | None = None
    "Why it was not compared."
    is_compared: bool = True
    "Whether it was compared."


class Which(msgspec.Struct, frozen=True):
    """An exchange of one side."""

    number: int  # 1 is the first
    "Number of the exchange in its session."
    exchange_id: str
    "Id of the exchange, a UUIDv7."
    asked: str
    "Method and path."


class Pair(msgspec.Struct, frozen=True):
    """Two exchanges that belong together."""

    a: Which
    "The exchange of A."
    b: Which
    "The exchange of B."
    how: How
    "What made them partners."
    levels: list[LevelReport]
    "The levels."
    # empty if neither `answer` nor `tools` was compared
    items: list[tuple[int | None, int | None]] = []
    """The items that were compared with each other, by index in the output of each side; null where
    one has no partner."""

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
        """The number of the last exchange up to which all have the same number on both sides, and
        differ in nothing but the time that they took; 0 if the first differs."""
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


def found(
    level: Level, differences: Iterable[Difference], measures: Sequence[Measure] = ()
) -> LevelReport:
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


# -- as lines

SHOWN = 10
"""Differences of a level and pair that are shown, if not all are asked for: they fit on a screen.
"""

Style = Literal["", "bold", "dim", "red", "green", "yellow"]


class Span(NamedTuple):
    text: str
    style: Style = ""


class Line(NamedTuple):
    """`flows`: text that is to be wrapped where there is no room, not cut."""

    spans: tuple[Span, ...]
    flows: bool = False

    @property
    def plain(self) -> str:
        return "".join(span.text for span in self.spans)


_HOW = {
    "exact": "the same request",
    "noise": "the same request but for noise",
    "position": "the same position of the conversation",
    "order": "the next to the same place",
    "alone": "",
}

_MARKED = {"=": "{}", "-": "[-{}-]", "+": "{{+{}+}}"}
_COLOURS: dict[Same, Style] = {"=": "", "-": "red", "+": "green"}


class Rendering:
    """Options of the output: `shown` differences of a level (`None`: all), changed words marked
    with signs or by colour.

    `advice` is how to see the others.
    """

    def __init__(self, shown: int | None = SHOWN, *, signs: bool = True, advice: str = "") -> None:
        self._shown = shown
        self._signs = signs
        self._advice = advice

    def lines(self, report: Report) -> Iterator[Line]:
        """Yield the lines of a report; none if nothing differs."""
        yield from _parting(report)
        yield from _alone(report.missing, "missing", "only in A", "red")
        yield from _alone(report.added, "added", "only in B", "green")
        for pair in report.pairs:
            if pair.count:
                yield from self._pair(pair)

    def _pair(self, pair: Pair) -> Iterator[Line]:
        how = f" ({_HOW[pair.how]})" if _HOW[pair.how] else ""
        yield _line(
            Span(f"{pair.a.number} ↔ {pair.b.number}  {pair.a.asked}", "bold"), Span(how, "dim")
        )
        for level in pair.levels:
            if level.count:
                yield from self._level(level)
        equal = [level.level for level in pair.levels if level.is_compared and not level.count]
        if equal:
            yield _line(Span(f"  equal: {', '.join(equal)}", "dim"))
        for level in pair.levels:
            if level.note:
                yield _line(Span(f"  {level.level}: {level.note}", "dim"))

    def _level(self, level: LevelReport) -> Iterator[Line]:
        yield _line(
            Span("  "),
            Span(level.level, "bold"),
            Span(f"  {counted(level.count, 'difference')}", "dim"),
        )
        if any(each.differs for each in level.measures):
            yield from _table(level.measures)
        for each in level.differences[: self._shown]:
            yield self._difference(each)
        shown = min(
            len(level.differences),
            self._shown if self._shown is not None else len(level.differences),
        )
        advice = f" ({self._advice})" if self._advice and shown < len(level.differences) else ""
        more = level.count - shown - sum(each.differs for each in level.measures)
        if more:
            yield _line(Span(f"    and {more:,} more{advice}", "dim"))

    def _difference(self, each: Difference) -> Line:
        where = Span(f"    {each.where}{_positions(each)}")
        change = Span("" if each.change == "changed" else f" {each.change}", "yellow")
        if each.words is not None:
            return Line((where, change, Span(": "), *map(self._word, each.words)), flows=True)
        spans = [where, change]
        for side, style in _sides(each):
            if side is not None:
                spans += [Span(": " if len(spans) == 2 else " → "), Span(_flat(side), style)]
        return Line(tuple(spans))

    def _word(self, word: Word) -> Span:
        text = _flat(word.text)
        return Span(_MARKED[word.of].format(text) if self._signs else text, _COLOURS[word.of])


def stat_lines(report: Report) -> Iterator[Line]:
    """Yield one line per level."""
    yield from _parting(report)
    count = len(report.missing) + len(report.added)
    if count:
        yield _line(
            Span(
                f"{'exchanges':<9}  {len(report.missing)} missing, {len(report.added)} added",
                "yellow",
            )
        )
    for level in report.levels:
        yield _line(
            Span(
                f"{level:<9}  {_summary(report, level)}", "yellow" if report.count(level) else "dim"
            )
        )


def _parting(report: Report) -> Iterator[Line]:
    """Yield where two recordings part that begin alike, as a fork and its parent do."""
    alike = report.alike_up_to
    if alike and (alike < len(report.pairs) or report.missing or report.added):
        yield _line(Span(f"alike up to exchange {alike}, but for timing", "dim"))


def _summary(report: Report, level: Level) -> str:
    text = counted(report.count(level), "difference") if report.count(level) else "equal"
    lacking = report.uncompared(level)
    if lacking == len(report.pairs):
        return "not compared"
    return f"{text} ({lacking} of {len(report.pairs)} not compared)" if lacking else text


def _alone(exchanges: Iterable[Which], change: str, where: str, style: Style) -> Iterator[Line]:
    for each in exchanges:
        yield _line(
            Span(f"{each.number}  {each.asked}", "bold"), Span(f"  {change}: {where}", style)
        )


def _sides(each: Difference) -> Sequence[tuple[str | None, Style]]:
    """Return both sides as lines; an absent side is not shown if the kind of change implies it."""
    nothing = "(nothing)" if each.change == "changed" else None
    return (nothing if each.a is None else each.a, "red"), (
        nothing if each.b is None else each.b,
        "green",
    )


def _positions(each: Difference) -> str:
    """Return the position in the log that `recorder events` shows."""
    positions = dict.fromkeys(f"#{pos}" for pos in (each.a_pos, each.b_pos) if pos is not None)
    return f" ({' → '.join(positions)})" if positions else ""


def _table(measures: Sequence[Measure]) -> Iterator[Line]:
    rows = [("", "A", "B", "", "", ""), *(_row(each) for each in measures)]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    styles: list[Style] = ["dim"]
    for each in measures:
        styles.append("yellow" if each.differs else "")
    for (name, *numbers), style in zip(rows, styles, strict=True):
        cells = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
        yield _line(Span(f"    {'  '.join([name.ljust(widths[0]), *cells])}".rstrip(), style))


def _row(each: Measure) -> tuple[str, ...]:
    is_counted = (
        each.unit == "tokens" and each.differs and each.a is not None and each.b is not None
    )
    change = f"{(each.b or 0) - (each.a or 0):+,}" if is_counted else ""
    ratio = "" if each.ratio is None else f"×{each.ratio:.2f}"
    return (
        each.name.replace("_", " "),
        _number(each.a, each.unit),
        _number(each.b, each.unit),
        change,
        ratio,
        "≠" if each.differs else "",
    )


def _number(value: int | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit != "ns":
        return f"{value:,}"
    return f"{value / 1e6:,.1f} ms" if value < 10_000_000_000 else f"{value / 1e9:,.2f} s"


def _line(*spans: Span) -> Line:
    return Line(tuple(span for span in spans if span.text))


def _flat(text: str) -> str:
    return text.replace("\r", "␍").replace("\n", "⏎").replace("\t", "⇥")
