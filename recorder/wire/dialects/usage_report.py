"""The parts of a usage object that several formats share: counts, and the amount that the provider
says it charges.

Must not know: prices. An amount is exact: decimal text, made from the digits of the JSON, never
from a float.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from recorder.model.facts import Usage, UsageDetails
from recorder.model.prices import usd
from recorder.wire.dialects.json_values import (
    BIGINT,
    Object,
    Places,
    first_at,
    member,
    objects_in,
    whole,
)

_AMOUNTS = (
    # xAI: https://docs.x.ai/developers/cost-tracking, 1 USD is 10^10 ticks
    ("cost_in_usd_ticks", 10),
    ("cost.total_cost", 0),  # Perplexity
    ("cost", 0),  # OpenRouter, Vercel, LiteLLM
)
"""By place in the usage object, the amounts in US dollars, and the power of ten by which they are
divided.
"""


class ReportedCost(NamedTuple):
    """The amount that a provider or gateway reports for a response, in US dollars as decimal text,
    and its place.
    """

    usd: str | None = None
    source: str | None = None  # path in the usage object, with dots


_DIGITS = len(str(BIGINT))

COUNTS = """
input_tokens prompt_tokens input_tokens promptTokenCount
cache_read_input_tokens prompt_tokens_details.cached_tokens input_tokens_details.cached_tokens
cache_read_input_tokens input_tokens_details.cache_read_input_tokens prompt_cache_hit_tokens
cache_read_input_tokens cached_tokens cache_read_input_tokens cachedContentTokenCount
output_tokens completion_tokens output_tokens candidatesTokenCount
reasoning_output_tokens completion_tokens_details.reasoning_tokens
reasoning_output_tokens output_tokens_details.reasoning_tokens reasoning_tokens thoughtsTokenCount
total_tokens total_tokens totalTokenCount
"""
"""The places of a count in every API, as a table of `places`: gateways report under the names of
the API that they speak to, not always of that which they speak. Of the counts of what was cached,
the third is that of Perplexity, the fourth that of DeepSeek."""


def token_count(value: Any, *names: str) -> int | None:
    """Return a value if it is a whole number, as a number or as digits in a text, as SDKs read it."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) <= _DIGITS:
        value = int(value)
    return whole(value)


def counts_at(usage: Object, places: Places) -> dict[str, Any]:
    """Return the counts of a usage object, by what they are of."""
    return {name: first_at(token_count, usage, paths) for name, paths in places.items()}


def details_at(
    usage: Object, places: Places, cost: ReportedCost, inference_geo: str | None = None
) -> UsageDetails:
    """Return the counts that only some vendors and models have, and the cost."""
    counts = counts_at(usage, places)
    return UsageDetails(
        **counts,
        reported_cost_usd=cost.usd,
        reported_cost_source=cost.source,
        inference_geo=inference_geo,
    )


def unreadable(usage: Object) -> list[str]:
    """Return the names of the members of a usage object that should be counts, and have a value
    that is none.
    """
    return [
        name
        for name, value in usage.items()
        if name.endswith(("_tokens", "TokenCount"))
        and value is not None
        and token_count(value) is None
    ]


def reported_cost(usage: Object, data: bytes, place: str) -> ReportedCost:
    """Return the cost that a usage object reports, if it does.

    `data` is the payload that it was decoded from and `place` its path in there: a number with a
    fraction is read again from its digits, which a float may have changed.
    """
    for path, divided in _AMOUNTS:
        value = member(usage, *path.split("."))
        if isinstance(value, float):
            value = exact_amount(data, f"{place}.{path}")
        amount = usd(value, divided)
        if amount is not None:
            return ReportedCost(amount, f"usage.{path}")
    return ReportedCost()


def exact_amount(data: bytes, path: str) -> Decimal | None:
    """Return the number at a path of JSON, from its digits."""
    try:
        value = member(json.loads(data, parse_float=Decimal, parse_int=Decimal), *path.split("."))
    except (ValueError, RecursionError, InvalidOperation):
        return None
    return value if isinstance(value, Decimal) else None


# -- as Google counts


def known_sum(*counts: int | None) -> int | None:
    """Return the sum of the counts that are known; None if none is."""
    known = [count for count in counts if count is not None]
    return whole(sum(known)) if known else None


def usage_of_google(counts: dict[str, int | None]) -> Usage:
    """Return counts as usage: thoughts are beside the output, and what the provider's tools read
    (`tool_use`) is beside the input.
    """
    given, written = counts["input_tokens"], counts["output_tokens"]
    counts["input_tokens"] = known_sum(given, counts.pop("tool_use"))
    counts["output_tokens"] = known_sum(written, counts["reasoning_output_tokens"])
    return Usage(**counts)


class ModalityLists(NamedTuple):
    """Where a report has lists of tokens by modality: their names, and that of the count in them."""

    tokens: str
    input: Sequence[str]
    cached: Sequence[str]
    output: Sequence[str]

    def details(self, usage: Object, web_searches: int | None = None) -> UsageDetails:
        """Return the counts by modality."""
        return UsageDetails(
            input_audio_tokens=self._of(usage, self.input, "audio"),
            cache_read_input_audio_tokens=self._of(usage, self.cached, "audio"),
            input_image_tokens=self._of(usage, self.input, "image", "document"),
            input_video_tokens=self._of(usage, self.input, "video"),
            output_audio_tokens=self._of(usage, self.output, "audio"),
            output_image_tokens=self._of(usage, self.output, "image", "document"),
            output_video_tokens=self._of(usage, self.output, "video"),
            web_searches=web_searches,
        )

    def _of(self, usage: Object, lists: Sequence[str], *modalities: str) -> int | None:
        """Return the tokens of some modalities; None if none of them is listed."""
        counts: list[int | None] = []
        for entry in objects_in([usage], *lists):
            if str(entry.get("modality")).lower() in modalities:
                counts.append(token_count(entry, self.tokens))
        return known_sum(*counts)
