"""The links between the rows of `requests` in a session: each row comes after the one that it continues.

New rows are linked before they are written: to rows that are there, and to each other. An exchange may be projected
before the one that it continues, or be projected again: then the rows that continue it are computed again, and those
that continue them, until nothing changes. Links lead to earlier exchanges only, so that ends.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, and_, bindparam, select, update

from recorder.projections.requests import linked
from recorder.projections.rows import RequestRow
from recorder.store.engine import Database
from recorder.store.schema import tables_of
from recorder.store.sql import Statement, Step, constant, of_exchange, of_same_exchange, of_session, structs_of

_requests, _exchanges = tables_of["requests"], tables_of["exchanges"]

_is_retrieval = select(_exchanges.c.is_retrieval).where(of_same_exchange(_exchanges, _requests)).scalar_subquery()
_before = and_(of_session(_requests), _requests.c.exchange_id < bindparam("exchange_id"), _is_retrieval == constant(0))


def _last_before(*conditions: ColumnElement[bool], limit: int = 1) -> Statement:
    """Return the select of the last rows before one that fulfil conditions."""
    before = select(_requests).where(_before, *conditions).order_by(_requests.c.exchange_id.desc())
    return Statement(before, f"LIMIT {limit}")


ROTATING = 64  # rows whose response has several ids, of which one may be meant: the last of a session
_RESPONSE = _last_before(_requests.c.response_id == bindparam("previous_response_id"))
_ROTATED = _last_before(_requests.c.other_ids.is_not(None), limit=ROTATING)
_CONVERSATION = _last_before(
    _requests.c.conversation_id == bindparam("conversation_id"), _requests.c.response_id.is_not(None)
)
_OUTPUTS = Statement(
    select(_requests.c.output_items)
    .where(of_session(_requests), _requests.c.response_id == bindparam("of_response"))
    .where(_requests.c.exchange_id > bindparam("after"), _requests.c.exchange_id < bindparam("exchange_id"))
    .where(_is_retrieval == constant(1))
)
_after = and_(of_session(_requests), _requests.c.exchange_id > bindparam("exchange_id"))
_CONTINUING = Statement(select(_requests).where(_after, _requests.c.previous_response_id == bindparam("response_id")))
CONVERSING = 20  # rows that are read at a time: usually the first has a response, and no later one is needed
_CONVERSING = Statement(
    select(_requests)
    .where(_after, _requests.c.conversation_id == bindparam("conversation_id"))
    .order_by(_requests.c.exchange_id),
    f"LIMIT {CONVERSING}",
)
_COMPUTED = ("previous_exchange_id", "depth", "is_complete", "logical_items")
_UPDATE = Statement(
    update(_requests).where(of_exchange(_requests)).values({name: bindparam(f"new_{name}") for name in _COMPUTED})
)


Key = tuple[str, str]
_Link = tuple[str, str, str]
Rows = Sequence[Sequence[Any]]


Asking = Generator[Sequence[Step], Sequence[Rows], None]
"""Work that yields the steps that it needs, and gets their rows."""


def ask_together(database: Database, works: Iterable[Asking]) -> None:
    """Do several works side by side, each a step after those before it: what they ask then is asked at once."""
    asked: list[tuple[Asking, Sequence[Step]]] = []
    for work in works:
        if (steps := next(work, None)) is not None:
            asked.append((work, steps))
    while asked:
        all_steps = list(chain.from_iterable(steps for _, steps in asked))
        answers = iter(database.run_all(all_steps) if all_steps else [])
        waiting, asked = asked, []
        for work, steps in waiting:
            try:
                asked.append((work, work.send(list(islice(answers, len(steps))))))
            except StopIteration:
                continue


class Links:
    """The links of new rows, which are to be written with them."""

    def __init__(
        self, database: Database, new: Sequence[RequestRow], retrievals: Collection[Key], *, in_order: bool
    ) -> None:
        """`retrievals` are the exchanges among the new rows that only retrieved a response; with `in_order` those that
        continue them follow.
        """
        self._database, self._retrievals, self._in_order = database, retrievals, in_order
        self.rows = sorted(new, key=key_of)
        self._retrieved = [row for row in self.rows if key_of(row) in retrievals]
        self._followed: list[RequestRow] = []

    def link(self) -> Asking:
        """Link the new rows to those that they continue."""
        linking = [row for row in self.rows if _link_of(row)]
        naming = [row for row in linking if row.previous_response_id is not None]
        continued: list[tuple[RequestRow, Step]] = []
        if not self._in_order:
            for row in self.rows:
                continued += [(row, step) for step in _continuing_steps(row)]
        # All at once: comparisons of prompts go by the links as soon as they have their own first answer.
        found = yield [
            *(_previous(row) for row in linking),
            *((_ROTATED, _values(row)) for row in naming),
            *(step for _, step in continued),
        ]
        answers = iter(found)
        stored: dict[Key, RequestRow] = {}
        for row, rows in zip(linking, answers, strict=False):
            if rows:
                [stored[key_of(row)]] = structs_of(RequestRow, rows)
        for row, rows in zip(naming, answers, strict=False):
            known = _of_response(row.previous_response_id, structs_of(RequestRow, rows))
            if known is not None:
                stored.setdefault(key_of(row), known)
        followed = {key_of(row): row for (row, _), rows in zip(continued, answers, strict=True) if rows}
        self._followed = list(followed.values())
        self._link(stored)

    def follow(self) -> None:
        """Link those that continue the new rows to these, which are written now."""
        waiting: list[RequestRow] = []
        for row in self._followed:
            waiting += _continuing(self._database, row)
        while waiting:
            row = waiting.pop()
            found = _linked(self._database, row)
            if found != row:
                computed = {f"new_{name}": getattr(found, name) for name in _COMPUTED}
                self._database.run(_UPDATE, {**_values(row), **computed})
                waiting += _continuing(self._database, found)

    def _link(self, stored: Mapping[Key, RequestRow]) -> None:
        """Link the rows in order, so that what a row continues is linked before it. `stored` are the stored rows that
        new ones continue, by the key of these.
        """
        last: dict[_Link, RequestRow] = {}  # that can be continued by that link
        for number, row in enumerate(self.rows):
            link = _link_of(row)
            if link is not None:
                previous = max(filter(None, (last.get(link), stored.get(key_of(row)))), key=key_of, default=None)
                row = self.rows[number] = linked(row, previous, self._outputs(row, previous))
            if row.response_id is not None and key_of(row) not in self._retrievals:
                for id in row.response_ids:
                    last[row.session_id, "previous_response_id", id] = row
                if row.conversation_id is not None:
                    last[row.session_id, "conversation_id", row.conversation_id] = row

    def _outputs(self, row: RequestRow, previous: RequestRow | None) -> list[int]:
        """Return the numbers of items with which the response before a row was retrieved, before that row."""
        if previous is None:
            return []
        outputs = _outputs(self._database, row, previous)
        for retrieved in self._retrieved:
            is_between = key_of(previous) < key_of(retrieved) < key_of(row)
            if retrieved.response_id == previous.response_id and is_between:
                outputs.append(retrieved.output_items)
        return outputs


def key_of(row: Any) -> Key:
    """Return the key of a row: that of its exchange."""
    return row.session_id, row.exchange_id


def _link_of(row: RequestRow) -> _Link | None:
    """Return the session, and the name and the value of the link to the row that another one continues."""
    if row.previous_response_id is not None:
        return row.session_id, "previous_response_id", row.previous_response_id
    return None if row.conversation_id is None else (row.session_id, "conversation_id", row.conversation_id)


def _previous(row: RequestRow) -> Step:
    return _CONVERSATION if row.previous_response_id is None else _RESPONSE, _values(row)


def _of_response(id: str | None, rows: Sequence[RequestRow]) -> RequestRow | None:
    """Return the first row whose response had an id, one of several."""
    return next((row for row in rows if id in row.response_ids), None)


def _linked(database: Database, row: RequestRow) -> RequestRow:
    previous = next(iter(_rows(database, *_previous(row))), None) if _link_of(row) else None
    if previous is None and row.previous_response_id is not None:
        previous = _of_response(row.previous_response_id, _rows(database, _ROTATED, _values(row)))
    return linked(row, previous, [] if previous is None else _outputs(database, row, previous))


def _outputs(database: Database, row: RequestRow, previous: RequestRow) -> list[int]:
    values = {**_values(row), "after": previous.exchange_id, "of_response": previous.response_id}
    return [count for (count,) in database.ask(_OUTPUTS, values)]


def _continuing_steps(row: RequestRow) -> list[Step]:
    """Return the questions for later rows that name the response or the conversation of this one."""
    values = _values(row)
    steps: list[Step] = [(_CONTINUING, {**values, "response_id": id}) for id in row.response_ids]
    return steps if row.conversation_id is None else [*steps, (_CONVERSING, values)]


def _continuing(database: Database, row: RequestRow) -> list[RequestRow]:
    """Return the later rows that name the response or the conversation of this one."""
    found: list[RequestRow] = []
    for id in row.response_ids:
        found += _rows(database, _CONTINUING, {**_values(row), "response_id": id})
    return found if row.conversation_id is None else [*found, *_conversing(database, row)]


def _conversing(database: Database, row: RequestRow) -> Iterator[RequestRow]:
    """Yield the later rows of a conversation up to the first with a response: the rows after that continue that one,
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


def _rows(database: Database, statement: Statement, values: Mapping[str, Any]) -> list[RequestRow]:
    return structs_of(RequestRow, list(database.ask(statement, values)))
