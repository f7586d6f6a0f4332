"""Requests by which a client looks whether a server is there, and what it offers: no part of a
conversation. Pure.
"""

from __future__ import annotations

import re

_PROBES = re.compile(
    r"(?:HEAD|OPTIONS) .*|GET (?:/.*)?/(?:models(?:/.*)?|api/tags|api/hello|health|healthz|ping|version)?",
    re.DOTALL,
)
"""A method and a path without its query. Other paths may stream."""

_OPTIONAL = re.compile(
    # a connection that is opened in advance: Claude Code sends HEAD /api/hello when it starts
    r"HEAD .*"
    r"|GET [^?]*/api/hello(?:\?.*)?"
    # Codex, logged in; SDKs that list models send no version
    r"|GET [^?]*/models\?(?:.*&)?client_version=.*",
    re.DOTALL,
)


def is_probe(method: str, target: str) -> bool:
    """Return whether a request only queries what a server offers."""
    return _PROBES.fullmatch(f"{method} {target.partition('?')[0]}") is not None


def is_optional(method: str, target: str) -> bool:
    """Return whether the client continues whatever the answer to a probe is, so that none needs to
    be recorded.
    """
    return _OPTIONAL.fullmatch(f"{method} {target}") is not None
