"""The table `prices`: read, and updated from the package and from a file of one's own.

Rules of this file:

* An update is one transaction: the rows that it reads are those that it changes.
* The table belongs to no session: a purge and a rebuild leave it as it is.
* The package is asked for the models that the log has, and for those that it was asked for before.
  A model that appears later is asked for when its cost is: at `recorder usage --cost`, once there
  was an update.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import msgspec
from sqlalchemy import URL, insert, select

from recorder.errors import RecorderError, UsageError
from recorder.model.prices import KEY, SUBSCRIPTIONS, PriceRow
from recorder.prices import genai, own_file
from recorder.prices.catalog import matches, text_of
from recorder.prices.genai import LIST, Models
from recorder.prices.own_file import OwnPrices
from recorder.prices.schedule import Changes, changes
from recorder.store.queries.reader import LogReader
from recorder.store.schema import prices
from recorder.store.sql import Statement
from recorder.store.write.writer import Store
from recorder.wire.upstreams import UPSTREAMS

_UPSTREAMS = Statement("SELECT provider FROM exchanges UNION SELECT provider FROM prices")
_ROWS = select(prices).order_by(*prices.primary_key.columns)
_ALL = Statement(_ROWS)
_ADD = Statement(insert(prices))
_DELETE = Statement(f"DELETE FROM prices WHERE {' AND '.join(f'{name} = :{name}' for name in KEY)}")


class UpdateReport(msgspec.Struct, frozen=True):
    """The effect of an update."""

    sources: list[str]  # with their versions
    providers: list[str]  # that have prices now
    unpriced: list[str]  # upstreams without a price list, but for subscriptions, which need none
    added: int
    closed: int  # rows that have another end, or are gone; a new price closes one and adds one


class ListPrice(NamedTuple):
    """The price of a model without tiers, caches and steps: what an estimate needs."""

    input_usd: Decimal  # of a million tokens
    output_usd: Decimal

    def usd(self, input_tokens: int, output_tokens: int) -> Decimal:
        return (self.input_usd * input_tokens + self.output_usd * output_tokens) / 1_000_000


def update(store: Store, own: OwnPrices | None, models: Models, at_ns: int) -> UpdateReport:
    """Bring the table to the prices of the package, for these models, and of one's own file, from a
    time on.

    Without the package, own prices are updated alone. Raise `RecorderError` if there are neither,
    and `UsageError` if one's own file names a provider for an upstream that the package does not
    have.
    """
    sources = [own_file.SOURCE]
    try:
        sources.append(f"{genai.SOURCE} {genai.version()}")
    except RecorderError:
        if own is None:
            raise
    aliases = own.providers if own else {}
    found = genai.PackagePrices([], [])
    with store.transaction(alone=True):  # two updates at a time would add the same rows
        there = _rows(store)
        if len(sources) > 1:
            recorded = [name for (name,) in store.ask(_UPSTREAMS, {})]
            found = genai.package_prices(
                [*UPSTREAMS, *recorded], {*models, *_asked(there)}, aliases
            )
        if unknown := [name for name in found.unpriced if name in aliases]:
            raise UsageError(
                f"In prices.toml, `{unknown[0]}` of [providers]: genai-prices has no provider {aliases[unknown[0]]!r}."
            )
        new = [*(own.rows if own else []), *found.rows]
        changed = changes(there, new, [source.partition(" ")[0] for source in sources], at_ns)
        _write(store, changed)
    priced = {row.provider for row in new}
    unpriced = sorted(set(found.unpriced) - priced - set(SUBSCRIPTIONS))
    shown = sources if own else sources[1:]
    return UpdateReport(shown, sorted(priced), unpriced, len(changed.added), len(changed.deleted))


def add_new(log: URL, models: Models, at_ns: int) -> bool:
    """Add the package's prices of models that it was not asked for yet; return whether it has any.

    Nothing is added before the first update, nor by who may not write.
    """
    try:
        with Store(log) as store, store.transaction(alone=True):
            there = _rows(store)
            new = _of_new(there, models)
            if not new:
                return False
            old = [row for row in there if row.source == genai.SOURCE]
            _write(store, changes(there, [*old, *new], [genai.SOURCE], at_ns))
            return True
    except RecorderError:
        return False


async def valid_prices(log: LogReader, at_ns: int, model: str | None = None) -> Sequence[PriceRow]:
    """Return the prices that are valid at a time, in the order in which they are looked up; with a
    `model`, those of its patterns, also if the log does not have it yet.
    """
    there = [PriceRow(*row) for row in await log.rows(_ROWS)]
    if model is not None:
        upstreams = {row.provider for row in there if row.model == LIST}
        there += _of_new(there, {(upstream, model) for upstream in upstreams})
        there = [row for row in there if matches(row.model, model)]
    begun = [row for row in there if row.model != LIST and row.valid_from_ns <= at_ns]
    return [row for row in begun if row.valid_to_ns is None or row.valid_to_ns > at_ns]


def list_price(prices: Iterable[PriceRow], provider: str) -> ListPrice | None:
    """Return the price at a provider of the model whose rows these are; None if they have none."""
    rows = [row for row in prices if row.provider == provider and not row.service_tier]
    card = {}
    for row in rows:
        if row.rank == rows[0].rank and not row.above_input_tokens:
            card[row.unit] = row.usd_per_million
    given, put_out = card.get("input"), card.get("output")
    if given is None or put_out is None:
        return None
    return ListPrice(Decimal(given), Decimal(put_out))


def own_prices(path: Path | None) -> OwnPrices | None:
    """Return the prices of a file, or of the default one if it is there.

    Raise `UsageError` if one that is named is not there.
    """
    if path is None and not own_file.default_path().is_file():
        return None
    return own_file.read(path or own_file.default_path())


def _of_new(there: Sequence[PriceRow], models: Models) -> list[PriceRow]:
    """Return the package's prices of models for which the table has none of it; none before the
    first update.
    """
    asked = _asked(there)
    new = {(upstream, name) for upstream, name in models if (upstream, name.lower()) not in asked}
    if not new or not asked:
        return []
    try:
        own = own_prices(None)
        found = genai.package_prices([], new, own.providers if own else {})
    except RecorderError:  # the next update says what is wrong
        return []
    return [row for row in found.rows if (row.provider, row.model) not in asked]


def _asked(there: Iterable[PriceRow]) -> set[tuple[str, str]]:
    """Return the models that the package has been asked for, with prices or, as `LIST`, in general."""
    names = ((row.provider, text_of(row.model)) for row in there if row.source == genai.SOURCE)
    return {(upstream, name) for upstream, name in names if name is not None}


def _rows(store: Store) -> list[PriceRow]:
    return [PriceRow(*row) for row in store.ask(_ALL, {})]


def _write(store: Store, changed: Changes) -> None:
    if changed.deleted:
        store.run(_DELETE, [msgspec.structs.asdict(row) for row in changed.deleted])
    if changed.added:
        store.run(_ADD, [msgspec.structs.asdict(row) for row in changed.added])
