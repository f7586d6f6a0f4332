"""The links between the rows of `requests` in a session: each row comes after the one that it continues.

New rows are linked before they are written: to rows that are there, and to each other. An exchange may be projected
before the one that it continues, or be projected again: then the rows that continue it are linked again in the same
way, and those that continue them, until nothing changes. Links lead to earlier exchanges only, so that ends.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from msgspec.structs import asdict

from recorder.model.ids import AFTER_ALL
from recorder.projections.requests import linked
from recorder.projections.rows import TABLES, RequestRow
from recorder.store.engine import Database
from recorder.store.schema import tables_of
from recorder.store.sql import Statement, Step, change_of, columns_of, structs_of

_REQUESTS, _EXCHANGES = TABLES["requests"], TABLES["exchanges"]
_ROWS = f"SELECT {columns_of(tables_of['requests'], 'r')} FROM {_REQUESTS} AS r WHERE r.session_id = :session_id"
_IS_RETRIEVAL = f"""(SELECT x.is_retrieval FROM {_EXCHANGES} AS x
    WHERE x.session_id = r.session_id AND x.exchange_id = r.exchange_id)"""
_BEFORE = f"{_ROWS} AND r.exchange_id < :exchange_id AND {_IS_RETRIEVAL} = 0"
_AFTER = f"{_ROWS} AND r.exchange_id > :exchange_id"
_LAST = "ORDER BY r.exchange_id DESC LIMIT"
ROTATING = 64  # rows whose response has several ids, of which one may be meant: the last of a session
_RESPONSE = Statement(f"{_BEFORE} AND r.response_id = :previous_response_id {_LAST} 1")
_ROTATED = Statement(f"{_BEFORE} AND r.other_ids IS NOT NULL {_LAST} {ROTATING}")
_CONVERSATION = Statement(f"{_BEFORE} AND r.conversation_id = :conversation_id AND r.response_id IS NOT NULL {_LAST} 1")
_OUTPUTS = Statement(f"""SELECT r.output_items FROM {_REQUESTS} AS r
WHERE r.session_id = :session_id AND r.response_id = :of_response
    AND r.exchange_id > :after AND r.exchange_id < :exchange_id AND {_IS_RETRIEVAL} = 1""")
_CONTINUING = Statement(f"{_AFTER} AND r.previous_response_id = :response_id")
# Up to the first with a response: the rows after that continue that one, so that a long conversation takes linear time.
_CONVERSING = Statement(f"""{_AFTER} AND r.conversation_id = :conversation_id AND r.exchange_id <= coalesce((
    SELECT u.exchange_id FROM {_REQUESTS} AS u WHERE u.session_id = :session_id AND u.exchange_id > :exchange_id
        AND u.conversation_id = :conversation_id AND u.response_id IS NOT NULL ORDER BY u.exchange_id LIMIT 1
), '{AFTER_ALL}') ORDER BY r.exchange_id""")
_COMPUTED = ("previous_exchange_id", "depth", "is_complete", "logical_items")
_UPDATE = change_of(_REQUESTS, _COMPUTED)


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
    """The links of rows, which are to be written with them."""

    def __init__(
        self, database: Database, new: Sequence[RequestRow], retrievals: Collection[Key] = (), *, in_order: bool = False
    ) -> None:
        """`retrievals` are the exchanges among the new rows that only retrieved a response; with `in_order` those that
        continue them follow.
        """
        self._database, self._retrievals, self._in_order = database, retrievals, in_order
        self.rows = sorted(new, key=key_of)
        self._retrieved = [row for row in self.rows if key_of(row) in retrievals]
        self._later: dict[Key, RequestRow] = {}  # that name the response or the conversation of one

    def link(self) -> Asking:
        """Link the rows to those that they continue."""
        linking = [row for row in self.rows if _link_of(row)]
        naming = [row for row in linking if row.previous_response_id is not None]
        continuing = [] if self._in_order else chain.from_iterable(map(_continuing, self.rows))
        # All at once: comparisons of prompts go by the links as soon as they have their own first answer.
        found = yield [
            *(_previous(row) for row in linking),
            *((_ROTATED, asdict(row)) for row in naming),
            *continuing,
        ]
        answers = (structs_of(RequestRow, rows) for rows in found)
        stored: dict[Key, RequestRow] = {}
        for row, last in zip(linking, islice(answers, len(linking)), strict=True):
            if last:
                [stored[key_of(row)]] = last
        for row, rotated in zip(naming, islice(answers, len(naming)), strict=True):
            known = next((each for each in rotated if row.previous_response_id in each.response_ids), None)
            if known is not None:
                stored.setdefault(key_of(row), known)
        self._later = {key_of(row): row for row in chain.from_iterable(answers)}
        self._link(stored)

    def follow(self) -> None:
        """Link those that continue the rows to these, which are written now."""
        waiting = self._later
        while waiting:
            _, row = waiting.popitem()
            links = Links(self._database, [row])
            ask_together(self._database, [links.link()])
            [found] = links.rows
            if found != row:
                computed = {f"new_{name}": getattr(found, name) for name in _COMPUTED}
                self._database.run(_UPDATE, {**asdict(row), **computed})
                waiting |= links._later

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
        values = {**asdict(row), "after": previous.exchange_id, "of_response": previous.response_id}
        outputs = [count for (count,) in self._database.ask(_OUTPUTS, values)]
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
    return _CONVERSATION if row.previous_response_id is None else _RESPONSE, asdict(row)


def _continuing(row: RequestRow) -> list[Step]:
    """Return the questions for later rows that name the response or the conversation of this one."""
    values = asdict(row)
    steps: list[Step] = [(_CONTINUING, {**values, "response_id": id}) for id in row.response_ids]
    return steps if row.conversation_id is None else [*steps, (_CONVERSING, values)]
