"""The hashes of an archive's events, which are not stored: computed from the root of an exchange, event by event.

Must not know: the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from recorder.model.chain import hash_after, root, row_root
from recorder.model.events import Event, Exchange

RootKind = Literal["row", "ids"]
"""The root of a chain: it covers the row of the exchange, or in an older log its ids only."""

_ROOTS: Mapping[RootKind, Callable[[Exchange], bytes]] = {
    "row": row_root,
    "ids": lambda exchange: root(exchange.session_id, exchange.exchange_id),
}


def root_of(kind: str | None, exchange: Exchange) -> bytes:
    """Return the hash that the first event of an exchange is chained to. An unknown kind is that of the row."""
    return _ROOTS["ids" if kind == "ids" else "row"](exchange)


def root_kind(exchange: Exchange, first: Event) -> RootKind | None:
    """Return the root that the first event of an exchange is chained to, `None` if it is neither."""
    return next(
        (kind for kind, root in _ROOTS.items() if hash_after(root(exchange), first, first.pos) == first.hash), None
    )
