"""The token counts of Chat Completions, in the words of every vendor.

Input includes what was cached. Output includes reasoning, though xAI counts it apart: there, the total says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from recorder.model.facts import Usage, UsageReported
from recorder.wire.dialects.json_values import Object, as_json, object_, objects, whole

_INPUT = "prompt_tokens_details"
_OUTPUT = "completion_tokens_details"

_CACHE_READ = (
    (_INPUT, "cached_tokens"),
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("cached_tokens",),
    ("cache_read_input_tokens",),
)
_CACHE_WRITE = ((_INPUT, "cache_write_tokens"), ("cache_creation_input_tokens",))
_REASONING = ((_OUTPUT, "reasoning_tokens"), ("reasoning_tokens",))


def reported(chunk: Object) -> UsageReported | None:
    """Return the usage of a chunk or a body: at its top, where Groq has it, or in a choice (Moonshot)."""
    places = (chunk, object_(chunk.get("x_groq")), *objects(chunk.get("choices")))
    for place in places:
        if usage := object_(place.get("usage")):
            return UsageReported(normalised(usage), as_json(usage))
    return None


def normalised(usage: Object) -> Usage:
    """Return the six counts."""
    input, output, total = (whole(usage.get(f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    reasoning = _first(usage, _REASONING)
    if reasoning and input is not None and output is not None and total == input + output + reasoning:
        output = whole(output + reasoning)
    return Usage(
        input_tokens=input,
        cache_read_input_tokens=_first(usage, _CACHE_READ),
        cache_write_input_tokens=_first(usage, _CACHE_WRITE),
        output_tokens=output,
        reasoning_output_tokens=reasoning,
        total_tokens=total,
    )


def _first(usage: Object, paths: Sequence[Sequence[str]]) -> int | None:
    for *parents, name in paths:
        place = usage
        for parent in parents:
            place = object_(place.get(parent))
        if (count := whole(place.get(name))) is not None:
            return count
    return None
