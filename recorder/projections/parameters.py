"""The settings of each request, what is in it by kind, and the service tier that its response had, in one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.model.events import Event, Exchange
from recorder.model.facts import Fact, RequestFacts, TierReported
from recorder.model.text import storable, storable_json
from recorder.projections.projection import FoldContext, Handler
from recorder.projections.rows import ParametersRow
from recorder.wire.dialects.json_values import as_json


class Parameters:
    def __init__(self, exchange: Exchange, context: FoldContext) -> None:
        self._exchange = exchange
        self._request = RequestFacts()
        self._tier: str | None = None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {RequestFacts: self._on_request, TierReported: self._on_tier}

    def _on_request(self, fact: RequestFacts, event: Event) -> None:
        self._request = fact

    def _on_tier(self, fact: TierReported, event: Event) -> None:
        self._tier = fact.tier

    def rows(self) -> Iterable[ParametersRow]:
        request, found = self._request, self._request.parameters
        is_retrieved = self._exchange.resumes_response_id is not None and self._tier is not None
        if request.model is None and not request.items and not is_retrieved:
            return  # nothing is to be generated
        names = found.tool_names
        yield ParametersRow(
            session_id=self._exchange.session_id,
            exchange_id=self._exchange.exchange_id,
            reasoning_effort=storable(found.reasoning_effort),
            reasoning_mode=storable(found.reasoning_mode),
            reasoning_summary=storable(found.reasoning_summary),
            reasoning_budget_tokens=found.reasoning_budget_tokens,
            verbosity=storable(found.verbosity),
            max_output_tokens=found.max_output_tokens,
            temperature=found.temperature,
            top_p=found.top_p,
            service_tier=storable(found.service_tier),
            response_service_tier=storable(self._tier),
            store=found.store,
            response_format=storable(found.response_format),
            response_schema=storable(found.response_schema),
            tool_choice=storable(found.tool_choice),
            parallel_tool_calls=found.parallel_tool_calls,
            tools=None if names is None else len(names),
            tool_names=None if names is None else storable_json(as_json(names)),
            input_messages=found.input_messages,
            input_tool_calls=found.input_tool_calls,
            input_tool_results=found.input_tool_results,
            input_reasoning=found.input_reasoning,
            input_other=found.input_other,
            new_user_text=storable(request.text) if request.is_turn else None,
            system_bytes=found.system_bytes,
            system_digest=found.system_digest,
            tools_bytes=found.tools_bytes,
            tools_digest=found.tools_digest,
            prompt_cache_key=storable(found.prompt_cache_key),
            prompt_cache_retention=storable(found.prompt_cache_retention),
            cache_markers=found.cache_markers,
            request_digest=found.request_digest,
        )
