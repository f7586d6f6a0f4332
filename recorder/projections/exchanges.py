"""The rows that are functions of the facts of one exchange: its summary, its request, the results
in it, its usage.

A fold knows one exchange: it makes the row of a request as if nothing came before. `linked` gives
the row its place behind the one that it continues, which the store looks up; the row of an exchange
is written again when that one changes. The request put together is `recorder.wire.logical_request`,
by the same rules.

Agents send the whole history with every request. So a result of a tool is kept by its call and its
content, and of several requests that carry it the store keeps the earliest: in whatever order
exchanges are folded, the rows are the same.

Usage has the tokens, and the cost that the provider reports; iterations are the runs of a model
within a response that its usage leaves out, and that are charged: compactions, advisors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from recorder.model.facts import ErrorReported, RepeatedCall
from recorder.model.text import storable, storable_json
from recorder.projections.exchange_facts import ITERATIONS_LIMIT, TOKENS_LIMIT, ExchangeFacts
from recorder.projections.rows import (
    ExchangeRow,
    IterationRow,
    ParametersRow,
    RequestRow,
    ResultRow,
    UsageRow,
    UserTextRow,
)
from recorder.wire.dialects import by_name, other
from recorder.wire.dialects.json_values import as_json
from recorder.wire.dialects.user_text import without_outer_elements

WORDS_LIMIT = 200  # characters of what a person asked: a title
DIGEST_LENGTH = 32  # hex digits: no two texts of a session have the same 128 bits


def exchange_rows(facts: ExchangeFacts) -> Iterable[ExchangeRow]:
    request, failed, ended = facts.request, facts.failed or ErrorReported(), facts.ended
    yield ExchangeRow(
        *facts.ids,
        response_id=storable(facts.response_id),
        request_model=storable(request.model),
        response_model=storable(facts.response_model),
        stream=request.stream,
        status=ended.status if ended else None,
        http_status=facts.http_status,
        finish_reason=storable(facts.finish_reason),
        error_type=storable(failed.type),
        error_code=storable(failed.code),
        error=storable(failed.message or (ended.error if ended else None)),
        user_text=_title(request.text),
        is_turn=request.is_turn,
        lossless=ended.lossless if ended else None,
        is_retrieval=facts.exchange.resumes_response_id is not None,
        last_number=facts.anomalies.last_number(),
        error_param=storable(failed.param),
        last_response_id=storable(facts.last_response_id),
        purpose=facts.placed.purpose,
        parent_thread_id=storable(facts.placed.parent_thread_id),
        owner=storable(facts.attribution.owner),
        team=storable(facts.attribution.team),
        tags=storable_json(as_json(facts.attribution.tags)) if facts.attribution.tags else None,
        content=storable(facts.attribution.content),
    )


def parameter_rows(facts: ExchangeFacts) -> Iterable[ParametersRow]:
    """Yield the settings of a request, what is in it by kind, and the service tier that its
    response had.
    """
    request = facts.request
    is_retrieved = facts.exchange.resumes_response_id is not None and facts.tier is not None
    if not _asks(facts) and not is_retrieved:
        return
    columns = msgspec.structs.asdict(request.parameters)
    names = columns["tool_names"]
    for name, value in columns.items():
        if isinstance(value, str):
            columns[name] = storable(value)
    if names is not None:
        columns["tool_names"] = storable_json(as_json(names))
    yield ParametersRow(
        *facts.ids,
        **columns,
        response_service_tier=storable(facts.tier),
        tools=None if names is None else len(names),
        new_user_text=storable(request.text) if request.is_turn else None,
    )


def _asks(facts: ExchangeFacts) -> bool:
    """Return whether a request asks a model for an answer, in a format of which the requests are
    known.
    """
    is_known = by_name(facts.exchange.api).conversation is not None
    return is_known and (facts.request.model is not None or facts.request.items > 0)


def user_text_rows(facts: ExchangeFacts) -> Iterable[UserTextRow]:
    """Yield the text of a user with which a request ends.

    A request that is sent again repeats it, and so does a user. As of results of tools (`results`),
    the store keeps the earliest row of each: in whatever order exchanges are folded, the rows are
    the same.
    """
    text, exchange = storable(facts.request.text), facts.exchange
    if not text or not facts.request.is_turn or facts.placed.purpose not in (None, "turn"):
        return
    yield UserTextRow(
        session_id=exchange.session_id,
        digest=sha256(text.encode()).hexdigest()[:DIGEST_LENGTH],
        exchange_id=exchange.exchange_id,
        started_ns=exchange.started_ns,
        text=text,
    )


def _title(text: str | None) -> str | None:
    """Return a text on one line, with an ellipsis where it is cut, and without what stands around a
    person's words.
    """
    own = without_outer_elements(storable(text) or "")
    words = " ".join(own[: 8 * WORDS_LIMIT].split())
    cut = words if len(words) <= WORDS_LIMIT else f"{words[: WORDS_LIMIT - 1]}…"
    return cut or None


# -- the request, and the exchange that it continues


IDS_LIMIT = 32
"""Ids of one response that are kept: GitHub Copilot has another one in each event; a client that
takes one of the others than the last takes an early one."""


def request_rows(facts: ExchangeFacts) -> Iterable[RequestRow]:
    request, exchange = facts.request, facts.exchange
    if not _asks(facts) and exchange.resumes_response_id is None:
        return
    *others, last = [*facts.response_ids] or [exchange.resumes_response_id or ""]
    known = [id for id in others if id and " " not in id][:IDS_LIMIT]
    continuation, output_items = by_name(exchange.api).continuation, len(facts.items)
    if continuation is not None and continuation.is_one_message:
        output_items = min(output_items, 1)
    yield RequestRow(
        *facts.ids,
        previous_response_id=storable(request.previous_response_id),
        conversation_id=storable(request.conversation_id),
        is_prewarm=not request.generates,
        input_items=request.items,
        response_id=storable(last or None),
        output_items=output_items,
        previous_exchange_id=None,
        depth=0,
        is_complete=not request.continues,
        logical_items=request.items,
        other_ids=storable(" ".join(known)) if known else None,
    )


def linked(row: RequestRow, previous: RequestRow | None, outputs: Sequence[int] = ()) -> RequestRow:
    """Return a row behind the one that it continues; `outputs` are numbers of items of that
    response, from all exchanges that received some of it. Without one it is as if nothing came
    before.

    A conversation is never complete: items may have been added to it by other requests.
    """
    has_link = row.previous_response_id is not None or row.conversation_id is not None
    if previous is None:
        return msgspec.structs.replace(
            row,
            previous_exchange_id=None,
            depth=0,
            is_complete=not has_link,
            logical_items=row.input_items,
        )
    return msgspec.structs.replace(
        row,
        previous_exchange_id=previous.exchange_id,
        depth=previous.depth + 1,
        is_complete=previous.is_complete and row.conversation_id is None,
        logical_items=previous.logical_items
        + max((previous.output_items, *outputs))
        + row.input_items,
    )


# -- results of tools of clients, each once


RESULTS_LIMIT = 10_000  # of one request: a longer history than any context holds


class RepeatedCalls(msgspec.Struct, frozen=True):
    """The calls that a request repeats with their results, perhaps under other ids than those that
    they were given.
    """

    session_id: str
    exchange_id: str
    calls: tuple[RepeatedCall, ...]

    @property
    def last_id(self) -> str:
        """Return the id by which the request knows the last call that has one."""
        return next(call.call_id for call in reversed(self.calls) if call.call_id)


def result_rows(facts: ExchangeFacts) -> Iterable[ResultRow]:
    """Yield the results that a request carries, and those that come on its stream for calls of
    other exchanges.
    """
    numbers: Counter[str | None] = Counter()
    counts: Counter[str] = Counter()
    exchange = facts.exchange
    for result in facts.request.results[:RESULTS_LIMIT]:
        key = storable(result.place) or call_key(result.call_id, result.name, numbers[result.name])
        numbers[result.name] += not result.call_id and result.place is None
        # Another call may return the same: one of the same id or place is the next of the history,
        # another one is of this turn.
        scope = counts[key] if result.call_id or result.place else exchange.exchange_id
        counts[key] += 1
        yield ResultRow(
            session_id=exchange.session_id,
            call_key=key,
            digest=sha256(f"{scope} {result.output}".encode("utf-8", "surrogatepass")).hexdigest(),
            exchange_id=exchange.exchange_id,
            started_ns=exchange.started_ns,
            output=storable(result.output),
            failed=result.failed,
        )
    for event, result in facts.returned:
        yield ResultRow(
            session_id=exchange.session_id,
            call_key=call_key(result.call_id, result.name, 0),
            # A client that begins again has its ids again: each event is another result.
            digest=sha256(f"{exchange.exchange_id} {event.pos}".encode()).hexdigest(),
            exchange_id=exchange.exchange_id,
            started_ns=exchange.started_ns + event.t_ns,
            output=storable(result.output),
            failed=result.failed,
        )


def repeated_calls(facts: ExchangeFacts) -> RepeatedCalls | None:
    """Return the calls that the request repeats with their results, if they have ids."""
    calls = facts.request.repeated_calls
    if not any(call.call_id for call in calls):
        return None
    return RepeatedCalls(*facts.ids, calls)


def call_key(call_id: str | None, name: str | None, number: int) -> str:
    """Return the key that a call and its result share: the id; without one (Gemini), the name with
    a number.
    """
    return storable(call_id) if call_id else storable(f"{name or ''}[{number}]")


# -- tokens and costs


_WHOLE = frozenset({"completed", "incomplete", "failed", "error_status"})


def usage_rows(facts: ExchangeFacts) -> Iterable[UsageRow]:
    counts = msgspec.structs.asdict(facts.usage) | msgspec.structs.asdict(facts.details)
    head = facts.cost_of_head
    # of a gateway: what it passes on comes first
    if head is not None and facts.details.reported_cost_usd is None:
        counts |= {"reported_cost_usd": head.usd, "reported_cost_source": head.source}
    is_counted = _is_counted(facts)
    model = facts.request.model if facts.response_model is None else facts.response_model
    yield UsageRow(
        *facts.ids,
        **counts,
        usage_raw=storable(facts.usage_raw),
        partial=not _is_whole(facts),
        started_ns=facts.exchange.started_ns,
        model=storable(model) if is_counted else None,
        client=facts.exchange.client,
        outcome=facts.ended.status if facts.ended else None,
        reported=facts.usage_raw is not None and is_counted,
        billed_input_tokens=_billed(facts, "input_tokens"),
        billed_output_tokens=_billed(facts, "output_tokens"),
    )


def iteration_rows(facts: ExchangeFacts) -> Iterable[IterationRow]:
    for number, each in enumerate(facts.iterations[:ITERATIONS_LIMIT]):
        usage = each.usage
        yield IterationRow(
            *facts.ids,
            iteration=number,
            type=storable(each.type),
            model=storable(each.model),
            input_tokens=usage.input_tokens,
            cache_read_input_tokens=usage.cache_read_input_tokens,
            cache_write_input_tokens=usage.cache_write_input_tokens,
            cache_write_1h_input_tokens=each.cache_write_1h_input_tokens,
            output_tokens=usage.output_tokens,
            input_audio_tokens=each.input_audio_tokens,
        )


def _is_counted(facts: ExchangeFacts) -> bool:
    """Return whether sums count the exchange: one that nothing was generated for has no tokens, or
    had none to pay.
    """
    usage = facts.usage
    if facts.placed.purpose == "prewarm":
        return bool(usage.input_tokens or usage.output_tokens or usage.total_tokens)
    return facts.placed.purpose != "probe"


def _is_whole(facts: ExchangeFacts) -> bool:
    """Return whether the count is whole: a status of the transport means that it broke; a stream
    that has ended has a reason, or a mark of its end; a document is whole. Of an unknown format
    nobody here knows what ends a stream.
    """
    ended = facts.ended
    if ended is None or ended.status not in _WHOLE:
        return False
    is_document = not ended.frames and ended.status != "incomplete"
    is_over = is_document or (ended.said_end and ended.status == "completed")
    return is_over or facts.is_finished or by_name(facts.api) is other.DIALECT


def _billed(facts: ExchangeFacts, name: str) -> int | None:
    """Return a count with that of the runs beside the response; None unless all are kept, and are
    counts.
    """
    if len(facts.iterations) > ITERATIONS_LIMIT:
        return None
    billed = 0
    for usage in (facts.usage, *(each.usage for each in facts.iterations)):
        count: int | None = getattr(usage, name)
        if count is None or not 0 <= count < TOKENS_LIMIT:
            return None
        billed += count
    return billed
