"""The row of a price, and its key: what the log declares a table of, and what price lists are made into.

`recorder.store.prices.catalog` has the rules of what stands in them.
"""

from __future__ import annotations

import msgspec


class PriceRow(msgspec.Struct, frozen=True):
    """One row of the table `prices`."""

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


KEY = [
    "provider",
    "rank",
    "model",
    "unit",
    "service_tier",
    "above_input_tokens",
    "daily_from_s",
    "valid_from_ns",
]  # of the table; the order is that in which rows are looked up
