"""The events of an exchange for the viewer: a list of them with previews, and one with all that is known of it.

Rules of this file:

* What a list shows is what `recorder events` shows; a preview of an event in the middle is made without those before.
* Offsets are in the decoded body. The reads of a coded body were of other bytes, so they are left out then.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec

from recorder.errors import NotFoundError
from recorder.model.chain import hash_after, root, row_root
from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.model.jsonl import event_row
from recorder.model.payloads import EndRecord
from recorder.recordings.preview import Previews
from recorder.recordings.selection import select_exchanges
from recorder.store.queries.event_place import EventPlace, event_place
from recorder.store.queries.reader import LogReader

_Reads = list[tuple[int, int]]


async def listed(log: LogReader, session: str, exchange: str, first: int, limit: int) -> dict[str, Any]:
    """Return some events of an exchange from a position on, each in a few words."""
    one = await _exchange(log, session, exchange)
    previews, rows = Previews(), []
    async for event in log.events(one.session_id, one.exchange_id, after=first - 1):
        rows.append(_row(event, previews.of(one.api, event)))
        if len(rows) == limit:
            break
    return {"events": rows}


async def details(log: LogReader, session: str, exchange: str, pos: int) -> dict[str, Any]:
    """Return one event with its payload, its place in the body, the reads that it came in, and its hash chain."""
    one = await _exchange(log, session, exchange)
    place = await event_place(log, one.session_id, one.exchange_id, pos)
    if place is None:
        raise NotFoundError(f"This exchange has no event {pos}.")
    event = place.event
    payload = None
    if event.data_start is not None and event.data_length is not None:
        data = event.raw[event.data_start : event.data_start + event.data_length]
        payload = data.decode("utf-8", "replace")
    is_body = event.kind in BODY_KINDS
    return {
        "event": event_row(event),
        "payload": payload,
        "body_offset": place.body_offset if is_body else None,
        "reads": await _reads(log, one, place) if is_body else None,
        "chain": _chain(one, place),
    }


async def _exchange(log: LogReader, session: str, exchange: str) -> Exchange:
    _, [(_, one)] = await select_exchanges(log, session, exchange)
    return one


def _row(event: Event, preview: str) -> dict[str, Any]:
    return {
        "pos": event.pos,
        "kind": event.kind,
        "type": event.type,
        "t_ns": event.t_ns,
        "sequence_number": event.sequence_number,
        "item_id": event.item_id,
        "output_index": event.output_index,
        "size_bytes": len(event.raw),
        "preview": preview,
    }


async def _reads(log: LogReader, exchange: Exchange, place: EventPlace) -> list[tuple[int, int, int]] | None:
    """Return the reads that an event came in, with the offsets of each; None if that is unknown: yet, or at all."""
    reads: _Reads = []
    async for event in log.events(exchange.session_id, exchange.exchange_id, kinds=("reads", "gap", "end")):
        if event.kind == "gap" or (event.kind == "end" and _is_decoded(event)):
            return None
        if event.kind == "reads" and event.type != "client":
            reads += msgspec.json.decode(event.raw, type=_Reads)
    start, stop = place.body_offset, place.body_offset + len(place.event.raw)
    ends = list(accumulate(size for _, size in reads))
    if not ends or ends[-1] < stop:
        return None
    spans = zip(reads, [0, *ends], ends, strict=False)
    return [(t_ns, begun, ended) for (t_ns, _), begun, ended in spans if begun < stop and ended > start]


def _is_decoded(end: Event) -> bool:
    """Return whether the body that was received is another one than the body that is recorded."""
    record = msgspec.json.decode(end.raw, type=EndRecord)
    return record.coding is not None or record.undecoded is not None


def _chain(exchange: Exchange, place: EventPlace) -> dict[str, Any]:
    """Return the link of an event to the one before, and whether its hash is that of its content."""
    event, previous = place.event, place.previous
    roots = (root(exchange.session_id, exchange.exchange_id), row_root(exchange))  # in an older log, without its row
    befores = roots if event.pos == 0 else (previous,) if previous is not None else ()
    return {
        "hash": event.hash.hex(),
        "previous": None if previous is None else previous.hex(),
        "holds": any(hash_after(before, event, event.pos) == event.hash for before in befores),
    }
