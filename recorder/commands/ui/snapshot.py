"""A session, or an exchange of it, as it stood at a moment: folded from the log, open exchanges included.

The result of a call stands in a later request of the session. It is found there even if only one exchange is looked
at, but not if that request came after the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import msgspec

from recorder.commands.ui.output import seconds
from recorder.commands.ui.times import At
from recorder.errors import RecorderError, StoreError, UsageError
from recorder.model.events import Event, Exchange, Kind, Session
from recorder.projections import PROJECTIONS
from recorder.projections.anomalies import AnomalyRow
from recorder.projections.exchanges import ExchangeRow
from recorder.projections.fold import Folding, Rows
from recorder.projections.item import ItemRow
from recorder.projections.results import ResultRow
from recorder.projections.timing import TimingRow
from recorder.projections.usage import UsageRow
from recorder.store.reader import LogReader
from recorder.store.session_state import folded

Numbered = Sequence[tuple[int, Exchange]]

REQUEST_KINDS: tuple[Kind, ...] = ("request", "response", "end")  # a request is over when one of the others comes


class Answered(msgspec.Struct, frozen=True):
    """What a call came to."""

    output: str
    failed: bool | None
    latency_ns: int | None


class Taken(msgspec.Struct, frozen=True):
    """An exchange as it stood. `answers` are those of its calls, by the number of the item."""

    number: int
    exchange: Exchange
    told: ExchangeRow
    items: list[ItemRow]
    usage: UsageRow
    timing: TimingRow
    anomalies: list[AnomalyRow]
    answers: dict[int, Answered]
    superseded_by: tuple[int, Exchange] | None = None  # the one that has most of the same response


class Untold(msgspec.Struct, frozen=True):
    """An exchange of which this program can make no sense, and why."""

    number: int
    exchange: Exchange
    reason: str


class Snapshot(msgspec.Struct, frozen=True):
    """A session as it stood."""

    session: Session
    title: str | None
    is_whole: bool  # not only one of its exchanges
    at_ns: int | None  # the moment, since the first exchange shown began; `None` for now
    exchanges: list[Taken | Untold]

    @property
    def untold(self) -> list[Untold]:
        return [each for each in self.exchanges if isinstance(each, Untold)]


class Until(NamedTuple):
    """The moment: a wall time, and the last event of the one exchange that is looked at; `None` for now."""

    wall_ns: int | None = None
    pos: int | None = None
    past_end: str | None = None  # that it is, as a sentence

    def has_begun(self, exchange: Exchange) -> bool:
        return self.wall_ns is None or exchange.started_ns <= self.wall_ns

    def at_ns(self, exchange: Exchange) -> int | None:
        return None if self.wall_ns is None else self.wall_ns - exchange.started_ns


async def moment(log: LogReader, everything: Numbered, chosen: Numbered, at: At | None, at_event: int | None) -> Until:
    """What `--at` and `--at-event` mean for the chosen exchanges of everything that there is in the session."""
    if at_event is not None:
        if len(chosen) != 1:
            raise UsageError(f"An event has its place in one exchange, and here are {len(chosen)}: say which.")
        return await _at_event(log, chosen[0][1], at_event)
    if at is None or not chosen:
        return Until()
    began_ns, spans = chosen[0][1].started_ns, await log.spans(chosen[0][1].session_id)
    if at.share is not None:
        return Until(began_ns + round(at.share * (_last_ns(chosen, spans) - began_ns)))
    last_ns = _last_ns(everything, spans) - began_ns  # a call may have its result after the exchange that is chosen
    is_past = f"The last event came after {seconds(last_ns)}: this is the end."
    return Until(began_ns + at.after_ns, past_end=is_past if at.after_ns > last_ns else None)


def _last_ns(exchanges: Numbered, spans: Mapping[str, int]) -> int:
    return max(each.started_ns + spans.get(each.exchange_id, 0) for _, each in exchanges)


async def _at_event(log: LogReader, exchange: Exchange, pos: int) -> Until:
    async for event in log.events(exchange.session_id, exchange.exchange_id, after=pos - 1):
        return Until(exchange.started_ns + event.t_ns, pos)
    return Until(past_end=f"There is no event {pos}: this is the end.")


async def take(log: LogReader, session: Session, everything: Numbered, chosen: Numbered, until: Until) -> Snapshot:
    """A snapshot of the chosen exchanges, of everything that there is in the session."""
    begun = [(number, each) for number, each in everything if until.has_begun(each)]
    shown = [(number, each) for number, each in chosen if until.has_begun(each)]
    folds = Folds(log, until)
    for number, each in shown:
        await folds.fold(number, each, until.pos)
    if folds.have_any({each.resumes_response_id for _, each in begun} - {None}):
        for number, each in begun:
            await folds.fold(number, each)
    results = Results(
        (row for _, each in begun for row in folds.rows.get(each.exchange_id, _NO_ROWS)["results"]),
        {each.exchange_id: each.thread_id for _, each in everything},
    )
    for _, each in shown:
        await folds.find_results(results, each, begun)
    return Snapshot(
        session=session,
        title=await folds.title(begun),
        is_whole=len(chosen) == len(everything),
        at_ns=until.at_ns(shown[0][1]) if shown else None,
        exchanges=[_shown(number, each, folds, results) for number, each in shown],
    )


class Results:
    """What calls came to, by call; requests repeat it all, each is kept once."""

    def __init__(self, rows: Iterable[ResultRow], threads: Mapping[str, str | None]) -> None:
        """`threads`: of each exchange that may bring a result."""
        self._threads = threads
        self._by_call: dict[str, list[ResultRow]] = {}
        self._seen: set[tuple[str, str]] = set()
        self.add(rows)

    def add(self, rows: Iterable[ResultRow]) -> None:
        for row in rows:
            if (row.call_key, row.digest) not in self._seen:
                self._seen.add((row.call_key, row.digest))
                self._by_call.setdefault(row.call_key, []).append(row)

    def of(self, call: ItemRow, since_ns: int) -> ResultRow | None:
        """The first that came after a time, in the thread of the call if there is one; as the views say it."""
        rows = [row for row in self._by_call.get(call.call_key or "", ()) if row.started_ns > since_ns]
        return min(rows, key=lambda row: (not self.is_of_thread(call, row), row.started_ns, row.digest), default=None)

    def is_of_thread(self, call: ItemRow, row: ResultRow) -> bool:
        """Whether a result came in the thread of its call."""
        return self._threads[row.exchange_id] == self._threads[call.exchange_id]


class Told(NamedTuple):
    """What is told of an exchange."""

    number: int
    exchange: Exchange
    row: ExchangeRow


class Folds:
    """What exchanges come to at the moment: as a whole, or of those that are not shown what their requests say."""

    def __init__(self, log: LogReader, until: Until) -> None:
        self._log, self._until = log, until
        self.rows: dict[str, Rows] = {}
        self.failed: dict[str, str] = {}
        self._asked: dict[str, Rows] = {}
        self._by_response: dict[str | None, list[Told]] = {}

    async def fold(self, number: int, exchange: Exchange, pos: int | None = None) -> None:
        """Fold an exchange, if that is not done yet. One that cannot be folded does not hide the others."""
        exchange_id = exchange.exchange_id
        if exchange_id in self.rows or exchange_id in self.failed:
            return
        at_ns = None if pos is not None else self._until.at_ns(exchange)
        try:
            rows = self.rows[exchange_id] = await folded(self._log, exchange, at_pos=pos, at_ns=at_ns)
        except StoreError:
            raise
        except RecorderError as error:
            self.failed[exchange_id] = str(error)
            return
        told = Told(number, exchange, rows["exchanges"][0])
        self._by_response.setdefault(told.row.response_id, []).append(told)

    def have_any(self, response_ids: Set[str | None]) -> bool:
        """Whether one of these responses is that of an exchange here."""
        return not response_ids.isdisjoint(self._by_response)

    def with_response(self, row: ExchangeRow) -> list[Told]:
        """The exchanges with the response of this one, if one of the two has retrieved it."""
        same = self._by_response.get(row.response_id, ()) if row.response_id is not None else ()
        return [told for told in same if told.row.is_retrieval or row.is_retrieval]

    def first_ns(self, exchange: Exchange) -> int:
        """When a response began: of one that is retrieved later, results may have come before that."""
        row = self.rows[exchange.exchange_id]["exchanges"][0]
        same = self.with_response(row) if row.is_retrieval else ()
        return min((told.exchange.started_ns for told in same), default=exchange.started_ns)

    async def title(self, begun: Numbered) -> str | None:
        """The first that a person says in the session; what a client asks on its own, only if there is nothing else."""
        others: str | None = None
        for _, exchange in begun:
            told = self.rows.get(exchange.exchange_id) or await self._request(exchange)
            for row in told["exchanges"]:
                if row.user_text and row.purpose in (None, "turn"):
                    return str(row.user_text)
                others = others or row.user_text
        return others

    async def find_results(self, results: Results, exchange: Exchange, begun: Numbered) -> None:
        """Read on from an exchange until its calls have their results."""
        items = self.rows.get(exchange.exchange_id, _NO_ROWS)["items"]
        calls = [item for item in items if item.kind == "tool_call" and item.output is None]
        first_ns = self.first_ns(exchange) if calls else 0
        for _, later in begun if calls else ():
            found = [(call, results.of(call, first_ns)) for call in calls]
            if all(result is not None and results.is_of_thread(call, result) for call, result in found):
                return
            if later.started_ns > first_ns and later.exchange_id not in self.rows:
                results.add((await self._request(later))["results"])

    async def _request(self, exchange: Exchange) -> Rows:
        """What a request says; nothing, if that cannot be folded."""
        if exchange.exchange_id not in self._asked:
            at_ns, kept = self._until.at_ns(exchange), []
            async for event in self._log.events(exchange.session_id, exchange.exchange_id, kinds=REQUEST_KINDS):
                if at_ns is None or event.t_ns <= at_ns:
                    kept.append(event)
            self._asked[exchange.exchange_id] = _requested(exchange, kept)
        return self._asked[exchange.exchange_id]


_NO_ROWS: Rows = {projection.name: [] for projection in PROJECTIONS}


def _requested(exchange: Exchange, events: Iterable[Event]) -> Rows:
    folding = Folding(exchange)
    try:
        folding.tell_all(events)
        return folding.rows()
    except Exception:  # whoever asks for that exchange is told
        return _NO_ROWS


def _shown(number: int, exchange: Exchange, folds: Folds, results: Results) -> Taken | Untold:
    rows = folds.rows.get(exchange.exchange_id)
    if rows is None:
        return Untold(number, exchange, folds.failed[exchange.exchange_id])
    [told], [usage], [timing] = rows["exchanges"], rows["usage"], rows["timing"]
    calls = [item for item in rows["items"] if item.kind == "tool_call"]
    first_ns = folds.first_ns(exchange)
    answers = {call.item: _answer(exchange, call, results.of(call, first_ns)) for call in calls}
    return Taken(
        number=number,
        exchange=exchange,
        told=told,
        items=rows["items"],
        usage=usage,
        timing=timing,
        anomalies=rows["anomalies"],
        answers={item: answer for item, answer in answers.items() if answer is not None},
        superseded_by=_superseded_by(told, folds.with_response(told)),
    )


def _superseded_by(row: ExchangeRow, others: Iterable[Told]) -> tuple[int, Exchange] | None:
    """Of several exchanges with one response, the one that has most of it; as the views say it."""
    best = max(others, key=lambda told: _rank(told.row), default=None)
    return None if best is None or _rank(best.row) <= _rank(row) else (best.number, best.exchange)


def _rank(row: ExchangeRow) -> tuple[bool, int, str]:
    is_finished = row.finish_reason not in (None, "cancelled")
    return is_finished, -1 if row.last_number is None else row.last_number, row.exchange_id


def _answer(exchange: Exchange, call: ItemRow, result: ResultRow | None) -> Answered | None:
    """The result of a call: the provider's own, or the one that the client sent."""
    if call.output is not None:
        ended_ns = call.ended_ns
        return Answered(call.output, call.failed, None if ended_ns is None else ended_ns - call.began_ns)
    if result is None:
        return None
    took_ns = None if call.ended_ns is None else result.started_ns - (exchange.started_ns + call.ended_ns)
    return Answered(result.output, result.failed, None if took_ns is None or took_ns < 0 else took_ns)
