"""The rows that the projections have of an exchange which has ended: what a fold of its events gives,
without reading them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from recorder.model.events import Exchange
from recorder.projections.fold import Rows
from recorder.projections.rows import PROJECTIONS
from recorder.store.queries.reader import LogReader
from recorder.store.schema import tables_of
from recorder.store.sql import of_exchange, structs_of

_SHOWN = ("exchanges", "items", "usage", "timing", "anomalies")
_SELECTS = {
    projection.name: (
        projection.row,
        select(tables_of[projection.name])
        .where(of_exchange(tables_of[projection.name]))
        .order_by(*(tables_of[projection.name].c[key] for key in projection.key)),
    )
    for projection in PROJECTIONS
    if projection.name in _SHOWN
}
"""The struct of a row, and the statement for all of an exchange in order, by projection."""


async def projected_rows(log: LogReader, exchange: Exchange) -> Rows | None:
    """Return the rows that make the document of an exchange; None if it is not projected yet."""
    found: dict[str, list[Any]] = {}
    ids = {"session_id": exchange.session_id, "exchange_id": exchange.exchange_id}
    for name, (kind, statement) in _SELECTS.items():
        found[name] = structs_of(kind, await log.rows(statement, **ids))
    return found if found["exchanges"] else None
