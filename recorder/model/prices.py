"""Prices and amounts: the row of a price, its key, and an amount of money as exact decimal text.

The log declares a table of such rows, and price lists are made into them: `recorder.prices.catalog`
has the rules of what stands in them.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, Literal, get_args

import msgspec

AMOUNT_LIMIT = 10**9
"""US dollars for one response: more is not an amount."""

DIGITS_LIMIT = 30
"""Decimal places of an amount. Reports have up to 19 of them; a picodollar, which prices are
counted in, is 12.
"""

SUBSCRIPTIONS = ("chatgpt",)
"""The names of upstreams where a token has no price."""

Unit = Literal[
    "input",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "input_audio",
    "cache_read_audio",
    "input_image",
    "input_video",
    "output",
    "reasoning",
    "output_audio",
    "output_image",
    "output_video",
    "citation",
    "web_search",
    "request",
]
"""Tokens of a kind, and of `web_search` and `request` one of them."""

UNITS: tuple[Unit, ...] = get_args(Unit)


class PriceRow(msgspec.Struct, frozen=True):
    """The price of one unit, for the models that a pattern matches, at one provider, in one period."""

    provider: str
    rank: int
    model: str
    unit: str
    service_tier: str  # empty: the standard one, and any other that has no price
    above_input_tokens: int  # the price is for requests with more than so many input tokens
    daily_from_s: int  # seconds of the day in UTC; 0 to 86400 is all day
    daily_to_s: int
    valid_from_ns: int
    valid_to_ns: int | None
    usd_per_million: str | None  # None: no price, and no other pattern is to match
    picousd: int | None
    source: str
    source_version: str


KEY = (  # of the table; the order is that in which rows are looked up
    "provider",
    "rank",
    "model",
    "unit",
    "service_tier",
    "above_input_tokens",
    "daily_from_s",
    "valid_from_ns",
)


def usd(value: Any, divided: int = 0) -> str | None:
    """Return an amount as plain decimal text, without an exponent; None if `value` is none.

    `value` is an integer, a decimal or decimal text. It is divided by 10 to the power of `divided`.
    """
    if not isinstance(value, int | str | Decimal) or isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) > 2 * DIGITS_LIMIT:
        return None
    try:
        sign, digits, exponent = Decimal(value).as_tuple()
    except (InvalidOperation, ValueError):
        return None
    if sign or not isinstance(exponent, int) or len(digits) > 2 * DIGITS_LIMIT:
        return None
    exponent -= divided
    if not -2 * DIGITS_LIMIT <= exponent <= DIGITS_LIMIT:
        return None
    amount = Decimal((0, digits, exponent))
    if amount >= AMOUNT_LIMIT:
        return None
    text = f"{amount:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text if len(text.partition(".")[2]) <= DIGITS_LIMIT else None
