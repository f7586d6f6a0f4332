"""Facts: the meaning of events, the same for all providers. Dialects translate into them,
projections fold them.

Rules of this file:

* A fact repeats what the wire has. A projection concludes what follows from several facts.
* An item is named by a key that its dialect chooses: the same key means the same item within one
  response. It is not shown to anyone.
* Text is as it was decoded: it may hold NUL and lone surrogates (a pair may be cut between two
  deltas).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from recorder.model.attribution import Attribution
from recorder.model.events import Event

ItemKey = int | str

Field = Literal["text", "refusal", "reasoning", "summary", "arguments", "output"]
"""The texts of an item: what a message says or refuses to say; raw reasoning and its summary; what
a tool is called with; what a tool of the provider printed. Each may come in numbered parts
(content, summary or command index)."""

ItemKind = Literal["message", "reasoning", "tool_call", "other"]


Purpose = Literal[
    "turn",  # of the conversation that a person has
    "subagent",  # of a conversation that an agent has with one that it started
    "title",  # asks for a name of the conversation
    "router",  # asks which model suits a question
    "compaction",  # asks for a summary that takes the place of a history
    "memory",  # asks what is worth keeping for other conversations
    "prewarm",  # fills the provider's cache, before there is a question
    "probe",  # asks what there is, or how many tokens: generates nothing
    "helper",  # anything else that a client asks on its own
]
"""The reason for which a client sends a request."""


class Fact(msgspec.Struct, frozen=True, gc=False):
    """The base of the classes below."""


class ResponseStarted(Fact, frozen=True, gc=False):
    """The beginning of a response; repeated where an event has another id or model than those
    before.
    """

    response_id: str | None = None
    model: str | None = None


class ItemState(msgspec.Struct, frozen=True):
    """An item as an event describes it as a whole; `None` and empty where it has nothing.

    `texts` are (field, part, text). What is JSON is kept as JSON text.
    """

    kind: ItemKind
    type: str  # as the provider calls it: message, function_call, tool_use, …
    item_id: str | None = None
    role: str | None = None
    phase: str | None = None
    status: str | None = None
    name: str | None = None  # of the tool
    call_id: str | None = None
    texts: tuple[tuple[Field, int, str], ...] = ()
    annotations: tuple[str, ...] = ()  # each a JSON object
    logprobs: str | None = None  # a JSON array
    encrypted: bool = False  # reasoning that only the provider can read is there
    # what a tool of the provider gave: text or JSON, images by size and digest
    output: str | None = None
    failed: bool | None = None
    output_index: int | None = None  # in a `ResponseItems`, if it is not the item's place there
    thread_id: str | None = None  # of the sub-agent that it is of, in a stream with several agents


class ItemStarted(Fact, frozen=True, gc=False):
    """The beginning of an item.

    `output_index` is its place on the wire: Chat choice, Gemini candidate.
    """

    item: ItemKey
    output_index: int | None
    stated: ItemState
    with_exchange: bool = False  # the request is the item: it began when that was sent


class TextAdded(Fact, frozen=True, gc=False, eq=False):
    """A delta of one of an item's texts.

    Most of every stream: a dialect may decode it straight from a payload, into a subclass. That is
    the same fact.
    """

    item: ItemKey
    field: Field
    part: int
    text: str

    def _key(self) -> tuple[ItemKey, Field, int, str]:
        return self.item, self.field, self.part, self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextAdded) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class TextFinished(Fact, frozen=True, gc=False):
    """The whole of one text, as the provider repeats it at its end (`.done`)."""

    item: ItemKey
    field: Field
    part: int
    text: str
    name: str | None = None  # of the tool, where arguments end with it


class AnnotationAdded(Fact, frozen=True, gc=False):
    """A citation, as a JSON object."""

    item: ItemKey
    annotation: str


class LogprobsAdded(Fact, frozen=True, gc=False):
    """Log probabilities of a delta, as a JSON array that is not empty."""

    item: ItemKey
    logprobs: str


class ItemFinished(Fact, frozen=True, gc=False):
    """The end of an item; what it states now overrides what came before."""

    item: ItemKey
    output_index: int | None
    stated: ItemState
    with_exchange: bool = False  # the request is the item: it was whole when that was sent


class ToolProgress(Fact, frozen=True, gc=False):
    """Another step in the work of a tool of the provider: `searching`, `generating`, `completed`, …"""

    type: str  # of the item
    phase: str  # as the provider calls it
    detail: str | None = None  # what the event says besides, as JSON: images by size and digest


class ResponseItems(Fact, frozen=True, gc=False):
    """All items of the response, in order, as its last event (or a body that is not a stream) has
    them.
    """

    items: tuple[ItemState, ...]


class ToolResult(Fact, frozen=True, gc=False):
    """The result of a call: of a provider's tool within the stream, of a client's in the next
    request.

    Without `call_id` (Gemini), it is that of the first call of `name` in the response before that
    has none yet.
    """

    call_id: str | None
    name: str | None
    output: str  # text, or JSON where it is not only text
    failed: bool | None = None
    # the key of its call where ids are not to be relied on: `call_place`, with a number
    place: str | None = None


class ReturnedElsewhere(Fact, frozen=True, gc=False):
    """The result of a call that another exchange made: its answer comes on the stream of this one."""

    result: ToolResult


class Usage(msgspec.Struct, frozen=True):
    """Token counts.

    `input_tokens` includes cached and cache-write, `output_tokens` includes reasoning.

    `None` is not reported. Names and meaning of OpenTelemetry GenAI.
    """

    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    total_tokens: int | None = None


class UsageDetails(msgspec.Struct, frozen=True):
    """Counts beside those of `Usage` that have prices of their own, and the cost that the provider
    itself reports.

    `None` is not reported. Tokens are a part of `input_tokens` or of `output_tokens`.
    """

    # part of the tokens written: those kept for an hour
    cache_write_1h_input_tokens: int | None = None
    input_audio_tokens: int | None = None  # cached ones included
    cache_read_input_audio_tokens: int | None = None
    input_image_tokens: int | None = None  # documents included
    input_video_tokens: int | None = None
    output_audio_tokens: int | None = None
    output_image_tokens: int | None = None
    output_video_tokens: int | None = None
    output_citation_tokens: int | None = None
    web_searches: int | None = None
    reported_cost_usd: str | None = None  # decimal text, exact
    # where it was: `usage.cost`, `usage.cost_in_usd_ticks`, a header's name
    reported_cost_source: str | None = None
    inference_geo: str | None = None  # the region in which the model ran, in the provider's word


class Iteration(msgspec.Struct, frozen=True):
    """A run of a model within a response whose tokens its `Usage` leaves out: a compaction, an
    advisor, a transcription.
    """

    type: str  # in the provider's word
    model: str | None  # None: that of the response
    usage: Usage
    cache_write_1h_input_tokens: int | None = None
    input_audio_tokens: int | None = None


class UsageReported(Fact, frozen=True, gc=False):
    """The tokens used so far: the last report counts. `raw` is the provider's JSON object."""

    usage: Usage
    raw: str
    details: UsageDetails = UsageDetails()
    iterations: tuple[Iteration, ...] = ()


