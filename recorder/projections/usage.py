"""The tokens of each exchange, and the cost that the provider reports: the last report, never a sum of reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import (
    CostReported,
    ExchangeEnded,
    Fact,
    Iteration,
    Purpose,
    RequestFacts,
    RequestPurpose,
    ResponseFinished,
    ResponseStarted,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.model.text import storable
from recorder.projections.iterations import ITERATIONS_LIMIT
from recorder.projections.projection import FoldContext, Handler
from recorder.projections.rows import UsageRow
from recorder.wire.dialects import by_name, other
from recorder.wire.dialects.json_values import request_object
from recorder.wire.dialects.usage_report import unreadable

TOKENS_LIMIT = 2**40  # of one exchange: sums of any number of them fit a bigint
_WHOLE = frozenset({"completed", "incomplete", "failed", "error_status"})


class UsageFold:
    def __init__(self, exchange: Exchange, context: FoldContext) -> None:
        self._exchange = exchange
        self._request_model: str | None = None
        self._response_model: str | None = None
        self._outcome: str | None = None
        self._usage = Usage()
        self._details = UsageDetails()
        self._iterations: tuple[Iteration, ...] = ()
        self._cost_of_head: CostReported | None = None
        self._raw: str | None = None
        self._is_finished = by_name(exchange.api) is other.DIALECT  # of those nobody here knows what ends a stream
        self._is_whole = False
        self._purpose: Purpose | None = None
        self._note = context.note

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            RequestFacts: self._on_request,
            RequestPurpose: self._on_placed,
            ResponseStarted: self._on_started,
            UsageReported: self._on_usage,
            CostReported: self._on_cost,
            ResponseFinished: self._on_finished,
            ExchangeEnded: self._on_ended,
        }

    def _on_request(self, fact: RequestFacts, event: Event) -> None:
        self._request_model = fact.model

    def _on_placed(self, fact: RequestPurpose, event: Event) -> None:
        self._purpose = fact.purpose

    @property
    def _is_counted(self) -> bool:
        """Return whether sums count the exchange: one that nothing was generated for has no tokens, or had none to
        pay.
        """
        if self._purpose == "prewarm":
            return bool(self._usage.input_tokens or self._usage.output_tokens or self._usage.total_tokens)
        return self._purpose != "probe"

    def _on_started(self, fact: ResponseStarted, event: Event) -> None:
        self._response_model = fact.model or self._response_model

    def _on_usage(self, fact: UsageReported, event: Event) -> None:
        odd_details = [] if fact.details is self._details else _odd(fact.details)  # the same: they were seen
        self._usage, self._details, self._raw = fact.usage, fact.details, fact.raw
        self._iterations = fact.iterations
        if odd := _odd(fact.usage):
            self._usage = msgspec.structs.replace(fact.usage, **dict.fromkeys(odd))
        if odd_details:
            self._details = msgspec.structs.replace(fact.details, **dict.fromkeys(odd_details))
        if odd or odd_details:
            self._note("malformed", f"tokens: {', '.join([*odd, *odd_details])}", event)

    def _look_for_counts(self, event: Event) -> None:
        """Report counts of the last report that cannot be read, or have names that nobody here knows. Only the last one
        counts: of those before, fast paths leave some out.
        """
        if self._raw is None or None not in (self._usage.input_tokens, self._usage.output_tokens):
            return
        given = request_object(self._raw.encode("utf-8", "replace"))
        names = unreadable(given)
        is_total_alone = self._usage.total_tokens is not None and len(given) == 1
        if names:
            self._note("malformed", f"tokens: {', '.join(names)}", event)
        elif self._usage.input_tokens is None and self._usage.output_tokens is None and not is_total_alone:
            self._note("malformed", "tokens: neither input nor output is known by its name", event)

    def _on_cost(self, fact: CostReported, event: Event) -> None:
        self._cost_of_head = fact

    def _on_finished(self, fact: ResponseFinished, event: Event) -> None:
        self._is_finished = True

    def _on_ended(self, fact: ExchangeEnded, event: Event) -> None:
        """Note whether the count is whole: a status of the transport means that it broke; a stream that has ended has a
        reason, or a mark of its end; a document is whole.
        """
        self._outcome = fact.status
        self._look_for_counts(event)
        is_document = not fact.frames and fact.status != "incomplete"
        is_over = is_document or (fact.said_end and fact.status == "completed")
        self._is_whole = fact.status in _WHOLE and (self._is_finished or is_over)

    def rows(self) -> Iterable[UsageRow]:
        counts = msgspec.structs.asdict(self._usage) | msgspec.structs.asdict(self._details)
        head = self._cost_of_head
        if head is not None and self._details.reported_cost_usd is None:  # of a gateway: what it passes on comes first
            counts |= {"reported_cost_usd": head.usd, "reported_cost_source": head.source}
        model = self._request_model if self._response_model is None else self._response_model
        yield UsageRow(
            self._exchange.session_id,
            self._exchange.exchange_id,
            **counts,
            usage_raw=storable(self._raw),
            partial=not self._is_whole,
            started_ns=self._exchange.started_ns,
            model=storable(model) if self._is_counted else None,
            client=self._exchange.client,
            outcome=self._outcome,
            reported=self._raw is not None and self._is_counted,
            billed_input_tokens=self._billed("input_tokens"),
            billed_output_tokens=self._billed("output_tokens"),
        )

    def _billed(self, name: str) -> int | None:
        """Return a count with that of the runs beside the response; None unless all are kept, and are counts."""
        if len(self._iterations) > ITERATIONS_LIMIT:
            return None
        billed = 0
        for usage in (self._usage, *(each.usage for each in self._iterations)):
            count: int | None = getattr(usage, name)
            if count is None or not 0 <= count < TOKENS_LIMIT:
                return None
            billed += count
        return billed


def _odd(counts: Usage | UsageDetails) -> list[str]:
    """Return the names of the counts that are not numbers of tokens: mostly none, in every chunk of some streams."""
    for count in msgspec.structs.astuple(counts):
        if type(count) is int and not 0 <= count < TOKENS_LIMIT:
            break
    else:
        return []
    fields = msgspec.structs.asdict(counts).items()
    return [name for name, count in fields if isinstance(count, int) and not 0 <= count < TOKENS_LIMIT]
