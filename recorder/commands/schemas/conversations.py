"""What `show` writes with `--json`: a conversation, its requests, or its prompt cache."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UnsetType

from recorder.commands.schemas.form import Form, IntIfAny, IntOrNull, TextIfAny, TextOrNull
from recorder.diff.chain_texts import ChainText
from recorder.model.facts import ItemKind


class EditedTurn(Form):
    """A turn that was answered otherwise than recorded."""

    turn: int
    "Number of the turn in the parent."
    what: str
    "What was put in place of the answer: `text`, `call` or `status`."


class Parent(Form):
    """What a session is a fork of."""

    name: str
    "Name of the parent."
    until: int
    "Number of the last turn that could be answered from the recording."
    session_id: TextIfAny
    "Id of the parent; absent if that is a cassette."
    edited: list[EditedTurn] | UnsetType
    "The turns whose answers were edited, if there are any."


class Resent(Form):
    """Whose requests a session has, sent once more."""

    name: str
    "Name of the recording."
    session_id: TextIfAny
    "Id of the recording; absent if that is a file."
    to: TextIfAny
    "The address, if it was another one."
    model: TextIfAny
    "The model, if it was another one."


class RequestSubject(Form):
    """The session of requests."""

    session_id: str
    "Id of the session, a UUIDv7."
    name: str
    "Name of the session."


class ShownSession(RequestSubject):
    """The head of a conversation."""

    created_ns: int
    "Wall time of the session's beginning, in nanoseconds since 1970."
    origin: str
    "Where it is from: `live`, `import` or `synthetic`."
    source: str
    "The rule that found the session's name."
    title: TextIfAny
    "The first text of a person, cut to a title."
    cost_usd: TextIfAny
    "Sum over the exchanges shown, as decimal text."
    cost_partial: bool | UnsetType
    "True if there may be more: the cost of an exchange is not known, or its stream broke off."
    forked_from: Parent | UnsetType
    "The session or cassette that it is a fork of."
    resent_from: Resent | UnsetType
    "The recording whose requests it has, sent once more."


class ConnectionClose(Form):
    """The end of a connection."""

    by: TextOrNull
    "Who closed it first."
    code: IntOrNull
    "The code of the Close frame."
    reason: TextOrNull
    "The reason of the Close frame."


class Connection(Form):
    """A WebSocket connection."""

    sent: dict[str, int]
    "Messages of the client, by type."
    received: dict[str, int]
    "Messages of the server, by type."
    control: dict[str, int]
    "Control frames, by sender and kind."
    client_frames: int
    "Frames of the client."
    server_frames: int
    "Frames of the server."
    close: ConnectionClose | UnsetType | None
    "How the connection was closed; null while it is open."
    undecoded: TextOrNull
    "The first thing that could not be read."


class Usage(Form):
    """The counts of an exchange."""

    input_tokens: IntIfAny
    cache_read_input_tokens: IntIfAny
    cache_write_input_tokens: IntIfAny
    output_tokens: IntIfAny
    reasoning_output_tokens: IntIfAny
    total_tokens: IntIfAny
    "Tokens in total, as reported."
    cache_write_1h_input_tokens: IntIfAny
    input_audio_tokens: IntIfAny
    cache_read_input_audio_tokens: IntIfAny
    input_image_tokens: IntIfAny
    input_video_tokens: IntIfAny
    output_audio_tokens: IntIfAny
    output_image_tokens: IntIfAny
    output_video_tokens: IntIfAny
    output_citation_tokens: IntIfAny
    web_searches: IntIfAny
    reported_cost_usd: TextIfAny
    reported_cost_source: TextIfAny
    inference_geo: TextIfAny


class Cost(Form):
    """The cost of an exchange."""

    cost_usd: TextIfAny
    "The whole cost in USD, as exact decimal text."
    input_usd: TextIfAny
    "Cost of the input that was not cached."
    cache_read_usd: TextIfAny
    "Cost of the input that was read from the cache."
    cache_write_usd: TextIfAny
    "Cost of the input that was written to the cache."
    output_usd: TextIfAny
    "Cost of the output without reasoning."
    reasoning_usd: TextIfAny
    "Cost of the reasoning."
    other_usd: TextIfAny
    "Cost of web searches, and of the request itself."
    cost_partial: bool | UnsetType
    "True if the stream broke off, so that it may have cost more."
    price_source: TextIfAny
    "Where the price is from."
    price_model: TextIfAny
    "The pattern of models that matched."
    no_price: TextOrNull
    "Why the cost is not known, as the only key."


class Timing(Form):
    """The times of an exchange."""

    head_ns: IntIfAny
    first_byte_ns: IntIfAny
    first_event_ns: IntIfAny
    "Time to the first event."
    first_reasoning_ns: IntIfAny
    "Time to the first token of reasoning."
    first_text_ns: IntIfAny
    "Time to the first token of text."
    first_arguments_ns: IntIfAny
    ttft_ns: IntIfAny
    last_event_ns: IntIfAny
    "Time to the last event."
    duration_ns: IntIfAny
    "Nanoseconds to the end of the exchange."
    longest_silence_ns: IntIfAny
    stalls: IntIfAny
    events: IntIfAny
    "Number of events."
    bytes: IntIfAny
    "Bytes of the decoded body."
    events_per_s: float | UnsetType
    "Events a second, from the first to the last."
    bytes_per_s: float | UnsetType
    "Bytes a second, from the first event to the last."
    gap_p50_ns: IntIfAny
    gap_p95_ns: IntIfAny
    "95 % of the gaps between events are at most this."
    gap_p99_ns: IntIfAny
    "99 % of the gaps between events are at most this."


class ShownItem(Form):
    """A part of the answer."""

    kind: ItemKind
    "What the item is."
    output_index: IntIfAny
    item_id: TextIfAny
    type: str
    role: TextIfAny
    phase: TextIfAny
    status: TextIfAny
    "In the provider's word: `completed`, `incomplete`, …"
    thread_id: TextIfAny
    "Id of the sub-agent that it is of, in a stream of a hosted agent."
    text: TextIfAny
    refusal: TextIfAny
    "The text of a refusal."
    annotations: list[Any] | UnsetType
    "Citations and files, as the provider has them."
    encrypted: bool | UnsetType
    "True if there was reasoning that only the provider can read."
    summary: list[Any] | UnsetType
    "The parts of the summary of reasoning."
    name: TextIfAny
    call_id: TextIfAny
    "The id under which the result is sent."
    arguments: TextIfAny
    "The arguments as sent: JSON or not, whole or cut off."
    output: TextIfAny
    "The result of the tool: text, or JSON."
    failed: bool | UnsetType
    "True if the result is marked as an error."
    latency_ns: IntIfAny
    "Nanoseconds from the end of the call to the request with its result."


class Anomaly(Form):
    """Something unusual in a stream."""

    kind: str
    "Kind of the anomaly: `sequence_gap`, `malformed`, …"
    pos: int
    "The first event that shows it."
    count: int
    "Number of events that show it."
    detail: str
    "Subject of the anomaly."


class ShownExchange(Form):
    """An exchange of a conversation."""

    exchange_id: str
    "Id of the exchange, a UUIDv7."
    provider: str
    api: str
    "The wire format."
    thread_id: TextIfAny
    turn_id: TextIfAny
    user_text: TextIfAny
    "What a person says in this request, cut to a title; absent if it continues a turn."
    purpose: TextIfAny
    """Purpose of the request: `turn`, `subagent`, `title`, `router`, `compaction`, `memory`,
    `prewarm`, `probe`, `helper`; null if it is unknown."""
    parent_thread_id: TextIfAny
    request_model: TextIfAny
    response_model: TextIfAny
    response_id: TextIfAny
    status: TextIfAny
    "How the exchange ended; absent while it is open."
    finish_reason: TextIfAny
    "Why the answer ended, in the provider's word."
    error: TextIfAny
    "The provider's message, else the fault of the connection."
    superseded_by: TextIfAny
    "The exchange that has the most complete copy of the same response."
    connection: Connection | UnsetType
    "Of a WebSocket connection: what is not in its turns."
    usage: Usage | UnsetType
    "What the provider reported; only values that it has."
    cost: Cost | UnsetType
    "The cost by the prices, if there are any and the exchange has ended."
    timing: Timing | UnsetType
    "Times since the exchange began, in nanoseconds."
    items: list[ShownItem] | UnsetType
    "The parts of the answer, in order of appearance."
    anomalies: list[Anomaly] | UnsetType
    "What the protocol does not allow, or what was lost."
    fault: TextIfAny
    "Why recorder cannot decode the exchange; the only key beside the ids."


class Conversation(Form):
    """A session as a conversation."""

    session: ShownSession
    "The session."
    exchanges: list[ShownExchange]
    "The exchanges, in order of their start."


class ShownPart(Form):
    """A part of a request."""

    source: Literal["input", "output"]
    "Whether the items are of a request or of an answer."
    exchange_id: str
    "Id of the exchange, a UUIDv7."
    number: int
    "Number of that exchange."
    items: int
    "Number of items."


class ShownRequest(Form):
    """A request as the model saw it."""

    exchange_id: str
    "Id of the exchange, a UUIDv7."
    number: int
    "Number of the exchange in its session; 1 is the first."
    api: str
    "The wire format."
    method: str
    "Of HTTP, or `WEBSOCKET`."
    target: str
    depth: int
    is_complete: bool
    "False if a link leads to nothing in the session."
    missing_id: TextIfAny
    "The id that leads to nothing."
    reason: TextIfAny
    "Why what came before is missing."
    parts: list[ShownPart]
    "Where the items are from, in their order."
    request: dict[str, Any] | None
    "The request as the model saw it; null if the body is no JSON object."


class RequestedSession(Form):
    """The requests of a session."""

    session: RequestSubject
    "The session."
    requests: list[ShownRequest]
    "The requests that have a body."


class CacheSubject(Form):
    """The session, or the file."""

    session_id: str | None
    "Id of the session; of a file one that follows from its name."
    name: str
    "Name of the session; of a file its own without the ending."


class CachedTurn(Form):
    """A request that a model answered."""

    exchange_id: str
    "Id of the exchange, a UUIDv7."
    number: int
    "Number of the exchange."
    model: str | None
    "The model that the request names."
    class_: str
    "Why it missed, or `hit`."
    is_avoidable: bool
    "True if a client could have avoided the miss."
    input_tokens: int | None
    "Tokens of the input, cached ones included."
    could_tokens: int | None
    "Tokens that could have come from the cache."
    cached_tokens: int | None
    "Tokens that came from the cache."
    missed_tokens: int | None
    "Tokens that would have come too."
    cost_usd: str | None
    "What the missed tokens cost more, as decimal text."
    is_estimate: bool
    "True if `could_tokens` is computed from bytes."
    since_use_ns: int | None
    previous_exchange_id: str | None
    "The earlier request that it is compared with."
    previous_number: int | None
    "Number of that exchange."
    path: str | None
    "JSON path of the first value that differs."
    offset: int | None
    "The first character that differs, in that value."
    before: str | None
    "The text around it in the earlier request."
    after: str | None
    "The text around it in this request."


class CachedSession(Form):
    """What a prompt cache gave."""

    session: CacheSubject
    "The session."
    turns: list[CachedTurn]
    "The requests, in the order in which they began."


class ChainedExchange(Form):
    """An exchange of a chain."""

    exchange_id: str
    "Id of the exchange, a UUIDv7."
    session: str
    "Name of its session."
    number: int
    "Number of the exchange there."
    provider: str
    "Name of the upstream."
    method: str
    target: str
    by: TextIfAny
    "Of one behind: `traceparent` or `text`, by which it is joined to the front."


class ChainLink(Form):
    """A front, and what it asked."""

    front: ChainedExchange
    "The exchange of the app or gateway."
    behind: list[ChainedExchange]
    "The exchanges behind it, in the order in which they began."
    clock_ns: int
    "What was added to the times of the front, since its clock is slow by that much or more; negative if it is fast."
    asked_ns: int
    "From the beginning of the front to that of the first exchange behind it."
    ended_ns: int
    "From the end of the last exchange behind to that of the front; negative if the front ended before."
    texts: list[ChainText]
    "The texts that came from behind."


class ChainedSession(Form):
    """How streams passed through an app or a gateway."""

    session: CacheSubject
    "The session."
    links: list[ChainLink]
    "The fronts, in the order in which they began."