class CostReported(Fact, frozen=True, gc=False):
    """The cost that a gateway reports in a response head, in US dollars as decimal text.

    `source` is the header.
    """

    usd: str
    source: str


class TierReported(Fact, frozen=True, gc=False):
    """The service tier at which the provider serves a response; repeated where an event has another
    one.
    """

    tier: str


class ResponseFinished(Fact, frozen=True, gc=False):
    """The reason of the provider for the end of a response (or of one choice): its `finish_reason`,
    in its own word.
    """

    reason: str | None
    # that it says of the response, whatever its event is called
    verdict: Literal["incomplete", "failed"] | None = None


class ErrorReported(Fact, frozen=True, gc=False):
    """An error that the provider reports, in a stream or as a document."""

    type: str | None = None
    code: str | None = None
    message: str | None = None
    param: str | None = None  # of the request: what is wrong with it
    ends: bool = True  # False: a response that completes after it is whole nevertheless


class UnknownType(Fact, frozen=True, gc=False):
    """An event, item or delta of a type that the dialect does not know."""

    type: str


class MalformedPayload(Fact, frozen=True, gc=False):
    """A payload that is not JSON, or not of the shape that its type has."""

    reason: str
    characters: int = 0  # of it, if nothing of it is read


class UnreadText(Fact, frozen=True, gc=False):
    """Text in a place of a payload where the dialect knows none: no other fact has it."""

    place: str  # names with dots between, without the numbers of elements
    characters: int


class ApiSpoken(Fact, frozen=True, gc=False):
    """The format that the payloads of a stream show from here on, where its path says another one,
    or none.
    """

    api: str
    contradicts_path: bool


class RequestParameters(msgspec.Struct, frozen=True):
    """The settings of a request, and its size by parts.

    `None`: the request has no such member, or there is none.

    Words are the provider's. Digests are the first 16 hex digits of SHA-256: equal ones mean the
    same content.
    """

    reasoning_effort: str | None = None
    reasoning_mode: str | None = None  # enabled, disabled, adaptive, pro, …
    reasoning_summary: str | None = None
    reasoning_budget_tokens: int | None = None
    verbosity: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    service_tier: str | None = None
    store: bool | None = None
    response_format: str | None = None  # text, json_object, json_schema, …
    response_schema: str | None = None  # its name
    # auto, none, required, …, or the name of the tool that must be called
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    # of the tools offered, in order; their types where they have no names
    tool_names: tuple[str, ...] | None = None
    input_messages: int | None = None  # with a text, a picture or a file
    input_tool_calls: int | None = None
    input_tool_results: int | None = None
    input_reasoning: int | None = None
    input_other: int | None = None
    system_bytes: int | None = None  # of the texts of the system that stand before all messages
    system_digest: str | None = None
    tools_bytes: int | None = None  # of the tools as JSON without spaces
    tools_digest: str | None = None
    prompt_cache_key: str | None = None  # of OpenAI; the name of the cached content of Gemini
    # for how long the prompt is cached: 5m, 1h, 24h, in_memory, …
    prompt_cache_retention: str | None = None
    cache_markers: int | None = None  # places up to which the prompt is to be cached
    # of what decides the answer: equal ones mean that the same was sent again
    request_digest: str | None = None


