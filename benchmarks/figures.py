"""Figures of rounds: compared within each round, summed up over all of them, as a table and as
JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

import msgspec

Row = dict[str, float]  # figure → value
Round = Mapping[str, Row]  # subject → row, all measured within seconds of one another


class Column(NamedTuple):
    """A figure as it stands, or against the same figure of a reference in the same round."""

    title: str
    figure: str
    relation: Literal["", "/", "-"] = ""
    reference: str = ""

    @property
    def key(self) -> str:
        return f"{self.figure}{self.relation}{self.reference}"

    def of(self, subject: str, round_: Round) -> float:
        value = round_[subject].get(self.figure, math.nan)
        if not self.relation:
            return value
        other = round_.get(self.reference, {}).get(self.figure, math.nan)
        if self.relation == "-":
            return value - other
        return value / other if other else math.nan


class Summary(msgspec.Struct, frozen=True):
    """A figure over all rounds."""

    median: float
    min: float
    max: float
    rounds: list[float]


class Table(msgspec.Struct, frozen=True):
    """What one benchmark found. `rows`: subject → key of a column → summary."""

    name: str
    title: str
    columns: list[Column]
    rows: dict[str, dict[str, Summary]]


def table(name: str, title: str, columns: Sequence[Column], rounds: Sequence[Round]) -> Table:
    """What the rounds say.

    Figures that a subject does not have are left out, and columns that none has.
    """
    rows: dict[str, dict[str, Summary]] = {}
    for subject in rounds[0]:
        summaries = (
            (column.key, _summary([column.of(subject, each) for each in rounds]))
            for column in columns
        )
        rows[subject] = {key: summary for key, summary in summaries if summary is not None}
    found = [column for column in columns if any(column.key in row for row in rows.values())]
    return Table(name, title, found, rows)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of them lies; not a number if there are none."""
    if not values:
        return math.nan
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def lines(found: Table) -> Iterator[str]:
    """The table for a terminal: medians, and minimum to maximum."""
    yield f"{found.name}: {found.title}"
    cells = [["", *(column.title for column in found.columns)]]
    for subject, row in found.rows.items():
        cells.append([subject, *(cell(row.get(column.key)) for column in found.columns)])
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    for first, *others in cells:
        padded = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join((first.ljust(widths[0]), *padded))


def _summary(values: list[float]) -> Summary | None:
    if any(math.isnan(value) for value in values):
        return None
    return Summary(median(values), min(values), max(values), values)


def cell(summary: Summary | None) -> str:
    if summary is None:
        return "–"
    return f"{_number(summary.median)} ({_number(summary.min)} – {_number(summary.max)})"


def _number(value: float) -> str:
    return (
        f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )
