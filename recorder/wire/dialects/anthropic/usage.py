"""The counts of Anthropic's usage: of a response, and of what it took beside its message.

Must not know: how reports follow each other in a stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from recorder.model.facts import Fact, Iteration, Usage, UsageDetails
from recorder.wire.dialects.decoder import unknown
from recorder.wire.dialects.json_values import Object, text, whole
from recorder.wire.dialects.usage_report import (
    CACHE_READ,
    INPUT,
    OUTPUT,
    REASONING,
    Path,
    ReportedCost,
    first_count,
)

_FRESH: Sequence[Path] = (("input_tokens",),)
_OUTPUT: Sequence[Path] = (("output_tokens",), *OUTPUT)
_OWN_CACHE_READ: Sequence[Path] = (("cache_read_input_tokens",),)  # which `input_tokens` leaves out, as no other does
_CACHE_READ: Sequence[Path] = (*_OWN_CACHE_READ, *CACHE_READ)
_CACHE_WRITE: Sequence[Path] = (("cache_creation_input_tokens",),)
_REASONING: Sequence[Path] = (("output_tokens_details", "thinking_tokens"), *REASONING)


def normalised(usage: Object) -> Usage:
    """Return the counts, `input_tokens` with those read from the cache and written to it; a total is not sent."""
    fresh, output = first_count(usage, _FRESH), first_count(usage, _OUTPUT)
    read, written = first_count(usage, _CACHE_READ), first_count(usage, _CACHE_WRITE)
    gross = first_count(usage, INPUT)  # of another API: what was cached is in it
    if fresh is not None:
        gross = whole(fresh + (first_count(usage, _OWN_CACHE_READ) or 0) + (written or 0))
    return Usage(
        input_tokens=gross,
        cache_read_input_tokens=read,
        cache_write_input_tokens=written,
        output_tokens=output,
        reasoning_output_tokens=first_count(usage, _REASONING),
        total_tokens=None if gross is None or output is None else whole(gross + output),
    )


_WRITTEN_1H = (("cache_creation", "ephemeral_1h_input_tokens"),)


def details(usage: Object, cost: ReportedCost) -> UsageDetails:
    return UsageDetails(
        cache_write_1h_input_tokens=first_count(usage, _WRITTEN_1H),
        web_searches=first_count(usage, (("server_tool_use", "web_search_requests"),)),
        reported_cost_usd=cost.usd,
        reported_cost_source=cost.source,
        inference_geo=text(usage.get("inference_geo")),
    )


# The types of the entries of `usage.iterations`. Source: anthropic-sdk-python, `BetaUsage.iterations`: "A `compaction`
# entry's tokens are not included in the top-level `usage` fields." Nor are an advisor's; real streams add up so.
_COUNTED = frozenset({"message", "fallback_message"})
_NOT_COUNTED = frozenset({"compaction", "advisor_message"})


def beside(iterations: Sequence[Object]) -> tuple[Iteration, ...]:
    """Return the runs whose tokens are not among those of the response."""
    return tuple(_iteration(each) for each in iterations if text(each.get("type")) in _NOT_COUNTED)


def _iteration(entry: Object) -> Iteration:
    return Iteration(entry["type"], text(entry.get("model")), normalised(entry), first_count(entry, _WRITTEN_1H))


def odd_iterations(iterations: Sequence[Object]) -> Sequence[Fact]:
    types = {text(each.get("type")) for each in iterations}
    return [unknown(type) for type in sorted(types - _COUNTED - _NOT_COUNTED, key=str)]


def fallback(iterations: Sequence[Object]) -> str | None:
    """Return the model that served the response instead of another, from the entry of the usage for it."""
    served = [each for each in iterations if each.get("type") == "fallback_message"]
    return text(served[-1].get("model")) if served else None
