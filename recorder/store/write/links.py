"""The links between the rows of `requests` in a session, each of which comes after the one that it
continues, and the comparisons between the rows of `prompts`: each row with earlier ones, which may
be in a cache.

New rows are linked and compared before they are written: with rows that are there, and with each
other. An exchange may be projected before an earlier one, or be projected again: then the rows that
continue it, or may be compared with it, are computed again in the same way, and those that follow
from them, until nothing changes. Links and comparisons lead to earlier exchanges only, so that
ends. In a rebuild, which goes through a session in order, nothing is computed twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from msgspec.structs import asdict

from recorder.model.ids import AFTER_ALL
from recorder.projections.cache_misses import WINDOW, compared
from recorder.projections.digests import NO_COMPARISON
from recorder.projections.exchanges import linked
from recorder.projections.rows import TABLES, PromptRow, RequestRow
from recorder.store.engine import Database
from recorder.store.schema import tables_of
from recorder.store.sql import OF_EXCHANGE, Statement, Step, change_of, columns_of, structs_of

_REQUESTS, _EXCHANGES = TABLES["requests"], TABLES["exchanges"]
_ROWS = f"SELECT {columns_of(tables_of['requests'], 'r')} FROM {_REQUESTS} AS r WHERE r.session_id = :session_id"
_IS_RETRIEVAL = f"""(SELECT x.is_retrieval FROM {_EXCHANGES} AS x
    WHERE x.session_id = r.session_id AND x.exchange_id = r.exchange_id)"""
_BEFORE = f"{_ROWS} AND r.exchange_id < :exchange_id AND {_IS_RETRIEVAL} = 0"
_AFTER = f"{_ROWS} AND r.exchange_id > :exchange_id"
_LAST = "ORDER BY r.exchange_id DESC LIMIT"
# rows whose response has several ids, of which one may be meant: the last of a session
ROTATING = 64
_RESPONSE = Statement(f"{_BEFORE} AND r.response_id = :previous_response_id {_LAST} 1")
_ROTATED = Statement(f"{_BEFORE} AND r.other_ids IS NOT NULL {_LAST} {ROTATING}")
_CONVERSATION = Statement(
    f"{_BEFORE} AND r.conversation_id = :conversation_id AND r.response_id IS NOT NULL {_LAST} 1"
)
_OUTPUTS = Statement(f"""SELECT r.output_items FROM {_REQUESTS} AS r
WHERE r.session_id = :session_id AND r.response_id = :of_response
    AND r.exchange_id > :after AND r.exchange_id < :exchange_id AND {_IS_RETRIEVAL} = 1""")
_CONTINUING = Statement(f"{_AFTER} AND r.previous_response_id = :response_id")
# Up to the first with a response: the rows after that continue that one, so that a long
# conversation takes linear time.
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
    """Do several works side by side, each a step after those before it: what they ask then is asked
    at once.
    """
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
        self,
        database: Database,
        new: Sequence[RequestRow],
        retrievals: Collection[Key] = (),
        *,
        in_order: bool = False,
    ) -> None:
        """`retrievals` are the exchanges among the new rows that only retrieved a response; with
        `in_order` those that continue them follow.
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
        # All at once: comparisons of prompts go by the links as soon as they have their own first
        # answer.
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
            known = next(
                (each for each in rotated if row.previous_response_id in each.response_ids), None
            )
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
        """Link the rows in order, so that what a row continues is linked before it.

        `stored` are the stored rows that new ones continue, by the key of these.
        """
        last: dict[_Link, RequestRow] = {}  # that can be continued by that link
        for number, row in enumerate(self.rows):
            link = _link_of(row)
            if link is not None:
                previous = max(
                    filter(None, (last.get(link), stored.get(key_of(row)))),
                    key=key_of,
                    default=None,
                )
                row = self.rows[number] = linked(row, previous, self._outputs(row, previous))
            if row.response_id is not None and key_of(row) not in self._retrievals:
                for id in row.response_ids:
                    last[row.session_id, "previous_response_id", id] = row
                if row.conversation_id is not None:
                    last[row.session_id, "conversation_id", row.conversation_id] = row

    def _outputs(self, row: RequestRow, previous: RequestRow | None) -> list[int]:
        """Return the numbers of items with which the response before a row was retrieved, before
        that row.
        """
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
    """Return the session, and the name and the value of the link to the row that another one
    continues.
    """
    if row.previous_response_id is not None:
        return row.session_id, "previous_response_id", row.previous_response_id
    return (
        None
        if row.conversation_id is None
        else (row.session_id, "conversation_id", row.conversation_id)
    )


