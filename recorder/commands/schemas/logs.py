"""What `sessions`, `events`, `tail` and `usage` write with `--json`."""

from __future__ import annotations

from msgspec import UnsetType

from recorder.commands.schemas.form import Form, IntIfAny, IntOrNull, TextOrNull
from recorder.model.events import Kind


class Base64(Form):
    """Bytes that are no text."""

    base64: str
    "The bytes in base64."


class Event(Form):
    """An event of the log."""

    session_id: str
    "Id of the session, a UUIDv7."
    exchange_id: str
    "Id of the exchange, a UUIDv7."
    pos: int
    "The event's position in the exchange: 0, 1, 2 … without a hole."
    kind: Kind
    "What the row is: a frame of the stream, or a step in the life of the exchange."
    t_ns: int
    "Arrival of its last byte, in nanoseconds since the exchange began."
    type: str | None
    "The provider's type of the event."
    sequence_number: int | None
    "The provider's number of the event."
    item_id: str | None
    output_index: int | None
    "The place that the provider gives the item."
    raw: str | Base64
    "The exact bytes: text, or base64 where they are no UTF-8."
    data_start: int | None
    "Where in `raw` the JSON payload begins, in bytes."
    data_length: int | None
    "Bytes of the JSON payload."
    hash: str
    "SHA-256 in hex, over this event and the hash before it."


class TailedEvent(Event):
    """An event that was just recorded."""

    session_name: str
    "Name of the session."
    exchange_number: int
    "Number of the exchange in its session."


class UsageSum(Form):
    """The sums of one key."""

    hour: TextOrNull
    "Hour in UTC."
    day: TextOrNull
    "Date in UTC."
    week: TextOrNull
    "Week in UTC, of ISO 8601."
    month: TextOrNull
    "Month in UTC."
    model: TextOrNull
    "The model."
    session_id: TextOrNull
    "Id of the session, a UUIDv7."
    session_name: TextOrNull
    "Name of the session."
    client: TextOrNull
    "The program that sent the requests."
    owner: TextOrNull
    "The owner of the token that the requests showed."
    team: TextOrNull
    "The team of that owner."
    tag: TextOrNull
    "A tag of the token, or of the requests."
    tool: TextOrNull
    "Name of the tool."
    outcome: TextOrNull
    "How the exchanges ended."
    effort: TextOrNull
    "Requested effort of reasoning."
    tier: TextOrNull
    "Tier of service."
    tools: str | int | UnsetType | None
    "Number of tools offered."
    calls: IntOrNull
    answered: IntOrNull
    "Number of calls that have a result."
    failed: IntOrNull
    "Number of calls whose result is marked as an error."
    exchanges: int | None
    "Number of exchanges."
    reported: int | None
    input_tokens: int | None
    cache_read_input_tokens: int | None
    cache_write_input_tokens: int | None
    output_tokens: int | None
    reasoning_output_tokens: int | None
    total_tokens: int | None
    "Tokens in total, as reported."
    reasoning_share: float | None
    cached_share: float | None
    cost_usd: TextOrNull
    "Sum of the known costs, as exact decimal text."
    reported_cost_usd: TextOrNull
    "Sum of what providers and gateways report themselves."
    priced: IntIfAny
    "Number of exchanges that have a cost."
    partial: IntIfAny
    "Of those, the ones whose stream broke off."
