"""The counts of tokens of an interaction. Thoughts are beside the output, and what the provider's
tools read is beside the input.
"""

from __future__ import annotations

from recorder.model.facts import Usage, UsageDetails, UsageReported
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    object_,
    objects,
    objects_in,
    places,
    whole,
)
from recorder.wire.dialects.usage_report import counts_at, token_count

_COUNTS = places("""
input_tokens total_input_tokens
tool_use total_tool_use_tokens
cache_read_input_tokens total_cached_tokens
output_tokens total_output_tokens
reasoning_output_tokens total_thought_tokens
total_tokens total_tokens
""")
_INPUT = ("input_tokens_by_modality", "tool_use_tokens_by_modality")
_CACHED = ("cached_tokens_by_modality",)
_OUTPUT = ("output_tokens_by_modality",)


def reports(holder: Object, name: str = "usage") -> list[UsageReported]:
    """Return the report of the tokens of an interaction so far, if there is one."""
    usage = object_(holder, name)
    counts = counts_at(usage, _COUNTS)
    if all(count is None for count in counts.values()):
        return []
    counts["input_tokens"] = _sum(counts["input_tokens"], counts.pop("tool_use"))
    counts["output_tokens"] = _sum(counts["output_tokens"], counts["reasoning_output_tokens"])
    return [UsageReported(Usage(**counts), as_json(usage), _details(usage))]


def _details(usage: Object) -> UsageDetails:
    searches = [
        each
        for each in objects(usage, "grounding_tool_count")
        if each.get("type") == "google_search"
    ]
    return UsageDetails(
        input_audio_tokens=_of_modality(usage, _INPUT, "audio"),
        cache_read_input_audio_tokens=_of_modality(usage, _CACHED, "audio"),
        input_image_tokens=_of_modality(usage, _INPUT, "image", "document"),
        input_video_tokens=_of_modality(usage, _INPUT, "video"),
        output_audio_tokens=_of_modality(usage, _OUTPUT, "audio"),
        output_image_tokens=_of_modality(usage, _OUTPUT, "image", "document"),
        output_video_tokens=_of_modality(usage, _OUTPUT, "video"),
        web_searches=_total(searches, "count"),
    )


def _of_modality(usage: Object, lists: tuple[str, ...], *modalities: str) -> int | None:
    """Return the tokens of some modalities in the lists of these names; None if none of them is
    listed.
    """
    entries = objects_in([usage], *lists)
    return _total([entry for entry in entries if entry.get("modality") in modalities], "tokens")


def _total(entries: list[Object], name: str) -> int | None:
    counts = [token_count(entry, name) for entry in entries]
    known = [count for count in counts if count is not None]
    return whole(sum(known)) if known else None


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return whole(one + other)
