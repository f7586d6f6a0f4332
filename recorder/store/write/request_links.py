"""The links between the rows of `requests` in a session: each row stands behind the one that it continues.

New rows are linked before they are written: to rows that are there, and to each other. An exchange may be projected
before the one that it continues, or be projected again: then the rows that continue it are computed anew, and those
that continue them, until nothing changes. Links lead to earlier exchanges only, so that ends.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec
from sqlalchemy import and_, bindparam, select, update

from recorder.projections.requests import linked
from recorder.projections.rows import RequestRow
from recorder.store.schema import tables_of
from recorder.store.sql import Statement, Step, constant, of_exchange

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
ROTATING = 64  # rows whose response has several ids, of which one may be meant: the last of a session
_ROTATED = Statement(
    select(_requests).where(_before, _requests.c.other_ids.is_not(None)).order_by(_requests.c.exchange_id.desc()),
    f"LIMIT {ROTATING}",
)
_CONVERSATION = Statement(
    select(_requests)
    .where(_before, _requests.c.conversation_id == bindparam("conversation_id"), _requests.c.response_id.is_not(None))
    .order_by(_requests.c.exchange_id.desc()),
    _LAST,
)
_OUTPUTS = Statement(
    select(_requests.c.output_items)
    .where(_of_session, _requests.c.response_id == bindparam("of_response"))
    .where(_requests.c.exchange_id > bindparam("after"), _requests.c.exchange_id < bindparam("exchange_id"))
    .where(_is_retrieval == constant(1))
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
_COMPUTED = ("previous_exchange_id", "depth", "is_complete", "logical_items")
_UPDATE = Statement(
    update(_requests).where(of_exchange(_requests)).values({n: bindparam(f"new_{n}") for n in _COMPUTED})
)


Key = tuple[str, str]
_Link = tuple[str, str, str]


class LinkDatabase(Protocol):
    """The part of a projector's database that is used here."""

    def run(self, statement: Statement, values: Any) -> None:
        """Run a statement with values by name."""

    def ask(self, statement: Statement, values: Any) -> Iterable[Sequence[Any]]:
        """Return the rows of a statement."""

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        """Run statements one after another, and return the rows of each."""


Asking = Generator[Sequence[Step], Sequence[Sequence[Sequence[Any]]], None]
"""Work that yields the steps that it needs, and gets their rows."""


def ask_together(database: LinkDatabase, works: Iterable[Asking]) -> None:
    """Do several works side by side, each a step behind those before it: what they ask then is asked at once."""
    asked = [(work, steps) for work in works if (steps := next(work, None)) is not None]
    while asked:
        all_steps = [step for _, steps in asked for step in steps]
        found = iter(database.run_all(all_steps) if all_steps else [])
        resumed = [(work, _resume(work, list(islice(found, len(steps))))) for work, steps in asked]
        asked = [(work, steps) for work, steps in resumed if steps is not None]


def _resume(work: Asking, found: Sequence[Sequence[Sequence[Any]]]) -> Sequence[Step] | None:
    try:
        return work.send(found)
    except StopIteration:
        return None


class Links:
    """The links of new rows, which are to be written with them."""

    def __init__(
        self, database: LinkDatabase, new: Sequence[RequestRow], retrievals: Collection[Key], *, in_order: bool
    ) -> None:
        """`retrievals` are the exchanges among the new rows that only retrieved a response; with `in_order` those that
        continue them follow.
        """
        self._database, self._retrievals, self._in_order = database, retrievals, in_order
        self.rows = sorted(new, key=key_of)
        self._retrieved = [row for row in self.rows if key_of(row) in retrievals]
        self._followed: list[RequestRow] = []

    def link(self) -> Asking:
        """Put the new rows behind those that they continue."""
        linking = [row for row in self.rows if _link_of(row)]
        naming = [row for row in linking if row.previous_response_id is not None]
        responses = [row for row in self.rows if row.response_id is not None and not self._in_order]
        conversing = [row for row in self.rows if row.conversation_id is not None and not self._in_order]
        continued = [
            *((_CONTINUING, {**_values(row), "response_id": id}) for row in responses for id in row.response_ids),
            *((_CONVERSING, _values(row)) for row in conversing),
        ]
        # All at once: comparisons of prompts go by the links as soon as they have their own first answer.
        found = yield [*map(_previous, linking), *((_ROTATED, _values(row)) for row in naming), *continued]
        answers = iter(found)
        previous = list(islice(answers, len(linking)))
        rotated = list(islice(answers, len(naming)))
        asked = [*(row for row in responses for _ in row.response_ids), *conversing]
        later = zip(asked, answers, strict=True)
        self._followed = list({key_of(row): row for row, rows in later if rows}.values())
        stored = {key_of(row): _converted(rows)[0] for row, rows in zip(linking, previous, strict=True) if rows}
        for row, rows in zip(naming, rotated, strict=True):
            if (known := _of_response(row.previous_response_id, _converted(rows))) is not None:
                stored.setdefault(key_of(row), known)
        self._link(stored)

    def follow(self) -> None:
        """Put behind the new rows, which are written now, those that continue them."""
        waiting = [each for row in self._followed for each in _continuing(self._database, row)]
        while waiting:
            row = waiting.pop()
            found = _linked(self._database, row)
            if found != row:
                computed = {f"new_{name}": getattr(found, name) for name in _COMPUTED}
                self._database.run(_UPDATE, {**_values(row), **computed})
                waiting += _continuing(self._database, found)

    def _link(self, stored: Mapping[Key, RequestRow]) -> None:
        """Link the rows in order, so that each is behind one that is linked. `stored` are the stored rows that new ones
        continue, by the key of these.
        """
        last: dict[_Link, RequestRow] = {}  # that can be continued by that link
        for number, row in enumerate(self.rows):
            link = _link_of(row)
            if link is not None:
                found = [each for each in (last.get(link), stored.get(key_of(row))) if each is not None]
                previous = max(found, key=key_of, default=None)
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
        begin, end = key_of(previous), key_of(row)
        new = [each for each in self._retrieved if each.response_id == previous.response_id]
        return [*_outputs(self._database, row, previous), *(e.output_items for e in new if begin < key_of(e) < end)]


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


def _linked(database: LinkDatabase, row: RequestRow) -> RequestRow:
    previous = next(iter(_rows(database, *_previous(row))), None) if _link_of(row) else None
    if previous is None and row.previous_response_id is not None:
        previous = _of_response(row.previous_response_id, _rows(database, _ROTATED, _values(row)))
    return linked(row, previous, [] if previous is None else _outputs(database, row, previous))


def _outputs(database: LinkDatabase, row: RequestRow, previous: RequestRow) -> list[int]:
    values = {**_values(row), "after": previous.exchange_id, "of_response": previous.response_id}
    return [count for (count,) in database.ask(_OUTPUTS, values)]


def _continuing(database: LinkDatabase, row: RequestRow) -> list[RequestRow]:
    """Return the later rows that name the response or the conversation of this one."""
    values = _values(row)
    named = [each for id in row.response_ids for each in _rows(database, _CONTINUING, {**values, "response_id": id})]
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
    return _converted(list(database.ask(statement, values)))


def _converted(rows: Sequence[Sequence[Any]]) -> list[RequestRow]:
    names = RequestRow.__struct_fields__
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return msgspec.convert(found, list[RequestRow], strict=False)
