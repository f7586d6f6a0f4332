"""Rows of the log for tests: valid ones, chained as the recorder chains them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args

import msgspec
from sqlalchemy import URL

from recorder.model.chain import link, root
from recorder.model.events import Event, Exchange, Kind, Session
from recorder.model.ids import uuid7
from recorder.model.prices import PriceRow, Unit
from recorder.prices.catalog import Period, amount, rows_of
from recorder.projections.rows import (
    PROJECTIONS,
    AnomalyRow,
    ExchangeRow,
    ItemRow,
    ParametersRow,
    PhaseRow,
    PromptRow,
    RequestRow,
    ResultRow,
    TimingRow,
    UsageRow,
    UserTextRow,
)
from recorder.store.engine import schema_named
from recorder.store.search import INDEX_NAMES
from recorder.store.write.writer import Store
from tests.support.superuser import connected, engine, execute

START_NS = 1_790_000_000_000_000_000


def make_id(number: int, at_ns: int = START_NS) -> str:
    """The same number gives the same id; higher numbers and later times give higher ids."""
    return uuid7(at_ns + number * 1_000_000, number.to_bytes(10, "big"))


def make_session(number: int = 1, **fields: Any) -> Session:
    given = {
        "created_ns": START_NS + number,
        "name": f"run-{number}",
        "source": "prefix",
        "labels": "{}",
    }
    return Session(**{"session_id": make_id(number), "origin": "live", **given, **fields})


def make_exchange(session: Session, number: int = 1, **fields: Any) -> Exchange:
    given = {
        "provider": "openai",
        "api": "openai-responses",
        "method": "POST",
        "target": "/v1/responses",
    }
    ids = {
        "session_id": session.session_id,
        "exchange_id": make_id(number),
        "recorder_id": "recorder-1",
    }
    return Exchange(**{**ids, "started_ns": START_NS + number * 1_000, **given, **fields})


def make_events(
    exchange: Exchange, raws: Sequence[bytes], kinds: Sequence[Kind] = ()
) -> list[Event]:
    """Events from position 0 on; frames, unless `kinds` says otherwise."""
    chained = root(exchange.session_id, exchange.exchange_id)
    made = []
    for pos, raw in enumerate(raws):
        kind = kinds[pos] if pos < len(kinds) else "frame"
        fields: tuple[Any, ...] = (
            pos,
            kind,
            pos * 1_000,
            "delta",
            pos,
            "msg_1",
            0,
            raw,
            None,
            None,
        )
        chained = link(chained, *fields)
        made.append(Event(*(exchange.session_id, exchange.exchange_id, *fields, chained)))
    return made


def of_type(exchange: Exchange, *types: str) -> list[Event]:
    """Events of these types, each of an item that is named like its type.

    Their hashes are not a chain.
    """
    made = make_events(exchange, [b"data: {}\n\n"] * len(types))
    named = zip(made, types, strict=True)
    return [
        msgspec.structs.replace(event, type=type, item_id=f"{type}-item") for event, type in named
    ]


def make_end(status: str, body_bytes: int = 0) -> bytes:
    return msgspec.json.encode({"status": status, "body_bytes": body_bytes, "lossless": True})


def begin(store: Store, number: int = 1) -> Exchange:
    """A session with one exchange in the store, both of that number."""
    session = make_session(number)
    exchange = make_exchange(session, number)
    with store.transaction():
        store.add_session(session)
        store.add_exchange(exchange)
    return exchange


PROJECTED = (*(each.table for each in PROJECTIONS), "dead_letters", "rebuilds")


def projections(database: Path | URL) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all projections, in an order of their own."""
    with connected(database) as connection:
        return {
            table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)
            for table in PROJECTED
        }


def add(store: Store, events: Sequence[Event]) -> None:
    with store.transaction():
        store.append(events)


# -- Rows of the log and of projections, put into a database by hand: what views are asked about


LOG: dict[type[msgspec.Struct], str] = {
    Session: "sessions",
    Exchange: "exchanges",
    Event: "events",
    PriceRow: "prices",
}
TABLES = {**LOG, **{projection.row: projection.table for projection in PROJECTIONS}}
# A fold puts into the row of usage what sums go by, of other rows.
_COUNTED = f"""UPDATE {TABLES[UsageRow]} AS u SET (started_ns, model, client, outcome, reported) = (
    SELECT x.started_ns, coalesce(p.response_model, p.request_model), x.client, p.status,
        CASE WHEN u.usage_raw IS NULL THEN 0 ELSE 1 END
    FROM exchanges AS x JOIN {TABLES[ExchangeRow]} AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
    WHERE x.session_id = u.session_id AND x.exchange_id = u.exchange_id)
WHERE u.session_id = ? AND u.exchange_id = ?"""
ARGUMENTS = '{"command":"roll"}'


@contextmanager
def written(database: Path | URL) -> Iterator[Any]:
    """A connection that any program may open, to a database that is made if it is not there;
    committed at the end.
    """
    Store(database).close()
    with connected(database) as connection:
        yield connection


def put(connection: Any, *rows: msgspec.Struct) -> None:
    for row in rows:
        values = msgspec.structs.astuple(row)
        insert = f"INSERT INTO {TABLES[type(row)]} VALUES ({', '.join('?' * len(values))})"
        if type(row) in LOG:  # a row that is there is skipped; what a view takes has no ON CONFLICT
            is_file = isinstance(connection, sqlite3.Connection)
            insert = (
                insert.replace("INSERT", "INSERT OR IGNORE")
                if is_file
                else f"{insert} ON CONFLICT DO NOTHING"
            )
        execute(connection, insert, *values)
        if isinstance(row, ExchangeRow | UsageRow):
            execute(connection, _COUNTED, row.session_id, row.exchange_id)


