"""Which session a request goes on with that names none: the one whose conversation it repeats. In a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from sqlalchemy import bindparam, select

from recorder.ingest.batch import Batch
from recorder.ingest.open_exchanges import OpenExchange
from recorder.model.ids import uuid7
from recorder.model.payloads import RequestHead
from recorder.store.schema import exchanges, tables_of
from recorder.store.sql import Statement
from recorder.store.writer import Store
from recorder.wire.grouping.history import LOOK_BACK_ANSWERS, Chain, broken_off, unanswered
from recorder.wire.grouping.session import Grouping

LOOK_BACK_NS = 7 * 86_400 * 10**9
"""How old the exchange may be that a request goes on with: a conversation rests over a weekend. Whoever asks the same
later is more likely to run the same program again.
"""

RECENT = 64  # exchanges that came to one of the same digests: programs ask the same over and over

RETRIED = -1  # the place of a request that got nothing: it is asked again once, by whoever says so

_DIGESTS = [f"digest_{number}" for number in range(2 * LOOK_BACK_ANSWERS + 1)]
_history, _later = tables_of["history"], exchanges.alias()
_is_followed = (
    select(_later.c.exchange_id)
    .where(_later.c.session_id == _history.c.session_id, _later.c.exchange_id > _history.c.exchange_id)
    .exists()
)
_FOUND = Statement(
    select(*_history.c, _is_followed)
    .where(_history.c.digest.in_([bindparam(name) for name in _DIGESTS]))
    .where(_history.c.exchange_id > bindparam("since"))
    .order_by(_history.c.exchange_id.desc()),
    f"LIMIT {RECENT}",
)


def asked_before(grouping: Grouping) -> set[str]:
    """The digests of the requests that this one may go on with, or repeat."""
    asked = grouping.history
    if asked is None:
        return set()
    return {before for before, _ in asked.answers} | ({asked.asked} if grouping.attempt else set())


def session_of_history(store: Store, head: RequestHead, grouping: Grouping, batch: Batch) -> str | None:
    """The session of the exchange that a request goes on with: the one that has most of its messages, and of several
    with the same one that nobody has gone on with. So two conversations that began alike stay two.

    `batch` is what is still to be committed.
    """
    asked = grouping.history
    places = _places(asked, is_retry=bool(grouping.attempt)) if asked else {}
    if not places:
        return None
    values = {**dict.fromkeys(_DIGESTS, ""), **dict(zip(_DIGESTS, places, strict=False))}
    since = uuid7(max(0, head.started_ns - LOOK_BACK_NS), bytes(10))
    latest = {exchange.session_id: exchange.exchange_id for exchange in batch.exchanges}
    ranked: list[tuple[int, bool, str]] = []
    for session_id, exchange_id, digest, is_followed in store.ask(_FOUND, {**values, "since": since}):
        is_followed = bool(is_followed) or latest.get(session_id, "") > exchange_id
        if not is_followed or places[digest] != RETRIED:
            ranked.append((places[digest], is_followed, session_id))
    return min(ranked, key=itemgetter(0, 1), default=(0, False, None))[2]  # the newest, where they are equal


def _places(asked: Chain, *, is_retry: bool) -> dict[str, int]:
    """What the exchange before may have come to, the likeliest first."""
    places = {unanswered(asked.asked): RETRIED} if is_retry else {}
    for number, (before, with_answer) in enumerate(asked.answers):
        places[with_answer] = 2 * number
        places[broken_off(before)] = 2 * number + 1
    return places


def session_of_open(open: Iterable[OpenExchange], before: set[str]) -> str | None:
    """The session of the one exchange that a request goes on with, if nobody told its end yet: clients may be quicker
    than the end of a stream.
    """
    found = {session_id for each in open for asked, session_id in [each.asked or ("", None)] if asked in before}
    return found.pop() if len(found) == 1 else None
