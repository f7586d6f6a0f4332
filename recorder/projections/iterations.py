"""The runs of a model within a response that its usage leaves out, and that are charged: compactions, advisors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.model.events import Event, Exchange
from recorder.model.facts import Fact, Iteration, UsageReported
from recorder.model.text import storable
from recorder.projections.projection import FoldContext, Handler
from recorder.projections.rows import IterationRow

ITERATIONS_LIMIT = 1_000  # of one response, which has a few: what comes after is counted as an anomaly only


class Iterations:
    def __init__(self, exchange: Exchange, context: FoldContext) -> None:
        self._ids = (exchange.session_id, exchange.exchange_id)
        self._note = context.note
        self._latest: tuple[Iteration, ...] = ()

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {UsageReported: self._on_usage}

    def _on_usage(self, fact: UsageReported, event: Event) -> None:
        if len(fact.iterations) > ITERATIONS_LIMIT:
            self._note("cut", f"iterations after the first {ITERATIONS_LIMIT:,}", event)
        self._latest = fact.iterations[:ITERATIONS_LIMIT]

    def rows(self) -> Iterable[IterationRow]:
        for number, each in enumerate(self._latest):
            usage = each.usage
            yield IterationRow(
                *self._ids,
                iteration=number,
                type=storable(each.type),
                model=storable(each.model),
                input_tokens=usage.input_tokens,
                cache_read_input_tokens=usage.cache_read_input_tokens,
                cache_write_input_tokens=usage.cache_write_input_tokens,
                cache_write_1h_input_tokens=each.cache_write_1h_input_tokens,
                output_tokens=usage.output_tokens,
            )
