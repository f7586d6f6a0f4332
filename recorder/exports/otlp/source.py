"""The rows of a session that spans and metrics are made of: what the log and its projections have,
no more.

One query reads the tool calls of a session that were answered, one its retries; both give a few
hundred bytes a row. The exchanges follow in pages, so memory does not grow with their texts. An
exchange counts as ended when its `end` is in the log; one without projections (its fold failed, or
a rebuild is due) has `None` in their columns.

The rows of an exchange that has ended do not change any more, if all exchanges of its session that
began before it have ended too: a retry and the result of a call refer to earlier exchanges only.

Texts of requests and responses are attributes of spans, by the JSON schemas of the convention, only
on request. The request is the logical one: with all that a conversation which the provider keeps
had before. Values are JSON as text: the convention allows that on spans, and most back ends take no
structures there. What has no equal in the schemas (gen-ai-input-messages.json and its like) stays
as the provider wrote it, which they allow (`GenericPart`); so images are there as they were sent.
Nothing here raises on what was recorded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    and_,
    bindparam,
    func,
    literal_column,
    null,
    select,
)

from recorder.exports.otlp.telemetry import Attributes
from recorder.model.events import EndRecord, Exchange, Session
from recorder.model.ids import BEFORE_ALL
from recorder.projections.rows import TABLES, ItemRow, same_response_sql
from recorder.recordings.requests import load_requests, request_json
from recorder.store.engine import AnyRow
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import exchanges_named
from recorder.store.schema import events, exchanges, tables_of, view_of
from recorder.store.sql import IS_END, of_exchange, of_same_exchange, struct_of
from recorder.wire.dialects import Dialect, by_name
from recorder.wire.dialects.conversation import Conversation, Message, Part
from recorder.wire.dialects.json_values import as_json, decoded, request_object, text, without_nulls

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
# Ids first: with a range of them in `_EXPORTED` SQLite goes through all ends in it for each
# exchange.
_NEXT = (
    select(events.c.exchange_id)
    .where(
        events.c.session_id == bindparam("session_id"),
        IS_END,
        events.c.exchange_id > bindparam("after"),
    )
    .order_by(events.c.exchange_id)
    .limit(bindparam("page"))
)


_calls = view_of(
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
        # Another thread may begin with this one's history, in which a call has a result that is
        # none: see `RESULT_DIGEST` of the views. The thread's own result may still come, so that
        # one does not count.
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

_retries = view_of(
    "retries", "session_id session_name exchange_id retried_exchange_id attempt_number waited_ns"
)
_RETRIES = select(
    *(
        _retries.c[name]
        for name in ("exchange_id", "retried_exchange_id", "attempt_number", "waited_ns")
    )
).where(
    _retries.c.session_id == bindparam("session_id"),
    # what its windows are cut by: so it reads one session
    _retries.c.session_name == bindparam("session_name"),
)


class ExportReader:
    """A reader of one session's exchanges, for export. `await ExportReader.open(log, session)`."""

    def __init__(
        self,
        log: LogReader,
        session: Session,
        results: Sequence[AnyRow],
        retries: Sequence[AnyRow],
        has_texts: bool,
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
    async def open(
        cls, log: LogReader, session: Session, *, has_texts: bool = False
    ) -> ExportReader:
        """Read the session's answered calls and retries as they are now; open another one for what
        comes later.

        With `has_texts` exchanges have their items, and the results of tools have arguments and
        output.
        """
        ids = {"session_id": session.session_id}
        results = await log.rows(_RESULTS, **ids)
        return cls(
            log,
            session,
            results,
            await log.rows(_RETRIES, **ids, session_name=session.name),
            has_texts,
        )

    async def read(self, exchange_ids: Collection[str]) -> list[ExportedExchange]:
        """Return those of some exchanges that have ended, in order of their ids.

        Give at most `PAGE` of them.
        """
        found = [
            self._exchange(row)
            for row in await self._rows(_EXPORTED, exchange_ids=list(exchange_ids))
        ]
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
        rows = (
            await self._rows(_TEXTS, exchange_ids=sorted({id for id, _ in calls})) if calls else ()
        )
        for row in rows:
            key = row.exchange_id, row.item
            if key in calls:
                calls[key] = msgspec.structs.replace(
                    calls[key], arguments=row.arguments, output=row.output
                )
        return msgspec.structs.replace(
            exported, results=tuple(calls.values()), items=tuple(ItemRow(*row) for row in items)
        )


def _end(raw: bytes) -> EndRecord | None:
    try:
        return msgspec.json.decode(raw, type=EndRecord)
    except msgspec.DecodeError:
        return None


# -- texts

_FAILED = "error"  # the convention's word for a generation that did not finish


async def load_content(
    log: LogReader, exported: ExportedExchange, number: int | None = None
) -> Attributes:
    """Return the messages of an exchange, which a reader with texts has read.

    `number` is that in its session.

    Raises `RecorderError` if the exchange, with all that it continues, is too large to be held.
    """
    exchange = exported.exchange
    named = (
        [(number, exchange)]
        if number
        else await exchanges_named(log, exchange.session_id, exchange.exchange_id)
    )
    shown = await load_requests(log, exported.session, named)
    body = request_json(shown[0][1]) if shown else None
    return content_of(exported, request_object(body) if body else {})


def content_of(exported: ExportedExchange, request: Mapping[str, Any]) -> Attributes:
    """Return the messages of an exchange as attributes, given its logical request.

    Empty ones are left out.
    """
    exchange = exported.exchange
    dialect = by_name(exchange.api)
    finish_reason = exported.projected.finish_reason or _FAILED
    messages = {
        **_request_messages(dialect, exchange.target.partition("?")[0], request),
        "gen_ai.output.messages": output_messages(
            exported.items, finish_reason, has_choices=dialect.has_choices
        ),
    }
    return {name: as_json(value) for name, value in messages.items() if value}


def _request_messages(dialect: Dialect, path: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    system, messages = _text_parts(request.get("instructions")), []
    if dialect.conversation is not None:
        conversation = dialect.conversation(path, request)
        system, messages = instructions(conversation), input_messages(conversation)
    prompt = _text_parts(request.get("prompt"))  # of a completion without messages
    if prompt and not messages:
        messages = [{"role": "user", "parts": prompt}]
    return {"gen_ai.system_instructions": system, "gen_ai.input.messages": messages}


MessagePart = dict[str, Any]

# of a tool of the provider, and of other items
_SHOWN = ("name", "call_id", "text", "arguments", "output")


def input_messages(conversation: Conversation) -> list[MessagePart]:
    """Return the messages of a request: those that say nothing are left out."""
    found = []
    for message in conversation.messages:
        parts = [_part(part) for part in message.parts]
        if parts:
            found.append({"role": _role(message), "parts": parts})
    return found


def instructions(conversation: Conversation) -> list[MessagePart]:
    """Return the parts of the system prompt that is beside the messages."""
    return [_part(part) for part in conversation.system_parts if part.text != ""]


def output_messages(
    items: Iterable[ItemRow], finish_reason: str, *, has_choices: bool
) -> list[MessagePart]:
    """Return a message for each choice of a response: of one without choices a single one, or none
    if it is empty.
    """
    choices = dict[int, list[MessagePart]]()
    for item in items:
        number = (item.output_index or 0) if has_choices else 0
        choices.setdefault(number, []).extend(_of_item(item))
    return [
        {"role": "assistant", "parts": parts, "finish_reason": finish_reason}
        for _, parts in sorted(choices.items())
        if parts
    ]


def _role(message: Message) -> str:
    if all(part.kind == "result" for part in message.parts):
        return "tool"
    if message.role == "assistant" or message.is_item:
        return "assistant"
    return text(message.speaker) or "user"


def _part(part: Part) -> MessagePart:
    if part.kind in ("text", "reasoning") and part.text is not None:
        return {"type": part.kind, "content": part.text}
    if part.kind == "call":
        return _call(part.id, part.name, part.value)
    if part.kind == "result":
        return {
            "type": "tool_call_response",
            "id": text(part.id) or text(part.name),
            "response": part.value,
        }
    type = text(part.given.get("type")) or "unknown"
    if type in ("text", "reasoning"):  # whose schemas want a text
        return {"type": type, "content": part.text or ""}
    return {**part.given, "type": type}


def _text_parts(value: Any) -> list[MessagePart]:
    """Return a value as the parts of a message, if it is a text."""
    return list(_said("text", value)) if isinstance(value, str) else []


def _said(type: str, *contents: str | None) -> Iterator[MessagePart]:
    """Yield a part for each text that is not empty."""
    for content in contents:
        if content:
            yield {"type": type, "content": content}


def _call(id: Any, name: Any, arguments: Any) -> MessagePart:
    return {
        "type": "tool_call",
        "id": text(id),
        "name": text(name) or "",
        "arguments": _json(arguments),
    }


def _json(value: Any) -> Any:
    """Return arguments as the object that they are, if they are JSON."""
    if not isinstance(value, str):
        return value
    try:
        return decoded(value.encode("utf-8", "surrogatepass"))
    except ValueError:
        return value


def _of_item(item: ItemRow) -> Iterator[MessagePart]:
    """Yield the parts that an item of a response is."""
    if item.kind == "message":
        yield from _said("text", item.text, item.refusal)
    elif item.kind == "reasoning":
        yield from _said("reasoning", item.text or item.summary_text)
    elif item.kind == "tool_call" and item.output is None:
        yield _call(item.call_id, item.name or item.type, item.arguments)
    else:
        shown = {name: getattr(item, name) for name in _SHOWN}
        yield {"type": item.type, **without_nulls(shown)}
