"""Tables: for a person on a terminal, and line by line for programs that read columns.

In a pipe every cell is whole, and what is wider than most is not a reason to pad the others. On a
terminal a table fits its width: the least important columns are left out, which is reported, a few
columns share the remaining width, and numbers and words that are searched for are never cut.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import click
from rich.cells import cell_len, set_cell_size

from recorder.commands.terminal.output import echo, is_plain, terminal_width, write_line
from recorder.model.text import safe_text

GAP = "  "
SIZED_ROWS = 1_000
"""Rows that a table is as wide as: more than a person reads. Those after them are written as they
come.
"""
# characters to which a pipe pads a column at most: ids of items have 53, and a title may have 200
PADDED = 60
LEAST_ID = 18  # characters: a UUIDv7 says its millisecond and 12 random bits in them


class Column(NamedTuple):
    """A column, and its layout on a terminal."""

    name: str
    right: bool = False
    cap: int = 1_000  # its width, at most
    goes: int = 0  # where there is no room: 1 is left out first, then 2 …; 0 stays
    rare: bool = False  # left out on a terminal if no row has anything in it
    least: int = 0  # of a column that shares what the others leave: below this, others are left out
    usual: int = 0  # the width it mostly needs, for a table whose rows are still to come


Number = partial(Column, right=True)
"""A column of numbers."""

Widths = dict[int, int]  # of the columns that are shown, by their number


class Table:
    """A table on stdout. It writes its header when it is made, and each row at once."""

    def __init__(self, columns: Sequence[Column], sample: Sequence[Sequence[Any]] | None) -> None:
        """Take the widths from the first rows, or the usual widths if there are none yet (None)."""
        rows, width = list(sample or ()), terminal_width()
        self._columns: list[Column] = []
        self._shown: list[int] = []  # their places in a row
        needed = []
        for place, column in enumerate(columns):
            cells = [_plain(row[place]) for row in rows]
            if column.rare and sample is not None and width is not None and not any(cells):
                continue
            self._columns.append(column)
            self._shown.append(place)
            usual = 0 if rows else column.usual
            needed.append(max([cell_len(column.name), usual, *map(cell_len, cells)]))
        self._widths = fitted(self._columns, needed, width)
        header = _line(self._columns, self._widths, [column.name for column in self._columns])
        write_line(header if is_plain() else click.style(header, bold=True))
        for row in rows:
            self.write(row)

    def say_hidden(self, how: str) -> None:
        """Print the columns without room, and `how` to get them."""
        hidden = [column.name for n, column in enumerate(self._columns) if n not in self._widths]
        if hidden:
            echo(f"No room for {', '.join(hidden)}; {how}.")

    def write(self, row: Sequence[Any]) -> None:
        write_line(_line(self._columns, self._widths, [_plain(row[n]) for n in self._shown]))


def write_table(
    columns: Sequence[Column], rows: Iterable[Sequence[Any]], how: str = "--json has every column"
) -> None:
    """Write a table on stdout, as wide as its cells need and the terminal allows; name hidden
    columns on stderr.
    """
    rows = iter(rows)
    table = Table(columns, list(islice(rows, SIZED_ROWS)))
    for row in rows:
        table.write(row)
    table.say_hidden(how)


def fitted(columns: Sequence[Column], needed: Sequence[int], width: int | None) -> Widths:
    """Return the columns that fit in `width` with their widths; all of them if it is None, padded
    to a limit.
    """
    if width is None:
        return {number: min(size, PADDED) for number, size in enumerate(needed)}
    wanted = [min(size, column.cap) for size, column in zip(needed, columns, strict=True)]
    widths: Widths = {}
    for number, column in enumerate(columns):
        widths[number] = min(wanted[number], column.least) if column.least else wanted[number]
    leaving = [number for number, column in enumerate(columns) if column.goes]
    for number in sorted(leaving, key=lambda n: columns[n].goes):
        if _total(widths) > width:
            del widths[number]
    sharing = [number for number in widths if columns[number].least]
    sharing.sort(key=lambda n: wanted[n] - widths[n])
    for place, number in enumerate(sharing):
        left = max(0, width - _total(widths))
        widths[number] += min(wanted[number] - widths[number], left // (len(sharing) - place))
    over = max(0, _total(widths) - width)
    for number in sorted(sharing, key=lambda n: -widths[n]):
        cut = min(over, widths[number] - 1)
        widths[number] -= cut
        over -= cut
    return widths


def short_ids(ids: Sequence[str]) -> list[str]:
    """Return full ids in a pipe; on a terminal the shortest beginnings that differ."""
    if terminal_width() is None:
        return list(ids)
    length = LEAST_ID
    while len({each[:length] for each in ids}) < len(set(ids)):
        length += 1
    return [each[:length] for each in ids]


def _total(widths: Widths) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _plain(cell: Any) -> str:
    return "" if cell is None else safe_text(str(cell)).replace("\n", " ").replace("\t", " ")


def _line(columns: Sequence[Column], widths: Widths, cells: Sequence[str]) -> str:
    is_cut = sys.stdout.isatty()
    shown = (
        _fit(cells[number], width, columns[number].right, is_cut)
        for number, width in widths.items()
    )
    return GAP.join(shown).rstrip()


def cut(text: str, width: int) -> str:
    """Return a text of at most this width; an ellipsis stands for what is left out."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


def _fit(cell: str, width: int, right: bool, is_cut: bool) -> str:
    if is_cut:
        cell = cut(cell, width)
    padding = " " * (width - cell_len(cell))
    return padding + cell if right else cell + padding
