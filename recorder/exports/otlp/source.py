"""The rows of a session that spans and metrics are made of: what the log and its projections have, no more.

One query reads the tool calls of a session that were answered, one its retries; both give a few hundred bytes a row.
The exchanges follow in pages, so memory does not grow with their texts. An exchange counts as ended when its `end` is
in the log; one without projections (its fold failed, or a rebuild is due) has `None` in their columns.

The rows of an exchange that has ended do not change any more, if all exchanges of its session that began before it
have ended too: a retry and the result of a call refer to earlier exchanges only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    and_,
    bindparam,
    column,
    func,
    literal_column,
    null,
    select,
    table,
)

from recorder.model.events import Exchange, Session
from recorder.model.ids import BEFORE_ALL
from recorder.model.payloads import EndRecord
from recorder.projections.rows import TABLES, ItemRow, same_response_sql
from recorder.store.engine import AnyRow
from recorder.store.queries.reader import LogReader
from recorder.store.schema import events, exchanges, tables_of
from recorder.store.sql import IS_END, of_exchange, of_same_exchange, struct_of

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
    arguments: str | None = None  # this and the next only if the reader has texts
    output: str | None = None


class ExportedExchange(msgspec.Struct, frozen=True):
    """An exchange that has ended, with all that its spans and metrics are made of."""

    session: Session
    exchange: Exchange
    duration_ns: int  # up to its end
    end: EndRecord | None  # None: it cannot be read
    projected: AnyRow  # with the columns of projections: None where an exchange has no row
    is_repeat: bool  # an exchange that began earlier has the same response, and reported its tokens
    results: tuple[ToolResult, ...] = ()  # that its request brought
    retry: AnyRow | None = None  # of the view `retries`, if it repeats an attempt
    items: tuple[ItemRow, ...] = ()  # of its response; only if the reader has texts


_PROJECTED = {
    "exchanges": "response_id request_model response_model stream status http_status finish_reason error_type "
    "error_code error is_retrieval purpose parent_thread_id",
    "usage": "input_tokens cache_read_input_tokens cache_write_input_tokens output_tokens reasoning_output_tokens "
    "partial",
    "timing": "first_event_ns ttft_ns longest_silence_ns stalls events bytes gap_p50_ns gap_p95_ns gap_p99_ns",
    "parameters": "max_output_tokens temperature top_p reasoning_effort service_tier response_service_tier "
    "response_format",
    "requests": "conversation_id previous_exchange_id",
}
"""The columns that are read, by projection."""


_IS_REPEAT: Any = literal_column(
    f"""EXISTS (SELECT 1 FROM {TABLES["exchanges"]} AS o WHERE {same_response_sql("o", "of_exchanges")}
    AND o.exchange_id < of_exchanges.exchange_id AND EXISTS (SELECT 1 FROM {TABLES["usage"]} AS w
    WHERE w.session_id = o.session_id AND w.exchange_id = o.exchange_id AND w.usage_raw IS NOT NULL))""",
    Boolean,
)


def _exported() -> Select[Any]:
    """Return the statement for some exchanges of a session that have ended, in order of their ids."""
    joined = exchanges.join(events, and_(of_same_exchange(events, exchanges), IS_END))
    columns: list[Any] = [*exchanges.c]
    for name, names in _PROJECTED.items():
        part = tables_of[name].alias(f"of_{name}")
        joined = joined.outerjoin(part, of_same_exchange(part, exchanges))
        columns += [part.c[each] for each in names.split()]
    return (
        select(*columns, events.c.t_ns, events.c.raw, _IS_REPEAT.label("is_repeat"))
        .select_from(joined)
        .where(
            exchanges.c.session_id == bindparam("session_id"),
            exchanges.c.exchange_id.in_(bindparam("exchange_ids", expanding=True)),
        )
        .order_by(exchanges.c.exchange_id)
    )


_EXPORTED = _exported()
# Ids first: with a range of them in `_EXPORTED` SQLite goes through all ends in it for each exchange.
_NEXT = (
    select(events.c.exchange_id)
    .where(events.c.session_id == bindparam("session_id"), IS_END, events.c.exchange_id > bindparam("after"))
    .order_by(events.c.exchange_id)
    .limit(bindparam("page"))
)


def _view(name: str, columns: str) -> Any:
    """Return a view of `recorder.projections.views`, of which these columns are read."""
    ids = ("session_id", "exchange_id", "output_exchange_id", "retried_exchange_id")
    types = dict.fromkeys(ids, exchanges.c.exchange_id.type)
    return table(name, *(column(each, types.get(each)) for each in columns.split()))


_calls = _view(
    "tool_calls",
    "session_id exchange_id item name type call_id failed arguments output output_exchange_id ended_ns latency_ns",
)
_asked, _answered = exchanges.alias("asked"), exchanges.alias("answered")


def _is_of(call: Any, exchange: Any, exchange_id: Any) -> ColumnElement[bool]:
    return and_(exchange.c.session_id == call.c.session_id, exchange.c.exchange_id == exchange_id)


_RESULTS = (
    select(
        _calls.c.output_exchange_id,
        *(_calls.c[name] for name in ("exchange_id", "item", "name", "type", "call_id", "failed")),
        (_asked.c.started_ns + _calls.c.ended_ns).label("began_ns"),
        _answered.c.started_ns.label("ended_ns"),
        null().label("arguments"),  # read later, by `_TEXTS`
        null().label("output"),
    )
    .select_from(
        _calls.join(_asked, _is_of(_calls, _asked, _calls.c.exchange_id)).join(
            _answered, _is_of(_calls, _answered, _calls.c.output_exchange_id)
        )
    )
    .where(
        _calls.c.session_id == bindparam("session_id"),
        _calls.c.latency_ns.is_not(None),
        # Another thread may begin with this one's history, in which a call has a result that is none: see
        # `RESULT_DIGEST` of the views. The thread's own result may still come, so that one does not count.
        func.coalesce(_asked.c.thread_id, "") == func.coalesce(_answered.c.thread_id, ""),
    )
    .order_by(_calls.c.exchange_id, _calls.c.item)
)
_TEXTS = select(_calls.c.exchange_id, _calls.c.item, _calls.c.arguments, _calls.c.output).where(
    _calls.c.session_id == bindparam("session_id"),
    _calls.c.exchange_id.in_(bindparam("exchange_ids", expanding=True)),
)
_items = tables_of["items"]
_ITEMS = select(_items).where(of_exchange(_items)).order_by(_items.c.item)

_retries = _view("retries", "session_id session_name exchange_id retried_exchange_id attempt_number waited_ns")
_RETRIES = select(
    *(_retries.c[name] for name in ("exchange_id", "retried_exchange_id", "attempt_number", "waited_ns"))
).where(
    _retries.c.session_id == bindparam("session_id"),
    _retries.c.session_name == bindparam("session_name"),  # what its windows are cut by: so it reads one session
)


class ExportReader:
    """A reader of one session's exchanges, for export. `await ExportReader.open(log, session)`."""

    def __init__(
        self, log: LogReader, session: Session, results: Sequence[AnyRow], retries: Sequence[AnyRow], has_texts: bool
    ) -> None:
        self._log, self._session, self._has_texts = log, session, has_texts
        self._retries = {row.exchange_id: row for row in retries}
        self._results: dict[str, list[ToolResult]] = {}  # by the exchange that brought it
        self._answering: dict[str, set[str]] = {}  # by the exchange with the call
        for row in results:
            result = struct_of(ToolResult, row)
            self._results.setdefault(row.output_exchange_id, []).append(result)
            self._answering.setdefault(result.exchange_id, set()).add(row.output_exchange_id)

    @classmethod
    async def open(cls, log: LogReader, session: Session, *, has_texts: bool = False) -> ExportReader:
        """Read the session's answered calls and retries as they are now; open another one for what comes later.

        With `has_texts` exchanges have their items, and the results of tools have arguments and output.
        """
        ids = {"session_id": session.session_id}
        results = await log.rows(_RESULTS, **ids)
        return cls(log, session, results, await log.rows(_RETRIES, **ids, session_name=session.name), has_texts)

    async def read(self, exchange_ids: Collection[str]) -> list[ExportedExchange]:
        """Return those of some exchanges that have ended, in order of their ids. Give at most `PAGE` of them."""
        found = [self._exchange(row) for row in await self._rows(_EXPORTED, exchange_ids=list(exchange_ids))]
        return [await self._with_texts(each) for each in found] if self._has_texts else found

    def answering(self, exchange_ids: Collection[str]) -> set[str]:
        """Return the exchanges whose requests brought results of calls of these."""
        return set().union(*(self._answering.get(id, ()) for id in exchange_ids))

    async def pages(self) -> AsyncIterator[list[ExportedExchange]]:
        """Yield all exchanges that have ended, at most `PAGE` at a time, in order of their ids.

        With texts one at a time: each may bring megabytes of them.
        """
        after, page = BEFORE_ALL, 1 if self._has_texts else PAGE
        while rows := await self._rows(_NEXT, after=after, page=page):
            yield await self.read([row.exchange_id for row in rows])
            after = rows[-1].exchange_id

    async def _rows(self, statement: Select[Any], **values: Any) -> Sequence[AnyRow]:
        return await self._log.rows(statement, session_id=self._session.session_id, **values)

    def _exchange(self, row: AnyRow) -> ExportedExchange:
        exchange = struct_of(Exchange, row)
        return ExportedExchange(
            session=self._session,
            exchange=exchange,
            duration_ns=row.t_ns,
            end=_end(row.raw),
            projected=row,
            is_repeat=bool(row.is_repeat),
            results=tuple(self._results.get(exchange.exchange_id, ())),
            retry=self._retries.get(exchange.exchange_id),
        )

    async def _with_texts(self, exported: ExportedExchange) -> ExportedExchange:
        items = await self._rows(_ITEMS, exchange_id=exported.exchange.exchange_id)
        calls = {(each.exchange_id, each.item): each for each in exported.results}
        rows = await self._rows(_TEXTS, exchange_ids=sorted({id for id, _ in calls})) if calls else ()
        for row in rows:
            key = row.exchange_id, row.item
            if key in calls:
                calls[key] = msgspec.structs.replace(calls[key], arguments=row.arguments, output=row.output)
        return msgspec.structs.replace(
            exported, results=tuple(calls.values()), items=tuple(ItemRow(*row) for row in items)
        )


def _end(raw: bytes) -> EndRecord | None:
    try:
        return msgspec.json.decode(raw, type=EndRecord)
    except msgspec.DecodeError:
        return None
