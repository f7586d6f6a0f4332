"""The digests by which the next request of a conversation finds an exchange, and what tells it from equal ones.

They are computed only for exchanges whose session was found by their history: others do not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recorder.model.events import Event, Exchange
from recorder.model.facts import ExchangeEnded, Fact, RequestReceived, ResponseStarted
from recorder.projections.projection import FoldContext, Handler
from recorder.projections.rows import HistoryRow
from recorder.wire.dialects import by_name
from recorder.wire.grouping.history import IDS, Chain, ModelAnswer, broken_off, chain_of, unanswered

CLIENTS_CALLS = frozenset({"function", "custom", "tool_use", "function_call", "custom_tool_call"})
"""The types of calls whose results the client sends, under the ids of the calls."""


class History:
    def __init__(self, exchange: Exchange, context: FoldContext) -> None:
        self._exchange, self._items = exchange, context.items
        self._has_choices = by_name(exchange.api).has_choices
        self._chain: Chain | None = None
        self._response_id: str | None = None
        self._is_whole = False

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {RequestReceived: self._on_requested, ResponseStarted: self._on_started, ExchangeEnded: self._on_ended}

    def _on_requested(self, fact: RequestReceived, event: Event) -> None:
        self._chain = chain_of(self._exchange.api, fact.conversation)

    def _on_started(self, fact: ResponseStarted, event: Event) -> None:
        self._response_id = fact.response_id or self._response_id

    def _on_ended(self, fact: ExchangeEnded, event: Event) -> None:
        self._is_whole = fact.status in ("completed", "incomplete")

    def rows(self) -> Iterable[HistoryRow]:
        request = self._chain
        if request is None:
            return
        items = [item for item in self._items() if not (self._has_choices and item.output_index)]
        yield HistoryRow(
            self._exchange.session_id,
            self._exchange.exchange_id,
            self._digest(request, items),
            request_digest=request.request_digest,
            about=request.about,
            ids=self._ids(request, items),
        )

    def _digest(self, request: Chain, items: Iterable[Any]) -> str:
        answer = ModelAnswer()
        for item in items:
            if item.kind == "message":
                answer.texts += [text for text in (item.text or item.refusal,) if text]
            elif item.kind == "tool_call" and item.type in CLIENTS_CALLS:
                answer.call(item.name, item.arguments or "")
        if not answer.texts and not answer.calls:
            return unanswered(request.request_digest)
        return request.answered(answer) if self._is_whole else broken_off(request.request_digest)

    def _ids(self, request: Chain, items: Iterable[Any]) -> str:
        ids = [self._response_id]
        for item in items:
            ids += [item.call_id, item.item_id]
        known = [id for id in ids if id and " " not in id][:IDS]
        return " ".join(dict.fromkeys([*known, *request.ids]))
