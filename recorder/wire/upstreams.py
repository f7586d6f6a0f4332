"""The APIs that are known without a setting: names, base URLs, hosts, and the URL of a path below a base. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

UPSTREAMS: Mapping[str, str] = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "chatgpt": "https://chatgpt.com/backend-api/codex",  # what Codex asks that is logged in with ChatGPT
}

HOSTS: Mapping[str, str] = {
    str(parts.hostname): name for name, base in UPSTREAMS.items() if not (parts := urlsplit(base)).path
}
"""Hosts that are an API and nothing else. Codex asks chatgpt.com for other things too, whatever login it has."""

ENDPOINTS = (
    *("assistants", "audio", "batches", "chat/completions", "completions", "containers", "conversations", "embeddings"),
    *("evals", "files", "fine_tuning", "images", "messages", "models", "moderations", "realtime", "responses"),
    *("threads", "uploads", "vector_stores", "videos"),
)
VERSION = re.compile(r"/v\d+(?:alpha|beta)?\d*$")
_FIRST_VERSION = re.compile(r"/v\d+(?:alpha|beta)?\d*(?=/|$)")
VERSIONLESS = re.compile(rf"/(?:{'|'.join(ENDPOINTS)})(?:[/:?]|$)")


def join(base: str, rest: str) -> str:
    """The URL of the path `rest` (with its query) below `base`; the version in the path may be there twice, or not.

    Below a base that ends in a slash a path stays what it is: the base is a client's own, which knows what
    belongs there.
    """
    if base.endswith("/"):
        return base[:-1] + rest
    versions = VERSION.search(base), _FIRST_VERSION.match(rest)
    if versions[0] and versions[1] and versions[0][0] == versions[1][0]:
        return base + rest[len(versions[1][0]) :]
    if not urlsplit(base).path and VERSIONLESS.match(rest):
        return f"{base}/v1{rest}"
    return base + rest
