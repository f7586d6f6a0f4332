"""How far each exchange of a session is recorded: what a copy, an archive and a purge go by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from recorder.model.events import Exchange
from recorder.store.queries.outlines import LAST_POS, of_last_event
from recorder.store.schema import exchanges
from recorder.store.sql import Statement, columns_of, has_ended

Ask = Callable[[Statement, Any], Iterable[Sequence[Any]]]
"""The rows of a statement with values by name."""

_EXTENTS = Statement(f"""SELECT {columns_of(exchanges, "x")}, {LAST_POS}, {of_last_event("hash")}, {has_ended("x")}
FROM exchanges AS x WHERE x.session_id = :session_id ORDER BY x.exchange_id""")


class Extent(msgspec.Struct, frozen=True):
    """An exchange, and how far it is recorded."""

    exchange: Exchange
    last_pos: int = -1  # before the first event
    last_hash: bytes | None = None
    has_ended: bool = False


def extents(ask: Ask, session_id: str) -> dict[str, Extent]:
    """Return the exchanges of a session by their ids, in order of these."""
    found = {}
    for *row, last_pos, last_hash, is_over in ask(_EXTENTS, {"session_id": session_id}):
        exchange = Exchange(*row)
        found[exchange.exchange_id] = Extent(exchange, last_pos, last_hash, bool(is_over))
    return found


def last_hashes(ask: Ask, session_id: str) -> dict[str, bytes | None]:
    """Return the hash of the last event of each exchange of a session."""
    return {
        exchange_id: extent.last_hash for exchange_id, extent in extents(ask, session_id).items()
    }
