"""The table `prices`: read, and updated from the package and from a file of one's own.

Rules of this file:

* An update is one transaction: the rows that it reads are those that it changes.
* The table belongs to no session: a purge and a rebuild leave it as it is.
* Prices are stored for the upstreams that recorder knows by name, that the log has, and that `prices.toml` names. An
  upstream that appears later has no prices until the next update; that one then prices all that was recorded of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from sqlalchemy import bindparam, delete, insert, select

from recorder.errors import RecorderError, UsageError
from recorder.model.prices import SUBSCRIPTIONS
from recorder.store.prices import genai, own_file
from recorder.store.prices.catalog import KEY, PriceRow
from recorder.store.prices.own_file import OwnPrices
from recorder.store.prices.schedule import changes
from recorder.store.queries.reader import LogReader
from recorder.store.schema import exchanges, prices
from recorder.store.sql import Statement
from recorder.store.write.writer import Store
from recorder.wire.dialects import PROVIDERS

_UPSTREAMS = Statement(select(exchanges.c.provider).union(select(prices.c.provider)))
_ROWS = select(prices).order_by(*prices.primary_key.columns)
_ALL = Statement(_ROWS)
_ADD = Statement(insert(prices))
_DELETE = Statement(delete(prices).where(*(prices.c[name] == bindparam(f"key_{name}") for name in KEY)))


class UpdateReport(msgspec.Struct, frozen=True):
    """The effect of an update."""

    sources: list[str]  # with their versions
    providers: list[str]  # that have prices now
    unpriced: list[str]  # upstreams without a price list, but for subscriptions, which need none
    left_out: list[str]  # models of the package whose pattern no row can express
    added: int
    closed: int  # rows that have another end, or are gone; a new price closes one and adds one


def update(store: Store, own: OwnPrices | None, at_ns: int) -> UpdateReport:
    """Bring the table to the prices of the package and of one's own file, from a time on.

    Without the package, own prices are updated alone. Raise `RecorderError` if there are neither, and `UsageError` if
    one's own file names a provider for an upstream that the package does not have.
    """
    sources = [own_file.SOURCE]
    try:
        sources.append(f"{genai.SOURCE} {genai.version()}")
    except RecorderError:
        if own is None:
            raise
    with store.transaction(alone=True):  # two updates at a time would add the same rows
        there = [PriceRow(*row) for row in store.ask(_ALL, {})]
        aliases = own.providers if own else {}
        found = (
            genai.package_prices(_upstreams(store), aliases) if len(sources) > 1 else genai.PackagePrices([], [], [])
        )
        if unknown := [name for name in found.unpriced if name in aliases]:
            raise UsageError(
                f"In prices.toml, `{unknown[0]}` of [providers]: genai-prices has no provider {aliases[unknown[0]]!r}."
            )
        new = [*(own.rows if own else []), *found.rows]
        changed = changes(there, new, [each.partition(" ")[0] for each in sources], at_ns)
        if changed.deleted:
            store.run(_DELETE, [{f"key_{name}": getattr(row, name) for name in KEY} for row in changed.deleted])
        if changed.added:
            store.run(_ADD, [msgspec.structs.asdict(row) for row in changed.added])
    priced = {row.provider for row in new}
    unpriced = sorted(set(found.unpriced) - priced - {*SUBSCRIPTIONS})
    shown = sources if own else sources[1:]
    return UpdateReport(shown, sorted(priced), unpriced, found.left_out, len(changed.added), len(changed.deleted))


def own_prices(path: Path | None) -> OwnPrices | None:
    """Return the prices of a file, or of the default one if it is there. Raise `UsageError` if one that is named is not
    there.
    """
    if path is None and not own_file.default_path().is_file():
        return None
    return own_file.read(path or own_file.default_path())


async def valid_prices(log: LogReader, at_ns: int) -> Sequence[PriceRow]:
    """Return the prices that are valid at a time, in the order in which they are looked up."""
    is_valid = (prices.c.valid_from_ns <= at_ns) & (prices.c.valid_to_ns.is_(None) | (prices.c.valid_to_ns > at_ns))
    return [PriceRow(*row) for row in await log.rows(_ROWS.where(is_valid))]


def _upstreams(store: Store) -> list[str]:
    known = [name for provider in PROVIDERS for name in (provider.name, *provider.other_upstreams)]
    return [*known, *(name for (name,) in store.ask(_UPSTREAMS, {}))]


def rates(rows: Sequence[PriceRow]) -> Mapping[str, str | None]:
    """Return the prices of a card, by unit."""
    return {row.unit: row.usd_per_million for row in rows}
