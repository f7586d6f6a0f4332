"""Requests by which a client sees whether somebody is there: it goes on whatever is answered. Pure."""

from __future__ import annotations

import re

_PROBES = (
    r"HEAD .*",  # a connection that is opened in advance: Claude Code sends HEAD /api/hello when it starts
    r"GET [^?]*/api/hello(?:\?.*)?",
    r"GET [^?]*/models\?(?:.*&)?client_version=.*",  # Codex, logged in; SDKs that list models send no version
)
_PROBE = re.compile("|".join(_PROBES), re.DOTALL)


def is_probe(method: str, target: str) -> bool:
    """Whether nothing depends on the answer to this request: none that is missing is missed."""
    return _PROBE.fullmatch(f"{method} {target}") is not None
