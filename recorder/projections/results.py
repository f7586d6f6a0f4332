"""Results of clients' tools, each once: from the first request that carries it.

Agents send the whole history with every request. So a result is kept by its call and its content, and of several
requests that carry it the store keeps the earliest: in whatever order exchanges are folded, the rows are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

import msgspec

from recorder.model.facts import RepeatedCall
from recorder.model.text import storable
from recorder.projections.exchange_facts import ExchangeFacts
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


def result_rows(facts: ExchangeFacts) -> Iterable[ResultRow]:
    """Yield the results that a request carries."""
    numbers: Counter[str | None] = Counter()
    counts: Counter[str] = Counter()
    exchange = facts.exchange
    for result in facts.request.results[:RESULTS_LIMIT]:
        key = storable(result.place) or call_key(result.call_id, result.name, numbers[result.name])
        numbers[result.name] += not result.call_id and result.place is None
        # Another call may return the same: one of the same id or place is the next of the history, another one is of
        # this turn.
        scope = counts[key] if result.call_id or result.place else exchange.exchange_id
        counts[key] += 1
        yield ResultRow(
            session_id=exchange.session_id,
            call_key=key,
            digest=sha256(f"{scope} {result.output}".encode("utf-8", "surrogatepass")).hexdigest(),
            exchange_id=exchange.exchange_id,
            started_ns=exchange.started_ns,
            output=storable(result.output),
            failed=result.failed,
        )


def repeated_calls(facts: ExchangeFacts) -> RepeatedCalls | None:
    """Return the calls that the request repeats with their results, if they have ids."""
    calls = facts.request.repeated_calls
    if not any(call.call_id for call in calls):
        return None
    return RepeatedCalls(*facts.ids, calls)


def call_key(call_id: str | None, name: str | None, number: int) -> str:
    """Return the key that a call and its result share: the id; without one (Gemini), the name with a number."""
    return storable(call_id) if call_id else storable(f"{name or ''}[{number}]")
