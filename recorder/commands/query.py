"""`recorder query`: SQL over the log and its projections."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import click
from rich.cells import cell_len

from recorder.archive.place import chosen_url, dialect_of
from recorder.archive.query import DUCKDB, OWN, open_query
from recorder.commands.terminal.options import current_url, flag, format_option, log_options
from recorder.commands.terminal.output import (
    csv_cell,
    echo,
    is_plain,
    write_csv,
    write_json,
    write_line,
)
from recorder.commands.terminal.table import Column, write_table
from recorder.errors import RecorderError, UsageError
from recorder.model.text import safe_text
from recorder.program import load
from recorder.store.queries.query import TIMEOUT_S, QueryResult, Row, value_of
from recorder.store.schema import STALE

# more than anyone reads; a table is as wide as its widest cell, so all of it is held
TABLE_ROWS = 10_000
# of the rows that a table or a JSON array holds: much, and no machine minds
HELD_BYTES = 64 * 2**20
BATCH_ROWS = 500
WIDTH = 80  # characters of a line of prose: the least terminal


@click.command()
@click.argument("sql", required=False)
@click.option(
    "-p",
    "--param",
    type=(str, str),
    multiple=True,
    metavar="NAME VALUE",
    help="The value of `:NAME` in the SQL; a number if it is written as one (42, 0.5, not 007).",
)
@click.option(
    "--engine",
    type=click.Choice([OWN, DUCKDB]),
    default=OWN,
    help="Who computes it: the log's own engine, or DuckDB with its functions (extra analytics).",
)
@flag("--list", help="List the views, with the meaning of their rows and columns.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT_S,
    help="Stop a statement that returns no row for this long.",
)
@format_option("json", "jsonl", "csv", variants=("list",), csv="with a header, NULL is empty")
@log_options
def command(
    db: str | None,
    sql: str | None,
    param: tuple[tuple[str, str], ...],
    engine: str,
    list: bool,
    timeout: float,
    format: str,
) -> None:
    """Query the log in SQL: one read-only statement.

    Without SQL, or with `-`, it is read from stdin.

    \b
    recorder query --list
    recorder query "select model, total_tokens from usage_by_model"
    recorder query "select text from messages where session_name = :s" -p s my-run
    echo "select * from tool_stats" | recorder query --csv
    """
    if list:
        _list_views(sql, format, dialect_of(chosen_url(db)))
        return
    given, values = _given(sql), {name.lstrip(":@$"): value_of(text) for name, text in param}
    with open_query(current_url(db), engine) as query:
        if query.is_stale():
            echo(STALE)
        WRITERS[format](query.ask(given, values, timeout))


def _given(sql: str | None) -> str:
    """Return the statement from the argument or stdin."""
    if sql is None and sys.stdin is not None and sys.stdin.isatty():
        raise UsageError(
            'Which SQL? `recorder query "select …"`, or on stdin; `recorder query --list` names the views.'
        )
    if sql not in (None, "-"):
        return str(sql)
    return sys.stdin.buffer.read().decode("utf-8", "replace") if sys.stdin else ""


# -- results


def _table(answer: QueryResult) -> None:
    rows, is_all = _held(answer.rows, TABLE_ROWS)
    cells = [[_text(value) for value in row] for row in rows]
    needed = []
    for number, name in enumerate(answer.columns):
        widths = [cell_len(row[number]) for row in cells]
        needed.append(max([len(name), *widths]))
    write_table(_columns(answer.columns, rows, needed), cells)
    if not is_all:
        echo(f"The first {len(rows)} rows; --jsonl and --csv give all of them.")


def _columns(names: list[str], rows: list[Row], needed: list[int]) -> list[Column]:
    """Return the columns of the table: numbers to the right; on a terminal the widest one takes the
    remaining room.
    """
    taker = needed.index(max(needed))
    columns = []
    for number, name in enumerate(names):
        is_number = bool(rows) and all(isinstance(row[number], int | float | None) for row in rows)
        column = Column(safe_text(name), right=is_number, cap=40)
        if number == taker:
            column = column._replace(cap=1_000, least=16)
        elif number:
            column = column._replace(goes=len(names) - number)
        columns.append(column)
    return columns


def _json(answer: QueryResult) -> None:
    rows, is_all = _held(answer.rows, None)
    if not is_all:
        raise RecorderError(
            f"That is over {HELD_BYTES >> 20} MiB, too much for one JSON array: use --jsonl."
        )
    write_json(dict(zip(answer.columns, row, strict=True)) for row in rows)


def _json_lines(answer: QueryResult) -> None:
    for batch in _batches(answer.rows):
        write_json((dict(zip(answer.columns, row, strict=True)) for row in batch), "jsonl")


def _csv(answer: QueryResult) -> None:
    for batch in chain([[tuple(answer.columns)]], _batches(answer.rows)):
        write_csv(batch)


WRITERS: Mapping[str, Callable[[QueryResult], None]] = {
    "table": _table,
    "json": _json,
    "jsonl": _json_lines,
    "csv": _csv,
}


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch


def _held(rows: Iterator[Row], most: int | None) -> tuple[list[Row], bool]:
    """Return the rows that fit into memory, and whether these are all."""
    held: list[Row] = []
    size = 0
    for row in rows:
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(held) == most or size > HELD_BYTES:
            return held, False
        held.append(row)
    return held, True


def _text(value: Any) -> str:
    """Return a value as a cell: NULL is empty, bytes are as in CSV."""
    cell = csv_cell(value) if isinstance(value, bytes) else value
    return "" if cell is None else str(cell)


# -- the views


def _list_views(sql: str | None, format: str, engine: str) -> None:
    if sql is not None or format == "csv":
        odd = "--csv" if format == "csv" else f"{sql!r}"
        raise UsageError(
            f"--list names all views: leave {odd} out. Only --json or --jsonl can be added."
        )
    views = load("recorder.projections.views.contract:VIEWS")
    if format != "table":
        described = load("recorder.projections.views.columns:described")
        write_json((described(view, engine) for view in views), format)
        return
    for view in views:
        write_line(view.name if is_plain() else click.style(view.name, bold=True))
        for line in (view.row, ", ".join(view.columns)):
            write_line(textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="  "))
    echo("--list --json says what each column means, and has an example of each view.")
