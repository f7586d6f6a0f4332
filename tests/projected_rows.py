"""Rows of the log and of projections, put into a database by hand: what views are asked about."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import msgspec
from sqlalchemy import URL

from recorder.model.events import Event, Exchange, Session
from recorder.projections import PROJECTIONS
from recorder.projections.anomalies import AnomalyRow
from recorder.projections.exchanges import ExchangeRow
from recorder.projections.item import ItemRow
from recorder.projections.phases import PhaseRow
from recorder.projections.prompts import PromptRow
from recorder.projections.requests import RequestRow
from recorder.projections.results import ResultRow
from recorder.projections.timing import TimingRow
from recorder.projections.usage import UsageRow
from recorder.store.engine import engine_named
from recorder.store.writer import Store
from tests.behind import connected, execute
from tests.log_rows import make_events, make_exchange, make_session

LOG: dict[type[msgspec.Struct], str] = {Session: "sessions", Exchange: "exchanges", Event: "events"}
TABLES = {**LOG, **{projection.row: projection.table for projection in PROJECTIONS}}
ARGUMENTS = '{"command":"roll"}'


@contextmanager
def written(database: Path | URL) -> Iterator[Any]:
    """A connection that any program may open, to a database that is made if it is not there; committed at the end."""
    Store(database).close()
    with connected(database) as connection:
        yield connection


def put(connection: Any, *rows: msgspec.Struct) -> None:
    for row in rows:
        values = msgspec.structs.astuple(row)
        rest = " ON CONFLICT DO NOTHING" if type(row) in LOG else ""  # the log skips a row that it has
        execute(connection, f"INSERT INTO {TABLES[type(row)]} VALUES ({', '.join('?' * len(values))}){rest}", *values)


def reindex(connection: Any) -> None:
    """Have full-text search find what stands in the items now."""
    name = "sqlite" if isinstance(connection, sqlite3.Connection) else "postgresql"
    for statement in engine_named(name).search().rebuild:
        execute(connection, statement)


def row(struct: type[msgspec.Struct], exchange: Exchange, /, **fields: Any) -> Any:
    """A row of an exchange in which all that is not given is empty."""
    ids = {"session_id": exchange.session_id, "exchange_id": exchange.exchange_id}
    empty = {field.name: _empty(field.type) for field in msgspec.structs.fields(struct)}
    return struct(**{**empty, **ids, **fields})


def _empty(type: Any) -> Any:
    if NoneType in get_args(type):
        return None
    return {int: 0, bool: False, bytes: b""}.get(type, "")


def an_exchange(connection: Any, number: int = 1, session: int = 1, **fields: Any) -> Exchange:
    """An exchange in the log, its session with it if it is the first."""
    exchange = make_exchange(make_session(session), number, **fields)
    put(connection, make_session(session), exchange)
    return exchange


def a_call(exchange: Exchange, **fields: Any) -> ItemRow:
    said = {"arguments": ARGUMENTS, "arguments_json": ARGUMENTS}
    call: ItemRow = row(
        ItemRow, exchange, **{"kind": "tool_call", "type": "function_call", "name": "shell", **said, **fields}
    )
    return call


def a_conversation(connection: Any) -> tuple[Exchange, Exchange]:
    """A turn in two exchanges: a model thinks and calls a tool; the tool fails, and so does the model's answer."""
    asks = an_exchange(connection, 1, client="codex", thread_id="t")
    tells = an_exchange(connection, 2, client="codex", thread_id="t")
    for event in make_events(asks, [b'data: {"a":1}\n\n', b'data: {"b":2}\n\n']):
        put(connection, msgspec.structs.replace(event, data_start=6, data_length=7))
    put(
        connection,
        row(ExchangeRow, asks, request_model="m", status="completed", user_text="Roll the dice", is_turn=True),
        row(ExchangeRow, tells, request_model="m", response_model="m-1", status="failed", error="overloaded"),
        row(ItemRow, asks, item=0, kind="reasoning", type="reasoning", text="Which dice?", ended_ns=90),
        row(ItemRow, tells, item=9, kind="other", type="mcp_approval_request", arguments="{}"),
        row(PhaseRow, asks, step=0, type="web_search_call", phase="searching", began_ns=10, ended_ns=90),
        a_call(asks, item=1, call_id="c1", call_key="c1", began_ns=90, ended_ns=100),
        row(ItemRow, tells, item=0, kind="message", type="message", role="assistant", text="The dice are gone."),
        row(RequestRow, asks, input_items=1, response_id="resp_1", output_items=2, is_complete=True, logical_items=1),
        row(
            *(RequestRow, tells),
            previous_response_id="resp_1",
            previous_exchange_id=asks.exchange_id,
            input_items=1,
            depth=1,
            is_complete=True,
            logical_items=4,
        ),
        row(ResultRow, tells, call_key="c1", digest="d", started_ns=tells.started_ns, output="no dice", failed=True),
        row(
            UsageRow, asks, input_tokens=10, output_tokens=4, reasoning_output_tokens=3, total_tokens=14, usage_raw="{}"
        ),
        row(
            UsageRow, tells, input_tokens=30, cache_read_input_tokens=15, output_tokens=6, usage_raw="{}", partial=True
        ),
        row(
            *(PromptRow, tells),
            model="m",
            cache_class="prefix_changed",
            input_tokens=30,
            cached_tokens=15,
            missed_tokens=5,
            path="tools[3]",
            previous_exchange_id=asks.exchange_id,
        ),
        row(TimingRow, asks, ttft_ns=50, duration_ns=200),
        row(TimingRow, tells, ttft_ns=60, duration_ns=300),
        row(AnomalyRow, tells, kind="missing_terminal", count=1),
    )
    reindex(connection)
    return asks, tells
