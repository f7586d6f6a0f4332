"""The parts of a usage object that several formats share: counts, and the amount that the provider says it charges.

Must not know: prices. An amount is exact: decimal text, made from the digits of the JSON, never from a float.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from recorder.model.prices import usd
from recorder.wire.dialects.json_values import BIGINT, Object, whole

Path = tuple[str, ...]

_AMOUNTS: tuple[tuple[Path, int], ...] = (
    (("cost_in_usd_ticks",), 10),  # xAI: https://docs.x.ai/developers/cost-tracking, 1 USD is 10^10 ticks
    (("cost", "total_cost"), 0),  # Perplexity
    (("cost",), 0),  # OpenRouter, Vercel, LiteLLM
)
"""By path in the usage object, the amounts in US dollars, and the power of ten by which they are divided."""


class ReportedCost(NamedTuple):
    """The amount that a provider or gateway reports for a response, in US dollars as decimal text, and its place."""

    usd: str | None = None
    source: str | None = None  # path in the usage object, with dots


_DIGITS = len(str(BIGINT))

INPUT: tuple[Path, ...] = (("prompt_tokens",), ("input_tokens",), ("promptTokenCount",))
OUTPUT: tuple[Path, ...] = (("completion_tokens",), ("output_tokens",), ("candidatesTokenCount",))
TOTAL: tuple[Path, ...] = (("total_tokens",), ("totalTokenCount",))
CACHE_READ: tuple[Path, ...] = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cache_read_input_tokens"),  # Perplexity
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("cached_tokens",),
    ("cache_read_input_tokens",),
    ("cachedContentTokenCount",),
)
REASONING: tuple[Path, ...] = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("reasoning_tokens",),
    ("thoughtsTokenCount",),
)
"""The places of a count in every API: gateways report under the names of the API that they speak to, not always of that
which they speak. A dialect whose own name is not the first has that before."""


def token_count(value: Any) -> int | None:
    """Return `value` if it is a whole number, as a number or as digits in a text, as SDKs read it."""
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) <= _DIGITS:
        value = int(value)
    return whole(value)


def first_count(usage: Object, paths: Sequence[Path]) -> int | None:
    """Return the count at the first of the paths that has one."""
    return next((count for path in paths if (count := token_count(_at(usage, path))) is not None), None)


def unreadable(usage: Object) -> list[str]:
    """Return the names of the members of a usage object that should be counts, and have a value that is none."""
    return [
        name
        for name, value in usage.items()
        if name.endswith(("_tokens", "TokenCount")) and value is not None and token_count(value) is None
    ]


def reported_cost(usage: Object, data: bytes, place: Path) -> ReportedCost:
    """Return the cost that a usage object reports, if it does.

    `data` is the payload that it was decoded from and `place` its path in there: a number with a fraction is read again
    from its digits, which a float may have changed.
    """
    for path, divided in _AMOUNTS:
        value = _at(usage, path)
        if isinstance(value, float):
            value = _exact(data, (*place, *path))
        amount = usd(value, divided)
        if amount is not None:
            return ReportedCost(amount, ".".join(("usage", *path)))
    return ReportedCost()


def _at(value: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _exact(data: bytes, path: Path) -> Decimal | None:
    """Return the number at a path of JSON, from its digits."""
    try:
        value = _at(json.loads(data, parse_float=Decimal), path)
    except (ValueError, RecursionError, InvalidOperation):
        return None
    return value if isinstance(value, Decimal) else None
