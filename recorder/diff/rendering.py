"""A report as lines for a person: spans of text, each with a style. Nothing here knows a terminal.

What was recorded is in the spans as it was: the caller that prints them must escape them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from recorder.diff.report import Difference, Level, LevelReport, Measure, Pair, Report, Same, Which, Word
from recorder.model.text import counted

SHOWN = 10
"""Differences of a level and pair that are shown, if not all are asked for: they fit on a screen."""

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
    """Options of the output: `shown` differences of a level (`None`: all), changed words marked with signs or by
    colour.

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
        yield _line(Span(f"{pair.a.number} ↔ {pair.b.number}  {pair.a.asked}", "bold"), Span(how, "dim"))
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
        yield _line(Span("  "), Span(level.level, "bold"), Span(f"  {counted(level.count, 'difference')}", "dim"))
        if any(each.differs for each in level.measures):
            yield from _table(level.measures)
        for each in level.differences[: self._shown]:
            yield self._difference(each)
        shown = min(len(level.differences), self._shown if self._shown is not None else len(level.differences))
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
        yield _line(Span(f"{'exchanges':<9}  {len(report.missing)} missing, {len(report.added)} added", "yellow"))
    for level in report.levels:
        yield _line(Span(f"{level:<9}  {_summary(report, level)}", "yellow" if report.count(level) else "dim"))


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
        yield _line(Span(f"{each.number}  {each.asked}", "bold"), Span(f"  {change}: {where}", style))


def _sides(each: Difference) -> Sequence[tuple[str | None, Style]]:
    """Return both sides as lines; an absent side is not shown if the kind of change implies it."""
    nothing = "(nothing)" if each.change == "changed" else None
    return (nothing if each.a is None else each.a, "red"), (nothing if each.b is None else each.b, "green")


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
    is_counted = each.unit == "tokens" and each.differs and each.a is not None and each.b is not None
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
