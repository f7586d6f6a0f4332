"""OpenAI, whose API speaks two of the wire formats: `openai_responses` and `openai_chat`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from recorder.wire.dialects.dialect import KeyShape, Provider
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


PROVIDER = Provider(
    name="openai",
    base_url="https://api.openai.com",
    error_body=error_body,
    other_upstreams={"chatgpt": "https://chatgpt.com/backend-api/codex"},  # what Codex asks, logged in with ChatGPT
    subscriptions=("chatgpt",),
    hosts=(r".+\.openai\.azure\.com",),
    paths=re.compile(r"(?!(?:/v1)?/(?:models|files|batches)(?:/|$))"),  # those three all the APIs have
    endpoints=(
        *("assistants", "audio", "batches", "chat/completions", "completions", "containers", "conversations"),
        *("embeddings", "evals", "files", "fine_tuning", "images", "models", "moderations", "realtime", "responses"),
        *("threads", "uploads", "vector_stores", "videos"),
    ),
    environment={"OPENAI_BASE_URL": "{url}/v1"},
    base_variables={"OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1"},
    key_variable="OPENAI_API_KEY",
    harmless_headers=r"openai-(?:beta|model|processing-ms|version)",
    secret_headers=r"openai-organization|openai-project",
    key_shapes=(
        KeyShape(
            "openai-key",
            rb"sk-(?:proj|svcacct|admin|service|None)-[A-Za-z0-9_-]{20,}",
            prefix=rb"sk-",
            cut=rb"(?<![_-])sk-[A-Za-z0-9_-]*",
        ),
    ),
)


# -- the prompt cache

# The prompt cache of OpenAI, which both of its wire formats have.
#
# Source: OpenAI's guide "Prompt caching", read on 2026-11-23: prompts of 1,024 tokens or more, in steps of 128; a
# prefix is kept for 5 to 10 minutes without use, and at most an hour; up to 24 hours with
# `prompt_cache_retention: "24h"`, which newer models have without it.
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
