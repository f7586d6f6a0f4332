"""The counts of tokens of an interaction. Thoughts are beside the output, and what the provider's
tools read is beside the input.
"""

from __future__ import annotations

from recorder.model.facts import UsageReported
from recorder.wire.dialects.json_values import Object, as_json, object_, objects, places
from recorder.wire.dialects.usage_report import (
    ModalityLists,
    counts_at,
    known_sum,
    token_count,
    usage_of_google,
)

_COUNTS = places("""
input_tokens total_input_tokens
tool_use total_tool_use_tokens
cache_read_input_tokens total_cached_tokens
output_tokens total_output_tokens
reasoning_output_tokens total_thought_tokens
total_tokens total_tokens
""")
_LISTS = ModalityLists(
    "tokens",
    input=("input_tokens_by_modality", "tool_use_tokens_by_modality"),
    cached=("cached_tokens_by_modality",),
    output=("output_tokens_by_modality",),
)


def reports(holder: Object, name: str = "usage") -> list[UsageReported]:
    """Return the report of the tokens of an interaction so far, if there is one."""
    usage = object_(holder, name)
    counts = counts_at(usage, _COUNTS)
    if all(count is None for count in counts.values()):
        return []
    searches: list[int | None] = []
    for each in objects(usage, "grounding_tool_count"):
        if each.get("type") == "google_search":
            searches.append(token_count(each, "count"))
    details = _LISTS.details(usage, known_sum(*searches))
    return [UsageReported(usage_of_google(counts), as_json(usage), details)]
