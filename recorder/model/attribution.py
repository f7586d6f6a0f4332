"""Whom and what the cost of a request counts for. Pure data.

A session is of one owner. Its labels say of whom: sessions that were recorded without tokens are of
none.
"""

from __future__ import annotations

import msgspec


class Attribution(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom and what the cost of a request counts for: by the token that it shows, and by its
    `X-Recorder-Tags`; and what is kept of its content.
    """

    owner: str | None = None
    team: str | None = None
    tags: tuple[str, ...] = ()
    content: str | None = None  # a level: `shape`, `none`; None is full


def owner_in(attribution: Attribution | msgspec.UnsetType) -> str | None:
    """Return whose token a request showed."""
    return attribution.owner if isinstance(attribution, Attribution) else None


class _Labels(msgspec.Struct):
    owner: str | None = None


OWNED = '{"owner":'
"""The beginning of the labels of a session that is of an owner."""


def labels_of(owner: str | None) -> str:
    """Return the labels of a session that a request of an owner begins."""
    return "{}" if owner is None else msgspec.json.encode(_Labels(owner)).decode()


def owner_of(labels: str) -> str | None:
    """Return the owner that the labels of a session name.

    A program may give a session any labels: then it has none.
    """
    try:
        return msgspec.json.decode(labels, type=_Labels).owner if labels.startswith(OWNED) else None
    except msgspec.DecodeError:
        return None
