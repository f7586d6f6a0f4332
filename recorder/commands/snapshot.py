"""A session, or an exchange of it, as it stood at a moment: folded from the log, open exchanges included.

The result of a call stands in a later request of the session. It is found there even if only one exchange is looked
at, but not if that request came after the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from recorder.commands.times import At
from recorder.errors import UsageError
from recorder.events import Exchange, Kind, Session
from recorder.folded import folded
from recorder.folding import Folding, Rows
from recorder.log import Log
from recorder.projections.anomalies import AnomalyRow
from recorder.projections.exchanges import ExchangeRow
from recorder.projections.items import ItemRow
from recorder.projections.results import ResultRow
from recorder.projections.timing import TimingRow
from recorder.projections.usage import UsageRow

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
    continued_by: tuple[int, Exchange] | None = None  # the last one that resumes the same response


class Snapshot(msgspec.Struct, frozen=True):
    """A session as it stood."""

    session: Session
    title: str | None
    is_whole: bool  # not only one of its exchanges
    at_ns: int | None  # the moment, since the first exchange shown began; `None` for now
    exchanges: list[Taken]


class Until(NamedTuple):
    """The moment: a wall time, and the last event of the one exchange that is looked at; `None` for now."""

    wall_ns: int | None = None
    pos: int | None = None

    def has_begun(self, exchange: Exchange) -> bool:
        return self.wall_ns is None or exchange.started_ns <= self.wall_ns

    def at_ns(self, exchange: Exchange) -> int | None:
        return None if self.wall_ns is None else self.wall_ns - exchange.started_ns


async def moment(log: Log, chosen: Numbered, at: At | None, at_event: int | None) -> Until:
    """What `--at` and `--at-event` mean for these exchanges."""
    if at_event is not None:
        if len(chosen) != 1:
            raise UsageError(f"An event has its place in one exchange, and here are {len(chosen)}: say which.")
        return await _at_event(log, chosen[0][1], at_event)
    if at is None or not chosen:
        return Until()
    began_ns = chosen[0][1].started_ns
    if at.share is None:
        return Until(began_ns + at.after_ns)
    spans = await log.spans(chosen[0][1].session_id)
    last_ns = max(each.started_ns + spans.get(each.exchange_id, 0) for _, each in chosen)
    return Until(began_ns + round(at.share * (last_ns - began_ns)))


async def _at_event(log: Log, exchange: Exchange, pos: int) -> Until:
    async for event in log.events(exchange.session_id, exchange.exchange_id, after=pos - 1):
        return Until(exchange.started_ns + event.t_ns, pos)
    return Until()


async def take(log: Log, session: Session, everything: Numbered, chosen: Numbered, until: Until) -> Snapshot:
    """A snapshot of the chosen exchanges, of everything that there is in the session."""
    begun = [(number, each) for number, each in everything if until.has_begun(each)]
    shown = [(number, each) for number, each in chosen if until.has_begun(each)]
    others = Requests(log, until, {each.exchange_id for _, each in shown})
    rows: dict[str, Rows] = {}
    results = Results()
    for _, each in shown:
        told = rows[each.exchange_id] = dict(await _rows(log, each, until))
        results.add(told.pop("results"))
    for _, each in shown if len(shown) < len(begun) else ():
        await others.find_results(results, each, rows[each.exchange_id]["items"], begun)
    return Snapshot(
        session=session,
        title=await others.title(begun, rows),
        is_whole=len(chosen) == len(everything),
        at_ns=until.at_ns(shown[0][1]) if shown else None,
        exchanges=[_taken(number, each, rows[each.exchange_id], begun, results) for number, each in shown],
    )


async def _rows(log: Log, exchange: Exchange, until: Until) -> Rows:
    if until.pos is not None:
        return (await folded(log, exchange, at_pos=until.pos)).rows()
    return (await folded(log, exchange, at_ns=until.at_ns(exchange))).rows()


class Results:
    """What calls came to, by call, in the order in which requests bring it; they repeat it all, each is kept once."""

    def __init__(self) -> None:
        self._by_call: dict[str, list[ResultRow]] = {}
        self._seen: set[tuple[str, str]] = set()

    def add(self, rows: Iterable[ResultRow]) -> None:
        for row in rows:
            if (row.call_key, row.digest) not in self._seen:
                self._seen.add((row.call_key, row.digest))
                self._by_call.setdefault(row.call_key, []).append(row)

    def of(self, call: ItemRow, exchange: Exchange) -> ResultRow | None:
        """The first that came after the exchange of the call."""
        rows = self._by_call.get(call.call_key or "", ())
        return next((row for row in rows if row.started_ns > exchange.started_ns), None)


class Requests:
    """The requests of exchanges that are not shown, read as far as something is looked for in them."""

    def __init__(self, log: Log, until: Until, shown: set[str]) -> None:
        self._log, self._until, self._shown = log, until, shown

    async def title(self, begun: Numbered, rows: Mapping[str, Rows]) -> str | None:
        """The first that a person says in the session."""
        for _, exchange in begun:
            told = rows.get(exchange.exchange_id) or await self._rows(exchange)
            text: str | None = told["exchanges"][0].user_text
            if text:
                return text
        return None

    async def find_results(self, results: Results, exchange: Exchange, items: list[ItemRow], begun: Numbered) -> None:
        """Read on from an exchange until its calls have their results."""
        calls = [item for item in items if item.kind == "tool_call" and item.output is None]
        for _, later in begun:
            if all(results.of(call, exchange) for call in calls):
                return
            if later.started_ns > exchange.started_ns and later.exchange_id not in self._shown:
                results.add((await self._rows(later))["results"])

    async def _rows(self, exchange: Exchange) -> Rows:
        folding, at_ns = Folding(exchange), self._until.at_ns(exchange)
        async for event in self._log.events(exchange.session_id, exchange.exchange_id, kinds=REQUEST_KINDS):
            if at_ns is None or event.t_ns <= at_ns:
                folding.tell(event)
        return folding.rows()


def _taken(number: int, exchange: Exchange, rows: Rows, begun: Numbered, results: Results) -> Taken:
    [told], [usage], [timing] = rows["exchanges"], rows["usage"], rows["timing"]
    answers = {item.item: _answer(exchange, item, results) for item in rows["items"] if item.kind == "tool_call"}
    return Taken(
        number=number,
        exchange=exchange,
        told=told,
        items=rows["items"],
        usage=usage,
        timing=timing,
        anomalies=rows["anomalies"],
        answers={item: answer for item, answer in answers.items() if answer is not None},
        continued_by=_continued_by(exchange, told.response_id, begun),
    )


def _continued_by(exchange: Exchange, response_id: str | None, begun: Numbered) -> tuple[int, Exchange] | None:
    later = [pair for pair in begun if pair[1].started_ns > exchange.started_ns]
    resuming = [pair for pair in later if response_id is not None and pair[1].resumes_response_id == response_id]
    return resuming[-1] if resuming else None


def _answer(exchange: Exchange, call: ItemRow, results: Results) -> Answered | None:
    """The result of a call: the provider's own, or the one that the client sent."""
    if call.output is not None:
        ended_ns = call.ended_ns
        return Answered(call.output, call.failed, None if ended_ns is None else ended_ns - call.began_ns)
    result = results.of(call, exchange)
    if result is None:
        return None
    ended_ns = None if call.ended_ns is None else exchange.started_ns + call.ended_ns
    return Answered(result.output, result.failed, None if ended_ns is None else result.started_ns - ended_ns)
