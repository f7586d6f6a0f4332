"""OpenAI, whose API speaks two of the wire formats: `openai_responses` and `openai_chat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.wire.dialects.prompt import CachePolicy

_ERRORS: Mapping[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("requests", "rate_limit_exceeded"),
}


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the shape of OpenAI's."""
    standard = ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    kind, usual = _ERRORS.get(status, standard)
    return {"error": {"message": message, "type": kind, "param": None, "code": code or usual}}


# -- the prompt cache

# The prompt cache of OpenAI, which both of its wire formats have.
#
# Source: OpenAI's guide "Prompt caching" of September 2026. Prompts of 1,024 tokens or more; cached tokens are counted
# in steps of 128; GPT-5.5 caches prefixes that end each 2,048 tokens. A prefix is kept for 5 to 10 minutes without use,
# and at most an hour; with `prompt_cache_retention: "24h"`, which newer models have without it, usually for 30 minutes
# and at most 24 hours; GPT-5.6 and later keep it for 30 minutes at least.
_HOUR = 3600

CACHE = CachePolicy(
    minimums=((r"gpt-5\.5", 2048), (r"", 1024)),  # of GPT-5.5: where the first prefix ends
    lapses_s=(
        (r"gpt-(?:5\.[6-9]|[6-9](?!\d))", (_HOUR // 2, 24 * _HOUR)),
        (r"", (300, 24 * _HOUR)),  # a model may have the longer retention without a word in the request
    ),
    intervals=((r"gpt-5\.5", 2048),),
    retentions={"in_memory": (300, _HOUR), "in-memory": (300, _HOUR), "24h": (_HOUR // 2, 24 * _HOUR)},
)

SUSPECTS = (
    ("prompt_cache_key",),  # goes into the choice of the machine, which has a cache of its own
    ("parallel_tool_calls",),
    ("service_tier",),  # not in the guide
    ("prompt_cache_options",),
)
"""Parameters of which OpenAI says that they change the prefix, or does not say that they leave it. `tool_choice` leaves
it: the guide recommends to change that in place of the tools."""

MARKS = ("prompt_cache_breakpoint", "cache_control")
"""The members of a block that mark the end of a prefix to be cached: from GPT-5.6 on, and of gateways to other models.
They are not content."""
