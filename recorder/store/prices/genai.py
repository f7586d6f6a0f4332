"""The prices of the installed package genai-prices, as rows.

Rules of this file:

* The package is optional (the extra `pricing`) and takes a quarter of a second to import: it is
  imported when prices are updated, and at no other time. Nothing here uses the network.
* The package decides: of a text that one of its models equals, its own lookup says which model that is; of the dates,
  times of day and variants of a price, its own function says what is valid. Here that is only written as rows.
* What no row can express is left out and named, never guessed.

Matching, in the order of the ranks of a provider: the texts that models equal; then patterns, in the order of the
models; those with dates once more with the dates written compactly. A regular expression with a negative lookahead is a
pattern without a price before the pattern that it limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from recorder.errors import missing_extra
from recorder.store.prices.catalog import (
    DAY_S,
    NO_PRICE,
    NS,
    Amount,
    Period,
    PriceRow,
    Unit,
    amount,
    compact_date,
    literal,
    ranks,
    rows_of,
)

SOURCE = "genai-prices"
_ANY_DAY = datetime(2000, 1, 2, tzinfo=UTC)

# The package's keys of prices, and how many units one of its prices is for.
_UNITS: Mapping[str, tuple[Unit, int]] = {
    "input_mtok": ("input", 1_000_000),
    "cache_read_mtok": ("cache_read", 1_000_000),
    "cache_write_mtok": ("cache_write", 1_000_000),
    "cache_write_1h_mtok": ("cache_write_1h", 1_000_000),
    "input_audio_mtok": ("input_audio", 1_000_000),
    "cache_audio_read_mtok": ("cache_read_audio", 1_000_000),
    "input_image_mtok": ("input_image", 1_000_000),
    "input_video_mtok": ("input_video", 1_000_000),
    "output_mtok": ("output", 1_000_000),
    "output_reasoning_mtok": ("reasoning", 1_000_000),
    "output_audio_mtok": ("output_audio", 1_000_000),
    "output_image_mtok": ("output_image", 1_000_000),
    "output_video_mtok": ("output_video", 1_000_000),
    "output_citation_mtok": ("citation", 1_000_000),
    "web_searches_kcount": ("web_search", 1_000),
    "requests_kcount": ("request", 1_000),
}
_TOKENS = {"input", "output"}  # a model without either is not priced by what responses report
# Of the conditions of its variants, those that are a tier of service; others (a route, a type of search) are in no log.
_TIERS = ("service_tier", "processing", "speed")
_LOOKAHEAD = re.compile(r"\^\(\?!\.\*([-\w\[\]]+?)\(\?:\$\|-\)\)")
_TOKEN = re.compile(
    r"""\\d(?:\{(?P<times>\d+)\})?  |  \\(?P<escaped>\W)  |  \[(?P<set>[^\]^\\-]*-?[^\]^\\-]*)\]
    |  \((?P<option>[^()|?*+]*)\)\?  |  (?P<plain>[-\w/:@=,])""",
    re.VERBOSE,
)


class PackagePrices(NamedTuple):
    """The rows for some upstreams, and what could not be expressed in rows."""

    rows: list[PriceRow]
    unpriced: list[str]  # upstreams that the package does not know
    left_out: list[str]  # models whose pattern no row can have


def version() -> str:
    """Return the version of the package. Raise `RecorderError` if it is not installed."""
    try:
        import genai_prices
    except ImportError:
        raise missing_extra("The list of prices of providers", "pricing") from None
    return str(genai_prices.__version__)


def package_prices(upstreams: Iterable[str], aliases: Mapping[str, str]) -> PackagePrices:
    """Return the prices of the package for upstreams, by their names.

    `aliases` gives the provider of an upstream whose name does not say it.
    """
    installed = version()
    from genai_prices.data import providers
    from genai_prices.data_snapshot import find_provider_by_id

    rows: list[PriceRow] = []
    unpriced, left_out = [], dict[str, None]()
    cards: dict[int, list[Period]] = {}
    for name in sorted({*upstreams, *aliases}):
        provider = find_provider_by_id(providers, aliases.get(name, name))
        if provider is None:
            unpriced.append(name)
            continue
        for match in _Matching(provider, providers, left_out).matches():
            rows += _rows(name, match, cards, installed)
    return PackagePrices(rows, unpriced, list(left_out))


class _Match(NamedTuple):
    """A pattern with its rank, and the model that it stands for; None of a pattern without a price."""

    rank: int
    pattern: str
    model: Any
    has_variants: bool


def _rows(name: str, match: _Match, cards: dict[int, list[Period]], installed: str) -> Iterator[PriceRow]:
    periods = [Period({"input": NO_PRICE})]
    if match.model is not None:
        if id(match.model) not in cards:
            cards[id(match.model)] = list(_periods(match.model))
        periods = cards[id(match.model)]
    for period in periods:
        if match.has_variants or not period.service_tier:
            yield from rows_of(name, match.rank, match.pattern, period, SOURCE, installed)


# -- models


class _Clause(NamedTuple):
    """One alternative of a model's match that is no equality."""

    model: Any
    clause: Any


