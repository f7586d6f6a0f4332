"""The facts of one exchange that several projections read, gathered once: who asked, who answered, how it ended.

The rows of most projections are functions of these. Of the tokens, and of the cost that the provider reports, the last
report counts, never a sum of reports.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import (
    CostReported,
    ErrorReported,
    ExchangeEnded,
    Fact,
    Handler,
    HeadReceived,
    Iteration,
    RequestFacts,
    RequestPurpose,
    ResponseFinished,
    ResponseStarted,
    TierReported,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.projections.anomalies import Anomalies
from recorder.projections.rows import ItemRow
from recorder.projections.timing import Timing
from recorder.wire.dialects.json_values import request_object
from recorder.wire.dialects.usage_report import unreadable

TOKENS_LIMIT = 2**40  # of one exchange: sums of any number of them fit a bigint
ITERATIONS_LIMIT = 1_000  # of one response, which has a few: what comes after is counted as an anomaly only


class ExchangeFacts:
    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.ids = (exchange.session_id, exchange.exchange_id)
        self.anomalies, self.timing = Anomalies(exchange), Timing(exchange)
        self.items: list[ItemRow] = []  # there when the rows of the other projections are made
        self.request, self.placed = RequestFacts(), RequestPurpose()
        self.http_status: int | None = None
        self.response_id = exchange.resumes_response_id
        self.last_response_id: str | None = None
        self.response_ids: dict[str, None] = {}  # in the order in which each was said last
        self.response_model: str | None = None
        self.tier: str | None = None
        self.served_ns: int | None = None  # when the response began, since the exchange did
        self.usage, self.details = Usage(), UsageDetails()
        self.usage_raw: str | None = None
        self.iterations: tuple[Iteration, ...] = ()
        self.cost_of_head: CostReported | None = None
        self.finish_reason: str | None = None
        self.is_finished = False
        self.failed: ErrorReported | None = None
        self.ended: ExchangeEnded | None = None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            RequestFacts: self._on_request,
            RequestPurpose: self._on_placed,
            HeadReceived: self._on_responded,
            ResponseStarted: self._on_started,
            TierReported: self._on_tier,
            UsageReported: self._on_usage,
            CostReported: self._on_cost,
            ResponseFinished: self._on_finished,
            ErrorReported: self._on_failed,
            ExchangeEnded: self._on_ended,
        }

    def _on_request(self, fact: RequestFacts, event: Event) -> None:
        self.request = fact

    def _on_placed(self, fact: RequestPurpose, event: Event) -> None:
        self.placed = fact

    def _on_responded(self, fact: HeadReceived, event: Event) -> None:
        self.http_status = fact.http_status

    def _on_started(self, fact: ResponseStarted, event: Event) -> None:
        self._serve(event)
        self.response_id = self.response_id or fact.response_id
        self.last_response_id = fact.response_id or self.last_response_id
        self.response_model = fact.model or self.response_model
        if fact.response_id is not None:
            self.response_ids.pop(fact.response_id, None)
            self.response_ids[fact.response_id] = None

    def _on_tier(self, fact: TierReported, event: Event) -> None:
        self.tier = fact.tier

    def _on_usage(self, fact: UsageReported, event: Event) -> None:
        self._serve(event)
        odd_details = [] if fact.details is self.details else _odd(fact.details)  # the same: they were seen
        odd = _odd(fact.usage)
        self.usage, self.details, self.usage_raw = fact.usage, fact.details, fact.raw
        self.iterations = fact.iterations
        if odd:
            self.usage = msgspec.structs.replace(fact.usage, **dict.fromkeys(odd))
        if odd_details:
            self.details = msgspec.structs.replace(fact.details, **dict.fromkeys(odd_details))
        if odd or odd_details:
            self.anomalies.note("malformed", f"tokens: {', '.join([*odd, *odd_details])}", event)
        if len(fact.iterations) > ITERATIONS_LIMIT:
            self.anomalies.note("cut", f"iterations after the first {ITERATIONS_LIMIT:,}", event)

    def _on_cost(self, fact: CostReported, event: Event) -> None:
        self.cost_of_head = fact

    def _on_finished(self, fact: ResponseFinished, event: Event) -> None:
        self._serve(event)
        self.is_finished = True
        self.finish_reason = fact.reason or self.finish_reason

    def _on_failed(self, fact: ErrorReported, event: Event) -> None:
        self.failed = self.failed or fact  # what follows repeats it, mostly with less

    def _on_ended(self, fact: ExchangeEnded, event: Event) -> None:
        self.ended = fact
        self._look_for_counts(event)

    def _serve(self, event: Event) -> None:
        if self.served_ns is None:
            self.served_ns = event.t_ns

    def _look_for_counts(self, event: Event) -> None:
        """Report counts of the last report that cannot be read, or have names that nobody here knows. Only the last one
        counts: of those before, fast paths leave some out.
        """
        usage = self.usage
        if self.usage_raw is None or None not in (usage.input_tokens, usage.output_tokens):
            return
        given = request_object(self.usage_raw.encode("utf-8", "replace"))
        names = unreadable(given)
        is_total_alone = usage.total_tokens is not None and len(given) == 1
        if names:
            self.anomalies.note("malformed", f"tokens: {', '.join(names)}", event)
        elif usage.input_tokens is None and usage.output_tokens is None and not is_total_alone:
            self.anomalies.note("malformed", "tokens: neither input nor output is known by its name", event)


def _odd(counts: Usage | UsageDetails) -> list[str]:
    """Return the names of the counts that are not numbers of tokens: mostly none, in every chunk of some streams."""
    for count in msgspec.structs.astuple(counts):
        if type(count) is int and not 0 <= count < TOKENS_LIMIT:
            break
    else:
        return []
    fields = msgspec.structs.asdict(counts).items()
    return [name for name, count in fields if isinstance(count, int) and not 0 <= count < TOKENS_LIMIT]
