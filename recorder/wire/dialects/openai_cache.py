"""The prompt cache of OpenAI, which both of its wire formats have.

Source: OpenAI's guide "Prompt caching", read on 2026-11-23: prompts of 1,024 tokens or more, in steps of 128; a prefix
is kept for 5 to 10 minutes without use, and at most an hour; up to 24 hours with `prompt_cache_retention: "24h"`, which
newer models have without it.
"""

from __future__ import annotations

from recorder.wire.dialects.prompt import CachePolicy

_HOUR = 3600

CACHE = CachePolicy(
    minimums=((r"", 1024),),
    lapses_s=(300, 24 * _HOUR),  # a model may have the longer retention without a word in the request
    retentions={"in_memory": (300, _HOUR), "in-memory": (300, _HOUR), "24h": (24 * _HOUR, 24 * _HOUR)},
)

SUSPECTS = (
    ("prompt_cache_key",),  # goes into the choice of the machine, which has a cache of its own
    ("tool_choice",),
    ("parallel_tool_calls",),
    ("service_tier",),
)
"""Parameters of which OpenAI does not say that they leave a cache as it is."""