def empty_indexes(database: Path | URL, names: Sequence[str] = INDEX_NAMES) -> None:
    """Take every word out of indexes for full-text search."""
    sql = {
        "sqlite": "INSERT INTO {0} ({0}) VALUES ('delete-all')",
        "postgresql": "DELETE FROM {0}",
    }[engine(database)]
    with connected(database) as connection:
        for name in names:
            connection.execute(sql.format(name))


def forget_projections(database: Path | URL) -> None:
    """Throw all projections of a log away, their indexes first."""
    empty_indexes(database)
    with connected(database) as connection:
        for table in PROJECTED:
            connection.execute(f"DELETE FROM {table}")


def reindex(connection: Any) -> None:
    """Have full-text search find what stands in the tables now."""
    name = "sqlite" if isinstance(connection, sqlite3.Connection) else "postgresql"
    for index in schema_named(name).search.statements:
        for statement in index.rebuild:
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
        ItemRow,
        exchange,
        **{"kind": "tool_call", "type": "function_call", "name": "shell", **said, **fields},
    )
    return call


def price_rows(
    model: str, provider: str = "openai", rank: int = 0, /, source: str = "test", **usd: str
) -> list[PriceRow]:
    """The prices of the models that a pattern matches, always valid: USD for a million of each
    unit.
    """
    card: dict[Any, Any] = {
        unit: amount(cast(Unit, unit), Decimal(each)) for unit, each in usd.items()
    }
    return rows_of(provider, rank, model, Period(card), source, "1")


def put_prices(
    database: Path | URL, model: str = "gpt-5", provider: str = "openai", **usd: str
) -> None:
    """Give a model of a log prices that are always valid."""
    with connected(database) as connection:
        put(connection, *price_rows(model, provider, source="prices.toml", **usd))
        connection.commit()


def a_conversation(connection: Any) -> tuple[Exchange, Exchange]:
    """A turn in two exchanges: a model thinks and calls a tool; the tool fails, and so does the
    model's answer.
    """
    asks = an_exchange(connection, 1, client="codex", thread_id="t", attempt=0)
    tells = an_exchange(connection, 2, client="codex", thread_id="t", attempt=1)
    for event in make_events(asks, [b'data: {"a":1}\n\n', b'data: {"b":2}\n\n']):
        put(connection, msgspec.structs.replace(event, data_start=6, data_length=7))
    put(
        connection,
        row(
            ExchangeRow,
            asks,
            request_model="m",
            status="completed",
            user_text="Roll the dice",
            is_turn=True,
        ),
        row(
            ExchangeRow,
            tells,
            request_model="m",
            response_model="m-1",
            status="failed",
            error="overloaded",
        ),
        row(
            ItemRow,
            asks,
            item=0,
            kind="reasoning",
            type="reasoning",
            text="Which dice?",
            ended_ns=90,
        ),
        row(ItemRow, tells, item=9, kind="other", type="mcp_approval_request", arguments="{}"),
        row(
            PhaseRow,
            asks,
            step=0,
            type="web_search_call",
            phase="searching",
            began_ns=10,
            ended_ns=90,
        ),
        a_call(asks, item=1, call_id="c1", call_key="c1", began_ns=90, ended_ns=100),
        row(
            ItemRow,
            tells,
            item=0,
            kind="message",
            type="message",
            role="assistant",
            text="The dice are gone.",
        ),
        row(
            RequestRow,
            asks,
            input_items=1,
            response_id="resp_1",
            output_items=2,
            is_complete=True,
            logical_items=1,
        ),
        row(
            *(RequestRow, tells),
            previous_response_id="resp_1",
            previous_exchange_id=asks.exchange_id,
            input_items=1,
            depth=1,
            is_complete=True,
            logical_items=4,
        ),
        row(UserTextRow, asks, digest="d", started_ns=asks.started_ns, text="Roll the dice"),
        row(
            ParametersRow,
            asks,
            reasoning_effort="high",
            tools=1,
            tool_names='["shell"]',
            new_user_text="Roll the dice",
        ),
        row(
            ResultRow,
            tells,
            call_key="c1",
            digest="d",
            started_ns=tells.started_ns,
            output="no dice",
            failed=True,
        ),
        row(
            UsageRow,
            asks,
            input_tokens=10,
            output_tokens=4,
            reasoning_output_tokens=3,
            total_tokens=14,
            usage_raw="{}",
        ),
        row(
            *(UsageRow, tells),
            input_tokens=30,
            cache_read_input_tokens=15,
            output_tokens=6,
            usage_raw="{}",
            partial=True,
            web_searches=1,
            cache_write_1h_input_tokens=2,
            output_audio_tokens=3,
            reported_cost_usd="0.0076509169000000005",
            reported_cost_source="usage.cost",
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
    put(
        connection,
        *price_rows("m-#", asks.provider, 1, input="1.25", cache_read="0.125", output="10"),
    )
    put(connection, *price_rows("m%", asks.provider, 2, input="3", output="15", reasoning="20"))
    reindex(connection)
    return asks, tells
