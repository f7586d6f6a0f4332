"""The exchanges around one: later requests with the results of its calls, and other copies of its
response.

A view is what they add to the document of the exchange from a moment on. What `recorder show` finds
at that moment, by the same rules (`recorder.store.queries.session_state`), is here for all moments
at once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import bindparam, text

from recorder.model.events import Event, Exchange
from recorder.projections.fold import Folding
from recorder.projections.rows import TABLES, ExchangeRow, ItemRow, ResultRow, is_same_response
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_state import (
    REQUEST_KINDS,
    CallKeys,
    FoldedExchange,
    Results,
    call_keys,
    folded_exchange,
    requested,
    superseded_by,
)
from recorder.store.schema import TEXT
from recorder.wire.dialects import tells_targets

# All exchanges, if a request that was projected has a result of one of the calls; else those that
# are not projected.
_SOURCES = text(f"""SELECT x.exchange_id FROM exchanges AS x
LEFT JOIN {TABLES["exchanges"]} AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
WHERE x.session_id = :session_id AND (p.exchange_id IS NULL OR EXISTS (
    SELECT 1 FROM {TABLES["results"]} AS r WHERE r.session_id = :session_id AND r.call_key IN :keys))""").bindparams(
    bindparam("keys", type_=TEXT, expanding=True)
)


class Moment(NamedTuple):
    """A time since the exchange began at which another exchange says something new."""

    t_ns: int
    exchange_id: str  # of the other
    said: Any  # tells it from others


class OutsideView(NamedTuple):
    """The things that others say of an exchange at one moment."""

    exchange: Exchange
    later: Results  # of the requests after it
    every: Results  # of all requests of the session
    # of its response: an event may change which of them is the best
    copies: Sequence[FoldedExchange] = ()
    # responses that an exchange retrieves which has begun
    retrieved: frozenset[str | None] = frozenset()

    def result_of(self, call: ItemRow, row: ExchangeRow) -> ResultRow | None:
        """Return the result of a call of the exchange, whose row is given."""
        began_ns = self.exchange.started_ns
        if row.response_id not in self.retrieved:
            return self.later.of(call, began_ns)
        for each in self._same(row) if row.is_retrieval else ():
            began_ns = min(began_ns, each.exchange.started_ns)
        return self.every.of(call, began_ns)

    def superseded_by(self, row: ExchangeRow) -> tuple[int, Exchange] | None:
        """Return the exchange that has more of the same response."""
        return superseded_by(row, self._same(row)) if row.response_id in self.retrieved else None

    def _same(self, row: ExchangeRow) -> list[FoldedExchange]:
        return [each for each in self.copies if is_same_response(each.row, row)]


class _Said(NamedTuple):
    """A thing that another exchange says from a time on."""

    wall_ns: int
    said: Any


class _Known(NamedTuple):
    """The things that one other exchange says, ascending by time; and whether nothing will follow."""

    says: list[_Said]
    is_final: bool

    def at(self, wall_ns: int) -> Any:
        """Return the last thing that it had said at a time, or None."""
        count = bisect_right(self.says, wall_ns, key=attrgetter("wall_ns"))
        return self.says[count - 1].said if count else None


class Surroundings:
    """The exchanges around one, as far as the log has them."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._everything: Sequence[Numbered] = ()
        self._keys: frozenset[str | None] = frozenset()
        self._known_keys: CallKeys = {}
        self._response_id: str | None = None
        self._requests: dict[str, _Known] = {}  # rows of results of the calls, by exchange
        self._copies: dict[str, _Known] = {}  # its row, by exchange that has the same response
        self.moments: list[Moment] = []

    async def look(
        self,
        log: LogReader,
        everything: Sequence[Numbered],
        calls: Sequence[ItemRow],
        response_id: str | None,
    ) -> None:
        """Read what the exchanges of the session say by now of some calls and of a response."""
        own = self._exchange
        known = await call_keys(log, own.session_id, own.exchange_id) if calls else {}
        keys = frozenset(known.get((call.exchange_id, call.item), call.call_key) for call in calls)
        if (keys, response_id) != (self._keys, self._response_id):
            self._requests.clear()
            self._copies.clear()
        self._everything, self._keys, self._response_id = everything, keys, response_id
        self._known_keys = known
        resumed = {each.resumes_response_id for _, each in everything}
        is_retrieved = response_id is not None and response_id in resumed
        if is_retrieved:
            for numbered in everything:
                await self._read_copy(log, *numbered)
        if keys:
            await self._read_requests(log, calls, is_retrieved)
        self.moments = sorted(self._moments(is_retrieved), key=attrgetter("t_ns", "exchange_id"))

    def view(self, t_ns: int) -> OutsideView:
        """Return what others say at a time since the exchange began."""
        own = self._exchange
        wall_ns = own.started_ns + t_ns
        threads = self._threads()
        later, every = (
            Results((), threads, self._known_keys),
            Results((), threads, self._known_keys),
        )
        copies: list[FoldedExchange] = []
        resumed: set[str | None] = set()
        for _, each in self._everything:
            if each.started_ns > wall_ns:
                continue
            resumed.add(each.resumes_response_id)
            if each.exchange_id in self._requests:
                rows = self._requests[each.exchange_id].at(wall_ns) or ()
                every.add(rows)
                if self._may_answer(each):
                    later.add(rows)
            if each.exchange_id in self._copies:
                copy = self._copies[each.exchange_id].at(wall_ns)
                copies += [] if copy is None else [copy]
        return OutsideView(own, later, every, copies, frozenset(resumed - {None}))

    def _threads(self) -> dict[str, str | None]:
        return {each.exchange_id: each.thread_id for _, each in self._everything}

    def _moments(self, is_retrieved: bool) -> Iterable[Moment]:
        began_ns = self._exchange.started_ns
        for _, each in self._everything if is_retrieved else ():
            if each.resumes_response_id == self._response_id:
                yield Moment(each.started_ns - began_ns, each.exchange_id, None)
        for known in (self._requests, self._copies):
            for exchange_id, other in known.items():
                for wall_ns, said in other.says:
                    yield Moment(wall_ns - began_ns, exchange_id, said)

    async def _read_requests(
        self, log: LogReader, calls: Sequence[ItemRow], is_retrieved: bool
    ) -> None:
        """Read requests in order until all calls have results of their own thread, and no later one
        can be better.

        Requests repeat the results of earlier ones, so only what is new in one is kept: a session
        may have thousands.
        """
        own, answered_ns = self._exchange, None
        sources = {
            row.exchange_id
            for row in await log.rows(_SOURCES, session_id=own.session_id, keys=[*self._keys])
        }
        results = Results((), self._threads(), self._known_keys)
        said_ns: dict[tuple[str, str], int] = {}
        latest_ns = 0
        for _, each in self._everything:
            if not is_retrieved and not self._may_answer(each):
                continue
            if answered_ns is not None and each.started_ns > answered_ns:
                return
            if each.exchange_id not in sources:
                continue
            known = self._requests.get(each.exchange_id)
            if known is None or not known.is_final:
                known = self._requests[each.exchange_id] = await self._read_request(log, each)
            if not known.says or is_retrieved:
                continue
            if not _has_news(known, said_ns):
                self._requests[each.exchange_id] = _Known([], known.is_final)
                continue
            last = known.says[-1]
            latest_ns = max(latest_ns, last.wall_ns)
            results.add(last.said)
            if all(_is_answered(call, results, own.started_ns) for call in calls):
                answered_ns = latest_ns

    def _may_answer(self, other: Exchange) -> bool:
        """Return whether an exchange may have results of the calls: a later one, or a stream that
        answers others.
        """
        own = self._exchange
        is_later = other.started_ns > own.started_ns or other.exchange_id == own.exchange_id
        return is_later or tells_targets(other.method, other.target)

    async def _read_request(self, log: LogReader, exchange: Exchange) -> _Known:
        if tells_targets(exchange.method, exchange.target):
            return await self._read_stream(log, exchange)
        events: list[Event] = []
        is_final = False
        async for event in log.events(exchange.session_id, exchange.exchange_id):
            if event.kind in REQUEST_KINDS:
                events.append(event)
            if event.kind in ("response", "end"):
                is_final = True
                break
        return _Known(await asyncio.to_thread(self._results, exchange, events), is_final)

    async def _read_stream(self, log: LogReader, exchange: Exchange) -> _Known:
        """Read the results that a stream has for the calls of others."""
        folded = await folded_exchange(log, exchange)
        rows = [row for row in folded["results"] if row.call_key in self._keys]
        says = [_Said(row.started_ns, rows[:count]) for count, row in enumerate(rows, 1)]
        return _Known(says, folded["exchanges"][0].status is not None)

    def _results(self, exchange: Exchange, events: Sequence[Event]) -> list[_Said]:
        """Return the results that a request has for the calls, after each of its events at which
        there are others.
        """
        says: list[_Said] = []
        every = self._wanted(exchange, events)
        if not every:
            return says
        before: list[ResultRow] = []
        for count, event in enumerate(events, 1):
            rows = every if count == len(events) else self._wanted(exchange, events[:count])
            if rows != before:
                says.append(_Said(exchange.started_ns + event.t_ns, rows))
                before = rows
        return says

    def _wanted(self, exchange: Exchange, events: Sequence[Event]) -> list[ResultRow]:
        return [row for row in requested(exchange, events)["results"] if row.call_key in self._keys]

    async def _read_copy(self, log: LogReader, number: int, exchange: Exchange) -> None:
        """Fold another exchange, to know at which time it had how much of the response."""
        known = self._copies.get(exchange.exchange_id)
        if exchange.exchange_id == self._exchange.exchange_id or (
            known is not None and known.is_final
        ):
            return
        folding, before, is_final = Folding(exchange), None, False
        says: list[_Said] = []
        try:
            async for event in log.events(exchange.session_id, exchange.exchange_id):
                folding.apply(event)
                if folding.holds_back:
                    [row] = folding.copy().rows()["exchanges"]
                else:
                    [row] = folding.rows_of("exchanges")
                is_final = is_final or event.kind == "end"
                if row.response_id == self._response_id and row != before:
                    says.append(
                        _Said(
                            exchange.started_ns + event.t_ns, FoldedExchange(number, exchange, row)
                        )
                    )
                    before = row
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ):
            says.clear()  # a fault of this program: whoever looks at that exchange is told
        self._copies[exchange.exchange_id] = _Known(says, is_final)


def _has_news(known: _Known, said_ns: dict[tuple[str, str], int]) -> bool:
    """Return whether a request says a result that none before it said, or sooner, and note when it
    was said first.
    """
    has_news = False
    for each in known.says:
        for row in each.said:
            key = (row.call_key, row.digest)
            if key not in said_ns or each.wall_ns < said_ns[key]:
                said_ns[key] = each.wall_ns
                has_news = True
    return has_news


def _is_answered(call: ItemRow, results: Results, since_ns: int) -> bool:
    """Return whether a call has a result of its own thread."""
    found = results.of(call, since_ns)
    return found is not None and results.is_of_thread(call, found)
