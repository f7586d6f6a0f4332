"""The keys of calls that a client repeats under other ids than those that they were given.

Some clients shorten ids, or make up ids for a model that gives none; some gateways give new ones
with each request. The result of such a call has the other id. The request repeats the calls of the
answer before it, with the same ids: so the call that was recorded gets the id of its repetition as
its key, by which its result is found.

Rules of this file:

* A call whose id the request has was found: nothing is looked for.
* The calls of the last turn in a request are those of an answer, if names, arguments and their
  number are the same.
* No answer is taken that has a result already, and none if two could be meant: a wrong result is
  worse than none.
* An answer may be projected after the request that repeats it, or again: then that request is read
  again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from recorder.model.text import storable
from recorder.projections.digests import CLIENTS_CALLS
from recorder.projections.exchanges import RepeatedCalls
from recorder.projections.rows import TABLES, ItemRow
from recorder.store.engine import Database
from recorder.store.sql import OF_EXCHANGE, Statement, Step
from recorder.store.write.links import Asking, Key, key_of
from recorder.wire.dialects.canonical import call_place

NEAR = 16
"""Exchanges before a request among which is the answer that it continues: others of a session come
between.
"""

_ITEMS, _RESULTS = TABLES["items"], TABLES["results"]
_NEAR = f"""SELECT y.exchange_id FROM exchanges AS y WHERE y.session_id = :session_id AND y.exchange_id < :exchange_id
    ORDER BY y.exchange_id DESC LIMIT {NEAR}"""
_HAS_ID = f"SELECT 1 FROM {_ITEMS} AS i WHERE i.session_id = :session_id AND i.kind = 'tool_call' AND i.call_id = :id"
_IS_GIVEN = Statement(f"{_HAS_ID} AND i.exchange_id IN ({_NEAR}) LIMIT 1")
# An agent that waits for others has its call far back: for an id that is not near, the session is
# looked through.
_IS_GIVEN_ANYWHERE = Statement(f"{_HAS_ID} AND i.exchange_id < :exchange_id LIMIT 1")
_CALLS = Statement(
    f"""SELECT i.exchange_id, i.item, i.type, i.call_id, i.name, i.arguments,
    EXISTS (SELECT 1 FROM {_RESULTS} AS r WHERE r.session_id = i.session_id AND r.call_key = i.call_key
        AND r.started_ns > x.started_ns AND r.exchange_id < :exchange_id) AS is_answered
FROM {_ITEMS} AS i JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
WHERE i.session_id = :session_id AND i.kind = 'tool_call' AND i.exchange_id IN ({_NEAR})
    AND coalesce(x.thread_id, '') = (SELECT coalesce(z.thread_id, '') FROM exchanges AS z
        WHERE z.session_id = :session_id AND z.exchange_id = :exchange_id)
ORDER BY i.exchange_id, i.item"""
)
# requests that are read again: the one that repeats an answer is mostly the next of its thread
LATER = 4
# Those that were projected before an answer of their thread that is earlier: hardly ever any.
_LATER = Statement(
    f"""SELECT DISTINCT r.exchange_id FROM {_RESULTS} AS r
JOIN exchanges AS x ON x.session_id = r.session_id AND x.exchange_id = r.exchange_id
WHERE r.session_id = :session_id AND r.exchange_id > :exchange_id
    AND coalesce(x.thread_id, '') = (SELECT coalesce(z.thread_id, '') FROM exchanges AS z
        WHERE z.session_id = :session_id AND z.exchange_id = :exchange_id)
ORDER BY r.exchange_id LIMIT {LATER}"""
)
_SET_KEY = Statement(f"UPDATE {_ITEMS} SET call_key = :key WHERE {OF_EXCHANGE} AND item = :of_item")


class _Call(NamedTuple):
    exchange_id: str
    item: int
    type: str
    call_id: str | None
    name: str | None
    arguments: str | None
    is_answered: int

    @property
    def place(self) -> str:
        return call_place(self.name, self.arguments or "")


def is_given(repeated: RepeatedCalls) -> Step:
    """Return the question whether a request knows its last call by the id that it was given."""
    return _IS_GIVEN, _values(repeated)


def rekey(database: Database, requests: Sequence[RepeatedCalls]) -> None:
    """Give the calls that requests repeat under ids of their own these ids as keys."""
    for repeated in sorted(requests, key=key_of):
        values = _values(repeated)
        if list(database.ask(_IS_GIVEN_ANYWHERE, values)):
            continue
        calls = [_Call(*row) for row in database.ask(_CALLS, values)]
        for call, key in _keys(repeated, calls):
            of_call = {"exchange_id": str(call.exchange_id), "of_item": call.item, "key": key}
            database.run(_SET_KEY, {**values, **of_call})


def later_requests(items: Iterable[ItemRow], later: list[Key]) -> Asking:
    """Look for the requests with results that were projected before the calls of answers; add them
    to `later`.
    """
    calls = (item for item in items if item.kind == "tool_call" and item.type in CLIENTS_CALLS)
    keys = sorted({key_of(item) for item in calls})
    answers = yield [
        (_LATER, {"session_id": session_id, "exchange_id": id}) for session_id, id in keys
    ]
    for (session_id, _), found in zip(keys, answers, strict=True):
        later += [(session_id, str(id)) for (id,) in found]


def _values(repeated: RepeatedCalls) -> dict[str, Any]:
    id = storable(repeated.last_id)
    return {"session_id": repeated.session_id, "exchange_id": repeated.exchange_id, "id": id}


def _keys(repeated: RepeatedCalls, calls: Iterable[_Call]) -> list[tuple[_Call, str]]:
    """Return the calls of the one answer that a request repeats, each with the id that it has
    there.
    """
    answers: defaultdict[str, list[_Call]] = defaultdict(list)
    for call in calls:
        if call.type in CLIENTS_CALLS:
            answers[call.exchange_id].append(call)
    fitting = [answer for answer in answers.values() if _fits(answer, repeated)]
    if len(fitting) != 1:
        return []
    ids: defaultdict[str, list[str | None]] = defaultdict(list)
    for told in repeated.calls:
        ids[told.place].append(told.call_id)
    found = [(call, ids[call.place].pop(0)) for call in fitting[0]]
    return [(call, storable(id)) for call, id in found if id]


def _fits(answer: Sequence[_Call], repeated: RepeatedCalls) -> bool:
    """Return whether the calls that a request repeats are those of an answer, which has no result
    yet.
    """
    if any(call.is_answered for call in answer):
        return False
    return Counter(call.place for call in answer) == Counter(told.place for told in repeated.calls)
