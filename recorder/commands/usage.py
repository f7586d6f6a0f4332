"""`recorder usage`: sums tokens."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import click

from recorder.archive.opening import open_log
from recorder.commands.terminal.options import current_url, flag, format_option, log_options
from recorder.commands.terminal.output import echo, write_csv, write_json
from recorder.commands.terminal.table import Column, Number, short_ids, write_table
from recorder.commands.terminal.times import Period, between
from recorder.errors import NotFoundError
from recorder.model.text import counted, enumerated, safe_text
from recorder.program import load
from recorder.store.queries.reader import LogReader
from recorder.store.queries.usage import (
    COSTS,
    OVERLAPPING,
    By,
    CostTally,
    Summed,
    Tally,
    Unpriced,
    costs_together,
    keys,
    numbers,
    together,
    usage,
    usage_costs,
)
from recorder.store.schema import STALE

# Of the table: all but the keys are tokens or what is said of them, so the names are shorter there.
_COLUMNS = {
    "session_id": Column("session_id", goes=1),
    "calls": Number("calls"),
    "answered": Number("answered", goes=6),
    "failed": Number("failed", goes=9),
    "exchanges": Number("exchanges"),
    "reported": Number("reported", goes=5),
    "input_tokens": Number("input"),
    "cache_read_input_tokens": Number("cached", goes=7),
    "cache_write_input_tokens": Number("cache_write", goes=4),
    "output_tokens": Number("output"),
    "reasoning_output_tokens": Number("reasoning", goes=8),
    "total_tokens": Number("total", goes=10),
    "reasoning_share": Number("reasoning_share", goes=2),
    "cached_share": Number("cached_share", goes=3),
    "cost_usd": Number("cost_usd"),
    "reported_cost_usd": Number("reported_usd", goes=11, rare=True),
    "priced": Number("priced", goes=5),
    "partial": Number("partial", goes=5),
}
NAME_WIDTH = 200  # of a model, a session, a tool: numbers are left out before a name is cut
MODELS_SHOWN = 10  # without a price: a line that one can read
_SHARES = ("reasoning_share", "cached_share")


@click.command()
@click.option(
    "--by",
    type=click.Choice(get_args(By)),
    metavar="KEY",
    multiple=True,
    default=("model",),
    help=f"One row for each {', '.join(get_args(By))}; given twice, one for each pair. Hours and days are of UTC, "
    "weeks of ISO 8601. "
    "Rows of `tool` and `tag` overlap: an exchange that calls two tools counts for both. `owner` and `team` are those "
    "of the token that it showed. `outcome` is how the exchange ended, `effort` that of the reasoning requested, "
    "`tier` the service tier by the response, else the one requested, `tools` the number of tools offered.",
)
@flag("--cost", help="With costs in USD, by the prices valid when it was recorded.")
@between
@format_option("json", "jsonl", "csv")
@log_options
def command(
    db: str | None,
    by: tuple[By, ...],
    cost: bool,
    period: Period,
    format: str,
) -> None:
    """Sum the tokens of the exchanges that have ended: by model, since models count tokens
    differently.

    Input includes cached tokens, output includes reasoning. A response that was fetched again
    counts once. A value that no exchange of a row reported is empty, not 0; shares are of the
    exchanges that report both values.

    With --cost, cost_usd is computed from the prices that `recorder prices update` has taken, for
    the `priced` exchanges; reported_cost_usd is what providers and gateways report themselves. Of
    `partial` ones the stream broke off: they may have cost more.

    \b
    recorder usage
    recorder usage --by day --by model --since 7d
    recorder usage --by model --by effort
    recorder usage --cost --by month
    recorder usage --by tool --csv > tools.csv
    """
    by = tuple(dict.fromkeys(by))
    tallies, costs, is_stale = asyncio.run(_tallies(db, by, period, cost))
    rows = []
    for tally in tallies:
        row = tally.row(by)
        if costs:
            row |= costs.row(tally.key)
        rows.append(row)
    if is_stale and tallies:
        echo(STALE)
    if format == "csv":
        write_csv(
            [
                (*keys(by), *numbers(by), *(COSTS if cost else ())),
                *(tuple(row.values()) for row in rows),
            ]
        )
    elif format != "table":
        write_json(rows, format)
    elif tallies:
        _write(by, tallies, rows, costs)
    if not tallies:
        raise NotFoundError(STALE if is_stale else _nothing(period))
    if costs:
        _report(costs)


class _Costs(NamedTuple):
    by_key: Mapping[tuple[Any, ...], CostTally]
    unpriced: Sequence[Unpriced]

    def row(self, key: tuple[Any, ...]) -> dict[str, Any]:
        return self.by_key.get(key, CostTally()).row()

    def are_unknown(self) -> bool:
        """Return whether a model has no cost that another list of prices may have."""
        return any(each.reason in _UNKNOWN for each in self.unpriced)

    def total(self) -> CostTally:
        return costs_together(self.by_key.values())


async def _tallies(
    db: str | None, by: Sequence[By], period: Period, cost: bool
) -> tuple[list[Tally], _Costs | None, bool]:
    """Return the sums, their costs if they are wanted, and whether they miss a part of the log."""
    url, summed = current_url(db), Summed(*period)
    async with await open_log(url) as log:
        costs = _Costs(*await usage_costs(log, by, summed)) if cost else None
        is_new = costs is not None and costs.are_unknown() and await _priced_new(log)
        tallies, is_due = await usage(log, by, summed), await log.rebuild_is_due()
    if is_new:  # an archive has the prices that the log had when it was opened
        async with await open_log(url) as log:
            costs = _Costs(*await usage_costs(log, by, summed))
    return tallies, costs, is_due


async def _priced_new(log: LogReader) -> bool:
    """Ask the package for models that are newer than the last `recorder prices update`.

    Return whether it has any.
    """
    costs = load("recorder.store.queries.costs")
    if not await costs.has_prices(log):
        return False
    has_added: bool = load("recorder.prices.table:add_new")(
        log.url, await costs.priced_models(log), time.time_ns()
    )
    return has_added


_UNKNOWN = ("provider", "model")  # reasons that a list of prices may mend
_REASONS = {
    "subscription": "in a subscription",
    "provider": "no list of prices",
    "model": "no price",
    "counts": "counts that contradict each other",
}


def _report(costs: _Costs) -> None:
    """Print what the sums do not contain: models without a price, and the rest of streams that
    broke off.
    """
    for reason, what in _REASONS.items():
        models: Counter[str] = Counter()
        for each in costs.unpriced:
            if each.reason == reason:
                models[f"{each.provider} {each.model or 'without a model'}"] += each.exchanges
        if models:
            names = [safe_text(name) for name, _ in models.most_common()]
            listed = enumerated(names, MODELS_SHOWN)
            echo(f"{counted(models.total(), 'exchange')} without a cost ({what}): {listed}.")
    if costs.are_unknown():
        echo(
            "`recorder prices update` takes prices from the package genai-prices and from your prices.toml."
        )
    if partial := costs.total().partial:
        echo(f"{counted(partial, 'exchange')} broke off: what is counted may be too little.")


def _nothing(period: Period) -> str:
    when = "yet" if period == Period() else "in that time"
    return f"No exchange that asks a model for something has ended {when}."


def _write(
    by: Sequence[By], tallies: Sequence[Tally], rows: Sequence[dict[str, Any]], costs: _Costs | None
) -> None:
    """Write the table, on a terminal with the total, unless rows overlap."""
    is_terminal = sys.stdout.isatty()
    shown = list(rows)
    if is_terminal and len(shown) > 1 and OVERLAPPING.isdisjoint(by):
        blank = [""] * (len(keys(by)) - 1)
        total = together(tallies, (*blank, "total")).row(by)
        shown.append({**total, **(costs.total().row() if costs else {})})
    if "session" in by:
        ids = short_ids([row["session_id"] for row in shown])
        shown = [{**row, "session_id": short} for row, short in zip(shown, ids, strict=True)]
    names = (*keys(by), *numbers(by), *(COSTS if costs else ()))
    columns = [_COLUMNS.get(name) or Column(name, least=NAME_WIDTH) for name in names]
    lines = []
    for row in shown:
        lines.append([_cell(name, value, is_terminal) for name, value in row.items()])
    write_table(columns, lines, "--csv and --json have every column")


def _cell(name: str, value: Any, is_terminal: bool) -> Any:
    """Return a cell. Numbers are grouped only for people."""
    if name in _SHARES and value is not None:
        return f"{100 * value:.0f} %" if is_terminal else f"{value:.4f}"
    return f"{value:,}" if is_terminal and isinstance(value, int) else value