def _previous(row: RequestRow) -> Step:
    return _CONVERSATION if row.previous_response_id is None else _RESPONSE, asdict(row)


def _continuing(row: RequestRow) -> list[Step]:
    """Return the questions for later rows that name the response or the conversation of this one."""
    values = asdict(row)
    steps: list[Step] = [(_CONTINUING, {**values, "response_id": id}) for id in row.response_ids]
    return steps if row.conversation_id is None else [*steps, (_CONVERSING, values)]


_PROMPTS = TABLES["prompts"]
_PROMPT_ROWS = f"SELECT {columns_of(tables_of['prompts'], 'p')} FROM {_PROMPTS} AS p"
_EARLIER_ROWS = f"""{_PROMPT_ROWS} WHERE p.session_id = :session_id AND p.exchange_id < :exchange_id
    AND p.provider = :provider AND p.served_ns <= :started_ns ORDER BY p.exchange_id DESC"""
_EARLIER = Statement(f"{_EARLIER_ROWS} LIMIT {WINDOW}")
# stored rows before several new ones: of some the response began after the first of these began
NEAR = WINDOW + 32
_NEAR = Statement(f"{_EARLIER_ROWS} LIMIT {NEAR}")
SESSIONS = 8  # whose rows are read together: 4 MB of digests, 60 MB at most
NEVER_NS = 2**63 - 1
_ONE = Statement(f"{_PROMPT_ROWS} WHERE {OF_EXCHANGE}")
_PREVIOUS = Statement(f"SELECT previous_exchange_id FROM {TABLES['requests']} WHERE {OF_EXCHANGE}")
# Those that may be compared with it: they began when its response had begun, or they continue
# something.
_LATER = Statement(f"""{_PROMPT_ROWS} WHERE p.session_id = :session_id AND p.exchange_id > :exchange_id
    AND (p.started_ns >= :since_ns OR p.continues = 1) ORDER BY p.exchange_id LIMIT 1""")
_COMPARED_WITH = Statement(f"""{_PROMPT_ROWS}
JOIN {TABLES["requests"]} AS r ON r.session_id = p.session_id AND r.exchange_id = p.exchange_id
WHERE r.session_id = :session_id AND r.previous_exchange_id = :exchange_id""")
_COMPARED = (*NO_COMPARISON, "digests", "places")
_COMPARE = change_of(_PROMPTS, _COMPARED)


class Comparisons:
    """The comparisons of new rows, which are to be written with them."""

    def __init__(
        self, database: Database, new: Sequence[PromptRow], links: Links, *, in_order: bool
    ) -> None:
        """`links` are those of the requests; with `in_order` the later rows of the sessions follow."""
        self._database, self._new, self._links = database, new, links
        self._in_order = in_order
        self._previous: dict[Key, str | None] = {}
        self._followed: list[PromptRow] = []
        self._compared: dict[Key, PromptRow] = {}

    @property
    def rows(self) -> list[PromptRow]:
        """Return the new rows, compared."""
        return list(self._compared.values())

    def compare(self) -> Asking:
        """Compare the new rows, whose requests are linked when the first answer comes."""
        of_sessions: defaultdict[str, list[PromptRow]] = defaultdict(list)
        for row in sorted(self._new, key=key_of):
            of_sessions[row.session_id].append(row)
        sessions = list(of_sessions.values())
        for first in range(0, len(sessions), SESSIONS):
            yield from self._compare(list(chain.from_iterable(sessions[first : first + SESSIONS])))

    def follow(self) -> None:
        """Compare the later rows again: the new ones are written now."""
        for row in self._followed:
            _compare_later(self._database, self._compared[key_of(row)])

    def _compare(self, new: Sequence[PromptRow]) -> Asking:
        """Compare rows in order, so that each finds those before it compared."""
        groups: defaultdict[tuple[str, str], list[PromptRow]] = defaultdict(list)
        for row in new:
            groups[row.session_id, row.provider].append(row)
        steps: list[Step] = []
        for rows in groups.values():
            last_ns = max(row.started_ns for row in rows)
            steps.append((_NEAR, {**asdict(rows[-1]), "started_ns": last_ns}))
        if not self._in_order:
            steps += [(_LATER, _since(row, row.served_ns)) for row in new]
        answers = iter((yield steps))
        windows = {
            key: _Window(structs_of(PromptRow, near))
            for key, near in zip(groups, answers, strict=False)
        }
        self._followed += [row for row, later in zip(new, answers, strict=False) if later]
        self._previous = self._previous or {
            key_of(row): row.previous_exchange_id for row in self._links.rows
        }
        for row in new:
            window = windows[row.session_id, row.provider]
            earlier = window.before(self._database, row)
            compared_row = compared(
                row, earlier, self._parent(row, earlier) if row.continues else None
            )
            window.rows.append(compared_row)
            self._compared[key_of(row)] = compared_row

    def _parent(self, row: PromptRow, earlier: Sequence[PromptRow]) -> PromptRow | None:
        parent = self._previous.get(key_of(row))
        if parent is None:
            return None
        return self._compared.get((row.session_id, parent)) or _one(
            self._database, row, parent, earlier
        )


