"""The rows of the projections: pure data, and the name and the key of each table.

Rules of this module:

* It imports nothing of the program but `recorder.model`: who reads or declares a table needs no
  fold and no decoder.
* A row has the columns of its table, in order. `recorder.projections.fold` knows what makes it.
* Whoever adds a column adds it at the end; whoever changes what a column is raises the version of
  the projection: another table, built beside the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from recorder.model.facts import ItemKind, Purpose


class Projection(msgspec.Struct, frozen=True):
    """One table."""

    name: str
    row: type[msgspec.Struct]
    key: tuple[str, ...] = ("session_id", "exchange_id")
    version: int = 1

    @property
    def table(self) -> str:
        return f"p_{self.name}_v{self.version}"


class ExchangeRow(msgspec.Struct, frozen=True):
    """One exchange."""

    session_id: str
    exchange_id: str
    response_id: str | None
    request_model: str | None
    response_model: str | None
    stream: bool | None  # whether the client asked for one
    status: str | None  # of the `end` event; `NULL` while it is open
    http_status: int | None
    finish_reason: str | None  # in the provider's word: the last one given
    error_type: str | None
    error_code: str | None
    error: str | None  # the provider's message, else what went wrong with the connection
    user_text: str | None  # the last that a person says in the request, cut to a title
    is_turn: bool  # whether the request ends with that: else it goes on with a turn
    lossless: bool | None
    is_retrieval: bool  # whether it asks for a response that another one began
    # the highest sequence number: of two cut streams of one response, who has more
    last_number: int | None
    error_param: str | None  # what of the request is wrong, in the provider's word
    # the last that was said: of ids that rotate, the one that a client goes on with
    last_response_id: str | None
    purpose: Purpose | None  # what the request is for; `NULL` if nobody here knows
    parent_thread_id: str | None  # the client's: of the thread that began this one
    owner: str | None  # of the token that the request showed
    team: str | None
    tags: str | None  # of the token and of the request, a JSON array
    content: str | None  # the level at which it was recorded: `shape`, `none`; `NULL` is full


class ItemRow(msgspec.Struct, frozen=True):
    """One output item.

    Columns that make no sense for its kind are `NULL`. Times are since the exchange began.
    """

    session_id: str
    exchange_id: str
    item: int  # 0, 1, 2 … in order of appearance
    kind: ItemKind
    type: str  # as the provider calls it
    output_index: int | None
    item_id: str | None
    role: str | None
    phase: str | None
    status: str | None  # in_progress until it ends
    text: str | None  # what a message says; raw reasoning
    refusal: str | None
    summary: str | None  # of reasoning, its parts as a JSON array
    summary_text: str | None  # the parts with blank lines between them
    encrypted: bool | None  # whether reasoning came that only the provider can read
    annotations: str | None  # a JSON array
    logprobs: str | None  # a JSON array
    name: str | None  # of a tool
    call_id: str | None
    # what a result is found by: `call_id`, the client's own id, or name and number without one
    call_key: str | None
    arguments: str | None  # as sent
    arguments_json: str | None  # the same, if it is JSON
    output: str | None  # what a tool of the provider gave
    failed: bool | None  # whether that is an error
    began_ns: int
    ended_ns: int | None
    thread_id: str | None  # of the sub-agent that it is of, in a stream with several agents


class PhaseRow(msgspec.Struct, frozen=True):
    """A step of the work on an item. Times are since the exchange began."""

    session_id: str
    exchange_id: str
    step: int  # 0, 1, 2 … in order of appearance
    output_index: int | None
    item_id: str | None
    type: str  # of the item, as the provider calls it
    phase: str  # as the provider calls it
    detail: str | None  # JSON
    began_ns: int
    ended_ns: int | None  # when the next step of the item began


SHARES: Mapping[str, tuple[str, str]] = {
    "reasoning_share": ("reasoning_output_tokens", "output_tokens"),
    "cached_share": ("cache_read_input_tokens", "input_tokens"),
}
"""By name, the part and the whole of each share of sums: both over the exchanges that reported
both.
"""


def whole(value: str, by: int) -> str:
    """Return a number that is not negative divided, without the rest: a `/` of DuckDB keeps it."""
    return f"CAST(({value} - ({value}) % {by}) / {by} AS BIGINT)"


DAY = whole("started_ns", 86_400_000_000_000)
"""Days since 1970 (UTC)."""


class UsageRow(msgspec.Struct, frozen=True):
    """The tokens of one exchange, `NULL` where not reported: `Usage` of `recorder.model.facts`,
    then `UsageDetails`.
    """

    session_id: str
    exchange_id: str
    input_tokens: int | None
    cache_read_input_tokens: int | None
    cache_write_input_tokens: int | None
    output_tokens: int | None
    reasoning_output_tokens: int | None
    total_tokens: int | None
    usage_raw: str | None  # the provider's JSON
    partial: bool  # the stream broke off, or still runs: there may be more
    cache_write_1h_input_tokens: int | None
    input_audio_tokens: int | None
    cache_read_input_audio_tokens: int | None
    input_image_tokens: int | None
    input_video_tokens: int | None
    output_audio_tokens: int | None
    output_image_tokens: int | None
    output_video_tokens: int | None
    output_citation_tokens: int | None
    web_searches: int | None
    reported_cost_usd: str | None
    reported_cost_source: str | None
    # What sums go by, so that they read no other table. `NULL` only in rows of older recorders, in
    # archives.
    started_ns: int | None
    # in the response, else in the request; `NULL` without `reported` if no sum counts the exchange
    model: str | None
    client: str | None
    outcome: str | None  # the status of the `end` event
    reported: bool | None  # whether there is a report
    inference_geo: str | None
    # Together with the runs of models that the counts above leave out
    # (`recorder.projections.exchanges`).
    billed_input_tokens: int | None
    billed_output_tokens: int | None


class TimingRow(msgspec.Struct, frozen=True):
    """The times of one exchange, in nanoseconds since it began; events are complete when their last
    byte is there.
    """

    session_id: str
    exchange_id: str
    head_ns: int | None  # the response head
    first_byte_ns: int | None  # the first read of the body
    first_event_ns: int | None
    first_reasoning_ns: int | None
    first_text_ns: int | None
    first_arguments_ns: int | None  # of a tool call
    ttft_ns: int | None  # the first token of any of these
    last_event_ns: int | None
    duration_ns: int | None  # to the end of the exchange; `NULL` while it is open
    longest_silence_ns: int | None  # between two events
    stalls: int  # silences over two seconds
    events: int
    bytes: int  # of the decoded body
    events_per_s: float | None  # from the first event to the last; a document has no rate
    bytes_per_s: float | None
    gap_p50_ns: int | None  # between an event and the next
    gap_p95_ns: int | None
    gap_p99_ns: int | None


class ResultRow(msgspec.Struct, frozen=True):
    """A result that a request carries, or another stream, for a call of an earlier response."""

    session_id: str
    call_key: str
    digest: str  # of the result and what tells it from others of that key
    exchange_id: str  # whose request
    started_ns: int  # wall time of that request, or of the event that has it
    output: str
    failed: bool | None


Anomaly = Literal[
    "sequence_gap",  # numbers are missing
    "sequence_repeat",  # a number that was there already, or smaller than one that was
    "delta_mismatch",  # a text's deltas are not what its end says it is
    "item_mismatch",  # an item at its end says something else than its own deltas and events
    # the response at its end says something else of an item than the item's own events
    "final_mismatch",
    "item_undeclared",  # an event of an item that did not begin
    "item_repeated",  # an item that begins twice
    "item_unfinished",  # an item that did not end although its response did
    "id_rotation",  # another id for the same item or response
    "unknown_type",
    "unread",  # text in a place where none is known
    "malformed",  # no JSON, or not of the shape that its type has
    "other_api",  # the stream is of another format than its path says, and is read as that
    # a response without an answer in it: empty, in an unknown coding, not in the file
    "unreadable",
    "unterminated",  # the stream ended within an event
    "missing_terminal",  # it ended, and nothing in it said so
    "duplicate_terminal",
    "after_terminal",  # something came after the end
    "not_recorded",  # a gap: what came there was not kept
    "too_large",  # a payload over the limit of what is read
    "cut",  # more than a projection keeps; the log has it whole
    "budget_spent",  # nothing was left of a budget after it: a note says so
]


class AnomalyRow(msgspec.Struct, frozen=True):
    """An anomaly of an exchange."""

    session_id: str
    exchange_id: str
    anomaly: int  # 0, 1, 2 … in order of appearance
    kind: Anomaly
    pos: int  # the event at which it first shows
    count: int
    detail: str


class HistoryRow(msgspec.Struct, frozen=True):
    """The digests of one exchange: see `recorder.wire.grouping.history.Chain`."""

    session_id: str
    exchange_id: str
    digest: str  # of its answer; of its request and why it has no whole one
    request_digest: str | None  # the columns from here on came later
    about: str | None
    ids: str | None  # of the answer and of the request, between spaces


class RequestRow(msgspec.Struct, frozen=True):
    """The request of one exchange; a retrieved response has a row too, for what came back."""

    session_id: str
    exchange_id: str
    previous_response_id: str | None
    conversation_id: str | None
    is_prewarm: bool
    input_items: int  # of the request itself
    response_id: str | None  # the last that was said: the one that the next request names
    output_items: int  # of the response, as the next request has them
    previous_exchange_id: str | None  # the exchange that it continues, if the session has it
    depth: int  # exchanges that it continues, one behind the other
    is_complete: bool  # every link leads to an exchange of the session
    logical_items: int  # of the request itself and of all that it continues
    other_ids: str | None  # of a response whose id rotates: those before the last, between spaces

    @property
    def response_ids(self) -> list[str]:
        """Return all ids by which a later request may name the response, the last first."""
        last = [] if self.response_id is None else [self.response_id]
        return [*last, *(self.other_ids or "").split()]


class UserTextRow(msgspec.Struct, frozen=True):
    """A text of a user, at the beginning of a turn.

    Requests that clients make on their own have none.
    """

    session_id: str
    digest: str  # of the text
    exchange_id: str  # whose request
    started_ns: int  # wall time of that request
    text: str


class ParametersRow(msgspec.Struct, frozen=True):
    """The parameters of one request, `NULL` where it has none.

    See `recorder.model.facts.RequestParameters`.

    A retrieved response has a row too, for its service tier.
    """

    session_id: str
    exchange_id: str
    reasoning_effort: str | None
    reasoning_mode: str | None
    reasoning_summary: str | None
    reasoning_budget_tokens: int | None
    verbosity: str | None
    max_output_tokens: int | None
    temperature: float | None
    top_p: float | None
    service_tier: str | None  # requested
    response_service_tier: str | None  # by the response: the last one
    store: bool | None
    response_format: str | None
    response_schema: str | None
    tool_choice: str | None
    parallel_tool_calls: bool | None
    tools: int | None  # offered
    tool_names: str | None  # a JSON array
    input_messages: int | None
    input_tool_calls: int | None
    input_tool_results: int | None
    input_reasoning: int | None
    input_other: int | None
    new_user_text: str | None  # the last text of a person, whole, if the request ends with it
    system_bytes: int | None
    system_digest: str | None
    tools_bytes: int | None
    tools_digest: str | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    cache_markers: int | None
    request_digest: str | None


CacheClass = Literal[
    "first",  # nothing of it was sent before
    "hit",
    "lapsed",
    "prefix_changed",
    "history_shortened",
    "other_model",
    "other_parameters",
    "below_minimum",
    "not_marked",
    "not_reported",
    "not_recorded",
    "provider_miss",
]

AVOIDABLE: tuple[CacheClass, ...] = ("prefix_changed", "other_parameters", "not_marked")
"""The classes that a client can avoid without another model, another pace or a longer history."""


class PromptRow(msgspec.Struct, frozen=True):
    """The prompt of one exchange, and its comparison with the earlier exchanges of the session."""

    session_id: str
    exchange_id: str
    provider: str
    api: str
    model: str | None
    thread_id: str | None
    purpose: Purpose | None
    started_ns: int
    # when the response began: from then on its prompt may be cached; `NULL` without a response
    served_ns: int | None
    input_tokens: int | None
    cached_tokens: int | None
    # it names an earlier response or conversation: its prompt begins with that one's
    continues: bool
    retention: str | None  # how long the request asks to keep its prefix
    root: str  # the member of the request that holds the others; empty if none does
    suspects: str  # digests of parameters that may invalidate a cache, as a JSON object
    head_segments: int  # before the messages
    # before the messages that are not of the system; of a request that continues one: as above
    system_segments: int
    prompt_bytes: int  # of the request's own segments
    # The comparison.
    cache_class: CacheClass | None  # `NULL` without a response
    previous_exchange_id: str | None  # the exchange that it is compared with
    common_bytes: int | None
    could_tokens: int | None
    missed_tokens: int | None
    is_estimate: bool
    since_use_ns: int | None
    path: str | None
    # The segments, of 12 and mostly one byte each. Of a request that continues another one, the
    # conversation is that with which the first of the chain began: nobody here knows the rest.
    digests: bytes
    places: bytes


class IterationRow(msgspec.Struct, frozen=True):
    """A run of a model.

    Counts are those of `recorder.model.facts.Usage`, `NULL` where not reported.
    """

    session_id: str
    exchange_id: str
    iteration: int  # 0, 1, 2 … in order
    type: str  # in the provider's word
    model: str | None  # `NULL`: that of the response
    input_tokens: int | None
    cache_read_input_tokens: int | None
    cache_write_input_tokens: int | None
    cache_write_1h_input_tokens: int | None
    output_tokens: int | None
    input_audio_tokens: int | None


EXCHANGES = Projection("exchanges", ExchangeRow)
ITEMS = Projection("items", ItemRow, ("session_id", "exchange_id", "item"))
PHASES = Projection("phases", PhaseRow, ("session_id", "exchange_id", "step"))
USAGE = Projection("usage", UsageRow)
TIMING = Projection("timing", TimingRow)
RESULTS = Projection("results", ResultRow, ("session_id", "call_key", "digest"))
ANOMALIES = Projection("anomalies", AnomalyRow, ("session_id", "exchange_id", "anomaly"))
HISTORY = Projection("history", HistoryRow)
REQUESTS = Projection("requests", RequestRow)
USER_TEXTS = Projection("user_texts", UserTextRow, ("session_id", "digest"))
PARAMETERS = Projection("parameters", ParametersRow)
PROMPTS = Projection("prompts", PromptRow)
ITERATIONS = Projection("iterations", IterationRow, ("session_id", "exchange_id", "iteration"))

PROJECTIONS: tuple[Projection, ...] = (
    EXCHANGES,
    ITEMS,
    PHASES,
    USAGE,
    TIMING,
    RESULTS,
    ANOMALIES,
    HISTORY,
    REQUESTS,
    USER_TEXTS,
    PARAMETERS,
    PROMPTS,
    ITERATIONS,
)

TABLES: Mapping[str, str] = {projection.name: projection.table for projection in PROJECTIONS}

# Of a response that was retrieved again, the exchange with most of it supersedes the others: in
# memory, and in SQL.
NOT_FINISHED = "cancelled"  # the reason to finish of a response that has more to come, or nothing


def is_same_response(one: ExchangeRow, other: ExchangeRow) -> bool:
    """Return whether two exchanges of a session have one response, because one of them retrieved
    it.
    """
    is_retrieved = one.is_retrieval or other.is_retrieval
    return one.response_id is not None and one.response_id == other.response_id and is_retrieved


def completeness(row: ExchangeRow) -> tuple[bool, int, str]:
    """Return the rank of an exchange among those with its response: the highest has most of it."""
    is_finished = row.finish_reason not in (None, NOT_FINISHED)
    return is_finished, -1 if row.last_number is None else row.last_number, row.exchange_id


def same_response_sql(one: str, other: str) -> str:
    """Return `is_same_response` as a condition on two tables of rows."""
    ids = f"{one}.session_id = {other}.session_id AND {one}.response_id = {other}.response_id"
    return f"{ids}\n        AND ({one}.is_retrieval = 1 OR {other}.is_retrieval = 1)"


def completeness_sql(table: str) -> tuple[str, str, str]:
    """Return `completeness` as expressions on a table of rows."""
    is_finished = (
        f"({table}.finish_reason IS NOT NULL AND {table}.finish_reason <> '{NOT_FINISHED}')"
    )
    return is_finished, f"coalesce({table}.last_number, -1)", f"{table}.exchange_id"
