"""The comparisons between the rows of `prompts` in a session: each row with earlier ones, which may be in a cache.

An exchange may be projected before an earlier one, or be projected again: then the rows that may be compared with it
are computed anew. Comparisons lead to earlier exchanges only, so that ends. In a rebuild, which goes through a session
in order, nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import bindparam, select, update

from recorder.projections.cache_misses import COMPARISON, WINDOW, compared
from recorder.projections.prompts import PromptRow
from recorder.store.request_links import LinkDatabase
from recorder.store.schema import tables_of
from recorder.store.sql import Statement, of_exchange

_prompts, _requests = tables_of["prompts"], tables_of["requests"]
_of_session = _prompts.c.session_id == bindparam("session_id")
_EARLIER = Statement(
    select(_prompts)
    .where(_of_session, _prompts.c.exchange_id < bindparam("exchange_id"))
    .where(_prompts.c.provider == bindparam("provider"), _prompts.c.served_ns <= bindparam("started_ns"))
    .order_by(_prompts.c.exchange_id.desc()),
    f"LIMIT {WINDOW}",
)
_ONE = Statement(select(_prompts).where(of_exchange(_prompts)))
_PREVIOUS = Statement(select(_requests.c.previous_exchange_id).where(of_exchange(_requests)))
_LATER = Statement(
    select(_prompts)
    .where(_of_session, _prompts.c.exchange_id > bindparam("exchange_id"))
    .order_by(_prompts.c.exchange_id),
    "LIMIT 1",
)
_CONTINUING = Statement(
    select(_requests.c.exchange_id).where(
        _requests.c.session_id == bindparam("session_id"), _requests.c.previous_exchange_id == bindparam("exchange_id")
    )
)
_COMPUTED = (*COMPARISON, "digests", "places")
_UPDATE = Statement(
    update(_prompts).where(of_exchange(_prompts)).values({name: bindparam(f"new_{name}") for name in _COMPUTED})
)


def compare(database: LinkDatabase, rows: Sequence[PromptRow], *, in_order: bool = False) -> None:
    """Compare new rows with those before them, and those after them anew; not with `in_order`, where they follow."""
    for row in rows:
        _compare(database, row)
        if not in_order:
            _compare_later(database, row)


def _compare(database: LinkDatabase, row: PromptRow) -> Sequence[PromptRow]:
    """Write the comparison of a row, and return the rows that it was compared with."""
    values = msgspec.structs.asdict(row)
    earlier = _rows(database, _EARLIER, values)[::-1]
    found = compared(row, earlier, _parent(database, row, earlier) if row.continues else None)
    if found != row:
        database.run(_UPDATE, {**values, **{f"new_{name}": getattr(found, name) for name in _COMPUTED}})
    return earlier


def _parent(database: LinkDatabase, row: PromptRow, earlier: Sequence[PromptRow]) -> PromptRow | None:
    ids = {"session_id": row.session_id, "exchange_id": row.exchange_id}
    parent = next((id for (id,) in list(database.ask(_PREVIOUS, ids))), None)
    if parent is None:
        return None
    near = (each for each in earlier if each.exchange_id == str(parent))
    return next(near, None) or next(iter(_rows(database, _ONE, {**ids, "exchange_id": parent})), None)


def _compare_later(database: LinkDatabase, row: PromptRow) -> None:
    """Compare the later rows anew, as far as one is in the window of them, and those that continue one anew."""
    computed, after = {row.exchange_id}, row
    while later := _rows(database, _LATER, msgspec.structs.asdict(after)):
        after = later[0]
        earlier = _compare(database, after)
        computed.add(after.exchange_id)
        if len(earlier) == WINDOW and earlier[0].exchange_id > row.exchange_id:
            _compare_continuing(database, row.session_id, computed)
            break


def _compare_continuing(database: LinkDatabase, session_id: str, computed: set[str]) -> None:
    """Compare the rows anew that continue some, further on in the session."""
    waiting = list(computed)
    while waiting:
        ids = {"session_id": session_id, "exchange_id": waiting.pop()}
        for (exchange_id,) in list(database.ask(_CONTINUING, ids)):
            if str(exchange_id) not in computed:
                computed.add(str(exchange_id))
                waiting.append(str(exchange_id))
                for row in _rows(database, _ONE, {**ids, "exchange_id": exchange_id}):
                    _compare(database, row)


def _rows(database: LinkDatabase, statement: Statement, values: Mapping[str, Any]) -> list[PromptRow]:
    """Return rows as the folds make them: an engine gives 1 for a flag, and a view of bytes."""
    names = PromptRow.__struct_fields__
    found = [dict(zip(names, row, strict=True)) for row in database.ask(statement, values)]
    return msgspec.convert(found, list[PromptRow], strict=False)
