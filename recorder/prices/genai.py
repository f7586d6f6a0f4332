"""The prices of the installed package genai-prices, as rows.

Rules of this file:

* The package is optional (the extra `pricing`) and takes a quarter of a second to import: it is
  imported when it is asked, and at no other time. Nothing here uses the network.
* The package decides: its own lookup says which of its models a name is, its own function what is
  valid for the dates, times of day and variants of a price. Here that is only written as rows.
* A row is of one model of one upstream, as the log has their names. Besides, an upstream whose
  prices the package has, has a row for the model "", which is none: so it is known that there is a
  list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from recorder.errors import missing_extra
from recorder.model.prices import PriceRow, Unit
from recorder.prices.catalog import (
    DAY_S,
    NAME_LIMIT,
    NO_PRICE,
    NS,
    Period,
    amount,
    literal,
    rows_of,
)
from recorder.wire.providers import BY_NAME

SOURCE = "genai-prices"
LIST = ""
"""The model of the row that says that there is a list."""

_ANY_DAY = datetime(2000, 1, 2, tzinfo=UTC)

_UNITS: Mapping[str, Unit] = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "input_audio_mtok": "input_audio",
    "cache_audio_read_mtok": "cache_read_audio",
    "input_image_mtok": "input_image",
    "input_video_mtok": "input_video",
    "output_mtok": "output",
    "output_reasoning_mtok": "reasoning",
    "output_audio_mtok": "output_audio",
    "output_image_mtok": "output_image",
    "output_video_mtok": "output_video",
    "output_citation_mtok": "citation",
    "web_searches_kcount": "web_search",
    "requests_kcount": "request",
}
"""Units by the package's keys of prices."""

_TOKENS = {"input", "output"}  # a model without either is not priced by what responses report
# Of the conditions of its variants, those that are a tier of service; others (a route, a type of
# search) are in no log.
_TIERS = ("service_tier", "processing", "speed")


Models = Collection[tuple[str, str]]
"""Upstreams and models, by their names."""


class PackagePrices(NamedTuple):
    """The rows for some models, and the upstreams that the package does not know."""

    rows: list[PriceRow]
    unpriced: list[str]


def version() -> str:
    """Return the version of the package. Raise `RecorderError` if it is not installed."""
    try:
        import genai_prices
    except ImportError:
        raise missing_extra("The list of prices of providers", "pricing") from None
    return str(genai_prices.__version__)


def package_prices(
    upstreams: Iterable[str], models: Models, aliases: Mapping[str, str]
) -> PackagePrices:
    """Return the prices of the package for models, and whether it has a list for each upstream.

    `aliases` gives the provider of an upstream whose name does not say it.
    """
    installed = version()
    from genai_prices.data import providers
    from genai_prices.data_snapshot import find_provider_by_id

    wanted: dict[str, set[str]] = {upstream: set() for upstream in (*upstreams, *aliases)}
    for upstream, model in models:
        wanted.setdefault(upstream, set()).add(model.lower())
    found = PackagePrices([], [])
    for upstream, names in sorted(wanted.items()):
        provider = find_provider_by_id(providers, aliases.get(upstream) or _price_name(upstream))
        if provider is None:
            found.unpriced.append(upstream)
            continue
        found.rows.extend(
            rows_of(upstream, 0, LIST, Period({"input": NO_PRICE}), SOURCE, installed)
        )
        for name in sorted(names):
            is_short = 0 < len(name) <= NAME_LIMIT
            known = (
                provider.find_model(_in_list(name), all_providers=providers) if is_short else None
            )
            # What a provider falls back to has tiers of its own provider.
            has_tiers = any(known is model for model in provider.models)
            for period in _periods(known) if known is not None else ():
                if has_tiers or not period.service_tier:
                    found.rows.extend(
                        rows_of(upstream, 0, literal(name), period, SOURCE, installed)
                    )
    return found


def _in_list(model: str) -> str:
    """Return the name that a model has in a list: Amazon names one by its resource too, of which it
    is the end.
    """
    return model.rpartition("/")[2] if model.startswith("arn:") else model


