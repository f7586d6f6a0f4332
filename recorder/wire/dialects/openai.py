"""OpenAI, whose API speaks two of the wire formats: `openai_responses` and `openai_chat`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from recorder.wire.dialects.dialect import KeyShape, Provider

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