class _Window:
    """The rows of one session and provider before and between new ones, and those of these that are
    compared.
    """

    def __init__(self, near: Sequence[PromptRow]) -> None:
        """`near` are the last stored ones before the last new one."""
        self._near, self._is_full = near, len(near) == NEAR
        self.rows: list[PromptRow] = []

    def before(self, database: Database, row: PromptRow) -> list[PromptRow]:
        """Return the rows that one is compared with: the last of which a response had begun when it
        began.
        """
        new, stored = _served(self.rows, row), _served(self._near, row)
        if self._is_full and len(new) + len(stored) < WINDOW:  # more are stored than are here
            stored = _prompts(database, _EARLIER, asdict(row))
        return sorted([*stored, *new], key=key_of)[-WINDOW:]


def _served(rows: Sequence[PromptRow], row: PromptRow) -> list[PromptRow]:
    """Return the rows before one of which a response had begun when it began."""
    before = [each for each in rows if each.exchange_id < row.exchange_id]
    return [
        each for each in before if each.served_ns is not None and each.served_ns <= row.started_ns
    ]


def _since(row: PromptRow, since_ns: int | None) -> dict[str, Any]:
    return {**asdict(row), "since_ns": NEVER_NS if since_ns is None else since_ns}


def _one(
    database: Database, row: PromptRow, exchange_id: str, near: Sequence[PromptRow]
) -> PromptRow | None:
    """Return the stored row of an exchange in the session of one, which mostly is one of those that
    were read.
    """
    found = next((each for each in near if each.exchange_id == exchange_id), None)
    return found or next(
        iter(_prompts(database, _ONE, {**asdict(row), "exchange_id": exchange_id})), None
    )


def _compare(database: Database, row: PromptRow) -> tuple[PromptRow, Sequence[PromptRow]]:
    """Write the comparison of a stored row. Return it, and the rows that it was compared with."""
    values, parent = asdict(row), None
    earlier = _prompts(database, _EARLIER, values)[::-1]
    for (previous,) in list(database.ask(_PREVIOUS, values)) if row.continues else ():
        if previous is not None:
            parent = _one(database, row, str(previous), earlier)
    found = compared(row, earlier, parent)
    if found != row:
        database.run(
            _COMPARE, {**values, **{f"new_{name}": getattr(found, name) for name in _COMPARED}}
        )
    return found, earlier


def _compare_later(database: Database, row: PromptRow) -> None:
    """Compare the later rows again, as far as one is in the window of them, and those that continue
    one.
    """
    computed, after, since_ns = {row.exchange_id}, row, row.served_ns
    while later := _prompts(database, _LATER, _since(after, since_ns)):
        after, earlier = _compare(database, later[0])
        computed.add(after.exchange_id)
        if after.served_ns is not None and (after.digests, after.places) != (
            later[0].digests,
            later[0].places,
        ):
            since_ns = after.served_ns if since_ns is None else min(since_ns, after.served_ns)
        if len(earlier) == WINDOW and earlier[0].exchange_id > row.exchange_id:
            _compare_continuing(database, row.session_id, computed)
            break


def _compare_continuing(database: Database, session_id: str, computed: set[str]) -> None:
    """Compare the rows again that continue some, further on in the session."""
    waiting = list(computed)
    while waiting:
        ids = {"session_id": session_id, "exchange_id": waiting.pop()}
        for row in _prompts(database, _COMPARED_WITH, ids):
            if row.exchange_id not in computed:
                computed.add(row.exchange_id)
                waiting.append(row.exchange_id)
                _compare(database, row)


def _prompts(
    database: Database, statement: Statement, values: Mapping[str, Any]
) -> list[PromptRow]:
    return structs_of(PromptRow, list(database.ask(statement, values)))
