"""The facts of one exchange that several projections read, gathered once: who asked, who answered,
how it ended.

The rows of most projections are functions of these. Of the tokens, and of the cost that the
provider reports, the last report counts, never a sum of reports.

The faults of a stream (contradictions, missing parts, unknown content) are gathered here, too:
other folds report to `Anomalies.note` what they see; numbers, types and ends are checked by it.
Anomalies of one kind about one thing are one row, with the event where the first one shows and
their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from recorder.model.attribution import Attribution
from recorder.model.events import ENDED_HERE, SWITCHED, WEBSOCKET, Event, Exchange
from recorder.model.facts import (
    ApiSpoken,
    BudgetSpent,
    CostReported,
    DerivedFrom,
    ErrorReported,
    ExchangeEnded,
    Fact,
    FirstByte,
    Handler,
    HeadReceived,
    Iteration,
    LostBytes,
    MalformedPayload,
    OversizedPayload,
    RequestAttributed,
    RequestFacts,
    RequestPurpose,
    ResponseFinished,
    ResponseStarted,
    ReturnedElsewhere,
    TierReported,
    ToolResult,
    UnknownType,
    UnreadableResponse,
    UnreadText,
    UnterminatedEvent,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.model.text import counted, storable
from recorder.projections.fact_reader import ERROR_STATUS
from recorder.projections.rows import Anomaly, AnomalyRow, ItemRow
from recorder.projections.timing import Timing
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import request_object
from recorder.wire.dialects.keys import DONE
from recorder.wire.dialects.usage_report import unreadable

# -- faults


ANOMALIES_LIMIT = 1_000  # rows of one exchange: the last of them counts all further ones
DETAIL_LIMIT = 500  # characters
RETURNED_LIMIT = 10_000  # results of one stream for calls of others: as of one request
ANY = -1  # no number that is sent: the next one may be any

_FURTHER: tuple[Anomaly, str] = ("cut", f"anomalies after the first {ANOMALIES_LIMIT - 1:,}")


class _Seen(msgspec.Struct):
    """The events that show an anomaly so far."""

    pos: int  # of the first
    count: int = 0
    characters: int = 0  # of content that is in no view because of it

    def told(self, about: str) -> str:
        """Return what it is about, with the size of what is missing."""
        if not self.characters:
            return about
        size = counted(self.characters, "character")
        return f"{about} ({size})" if about else size


class Anomalies:
    """The fold; the others report to `note`."""

    def __init__(self, exchange: Exchange) -> None:
        self._ids = (exchange.session_id, exchange.exchange_id)
        self._asked = exchange.method, exchange.target
        self._read_as(exchange.api)
        self._seen: dict[tuple[Anomaly, str], _Seen] = {}
        # times that something was reported: as long as it is the same, so are the rows
        self.noted = 0
        self._is_turn = exchange.method == WEBSOCKET
        resumes_after = exchange.resumes_after
        self.next_number = 0 if resumes_after is None else resumes_after + 1
        self._before_gap = -1  # the highest number before a gap of the recorder
        self._response_id: str | None = None
        self.endings: list[str] = []
        self._is_finished = False
        self._is_connection = False  # over WebSocket: what it has belongs to no one response

    def _read_as(self, api: str) -> None:
        dialect = by_name(api)
        self._terminal, self._needs_terminal = dialect.ends(*self._asked), dialect.needs_terminal
        self._says_its_end = dialect is not by_name("other") and not dialect.is_endless(
            *self._asked
        )

    def note(self, kind: Anomaly, detail: str, event: Event, characters: int = 0) -> None:
        """Count an anomaly: its kind, what it is about in a few words, and the event at which it
        shows.

        `characters`: the size of the content that no view has because of it. Who drops content
        reports it here, so that each text that a delta brings is in a view, or in the sum of an
        anomaly.
        """
        self.noted += 1
        key = (kind, detail[:DETAIL_LIMIT])
        if key not in self._seen and len(self._seen) >= ANOMALIES_LIMIT - 1:
            key = _FURTHER
        seen = self._seen.setdefault(key, _Seen(event.pos))
        seen.count += 1
        seen.characters += characters

    def last_number(self) -> int | None:
        """Return the highest sequence number so far."""
        highest = max(self.next_number - 1, self._before_gap)
        return highest if highest >= 0 else None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            HeadReceived: self._on_responded,
            ApiSpoken: self._on_spoken,
            ResponseStarted: self._on_started,
            ResponseFinished: self._on_finished,
            UnknownType: lambda fact, event: self.note("unknown_type", fact.type, event),
            MalformedPayload: lambda fact, event: self.note(
                "malformed", fact.reason, event, fact.characters
            ),
            UnreadText: lambda fact, event: self.note("unread", fact.place, event, fact.characters),
            UnreadableResponse: lambda fact, event: self.note("unreadable", fact.reason, event),
            UnterminatedEvent: lambda fact, event: self.note(
                "unterminated", "", event, fact.characters
            ),
            OversizedPayload: lambda fact, event: self.note(
                "too_large", f"{fact.size_bytes} bytes", event
            ),
            BudgetSpent: lambda fact, event: self.note("budget_spent", fact.about, event),
            LostBytes: self._on_lost,
            ExchangeEnded: self._on_ended,
        }

    def event(self, event: Event) -> None:
        """Check the number and the type of an event."""
        number = event.sequence_number
        if number == self.next_number:
            self.next_number = number + 1
        elif number is not None:
            self.out_of_sequence(number, event)
        if (event.type in self._terminal or self.endings) and event.kind != "body":
            self._at_the_end(event)

    def are_next(self, events: Sequence[Event]) -> bool:
        """Return whether there is nothing to note of events that are not an end, and if so, count
        their numbers.
        """
        numbers = [event.sequence_number for event in events]
        if self.endings:
            return False
        if numbers[0] is None:
            return numbers.count(None) == len(numbers)
        if numbers != [*range(self.next_number, self.next_number + len(numbers))]:
            return False
        self.next_number += len(numbers)
        return True

    def _on_responded(self, fact: HeadReceived, event: Event) -> None:
        self._is_connection = fact.http_status == SWITCHED and not self._is_turn

    def out_of_sequence(self, number: int, event: Event) -> None:
        if self._is_connection:
            return
        expected = number if self.next_number == ANY else self.next_number
        if number > expected:
            missing = str(expected) if number == expected + 1 else f"{expected} to {number - 1}"
            self.note("sequence_gap", missing, event)
        elif number < expected:
            self.note("sequence_repeat", "", event)
        self.next_number = max(number + 1, expected)

    def _at_the_end(self, event: Event) -> None:
        """Check an event at the end: an error may be followed by the end that it caused, and
        comments may follow anything.
        """
        type = event.type
        if type is None or self._is_connection:
            return
        if type not in self._terminal:
            if type != DONE:  # several gateways send it after any stream
                self.note("after_terminal", type, event)
            return
        if self.endings and self.endings != ["error"]:
            self.note("duplicate_terminal", type, event)
        self.endings.append(type)

    def _on_spoken(self, fact: ApiSpoken, event: Event) -> None:
        self._read_as(fact.api)
        if fact.contradicts_path:
            self.note("other_api", fact.api, event)

    def _on_started(self, fact: ResponseStarted, event: Event) -> None:
        if fact.response_id is None:
            return
        if self._response_id is not None and fact.response_id != self._response_id:
            self.note("id_rotation", "response", event)
        self._response_id = fact.response_id

    def _on_finished(self, fact: ResponseFinished, event: Event) -> None:
        self._is_finished = True

    def _on_lost(self, fact: LostBytes, event: Event) -> None:
        self.note("not_recorded", f"{fact.size_bytes} bytes of the {fact.of}", event)
        if fact.of == "response":
            self._before_gap, self.next_number = max(self._before_gap, self.next_number - 1), ANY

    def _on_ended(self, fact: ExchangeEnded, event: Event) -> None:
        """Report a missing end; what a client or this recorder broke off need not have one."""
        is_ours = fact.outcome in ENDED_HERE
        is_finished = self._is_finished and not self._needs_terminal and fact.outcome == "eof"
        is_ended = (
            not self._says_its_end or self._is_connection or bool(self.endings) or is_finished
        )
        if fact.frames and not is_ended and not is_ours:
            self.note("missing_terminal", "", event)

    def rows(self) -> Iterable[AnomalyRow]:
        for number, ((kind, about), seen) in enumerate(self._seen.items()):
            yield AnomalyRow(
                *self._ids, number, kind, seen.pos, seen.count, storable(seen.told(about))
            )


# -- all of them


TOKENS_LIMIT = 2**40  # of one exchange: sums of any number of them fit a bigint
# of one response, which has a few: what comes after is counted as an anomaly only
ITERATIONS_LIMIT = 1_000


class ExchangeFacts:
    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.ids = (exchange.session_id, exchange.exchange_id)
        self.anomalies, self.timing = Anomalies(exchange), Timing(exchange)
        self.items: list[ItemRow] = []  # there when the rows of the other projections are made
        self.request, self.placed = RequestFacts(), RequestPurpose()
        self.attribution = Attribution()
        self.http_status: int | None = None
        self.is_hosted = by_name(exchange.api).hosted is not None
        self.response_id = exchange.resumes_response_id
        self.last_response_id: str | None = None
        self.response_ids: dict[str, None] = {}  # in the order in which each was said last
        self.response_model: str | None = None
        self.tier: str | None = None
        self.returned: list[tuple[Event, ToolResult]] = []  # for calls of other exchanges
        self.served_ns: int | None = None  # when the response began, since the exchange did
        self.usage, self.details = Usage(), UsageDetails()
        self.usage_raw: str | None = None
        self.iterations: tuple[Iteration, ...] = ()
        self.cost_of_head: CostReported | None = None
        self.finish_reason: str | None = None
        self.is_finished = False
        self.failed: ErrorReported | None = None
        self.ended: ExchangeEnded | None = None
        self.api = exchange.api  # of the stream

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            RequestFacts: self._on_request,
            RequestPurpose: self._on_placed,
            RequestAttributed: self._on_attributed,
            HeadReceived: self._on_responded,
            ApiSpoken: self._on_spoken,
            FirstByte: self._on_first_byte,
            DerivedFrom: self._on_derived,
            ResponseStarted: self._on_started,
            TierReported: self._on_tier,
            ReturnedElsewhere: self._on_returned_elsewhere,
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

    def _on_attributed(self, fact: RequestAttributed, event: Event) -> None:
        self.attribution = fact.attribution

    def _on_responded(self, fact: HeadReceived, event: Event) -> None:
        self.http_status, self.timing.head_ns = fact.http_status, event.t_ns
        if self.is_hosted and fact.http_status >= ERROR_STATUS:
            # it has nothing of the session, and supersedes no exchange which has some
            self.response_id = None

    def _on_derived(self, fact: DerivedFrom, event: Event) -> None:
        self.timing.is_derived = True

    def _on_spoken(self, fact: ApiSpoken, event: Event) -> None:
        self.api = fact.api

    def _on_first_byte(self, fact: FirstByte, event: Event) -> None:
        if self.timing.first_byte_ns is None:
            self.timing.first_byte_ns = fact.t_ns

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

    def _on_returned_elsewhere(self, fact: ReturnedElsewhere, event: Event) -> None:
        if len(self.returned) < RETURNED_LIMIT:
            self.returned.append((event, fact.result))

    def _on_usage(self, fact: UsageReported, event: Event) -> None:
        self._serve(event)
        # the same: they were seen
        odd_details = [] if fact.details is self.details else _odd(fact.details)
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
        if self.failed is not None and not self.failed.ends and fact.verdict != "failed":
            self.failed = None  # what it was about did not keep the response from its end

    def _on_failed(self, fact: ErrorReported, event: Event) -> None:
        self.failed = self.failed or fact  # what follows repeats it, mostly with less

    def _on_ended(self, fact: ExchangeEnded, event: Event) -> None:
        self.ended, self.timing.duration_ns = fact, event.t_ns
        self._look_for_counts(event)

    def _serve(self, event: Event) -> None:
        if self.served_ns is None:
            self.served_ns = event.t_ns

    def _look_for_counts(self, event: Event) -> None:
        """Report counts of the last report that cannot be read, or have names that nobody here
        knows. Only the last one counts: of those before, fast paths leave some out.
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
            self.anomalies.note(
                "malformed", "tokens: neither input nor output is known by its name", event
            )


def _odd(counts: Usage | UsageDetails) -> list[str]:
    """Return the names of the counts that are not numbers of tokens: mostly none, in every chunk of
    some streams.
    """
    for count in msgspec.structs.astuple(counts):
        if type(count) is int and not 0 <= count < TOKENS_LIMIT:
            break
    else:
        return []
    fields = msgspec.structs.asdict(counts).items()
    return [
        name for name, count in fields if isinstance(count, int) and not 0 <= count < TOKENS_LIMIT
    ]
