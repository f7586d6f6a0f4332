"""The digest with which the next request of a conversation begins: that of all its messages, with the answer.

It is computed only for exchanges whose session was found by their history: others do not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import Ended, Fact, Requested
from recorder.projections.projection import Handler, Projection, Witness
from recorder.wire.dialects import by_name
from recorder.wire.dialects.conversation import ModelAnswer
from recorder.wire.grouping.history import Chain, broken_off, chain, unanswered

_CLIENTS_CALLS = frozenset({"function", "custom", "tool_use", "function_call", "custom_tool_call"})


class HistoryRow(msgspec.Struct, frozen=True):
    """The digest of a conversation after one exchange."""

    session_id: str
    exchange_id: str
    digest: str


class _History:
    def __init__(self, exchange: Exchange, witness: Witness) -> None:
        self._exchange, self._items = exchange, witness.items
        self._has_choices = by_name(exchange.api).has_choices
        self._chain: Chain | None = None
        self._is_whole = False

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Requested: self._on_requested, Ended: self._on_ended}

    def _on_requested(self, fact: Requested, event: Event) -> None:
        self._chain = chain(self._exchange.api, fact.path, fact.body)

    def _on_ended(self, fact: Ended, event: Event) -> None:
        self._is_whole = fact.status in ("completed", "incomplete")

    def rows(self) -> Iterable[HistoryRow]:
        if self._chain is not None:
            yield HistoryRow(self._exchange.session_id, self._exchange.exchange_id, self._digest(self._chain))

    def _digest(self, request: Chain) -> str:
        answer = ModelAnswer()
        for item in self._items():
            if self._has_choices and item.output_index:
                continue  # which of them a client goes on with is mostly the first
            if item.kind == "message":
                answer.texts += [text for text in (item.text or item.refusal,) if text]
            elif item.kind == "tool_call" and item.type in _CLIENTS_CALLS:
                answer.call(item.name, item.arguments or "")
        if not answer.texts and not answer.calls:
            return unanswered(request.request_digest)
        return request.answered(answer) if self._is_whole else broken_off(request.request_digest)


PROJECTION = Projection("history", 1, HistoryRow, ("session_id", "exchange_id"), _History)
