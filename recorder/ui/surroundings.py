"""The exchanges around one: later requests with the results of its calls, and other copies of its response.

A view is what they add to the document of the exchange from a moment on. What `recorder show` finds at that moment, by
the same rules (`recorder.store.queries.session_state`), is here for all moments at once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from recorder.model.events import Event, Exchange
from recorder.projections.fold import Folding
from recorder.projections.rows import ExchangeRow, ItemRow, ResultRow
from recorder.projections.same_response import is_same_response
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_state import REQUEST_KINDS, FoldedExchange, Results, requested, superseded_by
from recorder.store.write.call_keys import CallKeys, call_keys

Moment = tuple[int, str, Any]
"""A time since the exchange began, the other exchange that says something new at it, and something that tells it from
others."""


class OutsideView(NamedTuple):
    """The things that others say of an exchange at one moment."""

    exchange: Exchange
    later: Results  # of the requests after it
    every: Results  # of all requests of the session
    copies: Sequence[FoldedExchange] = ()
    retrieved: frozenset[str | None] = frozenset()  # responses that an exchange retrieves which has begun

    @property
    def has_copies(self) -> bool:
        """Return True if an event of the exchange may change which copy of its response is the best."""
        return bool(self.copies)

    def result_of(self, call: ItemRow, row: ExchangeRow) -> ResultRow | None:
        """Return the result of a call of the exchange, whose row is given."""
        began_ns = self.exchange.started_ns
        if row.response_id not in self.retrieved:
            return self.later.of(call, began_ns)
        same = self._same(row) if row.is_retrieval else []
        return self.every.of(call, min([began_ns, *(each.exchange.started_ns for each in same)]))

    def superseded_by(self, row: ExchangeRow) -> tuple[int, Exchange] | None:
        """Return the exchange that has more of the same response."""
        return superseded_by(row, self._same(row)) if row.response_id in self.retrieved else None

    def _same(self, row: ExchangeRow) -> list[FoldedExchange]:
        return [each for each in self.copies if is_same_response(each.row, row)]


class _Known(NamedTuple):
    """The things that one other exchange says, each with its wall time, ascending; and whether nothing will follow."""

    says: list[tuple[int, Any]]
    is_final: bool

    def at(self, wall_ns: int) -> Any:
        """Return the last thing that it had said at a time, or None."""
        place = bisect_right(self.says, wall_ns, key=itemgetter(0))
        return self.says[place - 1][1] if place else None


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
        self, log: LogReader, everything: Sequence[Numbered], calls: Sequence[ItemRow], response_id: str | None
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
        is_retrieved = response_id is not None and any(
            each.resumes_response_id == response_id for _, each in everything
        )
        if is_retrieved:
            for numbered in everything:
                await self._read_copy(log, *numbered)
        if keys:
            await self._read_requests(log, calls, is_retrieved)
        self.moments = sorted(self._moments(is_retrieved), key=itemgetter(0, 1))

    def view(self, t_ns: int) -> OutsideView:
        """Return what others say at a time since the exchange began."""
        wall_ns, own = self._exchange.started_ns + t_ns, self._exchange
        begun = [(number, each) for number, each in self._everything if each.started_ns <= wall_ns]
        rows = [
            (each, row)
            for _, each in begun
            if each.exchange_id in self._requests
            for row in self._requests[each.exchange_id].at(wall_ns) or ()
        ]
        threads = {each.exchange_id: each.thread_id for _, each in self._everything}
        found = (self._copies[each.exchange_id].at(wall_ns) for _, each in begun if each.exchange_id in self._copies)
        return OutsideView(
            own,
            Results(
                (row for each, row in rows if each.exchange_id == own.exchange_id or each.started_ns > own.started_ns),
                threads,
                self._known_keys,
            ),
            Results((row for _, row in rows), threads, self._known_keys),
            [copy for copy in found if copy is not None],
            frozenset(each.resumes_response_id for _, each in begun) - {None},
        )

    def _moments(self, is_retrieved: bool) -> Iterable[Moment]:
        began_ns = self._exchange.started_ns
        for _, each in self._everything if is_retrieved else ():
            if each.resumes_response_id == self._response_id:
                yield each.started_ns - began_ns, each.exchange_id, None
        for known in (self._requests, self._copies):
            for exchange_id, other in known.items():
                for wall_ns, said in other.says:
                    yield wall_ns - began_ns, exchange_id, said

    async def _read_requests(self, log: LogReader, calls: Sequence[ItemRow], is_retrieved: bool) -> None:
        """Read requests in order until all calls have results of their own thread, and no later one can be better.

        Requests repeat the results of earlier ones, so only what is new in one is kept: a session may have thousands.
        """
        own, answered_ns = self._exchange, None
        threads = {each.exchange_id: each.thread_id for _, each in self._everything}
        results = Results((), threads, self._known_keys)
        said_ns: dict[tuple[str, str], int] = {}
        latest_ns = 0
        for _, each in self._everything:
            if not is_retrieved and each.exchange_id != own.exchange_id and each.started_ns <= own.started_ns:
                continue
            if answered_ns is not None and each.started_ns > answered_ns:
                return
            known = self._requests.get(each.exchange_id)
            if known is None or not known.is_final:
                known = self._requests[each.exchange_id] = await self._read_request(log, each)
            if not known.says or is_retrieved:
                continue
            if not _has_news(known, said_ns):
                self._requests[each.exchange_id] = _Known([], known.is_final)
                continue
            latest_ns = max(latest_ns, known.says[-1][0])
            results.add(known.says[-1][1])
            if all(_is_answered(call, results, own.started_ns) for call in calls):
                answered_ns = latest_ns

    async def _read_request(self, log: LogReader, exchange: Exchange) -> _Known:
        events: list[Event] = []
        is_final = False
        async for event in log.events(exchange.session_id, exchange.exchange_id):
            if event.kind in REQUEST_KINDS:
                events.append(event)
            if event.kind in ("response", "end"):
                is_final = True
                break
        return _Known(await asyncio.to_thread(self._results, exchange, events), is_final)

    def _results(self, exchange: Exchange, events: Sequence[Event]) -> list[tuple[int, Any]]:
        """Return the results that a request has for the calls, after each of its events at which there are others."""
        says: list[tuple[int, Any]] = []
        if not self._wanted(exchange, events):
            return says
        for count, event in enumerate(events, 1):
            rows = self._wanted(exchange, events[:count])
            if rows != (says[-1][1] if says else []):
                says.append((exchange.started_ns + event.t_ns, rows))
        return says

    def _wanted(self, exchange: Exchange, events: Sequence[Event]) -> list[ResultRow]:
        return [row for row in requested(exchange, events)["results"] if row.call_key in self._keys]

    async def _read_copy(self, log: LogReader, number: int, exchange: Exchange) -> None:
        """Fold another exchange, to know at which time it had how much of the response."""
        known = self._copies.get(exchange.exchange_id)
        if exchange.exchange_id == self._exchange.exchange_id or (known is not None and known.is_final):
            return
        folding, says, is_final = Folding(exchange), list[tuple[int, Any]](), False
        try:
            async for event in log.events(exchange.session_id, exchange.exchange_id):
                folding.apply(event)
                rows = folding.copy().rows()["exchanges"] if folding.holds_back else folding.fold("exchanges").rows()
                [row] = rows
                is_final = is_final or event.kind == "end"
                if row.response_id == self._response_id and not (says and says[-1][1].row == row):
                    copy = FoldedExchange(number, exchange, row)
                    says.append((exchange.started_ns + event.t_ns, copy))
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
            says.clear()  # a fault of this program: whoever looks at that exchange is told
        self._copies[exchange.exchange_id] = _Known(says, is_final)


def _has_news(known: _Known, said_ns: dict[tuple[str, str], int]) -> bool:
    """Return whether a request says a result that none before it said, or sooner, and note when it was said first."""
    has_news = False
    for wall_ns, rows in known.says:
        for row in rows:
            key = (row.call_key, row.digest)
            if wall_ns < said_ns.get(key, wall_ns + 1):
                said_ns[key] = wall_ns
                has_news = True
    return has_news


def _is_answered(call: ItemRow, results: Results, since_ns: int) -> bool:
    """Return whether a call has a result of its own thread."""
    found = results.of(call, since_ns)
    return found is not None and results.is_of_thread(call, found)
