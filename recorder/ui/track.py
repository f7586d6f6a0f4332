"""The track of an exchange: its document after each of its events, as a state and steps."""

from __future__ import annotations

import asyncio
from typing import Any

from recorder.model.events import Event, Exchange, has_ended
from recorder.projections.fold import Folding
from recorder.recordings.selection import select_exchanges
from recorder.store.reader import LogReader
from recorder.store.session_document import exchange_document
from recorder.store.session_state import ExchangeState

SEGMENT = 256


class TrackCache:
    """The tracks that were computed last."""


async def segment(log: LogReader, session_ref: str, exchange_ref: str, at: int, cache: TrackCache) -> dict[str, Any]:
    """Return the segment of an exchange that has the position `at`."""
    _, [(number, exchange)] = await select_exchanges(log, session_ref, exchange_ref)
    events = [event async for event in log.events(exchange.session_id, exchange.exchange_id)]
    last = len(events) - 1
    first = min(max(at, 0), last) // SEGMENT * SEGMENT
    to = min(first + SEGMENT - 1, last)
    return await asyncio.to_thread(_segment, number, exchange, events, first, to)


def _segment(number: int, exchange: Exchange, events: list[Event], first: int, to: int) -> dict[str, Any]:
    state = _document(number, exchange, events[:first]) if first else {}
    before, steps = state, []
    for pos in range(first, to + 1):
        after = _document(number, exchange, events[: pos + 1])
        ops: list[Any] = []
        compare(before, after, [], ops)
        if ops:
            steps.append([pos, ops])
        before = after
    return {
        "exchange_id": exchange.exchange_id,
        "number": number,
        "from": first,
        "to": to,
        "last": len(events) - 1,
        "has_ended": has_ended(events),
        "state": state,
        "steps": steps,
    }


def _document(number: int, exchange: Exchange, events: list[Event]) -> dict[str, Any]:
    folding = Folding(exchange)
    folding.tell_all(events)
    rows = folding.rows()
    [row], [usage], [timing] = rows["exchanges"], rows["usage"], rows["timing"]
    return exchange_document(ExchangeState(number, exchange, row, rows["items"], usage, timing, rows["anomalies"], {}))


def compare(before: Any, after: Any, path: list[str | int], ops: list[Any]) -> None:
    """Append the operations that make one JSON value of another."""
    if before is after or before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() - after.keys():
            ops.append(["cut", [*path, key]])
        for key, value in after.items():
            if key in before:
                compare(before[key], value, [*path, key], ops)
            else:
                ops.append(["set", [*path, key], value])
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for index, value in enumerate(before):
            compare(value, after[index], [*path, index], ops)
        ops.extend(["push", path, value] for value in after[len(before) :])
    elif isinstance(before, str) and isinstance(after, str) and before and after.startswith(before):
        ops.append(["add", path, after[len(before) :]])
    else:
        ops.append(["set", path, after])
