"""The rows of a session that spans and metrics are made of: what the log and its projections have, no more.

One query reads the tool calls of a session that were answered, one its retries; both give a few hundred bytes a row.
The exchanges follow in pages, so memory does not grow with their texts. An exchange counts as ended when its `end` is
in the log; one without projections (its fold failed, or a rebuild is due) has `None` in their columns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Select, and_, bindparam, column, literal_column, select, table, text

from recorder.model.events import Exchange, Session
from recorder.model.payloads import EndRecord
from recorder.projections import TABLES
from recorder.projections.exchanges import same_response_sql
from recorder.store.reader import LogReader
from recorder.store.schema import events, exchanges, tables_of
from recorder.store.sql import IS_END, of_same_exchange

PAGE = 200  # exchanges of one query: some 100 KB of rows


class ToolResult(msgspec.Struct, frozen=True):
    """A call of a client's tool whose result a request brought, in the thread that the call is of."""

    exchange_id: str  # of the response with the call
    item: int  # its number in that response
    name: str | None
    type: str  # as the provider calls it: function_call, tool_use, …
    call_id: str | None
    failed: bool | None
    began_ns: int  # wall time: the call was complete
    ended_ns: int  # wall time: the request with the result began
    arguments: str | None = None  # this and the next: only where content was asked for
    output: str | None = None


class Retry(msgspec.Struct, frozen=True):
    """The attempt that an exchange repeats."""

    retried_exchange_id: str
    attempt_number: int  # 2 is the first repetition
    waited_ns: int | None  # since the attempt before ended


class Projected(msgspec.Struct, frozen=True):
    """Columns that the projections have of an exchange, under their names there."""

    response_id: str | None = None
    request_model: str | None = None
    response_model: str | None = None
    stream: int | None = None
    status: str | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    error_type: str | None = None
    error_code: str | None = None
    error: str | None = None
    is_retrieval: int | None = None
    purpose: str | None = None
    parent_thread_id: str | None = None
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    partial: int | None = None
    first_event_ns: int | None = None
    ttft_ns: int | None = None
    longest_silence_ns: int | None = None
    stalls: int | None = None
    events: int | None = None
    bytes: int | None = None
    gap_p50_ns: int | None = None
    gap_p95_ns: int | None = None
    gap_p99_ns: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None
    service_tier: str | None = None
    response_service_tier: str | None = None
    response_format: str | None = None
    conversation_id: str | None = None
    previous_exchange_id: str | None = None


class ExportedExchange(msgspec.Struct, frozen=True):
    """An exchange that has ended, with all that its spans and metrics are made of."""

    session: Session
    number: int  # in its session; 1 is the first
    exchange: Exchange
    duration_ns: int  # up to its end
    end: EndRecord | None  # None: it cannot be read
    projected: Projected
    is_repeat: bool  # another exchange of the same response began earlier, and reported its tokens
    results: tuple[ToolResult, ...] = ()  # that its request brought
    retry: Retry | None = None


class ExportReader:
    """A reader of one session's exchanges, for export. `await ExportReader.open(log, session)`."""

    @classmethod
    async def open(cls, log: LogReader, session: Session, *, with_content: bool = False) -> ExportReader:
        """Read the session's answered calls and retries as they are now; open another one for what comes later."""
        raise NotImplementedError

    async def read(self, exchange_ids: Iterable[str]) -> list[ExportedExchange]:
        """Return those of some exchanges that have ended, in order of their ids. Give at most `PAGE` of them."""
        raise NotImplementedError

    async def pages(self, exchange_ids: Sequence[str] | None = None) -> AsyncIterator[list[ExportedExchange]]:
        """Yield the exchanges that have ended, all or some of them, `PAGE` at a time, in order of their ids."""
        raise NotImplementedError
        yield []
