"""What the commands write with `--json` that move and keep recordings, and their prices."""

from __future__ import annotations

from typing import Literal

from recorder.commands.schemas.form import Form
from recorder.store.maintain.verify.chain import LogFinding, RecordedGap


class PriceCard(Form):
    """The prices of a model."""

    provider: str
    "The upstream."
    model: str
    "The pattern of models: `%` any text, `#` a digit."
    service_tier: str | None
    "The tier of service; null for the standard one."
    above_input_tokens: int
    "Valid for requests with more input than this."
    daily_from_s: int
    "Valid from this second of the day in UTC."
    daily_to_s: int
    "Valid to this second of the day in UTC."
    valid_from_ns: int
    "Valid from this wall time."
    valid_to_ns: int | None
    "Valid to this wall time; null if no end is known."
    input: str | None
    "USD for a million of `input`, as decimal text; null if it has no price of its own."
    cache_read: str | None
    "USD for a million of `cache_read`, as decimal text; null if it has no price of its own."
    cache_write: str | None
    "USD for a million of `cache_write`, as decimal text; null if it has no price of its own."
    cache_write_1h: str | None
    "USD for a million of `cache_write_1h`, as decimal text; null if it has no price of its own."
    input_audio: str | None
    "USD for a million of `input_audio`, as decimal text; null if it has no price of its own."
    cache_read_audio: str | None
    "USD for a million of `cache_read_audio`, as decimal text; null if it has no price of its own."
    input_image: str | None
    "USD for a million of `input_image`, as decimal text; null if it has no price of its own."
    input_video: str | None
    "USD for a million of `input_video`, as decimal text; null if it has no price of its own."
    output: str | None
    "USD for a million of `output`, as decimal text; null if it has no price of its own."
    reasoning: str | None
    "USD for a million of `reasoning`, as decimal text; null if it has no price of its own."
    output_audio: str | None
    "USD for a million of `output_audio`, as decimal text; null if it has no price of its own."
    output_image: str | None
    "USD for a million of `output_image`, as decimal text; null if it has no price of its own."
    output_video: str | None
    "USD for a million of `output_video`, as decimal text; null if it has no price of its own."
    citation: str | None
    "USD for a million of `citation`, as decimal text; null if it has no price of its own."
    web_search: str | None
    "USD for a million of `web_search`, as decimal text; null if it has no price of its own."
    request: str | None
    "USD for a million of `request`, as decimal text; null if it has no price of its own."
    source: str
    "Where the price is from."
    source_version: str | None
    "The version of that source."


class ImportedFile(Form):
    """A file that was imported."""

    file: str
    "Path of the file."
    session_id: str
    "Id of the session, a UUIDv7."
    session_name: str
    "Name of the session."
    events: int
    "Number of events."


class Push(Form):
    """What was sent."""

    target: str
    "The collector."
    form: str
    "The version of the conventions, with `content` if texts were sent."
    spans: int
    "Number of spans."
    points: int
    "Number of points of metrics."
    exchanges: int
    "Number of exchanges."
    sessions: int
    "Number of sessions."
    bytes: int
    "Bytes that were sent, compressed."
    rejected: int
    "Spans and points that it took and did not keep."


class VerifiedSession(Form):
    """A session that was verified."""

    session_id: str | None
    "Id of the session, a UUIDv7."
    name: str | None
    "Name of the session."
    state: Literal["ok", "open", "purged", "archived", "bad"]
    "The result."
    exchanges: int
    "Number of exchanges that were read."
    events: int
    "Number of events that were read."
    open: list[str]
    "Ids of the exchanges that have not ended."
    gaps: list[RecordedGap]
    "What was counted and not kept: no failure."
    findings: list[LogFinding]
    "What is not as it was recorded."
    root: str | None
    "A digest of all exchanges that have ended."
    archive: str | None
    "The archive that was verified; null for the log."


class AttachedArchive(Form):
    """An archive."""

    archive: str
    "Name of the archive."


class CopiedSession(Form):
    """A session that was copied."""

    session_id: str
    "Id of the session, a UUIDv7."
    name: str | None
    "Name of the session."
    state: Literal["ok", "open", "purged", "bad"]
    "The result."
    exchanges: int
    "Number of exchanges that were copied."
    standing: int
    "Number of exchanges that were there already."
    events: int
    "Number of events that were copied."
    bytes: int
    "Bytes of the events that were copied."
    open: list[str]
    "Ids of the exchanges that have not ended."
    findings: list[LogFinding]
    "What was not copied, or not correctly."
