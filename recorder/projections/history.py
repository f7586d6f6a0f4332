"""The digests by which the next request of a conversation finds an exchange, and what tells it from equal ones.

They are computed only for exchanges whose session was found by their history: others do not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.model.events import Event
from recorder.model.facts import Fact, Handler, RequestReceived
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.rows import HistoryRow, ItemRow
from recorder.wire.dialects import by_name
from recorder.wire.grouping.history import IDS, Chain, ModelAnswer, broken_off, chain_of, unanswered

CLIENTS_CALLS = frozenset({"function", "custom", "tool_use", "function_call", "custom_tool_call"})
"""The types of calls whose results the client sends, under the ids of the calls."""


class History:
    def __init__(self, facts: ExchangeFacts) -> None:
        self._facts, self._api = facts, facts.exchange.api
        self._chain: Chain | None = None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {RequestReceived: self._on_requested}

    def _on_requested(self, fact: RequestReceived, event: Event) -> None:
        self._chain = chain_of(self._api, fact.conversation)

    def rows(self) -> Iterable[HistoryRow]:
        request = self._chain
        if request is None:
            return
        has_choices = by_name(self._api).has_choices
        items = [item for item in self._facts.items if not (has_choices and item.output_index)]
        yield HistoryRow(
            *self._facts.ids,
            self._digest(request, items),
            request_digest=request.request_digest,
            about=request.about,
            ids=self._ids(request, items),
        )

    def _digest(self, request: Chain, items: Iterable[ItemRow]) -> str:
        answer = ModelAnswer()
        for item in items:
            if item.kind == "message":
                answer.texts += [text for text in (item.text or item.refusal,) if text]
            elif item.kind == "tool_call" and item.type in CLIENTS_CALLS:
                answer.call(item.name, item.arguments or "")
        if not answer.texts and not answer.calls:
            return unanswered(request.request_digest)
        ended = self._facts.ended
        if ended is not None and ended.status in ("completed", "incomplete"):
            return request.answered(answer)
        return broken_off(request.request_digest)

    def _ids(self, request: Chain, items: Iterable[ItemRow]) -> str:
        ids = [self._facts.last_response_id]
        for item in items:
            ids += [item.call_id, item.item_id]
        known = [id for id in ids if id and " " not in id][:IDS]
        return " ".join(dict.fromkeys([*known, *request.ids]))