class _Matching:
    """The models of one provider, those that it falls back to included, and their patterns."""

    def __init__(self, provider: Any, providers: Sequence[Any], left_out: dict[str, None]) -> None:
        by_id = {each.id: each for each in providers}
        fallbacks = [by_id[each] for each in provider.fallback_model_providers or () if each in by_id]
        self._own = {id(model) for model in provider.models}
        self._name, self._left_out = provider.id, left_out
        self._equal: dict[str, tuple[int, Any]] = {}
        self._clauses: list[tuple[int, _Clause]] = []
        models = (model for each in (provider, *fallbacks) for model in each.models)
        for place, model in enumerate(models):
            for clause in _alternatives(model.match):
                if hasattr(clause, "equals"):
                    self._equal.setdefault(clause.equals.lower(), (place, model))
                else:
                    self._clauses.append((place, _Clause(model, clause)))

    def matches(self) -> list[_Match]:
        """Return the patterns with their ranks: 0 for literal ones, which no two of have in common."""
        texts = dict.fromkeys(self._equal)
        texts.update(dict.fromkeys(filter(None, map(compact_date, texts))))
        found = [self._match(0, literal(text), self._owner(text)) for text in texts if self._is_needed(text)]
        wild = [each for _, clause in self._clauses for each in self._patterns(clause)]
        wild += [(compact, model) for pattern, model in wild if (compact := compact_date(pattern))]
        once: dict[str, Any] = {}
        for pattern, model in wild:
            once.setdefault(pattern, model)
        placed = zip(ranks(list(once)), once.items(), strict=True)
        return found + [self._match(1 + rank, pattern, model) for rank, (pattern, model) in placed]

    def _match(self, rank: int, pattern: str, model: Any) -> _Match:
        return _Match(rank, pattern, model, id(model) in self._own)

    def _owner(self, text: str) -> Any:
        """Return the first model that matches a text, or the same with its dates as the package writes them."""
        return self._first(text) or self._first(_with_dashes(text))

    def _first(self, text: str) -> Any:
        place, model = self._equal.get(text, (len(self._clauses) + len(self._equal), None))
        wild = next(((n, each.model) for n, each in self._clauses if each.clause.is_match(text)), (place, model))
        return wild[1] if wild[0] < place else model

    def _is_needed(self, text: str) -> bool:
        """Return whether a text needs a pattern, since the first clause that matches it is of another model."""
        first = next((each.model for _, each in self._clauses if each.clause.is_match(text)), None)
        return first is None or first is not self._owner(text)

    def _patterns(self, clause: _Clause) -> Iterator[tuple[str, Any]]:
        """Yield the patterns of a clause, each with its model, or with None if it excludes."""
        try:
            yield from [(pattern, None) for pattern in _excluded(clause.clause)]
            yield from [(pattern, clause.model) for pattern in _included(clause.clause)]
        except ValueError:
            self._left_out[f"{self._name}: {clause.model.id}"] = None


def _alternatives(clause: Any) -> Iterator[Any]:
    for each in getattr(clause, "or_", None) or [clause]:
        yield from [each] if each is clause else _alternatives(each)


def _included(clause: Any) -> list[str]:
    """Return the patterns that together match what a clause matches. Raise `ValueError` if none can."""
    if hasattr(clause, "and_"):
        wanted = [each for each in clause.and_ if not _lookahead(each)]
        if len(wanted) != 1:
            raise ValueError("a conjunction")
        return _included(wanted[0])
    if hasattr(clause, "starts_with"):
        return [f"{literal(clause.starts_with)}%"]
    if hasattr(clause, "ends_with"):
        return [f"%{literal(clause.ends_with)}"]
    if hasattr(clause, "contains"):
        return [f"%{literal(clause.contains)}%"]
    if hasattr(clause, "equals"):
        return [literal(clause.equals)]
    return _expanded(clause.regex)


def _excluded(clause: Any) -> list[str]:
    """Return the patterns of what a clause must not match although its other half does."""
    if not hasattr(clause, "and_"):
        return []
    [begin] = {each.starts_with for each in clause.and_ if hasattr(each, "starts_with")} or {""}
    words = [word for each in clause.and_ if (word := _lookahead(each))]
    return [f"{literal(begin)}%{literal(word)}{end}" for word in words for end in ("", "-%")]


