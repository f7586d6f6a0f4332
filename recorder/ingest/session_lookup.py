"""The session of the log that a request belongs to, by its names or by its history, and its earlier
record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import and_, bindparam, case, or_, select

from recorder.ingest.message_capture import is_of_client
from recorder.ingest.pending import Batch, OpenExchange
from recorder.model.attribution import owner_in, owner_of
from recorder.model.events import PROBE, Event, RequestHead, RequestRecord
from recorder.model.ids import first_id
from recorder.projections.rows import HistoryRow
from recorder.store.bodies.rows import whole_events
from recorder.store.schema import events, exchanges, sessions, tables_of
from recorder.store.sql import OF_EXCHANGE, Statement, columns_of, constant, of_exchange
from recorder.store.write.retry import Retry
from recorder.store.write.writer import Store
from recorder.wire.grouping.history import (
    LOOK_BACK_ANSWERS,
    Chain,
    broken_off,
    likeness,
    unanswered,
)
from recorder.wire.grouping.session import FIELD, OF_DAY, Grouping
from recorder.wire.request_body import LoggedRequest

PROBES_NS = 86_400 * 10**9
"""The longest that a session of probes, or of a day, goes on.

`recorder purge` takes old ones, and an endless one never is old.
"""

GIVEN = ("path", "header", FIELD)  # the rules that find a name that the user gave

_REQUEST = Statement(
    select(events)
    .where(of_exchange(events), events.c.kind == constant("request"))
    .order_by(events.c.pos)
)
SENT_ROWS = 64  # read at a time: an hour of a spoken conversation is some hundred megabytes
_SENT = Statement(f"""SELECT {columns_of(events, "e")} FROM events AS e
WHERE {OF_EXCHANGE} AND kind IN ('sent', 'control') AND pos > :pos ORDER BY pos LIMIT {SENT_ROWS}""")


def session_in_store(
    store: Store, head: RequestHead, grouping: Grouping, batch: Batch
) -> Continued:
    """Return the id of the session that has an exchange already, that its grouping names, or whose
    conversation it continues: one of its owner. Inside `store.looking()`; `batch` is what is still
    to be committed.
    """
    sources = () if grouping.name is None else same_names(grouping.source)
    found, *named = store.sessions_of(
        head.exchange_id, grouping.name or "", sources, owner_in(head.attribution)
    )
    if found is None and grouping.name is not None:
        if grouping.source == "previous_response_id":
            found = of_owner(
                store, store.session_of_response(grouping.name), owner_in(head.attribution)
            )
        found = found or next(filter(None, named), None)
        if (
            grouping.source in (PROBE, OF_DAY)
            and found
            and found < first_id(head.started_ns - PROBES_NS)
        ):
            found = None
    return Continued(found) if found else session_of_history(store, head, grouping, batch)


def of_owner(store: Store, session_id: str | None, owner: str | None) -> str | None:
    """Return the id of a session if it is of that owner."""
    is_theirs = session_id is not None and store.owner_of_session(session_id) == owner
    return session_id if is_theirs else None


def same_names(source: str) -> tuple[str, ...]:
    """Return the rules whose names mean the same session: the path and a header both have names of
    the user.
    """
    return GIVEN if source in GIVEN else (source,)


def request_in_store(store: Store, retry: Retry, exchange_id: str) -> LoggedRequest | None:
    """Return a request as an earlier ingester recorded it, maybe with other settings."""

    def found() -> tuple[dict[str, str], list[bytes]]:
        session_id = store.session_of_exchange(exchange_id)
        key = {"session_id": session_id or "", "exchange_id": exchange_id}
        rows = whole_events(store.ask(_REQUEST, key), store.ask) if session_id else ()
        return key, [event.raw for event in rows]

    key, raws = retry(found)
    if not raws:
        return None
    return LoggedRequest(
        msgspec.json.decode(raws[0], type=RequestRecord), raws, _sent(store, retry, key)
    )


def _sent(store: Store, retry: Retry, key: Mapping[str, str]) -> Iterator[bytes]:
    """Yield what the log has of a client after its request, read when it is wanted."""
    pos = -1

    def later() -> list[Event]:
        return [Event(*row) for row in store.ask(_SENT, {**key, "pos": pos})]

    while rows := retry(later):
        pos = rows[-1].pos
        yield from (row.raw for row in rows if row.kind == "sent" or is_of_client(row.raw))


# -- by the history that a request repeats

LOOK_BACK_NS = 7 * 86_400 * 10**9
"""The age up to which a request may continue an exchange: a conversation rests over a weekend.
Whoever asks the same later is more likely to run the same program again.
"""

RECENT = 64  # exchanges that share a digest with a request: programs ask the same over and over

NO_DIGEST = ""  # in place of a look-up that a request has no use for

# each answer has up to three, and broken off
_KEYS = [f"key_{number}" for number in range(4 * LOOK_BACK_ANSWERS + 2)]
_BEFORE = [f"before_{number}" for number in range(LOOK_BACK_ANSWERS)]
_history, _later = tables_of["history"], exchanges.alias()
_is_named = _history.c.digest.in_([bindparam(name) for name in _KEYS])
_is_before = _history.c.request_digest.in_([bindparam(name) for name in _BEFORE])
_is_exact = and_(_is_named, _is_before)
_rank = case((_is_exact, constant(0)), (_is_named, constant(1)), else_=constant(2))
_some = (
    select(_history)
    .where(or_(_is_named, _is_before), _history.c.exchange_id > bindparam("since"))
    .order_by(_rank, _history.c.exchange_id.desc())
    .limit(constant(RECENT))
    .offset(constant(0))
    .subquery()
)
_is_followed = (
    select(_later.c.exchange_id)
    .where(_later.c.session_id == _some.c.session_id, _later.c.exchange_id > _some.c.exchange_id)
    .exists()
)
_labels = (
    select(sessions.c.labels).where(sessions.c.session_id == _some.c.session_id).scalar_subquery()
)
_FOUND = Statement(select(*_some.c, _is_followed, _labels).order_by(_some.c.exchange_id.desc()))


class EarlierExchange(NamedTuple):
    """An exchange that a request may continue."""

    row: HistoryRow
    is_followed: bool  # a later request is in its session
    strangeness: int  # 0: they share an id; 1: one of them has none; 2: they have different ids
    likeness: int  # how many of model, tools and system prompt are the same

    @property
    def may_be_likely(self) -> bool:
        """Return False if nothing but words is the same: those of a greeting or a refusal are said
        every day.
        """
        return self.strangeness == 0 or (self.strangeness == 1 and self.likeness > 0)


class Continued(NamedTuple):
    """The session of the exchange that a request continues, and the one that it does if nothing
    else is found.

    `certain`: it repeats the messages and the answer, and no id says otherwise. `likely`: it
    repeats the answer alone, or all but the answer.
    """

    certain: str | None = None
    likely: str | None = None


def digests_before(grouping: Grouping) -> set[str]:
    """Return the digests of the requests that this one may continue or repeat."""
    history = grouping.history
    if history is None:
        return set()
    before = {answer.before for answer in history.answers if answer.before}
    return before | {history.request_digest} if grouping.attempt else before


def session_of_history(
    store: Store, head: RequestHead, grouping: Grouping, batch: Batch
) -> Continued:
    """Return the session of the exchange that a request continues: the one that has most of its
    messages, and of several with equally many the one with its ids, with its model, tools and
    system prompt, or that no request has continued. So two conversations with an equal beginning
    stay two.

    `batch` is what is still to be committed. Inside `store.looking()`.
    """
    history = grouping.history
    if history is None or not (history.answers or grouping.attempt):
        return Continued()
    candidates = list(_candidates(store, head, history, batch))
    if grouping.attempt:
        failed = unanswered(history.request_digest)
        for each in candidates:
            if (
                each.row.digest == failed
                and each.row.about == history.about
                and not each.is_followed
            ):
                return Continued(each.row.session_id)
    exact = _exact(history, candidates)
    if exact is not None and exact.strangeness < 2:
        return Continued(exact.row.session_id)
    if exact is not None:  # a client may make its own ids
        return Continued(likely=exact.row.session_id)
    return Continued(likely=_by_answer(history, candidates) or _by_request(history, candidates))


def _candidates(
    store: Store, head: RequestHead, history: Chain, batch: Batch
) -> Iterator[EarlierExchange]:
    """Yield the exchanges of the same owner that have a digest of the request, the newest first."""
    keys = [unanswered(history.request_digest)]
    for answer in history.answers:
        keys += [*answer.keys, broken_off(answer.before)]
    before = [answer.before for answer in history.answers]
    values = {
        **dict.fromkeys((*_KEYS, *_BEFORE), NO_DIGEST),
        "since": first_id(head.started_ns - LOOK_BACK_NS),
    }
    values |= zip(_KEYS, keys, strict=False)
    values |= zip(_BEFORE, before, strict=False)
    latest = {exchange.session_id: exchange.exchange_id for exchange in batch.exchanges}
    ids = frozenset(history.ids)
    for *columns, is_followed, labels in store.ask(_FOUND, values):
        if owner_of(labels) != owner_in(head.attribution):
            continue
        row = HistoryRow(*columns)
        its_ids = frozenset((row.ids or "").split())
        strangeness = 1 if not ids or not its_ids else 2 * ids.isdisjoint(its_ids)
        followed = bool(is_followed) or latest.get(row.session_id, "") > row.exchange_id
        yield EarlierExchange(row, followed, strangeness, likeness(history.about, row.about or ""))


def _exact(history: Chain, candidates: Sequence[EarlierExchange]) -> EarlierExchange | None:
    """Return the exchange whose request and answer are repeated; of equal ones the newest."""
    for answer in history.answers:
        if not answer.before:
            continue
        whole = [each for each in candidates if each.row.request_digest == answer.before]
        for digests in (answer.keys, [broken_off(answer.before)]):
            found = [each for each in whole if each.row.digest in digests]
            if found:
                return min(found, key=_order)
    return None


def _order(each: EarlierExchange) -> tuple[int, int, bool]:
    return each.strangeness, -each.likeness, each.is_followed


def _by_answer(history: Chain, candidates: Sequence[EarlierExchange]) -> str | None:
    """Return the one session whose answer the request repeats last, whatever else was said before."""
    keys = history.answers[0].keys if history.answers else ()
    found = [each for each in candidates if each.row.digest in keys and each.may_be_likely]
    return _only(found, lambda each: (each.strangeness, -each.likeness))


def _by_request(history: Chain, candidates: Sequence[EarlierExchange]) -> str | None:
    """Return the one session whose request the request repeats, with an answer that the client put
    otherwise.
    """
    before = history.answers[0].before if history.answers else ""
    found = [each for each in candidates if before and each.row.request_digest == before]
    return _only(found, lambda each: (each.is_followed, -each.likeness))


def _only(
    candidates: Sequence[EarlierExchange], order: Callable[[EarlierExchange], Any]
) -> str | None:
    """Return the session of the first candidates, if all of them are of one."""
    first = min(map(order, candidates), default=None)
    sessions = {each.row.session_id for each in candidates if order(each) == first}
    return sessions.pop() if len(sessions) == 1 else None


def sessions_of_open(
    open: Iterable[OpenExchange], before: set[str], owner: str | None
) -> set[str | None]:
    """Return the sessions of an owner's open exchanges that a request may continue: clients may be
    quicker than the end of a stream.
    """
    theirs = [
        exchange
        for exchange in open
        if owner_in(exchange.head.attribution) == owner and exchange.awaited is not None
    ]
    return {
        each.session_id for each in theirs if each.awaited and each.awaited.request_digest in before
    }