def _price_name(upstream: str) -> str:
    """Return the package's name of the company that an upstream is."""
    company = BY_NAME.get(upstream)
    if company is None or company.price_name is None:
        return upstream
    return company.price_name


def _periods(model: Any) -> Iterator[Period]:
    """Yield the cards of a model: for each tier of service, span of dates, time of day and size of
    the input.
    """
    yield from _of_tier(model, "", {})
    tiers = {
        tier: variant.when
        for variant in model.price_variants or ()
        if (tier := _tier(variant.when))
    }
    for tier, context in tiers.items():
        yield from _of_tier(model, tier, context)


def _tier(when: Mapping[str, str]) -> str | None:
    [(name, tier), *more] = when.items()
    return tier if name in _TIERS and not more else None


def _of_tier(model: Any, tier: str, context: Mapping[str, str]) -> Iterator[Period]:
    """Yield the cards of one tier; none for the time in which its prices are the standard ones.

    Spans of time with the same prices are one.
    """
    conditional = model.prices if isinstance(model.prices, list) else []
    constraints = [each.constraint for each in (*conditional, *(model.price_variants or ()))]
    dates = sorted({each.start_date for each in constraints if hasattr(each, "start_date")})
    times = sorted({0, DAY_S}.union(*map(_times, constraints)))
    midnights = [datetime.combine(each, time(), UTC) for each in dates]
    # Before the first date, the prices are those of the day before.
    starts = [(midnights[0] if midnights else _ANY_DAY) - timedelta(days=1), *midnights]
    bounds = [0, *(int(each.timestamp()) * NS for each in midnights), None]
    # Of a day with the standard prices all the time, a tier has no card.
    shown = [
        not context or any(_differs(model, start, second, context) for second in times[:-1])
        for start in starts
    ]
    for daily in pairwise(times):
        prices = []
        for start, is_shown in zip(starts, shown, strict=True):
            at = start + timedelta(seconds=daily[0])
            prices.append(model.get_prices(at, context) if is_shown else None)
        for first, last, price in _runs(prices):
            yield from _levels(price, Period({}, tier, 0, daily, bounds[first] or 0, bounds[last]))


def _differs(model: Any, start: datetime, second: int, context: Mapping[str, str]) -> bool:
    """Return whether a tier has another price than the standard one at a time."""
    at = start + timedelta(seconds=second)
    return bool(model.get_prices(at, context) != model.get_prices(at))


def _times(constraint: Any) -> Iterator[int]:
    """Yield the seconds of a day at which a time of day begins and ends."""
    if hasattr(constraint, "start_time"):
        yield from map(_seconds, (constraint.start_time, constraint.end_time))


def _seconds(at: time) -> int:
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    utc = datetime.combine(datetime(2000, 1, 2), aware).astimezone(UTC)
    return utc.hour * 3600 + utc.minute * 60 + utc.second


def _runs(prices: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
    """Yield equal neighbours as the number of the first, that after the last, and their value."""
    first = 0
    for number in range(1, len(prices) + 1):
        if number == len(prices) or prices[number] != prices[first]:
            yield first, number, prices[first]
            first = number


def _levels(price: Any, period: Period) -> Iterator[Period]:
    """Yield a card for each size of the input above which a price changes; none if tokens have no
    price.
    """
    prices = vars(price) if price is not None else {}
    given = {
        _UNITS[key]: value for key, value in prices.items() if key in _UNITS and value is not None
    }
    if not _TOKENS & given.keys():
        return
    sizes = {0}
    for value in given.values():
        sizes.update(tier.start for tier in getattr(value, "tiers", ()))
    for size in sorted(sizes):
        card = {unit: amount(unit, _reached(value, size)) for unit, value in given.items()}
        yield msgspec.structs.replace(period, card=card, above_input_tokens=size)


def _reached(value: Any, size: int) -> Decimal:
    """Return the price of requests with more than `size` input tokens: as in the package, of all
    their tokens.
    """
    price = value
    if not isinstance(value, Decimal):
        price = value.base
        for tier in value.tiers if size else ():
            if tier.start <= size:
                price = tier.price
    return Decimal(price)
