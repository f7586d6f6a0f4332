"""Tables: for a person on a terminal, and line by line for programs that read columns.

In a pipe every cell is whole. On a terminal a table fits its width: what matters least is left out, one column takes
what the others leave, and numbers and words that are looked for are never cut.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import click
from rich.cells import cell_len, set_cell_size

from recorder.commands.output import safe_text, write_line

GAP = "  "
LEAST_ID = 18  # characters: a UUIDv7 says its millisecond and 12 random bits in them


class Column(NamedTuple):
    """A column, and what becomes of it on a terminal."""

    name: str
    right: bool = False
    cap: int = 1_000  # its width, at most
    goes: int = 0  # where there is no room: 1 is left out first, then 2 …; 0 stays
    rare: bool = False  # left out on a terminal if no row has anything in it
    least: int = 0  # of the one column that takes what the others leave: below this, others are left out
    usual: int = 0  # the width it mostly needs, for a table whose rows are still to come


Widths = dict[int, int]  # of the columns that are shown, by their number


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout, as wide as its cells need and the terminal allows."""
    lines, width = [[_plain(cell) for cell in row] for row in rows], _terminal_width()
    if width is not None:
        columns, lines = _needed(columns, lines)
    needed = [max(map(cell_len, cells)) for cells in zip([column.name for column in columns], *lines, strict=True)]
    widths = fitted(columns, needed, width)
    _write_header(columns, widths)
    for line in lines:
        write_line(_line(columns, widths, line))


def _needed(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> tuple[list[Column], list[list[str]]]:
    """The columns, less the rare ones that are empty."""
    kept = [n for n, column in enumerate(columns) if not column.rare or any(line[n] for line in lines)]
    return [columns[n] for n in kept], [[line[n] for n in kept] for line in lines]


def growing_table(columns: Sequence[Column]) -> Callable[[Sequence[Any]], None]:
    """The head of a table on stdout; returns what writes a row of it."""
    needed = [max(len(column.name), column.usual) for column in columns]
    widths = fitted(columns, needed, _terminal_width())
    _write_header(columns, widths)
    return lambda row: write_line(_line(columns, widths, [_plain(cell) for cell in row]))


def fitted(columns: Sequence[Column], needed: Sequence[int], width: int | None) -> Widths:
    """The columns that fit in `width` and how wide they are; all of them, as they need, if it is `None`."""
    if width is None:
        return dict(enumerate(needed))
    widths = {number: min(needed[number], column.cap) for number, column in enumerate(columns)}
    [taker] = [number for number, column in enumerate(columns) if column.least]
    widths[taker] = min(widths[taker], columns[taker].least)
    for number in sorted((n for n in widths if columns[n].goes), key=lambda n: columns[n].goes):
        if _total(widths) > width:
            del widths[number]
    left = width - _total(widths) + widths[taker]
    widths[taker] = max(1, min(needed[taker], columns[taker].cap, left))
    return widths


def short_ids(ids: Sequence[str]) -> list[str]:
    """Ids as they are in a pipe; on a terminal the beginnings that tell them apart."""
    if _terminal_width() is None:
        return list(ids)
    length = LEAST_ID
    while len({each[:length] for each in ids}) < len(set(ids)):
        length += 1
    return [each[:length] for each in ids]


def _terminal_width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _total(widths: Widths) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _plain(cell: Any) -> str:
    return "" if cell is None else safe_text(str(cell)).replace("\n", " ").replace("\t", " ")


def _write_header(columns: Sequence[Column], widths: Widths) -> None:
    header = _line(columns, widths, [column.name for column in columns])
    write_line(click.style(header, bold=True) if sys.stdout.isatty() else header)


def _line(columns: Sequence[Column], widths: Widths, cells: Sequence[str]) -> str:
    cut = sys.stdout.isatty()
    shown = (_fit(cells[number], width, columns[number].right, cut) for number, width in widths.items())
    return GAP.join(shown).rstrip()


def _fit(cell: str, width: int, right: bool, cut: bool) -> str:
    if cut and cell_len(cell) > width:
        return set_cell_size(cell, width - 1) + "…"
    padding = " " * (width - cell_len(cell))
    return padding + cell if right else cell + padding