def _lookahead(clause: Any) -> str | None:
    """Return the word that must not be in a text, of `^(?!.*-[tT][tT][sS](?:$|-))`."""
    found = _LOOKAHEAD.fullmatch(getattr(clause, "regex", ""))
    return re.sub(r"\[(\w)\w?\]", r"\1", found[1]).lower() if found else None


def _expanded(regex: str) -> list[str]:
    """Return the patterns for a regular expression of digits, characters and options. Raise `ValueError` for others."""
    if not regex.startswith("^"):
        raise ValueError("a regular expression that begins anywhere")
    found = _parts(regex[1:].removesuffix("$"))
    return found if regex.endswith("$") else [f"{pattern}%" for pattern in found]


def _parts(regex: str) -> list[str]:
    found, pos = [""], 0
    while pos < len(regex):
        token = _TOKEN.match(regex, pos)
        if token is None:
            raise ValueError("a regular expression of another kind")
        pos = token.end()
        if token["set"] is not None:
            ways = [literal(each) for each in token["set"]]
        elif token["option"] is not None:
            ways = ["", *_parts(token["option"])]
        elif (one := token["escaped"] or token["plain"]) is not None:
            ways = [literal(one)]
        else:
            ways = ["#" * int(token["times"] or 1)]
        found = [begin + way for begin in found for way in ways]
    return found


def _with_dashes(text: str) -> str:
    return re.sub(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=[-:]|$)", r"-\1-\2-\3", text)


# -- prices of a model


def _periods(model: Any) -> Iterator[Period]:
    """Yield the cards of a model: for each tier of service, span of dates, time of day and size of the input."""
    yield from _of_tier(model, "", {})
    tiers = {tier: variant.when for variant in model.price_variants or () if (tier := _tier(variant.when))}
    for tier, context in tiers.items():
        yield from _of_tier(model, tier, context)


def _tier(when: Mapping[str, str]) -> str | None:
    [(name, tier), *more] = when.items()
    return tier if name in _TIERS and not more else None


def _of_tier(model: Any, tier: str, context: Mapping[str, str]) -> Iterator[Period]:
    """Yield the cards of one tier; none for the time in which its prices are the standard ones.

    Spans of time with the same prices are one.
    """
    constraints = [each.constraint for each in (*_conditional(model), *(model.price_variants or ()))]
    dates = sorted({each.start_date for each in constraints if hasattr(each, "start_date")})
    times = sorted({0, DAY_S, *(_seconds(at) for each in constraints for at in _times(each))})
    midnights = [datetime.combine(each, time(), UTC) for each in dates]
    # Before the first date, the prices are those of the day before.
    starts = [(midnights[0] if midnights else _ANY_DAY) - timedelta(days=1), *midnights]
    bounds = [0, *(int(each.timestamp()) * NS for each in midnights), None]
    # Of a day with the standard prices all the time, a tier has no card.
    shown = [not context or any(_differs(model, start, second, context) for second in times[:-1]) for start in starts]
    for daily in pairwise(times):
        at = [start + timedelta(seconds=daily[0]) for start in starts]
        prices = [
            model.get_prices(each, context) if is_shown else None for each, is_shown in zip(at, shown, strict=True)
        ]
        for first, last, price in _runs(prices):
            yield from _levels(price, Period({}, tier, 0, daily, bounds[first] or 0, bounds[last]))


def _differs(model: Any, start: datetime, second: int, context: Mapping[str, str]) -> bool:
    """Return whether a tier has another price than the standard one at a time."""
    at = start + timedelta(seconds=second)
    return bool(model.get_prices(at, context) != model.get_prices(at))


def _conditional(model: Any) -> Sequence[Any]:
    return model.prices if isinstance(model.prices, list) else ()


def _times(constraint: Any) -> Iterator[time]:
    if hasattr(constraint, "start_time"):
        yield from (constraint.start_time, constraint.end_time)


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
    """Yield a card for each size of the input above which a price changes; none if tokens have no price."""
    prices = vars(price) if price is not None else {}
    given = {_UNITS[key]: value for key, value in prices.items() if key in _UNITS and value is not None}
    if not _TOKENS & {unit for unit, _ in given}:
        return
    sizes = sorted({0, *(tier.start for value in given.values() for tier in getattr(value, "tiers", ()))})
    for size in sizes:
        card: dict[Unit, Amount] = {unit: _amount(unit, value, size, per) for (unit, per), value in given.items()}
        yield msgspec.structs.replace(period, card=card, above_input_tokens=size)


def _amount(unit: Unit, value: Any, size: int, per: int) -> Amount:
    """Return the price of requests with more than `size` input tokens: as in the package, of all their tokens."""
    if not isinstance(value, Decimal):
        reached = [tier.price for tier in value.tiers if tier.start <= size and size]
        value = reached[-1] if reached else value.base
    return amount(unit, value * 1_000_000 / per)
