"""One exchange as it was sent and received: heads, sizes, bodies as bytes, events, and lines that
repeat it.

Rules of this file:

* Bodies are not part of the answer with the heads: the largest are longer than anybody reads. They
  are streamed from the log, from any byte on, so that a page shows the beginning of each and has
  more when somebody wants more.
* What a list of events shows is what `recorder events` shows; a preview of an event in the middle
  is made without those before.
* Offsets are in the decoded body. The reads of a coded body were of other bytes, so they are left
  out then.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from sqlalchemy import URL

from recorder.errors import NotFoundError, UsageError
from recorder.model.chain import hash_after, root, row_root
from recorder.model.events import (
    BODY_KINDS,
    LEFT_OUT,
    EndRecord,
    Event,
    Exchange,
    Recording,
    Session,
    payload_of,
)
from recorder.model.jsonl import event_row
from recorder.model.text import safe_text
from recorder.recordings.preview import Previews
from recorder.recordings.requests import load_requests, request_head, request_json
from recorder.recordings.selection import select_exchanges
from recorder.recordings.session import budget_of
from recorder.store.queries.event_place import EventPlace, event_place
from recorder.store.queries.reader import LogReader
from recorder.ui.copies import copies, request_file
from recorder.ui.snippets import snippets
from recorder.wire.dialects import by_name
from recorder.wire.logical_request import LogicalRequest
from recorder.wire.recording import recording_of
from recorder.wire.turns import StreamedBody

Json = dict[str, Any]

Body = Literal["response", "request", "model"]
"""`model` is the request as the model saw it, as JSON: with all that it continues."""

PART_BYTES = 64 * 2**10  # of a body that is held whole, in one write
NAME_LIMIT = 60  # characters of a session's name in the name of a file

_OF_EVENT = ("pos", "kind", "type", "t_ns", "sequence_number", "item_id", "output_index")
_HEADS = ("request", "response", "gap", "end")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_EXTENSIONS = (("event-stream", "sse"), ("json", "json"), ("text/", "txt"))


async def raw_exchange(log: LogReader, url: URL, ref: str, exchange: str, at: int | None) -> Json:
    """Return heads, sizes and copies of an exchange.

    `at` is the position that `recorder show` is copied with.

    Raises `NotFoundError` if there is none, `RecorderError` if its request is too large.
    """
    session, recorded = await _heads(log, ref, exchange)
    head, row, end = recorded.request, recorded.exchange, recorded.end
    name = _file_name(session, recorded.number)
    return {
        "session": {"session_id": session.session_id, "name": session.name},
        "number": recorded.number,
        "exchanges": len(await log.exchanges(session.session_id)),
        "exchange_id": row.exchange_id,
        "api": row.api,
        "damage": recorded.damage,
        "request": {
            **msgspec.to_builtins(head),
            "size_bytes": len(recorded.request_body),
            "file": request_file(recorded, name),
        },
        "response": recorded.response
        and {**msgspec.to_builtins(recorded.response), "t_ns": recorded.head_ns},
        "end": end and {**msgspec.to_builtins(end), "t_ns": recorded.end_ns},
        "file": f"{name}.{_extension(recorded)}",
        "copies": {**copies(recorded, name, url, at), **snippets(recorded, name)},
    }


async def model_request(log: LogReader, ref: str, exchange: str) -> Json:
    """Return what `recorder show --request --json` has of a request, its size in place of the
    request itself.

    Raises `NotFoundError` if it has no body, `RecorderError` if it and what it continues are too
    large.
    """
    _, recorded, request = await _as_the_model_saw_it(log, ref, exchange)
    encoded = request_json(request)
    return {
        **request_head(recorded, request),
        "size_bytes": None if encoded is None else len(encoded),
    }


async def exchange_body(
    log: LogReader, ref: str, exchange: str, which: str | None
) -> tuple[str, AsyncGenerator[bytes]]:
    """Return the name of a file for a body, and its bytes; `which` is one of `Body`, or None for
    the response.

    The response is decoded, as it is recorded so far; messages over WebSocket are blocks of an
    event stream.
    """
    which = which or "response"
    if which not in get_args(Body):
        raise UsageError(f"There is no body {which!r}: there are {', '.join(get_args(Body))}.")
    if which == "model":
        session, recorded, request = await _as_the_model_saw_it(log, ref, exchange)
        encoded = request_json(request)
        if encoded is None:
            raise NotFoundError(
                "The body of this request is not a JSON object: see the request as it was sent."
            )
        return f"{_file_name(session, recorded.number)}-model.json", in_parts(encoded)
    session, recorded = await _heads(log, ref, exchange)
    name = _file_name(session, recorded.number)
    if which == "request":
        return request_file(recorded, name), in_parts(recorded.request_body)
    row = recorded.exchange
    events = log.events(row.session_id, row.exchange_id, kinds=BODY_KINDS | {"response"})
    return f"{name}.{_extension(recorded)}", _response_body(events)


async def sliced(
    chunks: AsyncGenerator[bytes], start: int, limit: int | None
) -> AsyncGenerator[bytes]:
    """Yield `limit` bytes of a body from an offset on, or all after it."""
    offset, stop = 0, None if limit is None else start + limit
    async with aclosing(chunks):
        async for chunk in chunks:
            if stop is not None and offset >= stop:
                return
            piece = chunk[max(0, start - offset) : None if stop is None else max(0, stop - offset)]
            offset += len(chunk)
            if piece:
                yield piece


async def _heads(log: LogReader, ref: str, exchange: str) -> tuple[Session, Recording]:
    """Return the recording of an exchange without its response body."""
    session, [(number, row)] = await select_exchanges(log, ref, exchange)
    budget = budget_of(safe_text(session.name))
    events: list[Event] = []
    async for event in log.events(row.session_id, row.exchange_id, kinds=_HEADS):
        budget.add(len(event.raw))
        events.append(event)
    return session, recording_of(row, events, number=number, keeps_events=False)


async def _as_the_model_saw_it(
    log: LogReader, ref: str, exchange: str
) -> tuple[Session, Recording, LogicalRequest]:
    session, chosen = await select_exchanges(log, ref, exchange)
    shown = await load_requests(log, session, chosen)
    if not shown:
        raise NotFoundError("This request has no body.")
    return session, *shown[0]


async def _response_body(events: AsyncIterator[Event]) -> AsyncGenerator[bytes]:
    body = StreamedBody()
    async for event in events:
        if event.type != LEFT_OUT:
            yield body.feed(event)


async def in_parts(body: bytes) -> AsyncGenerator[bytes]:
    """Yield a body that is held whole, a part at a time."""
    for start in range(0, len(body), PART_BYTES):
        yield body[start : start + PART_BYTES]


def _file_name(session: Session, number: int) -> str:
    name = _UNFIT.sub("-", session.name)[:NAME_LIMIT].strip("-.")
    return f"{name or session.session_id}-{number}"


def _extension(recorded: Recording) -> str:
    """Return the extension of the response body's file."""
    if recorded.is_switched:
        return "sse"
    given = next(
        (value.lower() for name, value in recorded.headers if name.lower() == "content-type"), ""
    )
    return next((extension for part, extension in _EXTENSIONS if part in given), "bin")


