"""Whom and what the cost of a request counts for. Pure data."""

from __future__ import annotations

import msgspec


class Attribution(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom and what the cost of a request counts for: by the token that it shows, and by its `X-Recorder-Tags`."""

    owner: str | None = None
    team: str | None = None
    tags: tuple[str, ...] = ()
