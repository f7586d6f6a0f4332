"""The usage of Anthropic Messages: its counts in the words of all, and which model it is of."""

from __future__ import annotations

from recorder.model.facts import Usage
from recorder.wire.dialects.json_values import Object, object_, objects, text, whole


def normalised(usage: Object) -> Usage:
    """Return the counts, `input_tokens` with those read from the cache and written to it; a total is not sent."""
    fresh, output = whole(usage.get("input_tokens")), whole(usage.get("output_tokens"))
    read, written = whole(usage.get("cache_read_input_tokens")), whole(usage.get("cache_creation_input_tokens"))
    gross = None if fresh is None else whole(fresh + (read or 0) + (written or 0))
    return Usage(
        input_tokens=gross,
        cache_read_input_tokens=read,
        cache_write_input_tokens=written,
        output_tokens=output,
        reasoning_output_tokens=whole(object_(usage.get("output_tokens_details")).get("thinking_tokens")),
        total_tokens=None if gross is None or output is None else whole(gross + output),
    )


def fallback(usage: Object) -> str | None:
    """Return the model that served the response in the place of another, as its part of the usage says."""
    served = [each for each in objects(usage.get("iterations")) if each.get("type") == "fallback_message"]
    return text(served[-1].get("model")) if served else None
