"""Results of clients' tools, each once: from the first request that carries it.

Agents send the whole history with every request. So a result is kept by its call and its content, and of several
requests that carry it the store keeps the earliest: in whatever order exchanges are folded, the rows are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import Fact, RepeatedCall, RequestFacts, ToolResult
from recorder.model.text import storable
from recorder.projections.projection import FoldContext, Handler
from recorder.projections.rows import ResultRow

RESULTS_LIMIT = 10_000  # of one request: a longer history than any context holds


class RepeatedCalls(msgspec.Struct, frozen=True):
    """The calls that a request repeats with their results, perhaps under other ids than those that they were given."""

    session_id: str
    exchange_id: str
    calls: tuple[RepeatedCall, ...]

    @property
    def last_id(self) -> str:
        """Return the id by which the request knows the last call that has one."""
        return next(call.call_id for call in reversed(self.calls) if call.call_id)


class Results:
    """The results that a request carries."""

    def __init__(self, exchange: Exchange, _: FoldContext) -> None:
        self._exchange = exchange
        self._request = RequestFacts()

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {RequestFacts: self._on_request}

    def _on_request(self, fact: RequestFacts, event: Event) -> None:
        self._request = fact

    def rows(self) -> Iterable[ResultRow]:
        numbers: Counter[str | None] = Counter()
        counts: Counter[str] = Counter()
        exchange = self._exchange
        for result in self._request.results[:RESULTS_LIMIT]:
            key = storable(result.place) or call_key(result.call_id, result.name, numbers[result.name])
            numbers[result.name] += not result.call_id and result.place is None
            digest = self._digest(result, counts[key])
            counts[key] += 1
            yield ResultRow(
                session_id=exchange.session_id,
                call_key=key,
                digest=digest,
                exchange_id=exchange.exchange_id,
                started_ns=exchange.started_ns,
                output=storable(result.output),
                failed=result.failed,
            )

    def repeated(self) -> RepeatedCalls | None:
        """Return the calls that the request repeats with their results, if they have ids."""
        calls, exchange = self._request.repeated_calls, self._exchange
        if not any(call.call_id for call in calls):
            return None
        return RepeatedCalls(exchange.session_id, exchange.exchange_id, calls)

    def _digest(self, result: ToolResult, count: int) -> str:
        """Return the digest of a result. Another call may return the same: one of the same id or place is the next of
        the history, another one is of this turn.
        """
        scope = count if result.call_id or result.place else self._exchange.exchange_id
        return sha256(f"{scope} {result.output}".encode("utf-8", "surrogatepass")).hexdigest()


def call_key(call_id: str | None, name: str | None, number: int) -> str:
    """Return the key that a call and its result share: the id; without one (Gemini), the name with a number."""
    return storable(call_id) if call_id else storable(f"{name or ''}[{number}]")
