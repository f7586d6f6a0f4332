"""The links between the rows of `requests` in a session: each row stands behind the one that it continues.

An exchange may be projected before the one that it continues, or be projected again: then the rows that continue it are
computed anew, and those that continue them, until nothing changes. Links lead to earlier exchanges only, so that ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from sqlalchemy import and_, bindparam, select, update

from recorder.projections.requests import RequestRow, linked
from recorder.store.schema import tables_of
from recorder.store.sql import Statement, constant, of_exchange

_requests, _exchanges = tables_of["requests"], tables_of["exchanges"]

_is_retrieval = (
    select(_exchanges.c.is_retrieval)
    .where(_exchanges.c.session_id == _requests.c.session_id, _exchanges.c.exchange_id == _requests.c.exchange_id)
    .scalar_subquery()
)
_of_session = _requests.c.session_id == bindparam("session_id")
_before = and_(_of_session, _requests.c.exchange_id < bindparam("exchange_id"), _is_retrieval == constant(0))
_LAST = "LIMIT 1"

_RESPONSE = Statement(
    select(_requests)
    .where(_before, _requests.c.response_id == bindparam("previous_response_id"))
    .order_by(_requests.c.exchange_id.desc()),
    _LAST,
)
_CONVERSATION = Statement(
    select(_requests)
    .where(_before, _requests.c.conversation_id == bindparam("conversation_id"), _requests.c.response_id.is_not(None))
    .order_by(_requests.c.exchange_id.desc()),
    _LAST,
)
_OUTPUTS = Statement(
    select(_requests.c.output_items)
    .where(_of_session, _requests.c.response_id == bindparam("response_id"))
    .where(_requests.c.exchange_id > bindparam("exchange_id"), _is_retrieval == constant(1))
)
_after = and_(_of_session, _requests.c.exchange_id > bindparam("exchange_id"))
_CONTINUING = Statement(select(_requests).where(_after, _requests.c.previous_response_id == bindparam("response_id")))
CONVERSING = 20  # rows that are read at a time: usually the first has a response, and no later one is needed
_CONVERSING = Statement(
    select(_requests)
    .where(_after, _requests.c.conversation_id == bindparam("conversation_id"))
    .order_by(_requests.c.exchange_id),
    f"LIMIT {CONVERSING}",
)
_having = select(_requests.c.exchange_id).where(_of_session)
CONTINUED = _having.where(_requests.c.response_id == bindparam("response_id")).union(
    _having.where(_requests.c.conversation_id == bindparam("conversation_id"))
)
"""The exchanges that links may lead to, by `Links`; those that only retrieved a response included."""

_COMPUTED = ("previous_exchange_id", "depth", "is_complete", "logical_items")
_UPDATE = Statement(
    update(_requests).where(of_exchange(_requests)).values({n: bindparam(f"new_{n}") for n in _COMPUTED})
)


class LinkDatabase(Protocol):
    """The part of a projector's database that is used here."""

    def run(self, statement: Statement, values: Any) -> None:
        """Run a statement with values by name."""

    def ask(self, statement: Statement, values: Any) -> Iterable[Sequence[Any]]:
        """Return the rows of a statement."""


def link(database: LinkDatabase, rows: Sequence[RequestRow]) -> None:
    """Put new rows behind those that they continue, and behind them those that continue them."""
    waiting = [(row, True) for row in rows]
    while waiting:
        row, is_new = waiting.pop()
        found = _linked(database, row)
        if found != row:
            computed = {f"new_{name}": getattr(found, name) for name in _COMPUTED}
            database.run(_UPDATE, {**_values(row), **computed})
        if found != row or is_new:
            waiting += [(each, False) for each in _continuing(database, found)]


def _linked(database: LinkDatabase, row: RequestRow) -> RequestRow:
    named = _RESPONSE if row.previous_response_id is not None else _CONVERSATION
    if row.previous_response_id is None and row.conversation_id is None:
        return linked(row, None)
    previous = next(iter(_rows(database, named, _values(row))), None)
    outputs = [] if previous is None else [count for (count,) in database.ask(_OUTPUTS, _values(previous))]
    return linked(row, previous, outputs)


def _continuing(database: LinkDatabase, row: RequestRow) -> list[RequestRow]:
    """Return the later rows that name the response or the conversation of this one."""
    named = [] if row.response_id is None else _rows(database, _CONTINUING, _values(row))
    return named if row.conversation_id is None else [*named, *_conversing(database, row)]


def _conversing(database: LinkDatabase, row: RequestRow) -> Iterator[RequestRow]:
    """Yield the later rows of a conversation up to the first with a response: the rows behind that continue that one,
    so that a rebuild of a long conversation is linear.
    """
    after, page = row, [row] * CONVERSING
    while len(page) == CONVERSING:
        page = _rows(database, _CONVERSING, {**_values(row), "exchange_id": after.exchange_id})
        for after in page:
            yield after
            if after.response_id is not None:
                return


def _values(row: RequestRow) -> Mapping[str, Any]:
    return msgspec.structs.asdict(row)


def _rows(database: LinkDatabase, statement: Statement, values: Mapping[str, Any]) -> list[RequestRow]:
    """Return rows as the folds make them: an engine gives 1 for a flag."""
    names = RequestRow.__struct_fields__
    found = [dict(zip(names, row, strict=True)) for row in database.ask(statement, values)]
    return msgspec.convert(found, list[RequestRow], strict=False)
