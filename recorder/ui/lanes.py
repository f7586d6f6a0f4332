"""The timeline of a session: a tick for each event, in lanes, and blocks of items and of the client's own time.

Everything is read from columns of the log and from the projections: nothing is folded. Items of an exchange without
projections (it is open, or could not be folded) are known by the `output_index` of their events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import bindparam, func, or_, select, tuple_

from recorder.model.events import BODY_KINDS, Exchange
from recorder.model.payloads import GapRecord
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.store.reader import LogReader
from recorder.store.schema import events, tables_of
from recorder.store.sql import IS_END, constant

PAGE = 20_000  # events that are read in one transaction: a tenth of a second
TICKS_LIMIT = 1_000_000  # of one answer: 20 MB of JSON, and more than a browser draws

Place = tuple[int, str, int | None]
"""A row of the timeline: its group, its kind and its output index."""

_COLUMNS = (
    *(events.c[name] for name in ("exchange_id", "pos", "kind", "t_ns", "type", "output_index")),
    func.length(events.c.raw).label("size"),
)
_of_session = events.c.session_id == bindparam("session_id")
_by_key = (events.c.exchange_id, events.c.pos)
_SESSION_TICKS = (
    select(*_COLUMNS)
    .where(_of_session, tuple_(*_by_key) > tuple_(bindparam("exchange_id"), bindparam("after")))
    .order_by(*_by_key)
    .limit(PAGE)
)
_EXCHANGE_TICKS = (
    select(*_COLUMNS)
    .where(_of_session, events.c.exchange_id == bindparam("exchange_id"), events.c.pos > bindparam("after"))
    .order_by(events.c.pos)
    .limit(PAGE)
)
_ENDED = select(events.c.exchange_id).where(_of_session, IS_END)
_GAPS = select(events.c.exchange_id, events.c.pos, events.c.raw).where(_of_session, events.c.kind == constant("gap"))

_items, _timing, _results = tables_of["items"], tables_of["timing"], tables_of["results"]
_ITEMS = (
    select(
        *(_items.c[name] for name in ("exchange_id", "item", "kind", "type", "output_index", "name", "call_key")),
        *(_items.c.began_ns, _items.c.ended_ns, _items.c.output.is_not(None).label("has_output")),
    )
    .where(_items.c.session_id == bindparam("session_id"))
    .order_by(_items.c.exchange_id, _items.c.item)
)
_FIRST_BYTES = select(_timing.c.exchange_id, _timing.c.first_byte_ns).where(
    _timing.c.session_id == bindparam("session_id")
)
_RETURNED = select(_results.c.call_key, _results.c.exchange_id, _results.c.started_ns).where(
    _results.c.session_id == bindparam("session_id")
)
