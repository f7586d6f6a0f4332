"""The events of an exchange for the viewer: a list of them with previews, and one with all that is known of it.

Rules of this file:

* What a list shows is what `recorder events` shows; a preview of an event in the middle is made without those before.
* Offsets are in the decoded body. The reads of a coded body were of other bytes, so they are left out then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from recorder.errors import NotFoundError
from recorder.model.chain import hash_after, root, row_root
from recorder.model.events import BODY_KINDS, Event, Exchange, payload_of
from recorder.model.jsonl import event_row
from recorder.model.payloads import EndRecord
from recorder.recordings.preview import Previews
from recorder.recordings.selection import select_exchanges
from recorder.store.queries.event_place import EventPlace, event_place
from recorder.store.queries.reader import LogReader

_OF_EVENT = ("pos", "kind", "type", "t_ns", "sequence_number", "item_id", "output_index")


class BodyRead(NamedTuple):
    """A read of a response body: when it was, and where its bytes begin and end in the body."""

    t_ns: int
    begin: int
    end: int


async def listed(log: LogReader, session: str, exchange: str, first: int, limit: int) -> dict[str, Any]:
    """Return some events of an exchange from a position on, each in a few words."""
    one = await _exchange(log, session, exchange)
    previews, rows = Previews(), []
    async for event in log.events(one.session_id, one.exchange_id, after=first - 1):
        shown = {name: getattr(event, name) for name in _OF_EVENT}
        rows.append({**shown, "size_bytes": len(event.raw), "preview": previews.of(one.api, event)})
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
    payload = payload_of(event)
    body_offset = reads = None
    if event.kind in BODY_KINDS:
        body_offset = place.body_offset
        found = body_reads([each async for each in log.events(one.session_id, one.exchange_id, kinds=_OF_READS)])
        span = reads_of(found, body_offset, body_offset + len(event.raw))
        reads = None if span is None else [found[number] for number in span]
    return {
        "event": event_row(event),
        "payload": None if payload is None else payload.decode("utf-8", "replace"),
        "body_offset": body_offset,
        "reads": reads,
        "chain": _chain(one, place),
    }


async def _exchange(log: LogReader, session: str, exchange: str) -> Exchange:
    _, [(_, one)] = await select_exchanges(log, session, exchange)
    return one


_OF_READS = ("reads", "gap", "end")


def body_reads(events: Iterable[Event]) -> list[BodyRead]:
    """Return the reads of a response body. There are none if they had other bytes than the body that is recorded."""
    reads: list[BodyRead] = []
    offset = 0
    for event in events:
        if event.kind == "gap" or (event.kind == "end" and _is_decoded(event)):
            return []
        if event.kind == "reads" and event.type != "client":
            for t_ns, size_bytes in msgspec.json.decode(event.raw, type=list[tuple[int, int]]):
                reads.append(BodyRead(t_ns, offset, offset + size_bytes))
                offset += size_bytes
    return reads


def _is_decoded(end: Event) -> bool:
    """Return whether the body that was received is another one than the body that is recorded."""
    record = msgspec.json.decode(end.raw, type=EndRecord)
    return record.coding is not None or record.undecoded is not None


def reads_of(reads: Sequence[BodyRead], begin: int, end: int) -> range | None:
    """Return which reads a stretch of the body came in; None if that is unknown: yet, or at all."""
    if not reads or reads[-1].end < end:
        return None
    first = bisect_right(reads, begin, key=_end)
    return range(first, max(first, bisect_left(reads, end, key=_begin)))


_begin, _end = attrgetter("begin"), attrgetter("end")


def chain_roots(exchange: Exchange) -> list[bytes]:
    """Return the hashes that the first event may be chained to: in an older log, that without its row."""
    return [root(exchange.session_id, exchange.exchange_id), row_root(exchange)]


def holds(event: Event, befores: Iterable[bytes]) -> bool:
    """Return whether the hash of an event is that of its content, after one of these."""
    return any(hash_after(before, event, event.pos) == event.hash for before in befores)


def _chain(exchange: Exchange, place: EventPlace) -> dict[str, Any]:
    """Return the link of an event to the one before, and whether its hash is that of its content."""
    event, previous = place.event, place.previous
    befores = chain_roots(exchange)
    if event.pos > 0:
        befores = [] if previous is None else [previous]
    return {
        "hash": event.hash.hex(),
        "previous": None if previous is None else previous.hex(),
        "holds": holds(event, befores),
    }
