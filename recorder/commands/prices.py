"""`recorder prices`: what providers charge, for `recorder usage --cost` and the view `costs`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from recorder.archive.opening import open_log
from recorder.archive.place import chosen_url
from recorder.commands.terminal.options import FILE, database_option, format_option
from recorder.commands.terminal.output import echo, write_json, write_line
from recorder.commands.terminal.table import Column, Number, write_table
from recorder.commands.terminal.times import INSTANT
from recorder.errors import NotFoundError
from recorder.model.prices import UNITS, PriceRow
from recorder.model.text import counted, safe_text
from recorder.prices.catalog import DAY_S
from recorder.prices.own_file import default_path
from recorder.prices.table import own_prices, valid_prices
from recorder.prices.table import update as update_prices
from recorder.store.queries.costs import has_prices, priced_models
from recorder.store.write.writer import Store

NAME_WIDTH = 200  # of a model: prices are left out before a name is cut


@click.group()
def command() -> None:
    """Manage the prices of tokens, which `recorder usage --cost` and the view `costs` multiply with
    what was used.
    """


@command.command()
@click.option(
    "--valid-from",
    type=INSTANT,
    help="Let new prices count from then on, not from now on. What was recorded since then is priced again.",
)
@click.option(
    "--file",
    type=FILE,
    help="The file with prices of one's own. [default: the path that `recorder prices path` prints]",
)
@database_option
async def update(db: str | None, valid_from: int | None, file: Path | None) -> None:
    """Take prices from the package genai-prices and from a `prices.toml`, which wins.

    Nothing is downloaded.

    The package is asked for the models in the log; for one that is recorded later, by
    `recorder usage --cost`. The first update of an upstream prices all that was recorded. A later
    one changes nothing before it: where a price differs, the old one ends now and the new one
    begins.

    \b
    pip install '.[pricing]'  # in a checkout of recorder
    recorder prices update
    recorder prices update --file prices.toml --valid-from 2026-01-01
    """
    url, own = chosen_url(db), own_prices(file)
    at_ns = max(0, valid_from) if valid_from is not None else time.time_ns()
    with Store(url) as store:
        async with await open_log(url) as log:
            models = await priced_models(log)
        report = update_prices(store, own, models, at_ns)
    echo(
        f"Prices of {', '.join(report.sources)} for {safe_text(', '.join(report.providers)) or 'no upstream'}."
    )
    if report.added or report.closed:
        echo(f"{counted(report.added, 'row')} added, {report.closed:,} ended.")
    else:
        echo("Nothing has changed.")
    if report.unpriced:
        names = safe_text(", ".join(report.unpriced))
        echo(
            f"No list of prices for {names}: name a provider for it in prices.toml, or prices of your own."
        )


@command.command("list")
@click.option("--model", help="Only what is charged for a model of this name.")
@format_option("json", "jsonl")
@database_option
async def list_command(db: str | None, model: str | None, format: str) -> None:
    """List the prices that are valid now, in USD for a million tokens, searches or requests.

    Of the patterns that match a model, the first of its upstream counts.

    \b
    recorder prices list --model gpt-5.1
    recorder prices list --json
    """
    async with await open_log(chosen_url(db)) as log:
        rows = await valid_prices(log, time.time_ns(), model)
        is_priced = await has_prices(log)
    if not is_priced:
        raise NotFoundError("There are no prices yet: run `recorder prices update`.")
    chosen = sorted(_first(rows) if model else rows, key=_place)
    cards = [_card(list(group)) for _, group in groupby(chosen, _place)]
    if format != "table":
        write_json(cards, format)
    elif cards:
        _write(cards)
    if not cards and model is None:
        raise NotFoundError(
            "No model in the log has a price: `recorder prices list --model NAME` asks for any other."
        )
    if not cards:
        raise NotFoundError(
            f"No pattern matches the model {model!r}: give it a price in prices.toml."
        )


@command.command()
def path() -> None:
    """Print the path of the file with prices of one's own; it need not exist.

    \b
    recorder prices path
    """
    write_line(str(default_path()))


def _first(rows: Sequence[PriceRow]) -> list[PriceRow]:
    """Return the rows of the first pattern of each upstream."""
    rank = {row.provider: row.rank for row in reversed(rows)}
    return [row for row in rows if row.rank == rank[row.provider]]


def _place(row: PriceRow) -> tuple[Any, ...]:
    """Return the key of the card that a row belongs to."""
    named = (row.provider, row.rank, row.model, row.service_tier)
    return *named, row.above_input_tokens, row.daily_from_s, row.daily_to_s, row.source


def _card(rows: Sequence[PriceRow]) -> dict[str, Any]:
    """Return the prices of one card as one row."""
    row = rows[0]
    prices = {each.unit: each.usd_per_million for each in rows}
    return {
        "provider": row.provider,
        "model": row.model,
        "service_tier": row.service_tier or None,
        "above_input_tokens": row.above_input_tokens,
        "daily_from_s": row.daily_from_s,
        "daily_to_s": row.daily_to_s,
        "valid_from_ns": row.valid_from_ns,
        "valid_to_ns": row.valid_to_ns,
        **{unit: prices.get(unit) for unit in UNITS},
        "source": row.source,
        "source_version": row.source_version,
    }


def _write(cards: Sequence[dict[str, Any]]) -> None:
    units = [unit for unit in UNITS if any(card[unit] is not None for card in cards)]
    columns = [
        Column("provider"),
        Column("model", least=NAME_WIDTH),
        Column("tier", rare=True),
        Number("above", rare=True),
        Column("hours", rare=True),
        *(Number(unit, goes=len(units) - number) for number, unit in enumerate(units)),
        Column("source"),
    ]
    lines = []
    for card in cards:
        name = (
            card["provider"],
            card["model"],
            card["service_tier"],
            card["above_input_tokens"] or None,
        )
        prices = [card[unit] for unit in units]
        lines.append([*name, _hours(card), *prices, card["source"]])
    write_table(columns, lines)


def _hours(card: dict[str, Any]) -> str | None:
    """Return the times of a day (UTC) at which a price is valid; None if it is all day."""
    daily = (card["daily_from_s"], card["daily_to_s"])
    if daily == (0, DAY_S):
        return None
    return "–".join(f"{at // 3600:02}:{at % 3600 // 60:02}" for at in daily)
