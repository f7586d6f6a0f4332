"""A session, or an exchange of it, at a moment: folded from the log, open exchanges included.

The result of a call is in a later request of the session. It is found there even if only one
exchange is looked at, but not if that request came after the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

import msgspec
from sqlalchemy import text

from recorder.errors import RecorderError, StoreError, UsageError
from recorder.model.events import Event, Exchange, Kind, Session
from recorder.projections.connection import ConnectionCounter, ConnectionSummary
from recorder.projections.fold import Folding, Rows
from recorder.projections.rows import (
    PROJECTIONS,
    TABLES,
    AnomalyRow,
    ExchangeRow,
    ItemRow,
    ResultRow,
    TimingRow,
    UsageRow,
    completeness,
    is_same_response,
)
from recorder.store.queries.costs import CostSum, ExchangeCost, exchange_costs, sum_of
from recorder.store.queries.outlines import spans as spans_of
from recorder.store.queries.reader import LogReader
from recorder.store.queries.resumed_response import EARLIER_EVENTS, before, earlier
from recorder.wire.dialects import tells_targets
from recorder.wire.dialects.json_values import without_nulls

Numbered = Sequence[tuple[int, Exchange]]

CallKeys = Mapping[tuple[str, int], str]
"""The keys of calls in the log that are not their ids, by exchange and item
(`recorder.store.write.call_keys`).
"""

_KEYS = f"""SELECT exchange_id, item, call_key FROM {TABLES["items"]}
WHERE session_id = :session_id AND kind = 'tool_call' AND call_key IS DISTINCT FROM call_id"""

# a request is over when one of the others comes
REQUEST_KINDS: tuple[Kind, ...] = ("request", "response", "end")


class CallResult(msgspec.Struct, frozen=True):
    """The result of a call."""

    output: str
    failed: bool | None
    latency_ns: int | None


class ExchangeState(msgspec.Struct, frozen=True):
    """An exchange at the moment of the snapshot.

    `answers` are the results of its calls, by the number of the item.
    """

    number: int
    exchange: Exchange
    row: ExchangeRow
    items: list[ItemRow]
    usage: UsageRow
    timing: TimingRow
    anomalies: list[AnomalyRow]
    answers: dict[int, CallResult]
    superseded_by: tuple[int, Exchange] | None = None  # the one that has most of the same response
    connection: ConnectionSummary | None = None  # if it is a WebSocket connection
    cost: ExchangeCost | None = None  # of one that has ended, if there are prices


class UnfoldableExchange(msgspec.Struct, frozen=True):
    """An exchange whose fold failed, and why."""

    number: int
    exchange: Exchange
    reason: str


class Snapshot(msgspec.Struct, frozen=True):
    """A session at a moment."""

    session: Session
    title: str | None
    is_whole: bool  # not only one of its exchanges
    at_ns: int | None  # the moment, since the first exchange shown began; `None` for now
    exchanges: list[ExchangeState | UnfoldableExchange]

    @property
    def unfoldable(self) -> list[UnfoldableExchange]:
        return [each for each in self.exchanges if isinstance(each, UnfoldableExchange)]

    @property
    def cost(self) -> CostSum:
        """Return the cost of the exchanges shown together.

        One that the provider refused costs nothing.
        """
        taken = (each for each in self.exchanges if isinstance(each, ExchangeState))
        return sum_of(
            each.cost for each in taken if each.cost and (each.row.http_status or 0) < 400
        )


class Cutoff(NamedTuple):
    """The moment of a snapshot: a wall time, and the last event of the one exchange that is shown;
    empty for now.
    """

    wall_ns: int | None = None
    pos: int | None = None
    is_past_end: bool = False
    # when the last event came, since the first exchange that is shown began
    last_ns: int | None = None

    def has_begun(self, exchange: Exchange) -> bool:
        return self.wall_ns is None or exchange.started_ns <= self.wall_ns

    def at_ns(self, exchange: Exchange) -> int | None:
        return None if self.wall_ns is None else self.wall_ns - exchange.started_ns


async def cutoff(
    log: LogReader,
    everything: Numbered,
    chosen: Numbered,
    *,
    after_ns: int | None = None,
    share: float | None = None,
    at_event: int | None = None,
) -> Cutoff:
    """Return the moment so long after the chosen exchanges began, at a share of their whole time,
    or at an event.

    `everything` is all that there is in the session. Raises `UsageError` for an event if not one
    exchange is chosen.
    """
    if at_event is not None:
        if len(chosen) != 1:
            raise UsageError(
                f"An event has its place in one exchange, and here are {len(chosen)}: say which."
            )
        [(_, exchange)] = chosen
        return await _at_event(log, exchange, at_event)
    if (after_ns is None and share is None) or not chosen:
        return Cutoff()
    _, first = chosen[0]
    began_ns, spans = first.started_ns, await spans_of(log, first.session_id)
    if share is not None:
        return Cutoff(began_ns + round(share * (_last_ns(chosen, spans) - began_ns)))
    # a call may have its result after the exchange that is chosen
    last_ns = _last_ns(everything, spans) - began_ns
    after_ns = after_ns or 0
    return Cutoff(began_ns + after_ns, is_past_end=after_ns > last_ns, last_ns=last_ns)


def _last_ns(exchanges: Numbered, spans: Mapping[str, int]) -> int:
    return max(each.started_ns + spans.get(each.exchange_id, 0) for _, each in exchanges)


async def _at_event(log: LogReader, exchange: Exchange, pos: int) -> Cutoff:
    async for event in log.events(exchange.session_id, exchange.exchange_id, after=pos - 1):
        return Cutoff(exchange.started_ns + event.t_ns, pos)
    return Cutoff(is_past_end=True)


async def take_snapshot(
    log: LogReader, session: Session, everything: Numbered, chosen: Numbered, until: Cutoff
) -> Snapshot:
    """Return a snapshot of the chosen exchanges.

    `everything` is all that there is in the session.
    """
    begun = [(number, each) for number, each in everything if until.has_begun(each)]
    shown = [(number, each) for number, each in chosen if until.has_begun(each)]
    folds = _Folds(log, until)
    for number, each in shown:
        await folds.fold(number, each, until.pos)
    if folds.have_any({each.resumes_response_id for _, each in begun} - {None}):
        for number, each in begun:
            await folds.fold(number, each)
    results = Results(
        chain.from_iterable(
            folds.rows.get(each.exchange_id, _NO_ROWS)["results"] for _, each in begun
        ),
        {each.exchange_id: each.thread_id for _, each in everything},
        await call_keys(log, session.session_id),
    )
    for _, each in shown:
        await folds.find_results(results, each, begun)
    costs = await exchange_costs(log, session.session_id)
    return Snapshot(
        session=session,
        title=await folds.title(begun),
        is_whole=len(chosen) == len(everything),
        at_ns=until.at_ns(shown[0][1]) if shown else None,
        exchanges=[_shown(number, each, folds, results, costs) for number, each in shown],
    )


async def folded_exchange(
    log: LogReader,
    exchange: Exchange,
    *,
    at_pos: int | None = None,
    at_ns: int | None = None,
    counter: ConnectionCounter | None = None,
) -> Rows:
    """Return the projections of an exchange, up to a position or a time since it began if one is
    given.

    `counter` gets the same events.

    Raises `RecorderError` if a fold fails, which is a fault of this program: `recorder events`
    still shows the log.
    """
    folding = Folding(exchange)
    earlier = await earlier_events(log, exchange)
    try:
        for event in earlier:
            folding.recall(event)
        async for event in log.events(exchange.session_id, exchange.exchange_id):
            if (at_pos is not None and event.pos > at_pos) or (
                at_ns is not None and event.t_ns > at_ns
            ):
                break
            folding.apply(event)
            if counter is not None:
                counter.add(event)
        return folding.rows()
    except RecorderError:
        raise
    except Exception as error:
        raise unfoldable(exchange, error) from error


async def earlier_events(log: LogReader, exchange: Exchange) -> list[Event]:
    """Return the events of the response that an exchange resumes, from before it was resumed."""
    values = earlier(exchange)
    if values is None:
        return []
    return list(before(exchange, (Event(*row) for row in await log.rows(EARLIER_EVENTS, **values))))


async def call_keys(log: LogReader, session_id: str, exchange_id: str | None = None) -> CallKeys:
    """Return the keys of the calls of a session, or of one exchange: to fold events again does not
    find them.
    """
    one = {} if exchange_id is None else {"exchange_id": exchange_id}
    sql = f"{_KEYS} AND exchange_id = :exchange_id" if one else _KEYS
    rows = await log.rows(text(sql), session_id=session_id, **one)
    return {(row.exchange_id, row.item): row.call_key for row in rows}


def unfoldable(exchange: Exchange, error: Exception) -> RecorderError:
    """Return the error for an exchange whose fold failed."""
    reason = f"{type(error).__name__}: {error}"
    return RecorderError(
        f"recorder cannot make sense of exchange {exchange.exchange_id}, please report it: {reason}"
    )


def counter_of(exchange: Exchange) -> ConnectionCounter | None:
    """Return a counter of an exchange that may be a WebSocket connection."""
    return ConnectionCounter() if exchange.method == "GET" else None


class Results:
    """The results of calls, by call; requests repeat them all, each is kept once."""

    def __init__(
        self, rows: Iterable[ResultRow], threads: Mapping[str, str | None], keys: CallKeys
    ) -> None:
        """`threads` has the thread of each exchange that may bring a result."""
        self._threads, self._keys = threads, keys
        self._by_call: dict[str, list[ResultRow]] = {}
        self._seen: set[tuple[str, str]] = set()
        self.add(rows)

    def add(self, rows: Iterable[ResultRow]) -> None:
        for row in rows:
            if (row.call_key, row.digest) not in self._seen:
                self._seen.add((row.call_key, row.digest))
                self._by_call.setdefault(row.call_key, []).append(row)

    def of(self, call: ItemRow, since_ns: int) -> ResultRow | None:
        """Return the first result after a time, preferably from the thread of the call; as the
        views have it.
        """
        key = self._keys.get((call.exchange_id, call.item), call.call_key)
        rows = [row for row in self._by_call.get(key or "", ()) if row.started_ns > since_ns]
        return min(
            rows,
            key=lambda row: (not self.is_of_thread(call, row), row.started_ns, row.digest),
            default=None,
        )

    def is_of_thread(self, call: ItemRow, row: ResultRow) -> bool:
        """Return whether a result came in the thread of its call."""
        return self._threads[row.exchange_id] == self._threads[call.exchange_id]


class FoldedExchange(NamedTuple):
    """An exchange with its projected row."""

    number: int
    exchange: Exchange
    row: ExchangeRow


class _Folds:
    """The projections of exchanges at the moment; of those that are not shown, only what their
    requests have.
    """

    def __init__(self, log: LogReader, until: Cutoff) -> None:
        self._log, self._until = log, until
        self.rows: dict[str, Rows] = {}
        self.failed: dict[str, str] = {}
        self._requests: dict[str, Rows] = {}
        self.connections: dict[str, ConnectionSummary | None] = {}
        self._by_response: dict[str | None, list[FoldedExchange]] = {}

    async def fold(self, number: int, exchange: Exchange, pos: int | None = None) -> None:
        """Fold an exchange, if that is not done yet. A failure does not hide the others."""
        exchange_id = exchange.exchange_id
        if exchange_id in self.rows or exchange_id in self.failed:
            return
        at_ns = None if pos is not None else self._until.at_ns(exchange)
        try:
            counter = counter_of(exchange)
            rows = await folded_exchange(
                self._log, exchange, at_pos=pos, at_ns=at_ns, counter=counter
            )
            self.rows[exchange_id] = rows
        except StoreError:
            raise
        except RecorderError as error:
            self.failed[exchange_id] = str(error)
            return
        self.connections[exchange_id] = None if counter is None else counter.summary()
        [row] = rows["exchanges"]
        folded = FoldedExchange(number, exchange, row)
        self._by_response.setdefault(folded.row.response_id, []).append(folded)

    def have_any(self, response_ids: Set[str | None]) -> bool:
        """Return whether a folded exchange has one of these responses."""
        return not response_ids.isdisjoint(self._by_response)

    def with_response(self, row: ExchangeRow) -> list[FoldedExchange]:
        """Return the exchanges with the response of this one, if one of the two has retrieved it."""
        same = self._by_response.get(row.response_id, ()) if row.response_id is not None else ()
        return [each for each in same if is_same_response(each.row, row)]

    def first_ns(self, exchange: Exchange) -> int:
        """Return when a response began: if it was retrieved later, results may have come before
        that.
        """
        [row] = self.rows[exchange.exchange_id]["exchanges"]
        same = self.with_response(row) if row.is_retrieval else ()
        return min((each.exchange.started_ns for each in same), default=exchange.started_ns)

    async def title(self, begun: Numbered) -> str | None:
        """Return the first text of a person in the session, else the first of the client's own
        requests.
        """
        others: str | None = None
        for _, exchange in begun:
            rows = self.rows.get(exchange.exchange_id) or await self._request(exchange)
            for row in rows["exchanges"]:
                if row.user_text and row.purpose in (None, "turn"):
                    return str(row.user_text)
                others = others or row.user_text
        return others

    async def find_results(self, results: Results, exchange: Exchange, begun: Numbered) -> None:
        """Read the streams that answer other exchanges, and the requests after one until its calls
        have results.
        """
        items = self.rows.get(exchange.exchange_id, _NO_ROWS)["items"]
        calls = [item for item in items if item.kind == "tool_call" and item.output is None]
        first_ns = self.first_ns(exchange) if calls else 0
        for number, other in begun if calls else ():
            if tells_targets(other.method, other.target):
                await self.fold(number, other)
                results.add(self.rows.get(other.exchange_id, _NO_ROWS)["results"])
        for _, later in begun if calls else ():
            found = [(call, results.of(call, first_ns)) for call in calls]
            if all(
                result is not None and results.is_of_thread(call, result) for call, result in found
            ):
                return
            if later.started_ns > first_ns and later.exchange_id not in self.rows:
                results.add((await self._request(later))["results"])

    async def _request(self, exchange: Exchange) -> Rows:
        """Return the projections of a request alone; empty ones if it cannot be folded."""
        if exchange.exchange_id not in self._requests:
            at_ns, events = self._until.at_ns(exchange), []
            async for event in self._log.events(
                exchange.session_id, exchange.exchange_id, kinds=REQUEST_KINDS
            ):
                if at_ns is None or event.t_ns <= at_ns:
                    events.append(event)
            self._requests[exchange.exchange_id] = requested(exchange, events)
        return self._requests[exchange.exchange_id]


_NO_ROWS: Rows = {projection.name: [] for projection in PROJECTIONS}


def requested(exchange: Exchange, events: Iterable[Event]) -> Rows:
    """Return the projections of an exchange of which only the request is known; empty ones if it
    cannot be folded.
    """
    folding = Folding(exchange)
    try:
        folding.apply_all(events)
        return folding.rows()
    except Exception:  # whoever asks for that exchange is told
        return _NO_ROWS


def _shown(
    number: int,
    exchange: Exchange,
    folds: _Folds,
    results: Results,
    costs: Mapping[str, ExchangeCost],
) -> ExchangeState | UnfoldableExchange:
    rows = folds.rows.get(exchange.exchange_id)
    if rows is None:
        return UnfoldableExchange(number, exchange, folds.failed[exchange.exchange_id])
    [row], [usage], [timing] = rows["exchanges"], rows["usage"], rows["timing"]
    calls = [item for item in rows["items"] if item.kind == "tool_call"]
    first_ns = folds.first_ns(exchange)
    answers = {call.item: answer_of(exchange, call, results.of(call, first_ns)) for call in calls}
    return ExchangeState(
        number=number,
        exchange=exchange,
        row=row,
        items=rows["items"],
        usage=usage,
        timing=timing,
        anomalies=rows["anomalies"],
        answers=without_nulls(answers),
        superseded_by=superseded_by(row, folds.with_response(row)),
        connection=folds.connections.get(exchange.exchange_id),
        cost=None if row.status is None else costs.get(exchange.exchange_id),
    )


def superseded_by(
    row: ExchangeRow, others: Iterable[FoldedExchange]
) -> tuple[int, Exchange] | None:
    """Return the exchange that has most of a response, if that is another one
    (`recorder.projections.exchanges`).
    """
    best = max(others, key=lambda folded: completeness(folded.row), default=None)
    is_better = best is not None and completeness(best.row) > completeness(row)
    return (best.number, best.exchange) if best is not None and is_better else None


def answer_of(exchange: Exchange, call: ItemRow, result: ResultRow | None) -> CallResult | None:
    """Return the result of a call: the provider's own, or the one that the client sent."""
    if call.output is not None:
        ended_ns = call.ended_ns
        return CallResult(
            call.output, call.failed, None if ended_ns is None else ended_ns - call.began_ns
        )
    if result is None:
        return None
    took_ns = (
        None if call.ended_ns is None else result.started_ns - (exchange.started_ns + call.ended_ns)
    )
    return CallResult(
        result.output, result.failed, None if took_ns is None or took_ns < 0 else took_ns
    )
