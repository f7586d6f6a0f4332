"""The request of each exchange, and the exchange that it continues, in one row.

A fold knows one exchange: it makes a row as if nothing came before. `linked` gives the row its place behind the one
that it continues, which the store looks up; the row of an exchange is written again when that one changes. The request
put together is `recorder.wire.logical_request`, by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from recorder.model.text import storable
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.rows import RequestRow
from recorder.wire.dialects import by_name

IDS_LIMIT = 32
"""Ids of one response that are kept: GitHub Copilot has another one in each event; a client that takes one of the
others than the last takes an early one."""


def request_rows(facts: ExchangeFacts) -> Iterable[RequestRow]:
    request, exchange = facts.request, facts.exchange
    if request.model is None and not request.items and exchange.resumes_response_id is None:
        return  # nothing is to be generated
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
    """Return a row behind the one that it continues; `outputs` are numbers of items of that response, from all
    exchanges that received some of it. Without one it is as if nothing came before.

    A conversation is never complete: items may have been added to it by other requests.
    """
    has_link = row.previous_response_id is not None or row.conversation_id is not None
    if previous is None:
        return msgspec.structs.replace(
            row, previous_exchange_id=None, depth=0, is_complete=not has_link, logical_items=row.input_items
        )
    return msgspec.structs.replace(
        row,
        previous_exchange_id=previous.exchange_id,
        depth=previous.depth + 1,
        is_complete=previous.is_complete and row.conversation_id is None,
        logical_items=previous.logical_items + max((previous.output_items, *outputs)) + row.input_items,
    )
