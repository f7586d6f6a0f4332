"""`recorder show --json`: a snapshot as one JSON object. Its keys are fixed; those that do not
apply are absent.

{"session": {…}, "exchanges": [{…, "usage": {…}, "timing": {…}, "items": [{…}], "anomalies":
[{…}]}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from recorder.model.events import Exchange
from recorder.model.facts import UsageDetails
from recorder.model.fork import parent_of, resent_from
from recorder.projections.connection import ConnectionSummary
from recorder.projections.rows import AnomalyRow, ExchangeRow, ItemRow, TimingRow, UsageRow
from recorder.store.queries.session_state import (
    CallResult,
    ExchangeState,
    Snapshot,
    UnfoldableExchange,
)

_SESSION = ("session_id", "name", "created_ns", "origin", "source")
_EXCHANGE = ("exchange_id", "provider", "api", "thread_id", "turn_id")
_OF_ROW = (
    "purpose",
    "parent_thread_id",
    "request_model",
    "response_model",
    "response_id",
    "status",
    "finish_reason",
    "error",
)
_TOKENS = (
    *("input_tokens", "cache_read_input_tokens", "cache_write_input_tokens"),
    *("output_tokens", "reasoning_output_tokens", "total_tokens"),
    *UsageDetails.__struct_fields__,
)
_ITEM = ("kind", "output_index", "item_id", "type", "role", "phase", "status", "thread_id")
_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "message": ("text", "refusal"),
    "reasoning": ("text", "encrypted"),
    "tool_call": ("name", "call_id", "arguments"),
    "other": ("name", "call_id", "arguments", "text", "output"),
}
# JSON text in the row
_LISTS: Mapping[str, tuple[str, ...]] = {"message": ("annotations",), "reasoning": ("summary",)}
_KEY = {"session_id", "exchange_id"}
_ANOMALY = ("kind", "pos", "count", "detail")


def document(snapshot: Snapshot) -> dict[str, Any]:
    """Return the object."""
    cost, parent, asked = snapshot.cost, parent_of(snapshot.session), resent_from(snapshot.session)
    session = {
        **_picked(snapshot.session, _SESSION),
        **_present(title=snapshot.title, cost_usd=cost.usd, cost_partial=cost.partial),
        **_present(forked_from=parent and msgspec.to_builtins(parent)),
        **_present(resent_from=asked and msgspec.to_builtins(asked)),
    }
    return {
        "session": session,
        "exchanges": [exchange_document(each) for each in snapshot.exchanges],
    }


def exchange_document(taken: ExchangeState | UnfoldableExchange) -> dict[str, Any]:
    """Return the part of the object that is one exchange."""
    if isinstance(taken, UnfoldableExchange):
        return {**_picked(taken.exchange, _EXCHANGE), "fault": taken.reason}
    return {
        **heading(taken.exchange, taken.row, taken.superseded_by, taken.connection),
        "usage": usage_document(taken.usage),
        **_present(cost=taken.cost and taken.cost.document()),
        "timing": timing_document(taken.timing),
        "items": [item_document(item, taken.answers.get(item.item)) for item in taken.items],
        "anomalies": anomaly_documents(taken.anomalies),
    }


# The parts of an exchange, for a viewer that makes only the one again which an event changes.


def heading(
    exchange: Exchange,
    row: ExchangeRow,
    superseded_by: tuple[int, Exchange] | None,
    connection: ConnectionSummary | None,
) -> dict[str, Any]:
    """Return the members of an exchange that are not parts of their own."""
    return {
        **_picked(exchange, _EXCHANGE),
        **_present(user_text=row.user_text if row.is_turn else None),
        **_picked(row, _OF_ROW),
        **_present(superseded_by=superseded_by and superseded_by[1].exchange_id),
        **_present(connection=connection and msgspec.to_builtins(connection)),
    }


def usage_document(usage: UsageRow) -> dict[str, Any]:
    return _picked(usage, _TOKENS)


def timing_document(timing: TimingRow) -> dict[str, Any]:
    return _picked(timing, [name for name in TimingRow.__struct_fields__ if name not in _KEY])


def anomaly_documents(rows: Iterable[AnomalyRow]) -> list[dict[str, Any]]:
    return [_picked(row, _ANOMALY) for row in rows]


def item_document(item: ItemRow, answer: CallResult | None) -> dict[str, Any]:
    lists = {name: _list(getattr(item, name)) for name in _LISTS.get(item.kind, ())}
    answered = {} if answer is None else msgspec.structs.asdict(answer)
    return {**_picked(item, (*_ITEM, *_OF_KIND[item.kind])), **lists, **_present(**answered)}


def _list(text: str | None) -> list[Any]:
    """Return a JSON array; one that was cut or is nested too deep stays text in an array."""
    try:
        return msgspec.json.decode(text or "[]", type=list[Any])
    except (msgspec.DecodeError, RecursionError):
        return [text]


def _picked(row: msgspec.Struct, names: Iterable[str]) -> dict[str, Any]:
    return _present(**{name: getattr(row, name) for name in names})


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
