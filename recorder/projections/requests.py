"""The request of each exchange, and the exchange that it continues, in one row.

A fold knows one exchange: it makes a row as if nothing came before. `linked` gives the row its place behind the one
that it continues, which the store looks up; the row of an exchange is written again when that one changes. The request
put together is `recorder.wire.logical_request`, by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import Fact, RequestFacts, ResponseStarted
from recorder.model.text import storable
from recorder.projections.projection import FoldContext, Handler
from recorder.projections.rows import RequestRow
from recorder.wire.dialects import by_name

IDS_LIMIT = 32
"""Ids of one response that are kept: GitHub Copilot has another one in each event; a client that takes one of the
others than the last takes an early one."""


class Requests:
    def __init__(self, exchange: Exchange, context: FoldContext) -> None:
        self._exchange, self._items = exchange, context.items
        self._facts = RequestFacts()
        self._response_ids: dict[str, None] = {}

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {RequestFacts: self._on_facts, ResponseStarted: self._on_started}

    def _on_facts(self, fact: RequestFacts, event: Event) -> None:
        self._facts = fact

    def _on_started(self, fact: ResponseStarted, event: Event) -> None:
        if fact.response_id is not None:
            self._response_ids.pop(fact.response_id, None)
            self._response_ids[fact.response_id] = None

    def rows(self) -> Iterable[RequestRow]:
        facts, exchange = self._facts, self._exchange
        if facts.model is None and not facts.items and exchange.resumes_response_id is None:
            return  # nothing is to be generated
        *others, last = [*self._response_ids] or [exchange.resumes_response_id or ""]
        known = [id for id in others if id and " " not in id][:IDS_LIMIT]
        yield RequestRow(
            session_id=exchange.session_id,
            exchange_id=exchange.exchange_id,
            previous_response_id=storable(facts.previous_response_id),
            conversation_id=storable(facts.conversation_id),
            is_prewarm=not facts.generates,
            input_items=facts.items,
            response_id=storable(last or None),
            output_items=self._output_items(),
            previous_exchange_id=None,
            depth=0,
            is_complete=facts.previous_response_id is None and facts.conversation_id is None,
            logical_items=facts.items,
            other_ids=storable(" ".join(known)) if known else None,
        )

    def _output_items(self) -> int:
        continuation, count = by_name(self._exchange.api).continuation, sum(1 for _ in self._items())
        return min(count, 1) if continuation is not None and continuation.is_one_message else count


def linked(row: RequestRow, previous: RequestRow | None, outputs: Sequence[int] = ()) -> RequestRow:
    """Return a row behind the one that it continues; `outputs` are numbers of items of that response, from all
    exchanges that received some of it. Without one it is as if nothing came before.

    A conversation is never complete: items may have been added to it by other requests.
    """
    has_link = row.previous_response_id is not None or row.conversation_id is not None
    if previous is None:
        return msgspec.structs.replace(
            row, previous_exchange_id=None, depth=0, is_complete=not has_link, logical_items=row.input_items
        )
    return msgspec.structs.replace(
        row,
        previous_exchange_id=previous.exchange_id,
        depth=previous.depth + 1,
        is_complete=previous.is_complete and row.conversation_id is None,
        logical_items=previous.logical_items + max((previous.output_items, *outputs)) + row.input_items,
    )
