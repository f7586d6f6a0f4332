"""A price list as rows: patterns of models, units, and the exact arithmetic of prices.

Rules of this file:

* Pure: no clock, no database, no file.
* A row is one price: of one unit, for the models that a pattern matches, at one provider, in one
  period. Rows that differ in nothing but the unit are a card: they are valid together, and an
  exchange is priced by exactly one card.
* A pattern is that of SQL's LIKE in lower case, with `\\` as escape, and `#` for one digit, as
  dates of models need it. Of several patterns that match a model, the one with the lowest rank
  counts.
* A price is an exact decimal of USD for a million units, and besides it a whole number of
  picodollars (10**-12 USD) for one unit: a sum of products of whole numbers is exact in every
  engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec

from recorder.model.prices import PriceRow, Unit

PICO = Decimal(10**6)  # picodollars for one unit, of a dollar for a million
# USD a million. With at most 10**8 tokens and 10**6 searches in an exchange (`costs`), its sum fits
# a bigint.
TOKEN_LIMIT, CALL_LIMIT = Decimal(25_000), Decimal(1_000_000)
NAME_LIMIT = 200  # characters of a name or a pattern: it is in a key of the table
DECIMALS_LIMIT = 60  # of a price: six decimals count, the rest is noise of floats
# units that are not tokens: lists have the price of a thousand
CALLS = frozenset[Unit]({"web_search", "request"})
DAY_S = 86_400
NS = 10**9
# of the first price of one's own: all of them come before those of the package
OWN_RANK = -1_000_000
DATED_RANK = 2 * OWN_RANK  # of the first of those that have dates, and so also count for the past
FILLER_RANK = 1_000_000  # of the first row that only prices what had no price before

_WILD = re.compile(r"(?<!\\)[%_#]")


class Amount(msgspec.Struct, frozen=True):
    """A price of one unit in both of its forms."""

    usd_per_million: str | None
    picousd: int | None


NO_PRICE = Amount(None, None)

Card = Mapping[Unit, Amount]


class Period(msgspec.Struct, frozen=True):
    """A card with all that decides when it counts, but for the model."""

    card: Card
    service_tier: str = ""
    above_input_tokens: int = 0
    daily: tuple[int, int] = (0, DAY_S)
    valid_from_ns: int = 0
    valid_to_ns: int | None = None


def amount(unit: Unit, listed: Decimal) -> Amount:
    """Return the price of a unit.

    It is listed in USD for a million tokens, or for a thousand calls.

    Raise `ValueError` if it is negative, not finite, above the limit, or too long. A price with
    more than six decimals is rounded to whole picodollars: such decimals are noise of floats.
    """
    usd_per_million, limit = listed, TOKEN_LIMIT
    if unit in CALLS:
        usd_per_million, limit = listed * 1_000, CALL_LIMIT
    if not usd_per_million.is_finite() or not 0 <= usd_per_million <= limit:
        raise ValueError(f"a price is 0 to {limit:,} USD for a million")
    if (
        usd_per_million.adjusted() < -DECIMALS_LIMIT
        or len(usd_per_million.as_tuple().digits) > DECIMALS_LIMIT
    ):
        raise ValueError(f"a price has up to {DECIMALS_LIMIT} decimals")
    text = f"{abs(usd_per_million):f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return Amount(text or "0", int((usd_per_million * PICO).to_integral_value(ROUND_HALF_EVEN)))


def rows_of(
    provider: str, rank: int, model: str, period: Period, source: str, version: str
) -> list[PriceRow]:
    """Return the rows of a card, one for each unit."""
    place = (
        period.service_tier,
        period.above_input_tokens,
        *period.daily,
        period.valid_from_ns,
        period.valid_to_ns,
    )
    return [
        PriceRow(
            provider, rank, model, unit, *place, each.usd_per_million, each.picousd, source, version
        )
        for unit, each in period.card.items()
    ]


# -- patterns


def literal(text: str) -> str:
    """Return the pattern, or a part of one, that matches a text alone."""
    # a `#` itself cannot be escaped: any character
    return re.sub(r"([\\%_])", r"\\\1", text.lower()).replace("#", "_")


def text_of(pattern: str) -> str | None:
    """Return the text that a literal pattern matches; None for another one."""
    return re.sub(r"\\(.)", r"\1", pattern) if is_literal(pattern) else None


def is_literal(pattern: str) -> bool:
    """Return whether a pattern matches one text only."""
    return not _WILD.search(pattern)


def ranks(patterns: Sequence[str]) -> list[int]:
    """Return ranks for patterns of which the first that matches counts: 0, 1, 2 …

    Patterns that no text can match both may have the same rank. So a pattern that a source adds
    shifts the ranks of few others, and their rows in the table stay as they are.
    """
    found: list[int] = []
    for number, pattern in enumerate(patterns):
        before = (
            rank
            for rank, other in zip(found, patterns[:number], strict=True)
            if may_overlap(pattern, other)
        )
        found.append(1 + max(before, default=-1))
    return found


def may_overlap(one: str, other: str) -> bool:
    """Return whether some text may match both patterns; False only if none does."""
    if one == other:
        return True
    begins, ends = (_edge(one, 1), _edge(other, 1)), (_edge(one, -1), _edge(other, -1))
    return _agree(*begins) and _agree(*ends) and not (is_literal(one) and is_literal(other))


def _edge(pattern: str, step: int) -> list[str]:
    """Return the characters of a pattern before its first `%`, or from its end back to its last
    one; "" ends a whole pattern, so that a literal is not the beginning of a longer one.
    """
    characters = re.findall(r"\\.|.", pattern)[::step]
    return characters[: characters.index("%")] if "%" in characters else [*characters, ""]


def _agree(one: Sequence[str], other: Sequence[str]) -> bool:
    return all(
        a == b or ("_" in (a, b) and "" not in (a, b)) or _digit(a, b) or _digit(b, a)
        for a, b in zip(one, other, strict=False)
    )


def _digit(wild: str, character: str) -> bool:
    return wild == "#" and (character.isdigit() or character == "_")


def matches(pattern: str, model: str) -> bool:
    """Return whether a pattern matches the name of a model, as the view `costs` finds it."""
    return re.fullmatch(_regex(pattern), model.lower(), re.DOTALL) is not None


def _regex(pattern: str) -> str:
    wild = {"%": ".*", "_": ".", "#": "[0-9]"}
    return "".join(
        wild.get(each) or re.escape(each.removeprefix("\\"))
        for each in re.findall(r"\\.|.", pattern)
    )
