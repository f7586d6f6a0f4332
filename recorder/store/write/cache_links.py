"""The comparisons between the rows of `prompts` in a session: each row with earlier ones, which may be in a cache.

New rows are compared before they are written: with rows that are there, and with each other. An exchange may be
projected before an earlier one, or be projected again: then the rows that may be compared with it are computed
again. Comparisons lead to earlier exchanges only, so that ends. In a rebuild, which goes through a session in order,
nothing is computed twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import asdict

from recorder.projections.cache_misses import WINDOW, compared
from recorder.projections.prompts import NO_COMPARISON
from recorder.projections.rows import TABLES, PromptRow
from recorder.store.engine import Database
from recorder.store.schema import tables_of
from recorder.store.sql import OF_EXCHANGE, Statement, Step, change_of, columns_of, structs_of
from recorder.store.write.request_links import Asking, Key, Links, key_of

_PROMPTS = TABLES["prompts"]
_ROWS = f"SELECT {columns_of(tables_of['prompts'], 'p')} FROM {_PROMPTS} AS p"
_BEFORE = f"""{_ROWS} WHERE p.session_id = :session_id AND p.exchange_id < :exchange_id
    AND p.provider = :provider AND p.served_ns <= :started_ns ORDER BY p.exchange_id DESC"""
_EARLIER = Statement(f"{_BEFORE} LIMIT {WINDOW}")
NEAR = WINDOW + 32  # stored rows before several new ones: of some the response began after the first of these began
_NEAR = Statement(f"{_BEFORE} LIMIT {NEAR}")
SESSIONS = 8  # whose rows are read together: 4 MB of digests, 60 MB at most
NEVER_NS = 2**63 - 1
_ONE = Statement(f"{_ROWS} WHERE {OF_EXCHANGE}")
_PREVIOUS = Statement(f"SELECT previous_exchange_id FROM {TABLES['requests']} WHERE {OF_EXCHANGE}")
# Those that may be compared with it: they began when its response had begun, or they continue something.
_LATER = Statement(f"""{_ROWS} WHERE p.session_id = :session_id AND p.exchange_id > :exchange_id
    AND (p.started_ns >= :since_ns OR p.continues = 1) ORDER BY p.exchange_id LIMIT 1""")
_CONTINUING = Statement(f"""{_ROWS}
JOIN {TABLES["requests"]} AS r ON r.session_id = p.session_id AND r.exchange_id = p.exchange_id
WHERE r.session_id = :session_id AND r.previous_exchange_id = :exchange_id""")
_COMPUTED = (*NO_COMPARISON, "digests", "places")
_UPDATE = change_of(_PROMPTS, _COMPUTED)


class Comparisons:
    """The comparisons of new rows, which are to be written with them."""

    def __init__(self, database: Database, new: Sequence[PromptRow], links: Links, *, in_order: bool) -> None:
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
        windows = {key: _Window(structs_of(PromptRow, near)) for key, near in zip(groups, answers, strict=False)}
        self._followed += [row for row, later in zip(new, answers, strict=False) if later]
        self._previous = self._previous or {key_of(row): row.previous_exchange_id for row in self._links.rows}
        for row in new:
            window = windows[row.session_id, row.provider]
            earlier = window.before(self._database, row)
            compared_row = compared(row, earlier, self._parent(row, earlier) if row.continues else None)
            window.rows.append(compared_row)
            self._compared[key_of(row)] = compared_row

    def _parent(self, row: PromptRow, earlier: Sequence[PromptRow]) -> PromptRow | None:
        parent = self._previous.get(key_of(row))
        if parent is None:
            return None
        return self._compared.get((row.session_id, parent)) or _one(self._database, row, parent, earlier)


class _Window:
    """The rows of one session and provider before and between new ones, and those of these that are compared."""

    def __init__(self, near: Sequence[PromptRow]) -> None:
        """`near` are the last stored ones before the last new one."""
        self._near, self._is_full = near, len(near) == NEAR
        self.rows: list[PromptRow] = []

    def before(self, database: Database, row: PromptRow) -> list[PromptRow]:
        """Return the rows that one is compared with: the last of which a response had begun when it began."""
        new, stored = _served(self.rows, row), _served(self._near, row)
        if self._is_full and len(new) + len(stored) < WINDOW:  # more are stored than are here
            stored = _rows(database, _EARLIER, asdict(row))
        return sorted([*stored, *new], key=key_of)[-WINDOW:]


def _served(rows: Sequence[PromptRow], row: PromptRow) -> list[PromptRow]:
    """Return the rows before one of which a response had begun when it began."""
    before = [each for each in rows if each.exchange_id < row.exchange_id]
    return [each for each in before if each.served_ns is not None and each.served_ns <= row.started_ns]


def _since(row: PromptRow, since_ns: int | None) -> dict[str, Any]:
    return {**asdict(row), "since_ns": NEVER_NS if since_ns is None else since_ns}


def _one(database: Database, row: PromptRow, exchange_id: str, near: Sequence[PromptRow]) -> PromptRow | None:
    """Return the stored row of an exchange in the session of one, which mostly is one of those that were read."""
    found = next((each for each in near if each.exchange_id == exchange_id), None)
    return found or next(iter(_rows(database, _ONE, {**asdict(row), "exchange_id": exchange_id})), None)


def _compare(database: Database, row: PromptRow) -> tuple[PromptRow, Sequence[PromptRow]]:
    """Write the comparison of a stored row. Return it, and the rows that it was compared with."""
    values, parent = asdict(row), None
    earlier = _rows(database, _EARLIER, values)[::-1]
    for (previous,) in list(database.ask(_PREVIOUS, values)) if row.continues else ():
        if previous is not None:
            parent = _one(database, row, str(previous), earlier)
    found = compared(row, earlier, parent)
    if found != row:
        database.run(_UPDATE, {**values, **{f"new_{name}": getattr(found, name) for name in _COMPUTED}})
    return found, earlier


def _compare_later(database: Database, row: PromptRow) -> None:
    """Compare the later rows again, as far as one is in the window of them, and those that continue one."""
    computed, after, since_ns = {row.exchange_id}, row, row.served_ns
    while later := _rows(database, _LATER, _since(after, since_ns)):
        after, earlier = _compare(database, later[0])
        computed.add(after.exchange_id)
        if after.served_ns is not None and (after.digests, after.places) != (later[0].digests, later[0].places):
            since_ns = after.served_ns if since_ns is None else min(since_ns, after.served_ns)
        if len(earlier) == WINDOW and earlier[0].exchange_id > row.exchange_id:
            _compare_continuing(database, row.session_id, computed)
            break


def _compare_continuing(database: Database, session_id: str, computed: set[str]) -> None:
    """Compare the rows again that continue some, further on in the session."""
    waiting = list(computed)
    while waiting:
        ids = {"session_id": session_id, "exchange_id": waiting.pop()}
        for row in _rows(database, _CONTINUING, ids):
            if row.exchange_id not in computed:
                computed.add(row.exchange_id)
                waiting.append(row.exchange_id)
                _compare(database, row)


def _rows(database: Database, statement: Statement, values: Mapping[str, Any]) -> list[PromptRow]:
    return structs_of(PromptRow, list(database.ask(statement, values)))