# -- events


class BodyRead(NamedTuple):
    """A read of a response body: when it was, and where its bytes begin and end in the body."""

    t_ns: int
    begin: int
    end: int


async def listed(log: LogReader, session: str, exchange: str, first: int, limit: int) -> Json:
    """Return some events of an exchange from a position on, each in a few words."""
    one = await _exchange(log, session, exchange)
    previews, rows = Previews(), []
    async for event in log.events(one.session_id, one.exchange_id, after=first - 1):
        shown = {name: getattr(event, name) for name in _OF_EVENT}
        rows.append({**shown, "size_bytes": len(event.raw), "preview": previews.of(one.api, event)})
        if len(rows) == limit:
            break
    return {"events": rows}


async def details(log: LogReader, session: str, exchange: str, pos: int) -> Json:
    """Return one event with its payload, its place in the body, the reads that it came in, and its
    hash chain.
    """
    one = await _exchange(log, session, exchange)
    place = await event_place(log, one.session_id, one.exchange_id, pos)
    if place is None:
        raise NotFoundError(f"This exchange has no event {pos}.")
    event = place.event
    payload = payload_of(event)
    if payload is not None:
        payload = by_name(one.api).unwrapped(payload)
    body_offset = reads = None
    if event.kind in BODY_KINDS:
        body_offset = place.body_offset
        found = body_reads(
            [each async for each in log.events(one.session_id, one.exchange_id, kinds=_OF_READS)]
        )
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
    """Return the reads of a response body.

    There are none if they had other bytes than the body that is recorded.
    """
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
    """Return the hashes that the first event may be chained to: in an older log, that without its
    row.
    """
    return [root(exchange.session_id, exchange.exchange_id), row_root(exchange)]


def holds(event: Event, befores: Iterable[bytes]) -> bool:
    """Return whether the hash of an event is that of its content, after one of these."""
    return any(hash_after(before, event, event.pos) == event.hash for before in befores)


def _chain(exchange: Exchange, place: EventPlace) -> Json:
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
