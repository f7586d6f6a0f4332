"""The tokens of each exchange, and the cost that the provider reports; and the runs of a model within a response that
its usage leaves out, and that are charged: compactions, advisors.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recorder.model.text import storable
from recorder.projections.exchange_facts import ITERATIONS_LIMIT, TOKENS_LIMIT, ExchangeFacts
from recorder.projections.rows import IterationRow, UsageRow
from recorder.wire.dialects import by_name, other

_WHOLE = frozenset({"completed", "incomplete", "failed", "error_status"})


def usage_rows(facts: ExchangeFacts) -> Iterable[UsageRow]:
    counts = msgspec.structs.asdict(facts.usage) | msgspec.structs.asdict(facts.details)
    head = facts.cost_of_head
    if head is not None and facts.details.reported_cost_usd is None:  # of a gateway: what it passes on comes first
        counts |= {"reported_cost_usd": head.usd, "reported_cost_source": head.source}
    is_counted = _is_counted(facts)
    model = facts.request.model if facts.response_model is None else facts.response_model
    yield UsageRow(
        *facts.ids,
        **counts,
        usage_raw=storable(facts.usage_raw),
        partial=not _is_whole(facts),
        started_ns=facts.exchange.started_ns,
        model=storable(model) if is_counted else None,
        client=facts.exchange.client,
        outcome=facts.ended.status if facts.ended else None,
        reported=facts.usage_raw is not None and is_counted,
        billed_input_tokens=_billed(facts, "input_tokens"),
        billed_output_tokens=_billed(facts, "output_tokens"),
    )


def iteration_rows(facts: ExchangeFacts) -> Iterable[IterationRow]:
    for number, each in enumerate(facts.iterations[:ITERATIONS_LIMIT]):
        usage = each.usage
        yield IterationRow(
            *facts.ids,
            iteration=number,
            type=storable(each.type),
            model=storable(each.model),
            input_tokens=usage.input_tokens,
            cache_read_input_tokens=usage.cache_read_input_tokens,
            cache_write_input_tokens=usage.cache_write_input_tokens,
            cache_write_1h_input_tokens=each.cache_write_1h_input_tokens,
            output_tokens=usage.output_tokens,
        )


def _is_counted(facts: ExchangeFacts) -> bool:
    """Return whether sums count the exchange: one that nothing was generated for has no tokens, or had none to pay."""
    usage = facts.usage
    if facts.placed.purpose == "prewarm":
        return bool(usage.input_tokens or usage.output_tokens or usage.total_tokens)
    return facts.placed.purpose != "probe"


def _is_whole(facts: ExchangeFacts) -> bool:
    """Return whether the count is whole: a status of the transport means that it broke; a stream that has ended has a
    reason, or a mark of its end; a document is whole. Of an unknown format nobody here knows what ends a stream.
    """
    ended = facts.ended
    if ended is None or ended.status not in _WHOLE:
        return False
    is_document = not ended.frames and ended.status != "incomplete"
    is_over = is_document or (ended.said_end and ended.status == "completed")
    return is_over or facts.is_finished or by_name(facts.exchange.api) is other.DIALECT


def _billed(facts: ExchangeFacts, name: str) -> int | None:
    """Return a count with that of the runs beside the response; None unless all are kept, and are counts."""
    if len(facts.iterations) > ITERATIONS_LIMIT:
        return None
    billed = 0
    for usage in (facts.usage, *(each.usage for each in facts.iterations)):
        count: int | None = getattr(usage, name)
        if count is None or not 0 <= count < TOKENS_LIMIT:
            return None
        billed += count
    return billed