class RepeatedCall(msgspec.Struct, frozen=True):
    """A call of an earlier response, as a request repeats it."""

    call_id: str | None  # perhaps another one than the response had
    place: str  # its name and a digest of its arguments: `call_place`


class RequestFacts(Fact, frozen=True, gc=False):
    """The contents of a request."""

    model: str | None = None
    stream: bool | None = None
    text: str | None = None  # the last thing that a person says in it
    # whether that is what it ends with: an answer to tool calls only goes on with a turn
    is_turn: bool = False
    # of tool calls, in order; those of earlier turns too, if they have ids
    results: tuple[ToolResult, ...] = ()
    instructions: tuple[str, ...] = ()  # how each text of the system prompt begins
    # of the response that it continues: the items before are not in it
    previous_response_id: str | None = None
    # of the conversation that the provider keeps, and that it continues
    conversation_id: str | None = None
    items: int = 0  # messages and other items in it
    # False: it only readies the connection for what follows, and no model answers
    generates: bool = True
    parameters: RequestParameters = RequestParameters()
    # of the last turn with results, where ids join them
    repeated_calls: tuple[RepeatedCall, ...] = ()

    @property
    def continues(self) -> bool:
        """Return whether items before its own are with the provider."""
        return self.previous_response_id is not None or self.conversation_id is not None


class RequestPurpose(Fact, frozen=True, gc=False):
    """The purpose of a request, by its headers or its text, and the thread that began its own."""

    purpose: Purpose | None = None  # `None`: nobody here knows
    parent_thread_id: str | None = None


class RequestReceived(Fact, frozen=True, gc=False):
    """A request as it came: its path without the query, its body, and what is said in it."""

    path: str
    body: bytes
    # a `recorder.wire.dialects.conversation.Conversation`; None: nobody here knows
    conversation: Any = None


class DerivedFrom(Fact, frozen=True, gc=False):
    """The mark of an exchange that is derived from something: its times are not those of a
    response.
    """

    source: str


class RequestAttributed(Fact, frozen=True, gc=False):
    """What the request says of whom and what its cost counts for."""

    attribution: Attribution


class HeadReceived(Fact, frozen=True, gc=False):
    """The arrival of the response head."""

    http_status: int


class FirstByte(Fact, frozen=True, gc=False):
    """The time of the first read of the body, since the exchange began: earlier than the first
    event was complete.
    """

    t_ns: int


class LostBytes(Fact, frozen=True, gc=False):
    """Bytes that were received here and not recorded."""

    of: Literal["request", "response"]
    size_bytes: int


class OversizedPayload(Fact, frozen=True, gc=False):
    """A payload that is not read: it is over the limit."""

    size_bytes: int


class UnterminatedEvent(Fact, frozen=True, gc=False):
    """The end of a stream within an event."""

    characters: int = 0  # of the event, if nothing of it is read


class UnreadableResponse(Fact, frozen=True, gc=False):
    """A response of which nothing was understood, or not all of it, as a whole: empty, in a coding,
    not recorded.
    """

    reason: str


class BudgetSpent(Fact, frozen=True, gc=False):
    """A budget of which nothing was left after the exchange: `raw` of a `note` event, as JSON."""

    budget: Literal["owner", "team"]
    name: str
    month: str  # UTC
    spent_usd: str
    budget_usd: str

    @property
    def about(self) -> str:
        return f"{self.budget} {self.name} in {self.month}"


class ExchangeEnded(Fact, frozen=True, gc=False):
    """The end of the exchange, as the recorder saw it."""

    status: str
    outcome: str
    error: str | None = None
    http_status: int | None = None
    lossless: bool | None = None
    frames: int = 0  # blocks of the event stream that were received
    said_end: bool = False  # whether a mark of the end came, such as `[DONE]`
    undecoded: str | None = None  # why the body is kept as it was sent from some point on


class Links(NamedTuple):
    """The ids by which a request continues what the provider keeps of a conversation."""

    response_id: str | None = None  # of the response before
    conversation_id: str | None = None  # of all that was added to a conversation so far


Handler = Callable[[Any, Event], None]
"""Takes a fact of one class and its event."""
