"""The timeline of a session: a tick for each event, in lanes, and blocks of items and of the client's own time.

Everything is read from columns of the log and from the projections: nothing is folded. Items of an exchange without
projections (it is open, or could not be folded) are known by the `output_index` of their events.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, func, select, tuple_

from recorder.model.events import BODY_KINDS, Exchange
from recorder.model.payloads import GapRecord
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.store.engine import AnyRow
from recorder.store.queries.outlines import Outline, outlines
from recorder.store.queries.reader import LogReader
from recorder.store.schema import events, tables_of
from recorder.store.sql import constant

PAGE = 20_000  # events that one transaction reads: a tenth of a second
TICKS_LIMIT = 1_000_000  # events of one answer: 20 MB of JSON, and more than a browser draws
GROUPS_LIMIT = 32  # exchanges drawn beside each other; more share the last group
ITEM_ROWS_LIMIT = 64  # of one group: more than a screen has

_BEFORE_ALL = "00000000-0000-0000-0000-000000000000"

_items, _timing, _results = tables_of["items"], tables_of["timing"], tables_of["results"]
_of_session = events.c.session_id == bindparam("session_id")
_key = (events.c.exchange_id, events.c.pos)
_ticks = select(
    *(events.c[name] for name in ("exchange_id", "pos", "t_ns", "kind", "type", "output_index")),
    func.length(events.c.raw).label("size"),
).where(_of_session)
_TICKS = (
    _ticks.where(tuple_(*_key) > tuple_(bindparam("exchange_id"), bindparam("after")))
    .order_by(*_key)
    .limit(bindparam("page"))
)
_NEW_TICKS = (
    _ticks.where(events.c.exchange_id == bindparam("exchange_id"), events.c.pos > bindparam("after"))
    .order_by(events.c.pos)
    .limit(bindparam("page"))
)
_GAPS = select(*_key, events.c.raw).where(_of_session, events.c.kind == constant("gap"))
_ITEMS = (
    select(
        *(_items.c[name] for name in ("exchange_id", "item", "kind", "type", "output_index", "name", "call_key")),
        *(_items.c.began_ns, _items.c.ended_ns, _items.c.output.is_not(None).label("has_output")),
    )
    .where(_items.c.session_id == bindparam("session_id"))
    .order_by(_items.c.exchange_id, _items.c.item)
)
_FIRST_BYTES = select(_timing.c.exchange_id, _timing.c.first_byte_ns).where(
    _timing.c.session_id == bindparam("session_id")
)
_RETURNED = select(_results.c.call_key, _results.c.exchange_id, _results.c.started_ns).where(
    _results.c.session_id == bindparam("session_id")
)

Lane = tuple[int, str, int | None]
"""A row of the timeline: its group, its kind, and the output index of an item; None for all that have no row."""


async def timeline(log: LogReader, session_ref: str, exchange: str | None = None, after: int = -1) -> dict[str, Any]:
    """Return the lanes of a session; with an exchange only those of it, with its events after a position.

    The numbers of rows, kinds and types are valid within one answer. `is_all` is False if events were left out at the
    end, since there are more than `TICKS_LIMIT`. With `after`, a block of an open exchange covers its new events alone.
    """
    session, numbered = await select_exchanges(log, session_ref, None)
    values = {"session_id": session.session_id}
    summaries = {each.exchange_id: each for each in await outlines(log, session.session_id)}
    numbered = [(number, each) for number, each in numbered if each.exchange_id in summaries]  # one may be purged now
    chosen = numbered if exchange is None else (await select_exchanges(log, session.session_id, exchange))[1]
    one = None if exchange is None else chosen[0][1].exchange_id
    has_ended = one is not None and one in summaries and summaries[one].has_ended
    ticks, is_all = await _read_ticks(log, session.session_id, one, -1 if has_ended else after)
    projected = _Projected(
        await log.rows(_ITEMS, **values),
        {row.exchange_id: row.first_byte_ns for row in await log.rows(_FIRST_BYTES, **values)},
        await log.rows(_RETURNED, **values),
        await log.rows(_GAPS, **values),
    )
    return await asyncio.to_thread(
        _drawn, session.session_id, numbered, chosen, summaries, ticks, projected, after, is_all
    )


class _Projected(NamedTuple):
    """The rows of a session that blocks are made of."""

    items: Sequence[AnyRow]
    first_byte_ns: Mapping[str, int | None]
    results: Sequence[AnyRow]
    gaps: Sequence[AnyRow]


async def _read_ticks(
    log: LogReader, session_id: str, one: str | None, after: int
) -> tuple[dict[str, list[AnyRow]], bool]:
    """Return the events of a session or of one exchange by exchange, and whether these are all."""
    found: dict[str, list[AnyRow]] = {}
    exchange_id, count = one or _BEFORE_ALL, 0
    while True:
        statement = _TICKS if one is None else _NEW_TICKS
        page = await log.rows(statement, session_id=session_id, exchange_id=exchange_id, after=after, page=PAGE)
        for key, rows in groupby(page, itemgetter(0)):
            found.setdefault(key, []).extend(rows)
        count += len(page)
        if len(page) < PAGE:
            return found, True
        if count >= TICKS_LIMIT:
            return found, False
        exchange_id, after = page[-1].exchange_id, page[-1].pos


def _groups(numbered: Sequence[Numbered], outlines: Mapping[str, Outline]) -> dict[str, int]:
    """Return the group of rows of each exchange: the first one in which no other exchange is under way."""
    groups: dict[str, int] = {}
    free_ns: list[float] = []  # when each group is free again
    for _, each in numbered:
        outline = outlines[each.exchange_id]
        end_ns = each.started_ns + outline.duration_ns if outline.has_ended else inf
        group = next((number for number, free in enumerate(free_ns) if free <= each.started_ns), len(free_ns))
        if group == len(free_ns) < GROUPS_LIMIT:
            free_ns.append(end_ns)
        group = min(group, GROUPS_LIMIT - 1)
        free_ns[group] = max(free_ns[group], end_ns)
        groups[each.exchange_id] = group
    return groups


class _Lanes:
    """The rows of an answer, numbered as they are needed."""

    def __init__(self) -> None:
        self._numbers: dict[Lane, int] = {}
        self._items: Counter[int] = Counter()

    def number(self, group: int, kind: str, output_index: int | None = None) -> int:
        """Return the number of a row. After the first ones, all items of a group are in one row."""
        found = self._numbers.get((group, kind, output_index))
        if found is not None:
            return found
        if output_index is not None:
            if self._items[group] == ITEM_ROWS_LIMIT:
                return self.number(group, kind)
            self._items[group] += 1
        return self._numbers.setdefault((group, kind, output_index), len(self._numbers))

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"kind": kind, "group": group, "label": _label(kind, output_index), "output_index": output_index}
            for group, kind, output_index in self._numbers
        ]


def _label(kind: str, output_index: int | None) -> str:
    if kind != "item":
        return kind
    return "other outputs" if output_index is None else f"output {output_index}"


def _drawn(
    session_id: str,
    numbered: Sequence[Numbered],
    chosen: Sequence[Numbered],
    outlines: Mapping[str, Outline],
    ticks: Mapping[str, list[AnyRow]],
    projected: _Projected,
    after: int,
    is_all: bool,
) -> dict[str, Any]:
    began_ns = numbered[0][1].started_ns if numbered else 0
    groups, lanes = _groups(numbered, outlines), _Lanes()
    kinds, types = _Index(), _Index()
    exchanges: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    items = {key: list(rows) for key, rows in groupby(projected.items, itemgetter(0))}
    gaps: dict[str, list[AnyRow]] = {}
    for row in projected.gaps:
        gaps.setdefault(row.exchange_id, []).append(row)
    calls = _Returned(projected.results, {each.exchange_id: each for _, each in numbered})
    for number, each in chosen:
        outline = outlines.get(each.exchange_id)
        if outline is None:
            continue
        drawn = _Exchange(number, each, outline, groups[each.exchange_id], ticks.get(each.exchange_id, []), lanes)
        exchanges.append(drawn.ticks(each.started_ns - began_ns, after, kinds, types))
        blocks += drawn.connection_blocks(projected.first_byte_ns.get(each.exchange_id))
        if outline.has_ended and each.exchange_id in items:
            blocks += drawn.item_blocks(items[each.exchange_id])
            blocks += drawn.client_blocks(items[each.exchange_id], calls)
        else:
            blocks += drawn.output_blocks()
        blocks += drawn.gap_blocks(gaps.get(each.exchange_id, ()))
    return {
        "session_id": session_id,
        "is_all": is_all,
        "exchanges": exchanges,
        "kinds": kinds.names,
        "types": types.names,
        "rows": lanes.rows(),
        "blocks": blocks,
    }


class _Index(dict[str, int]):
    """Names and their numbers, in order of appearance."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))

    @property
    def names(self) -> list[str]:
        return list(self)


class _Returned:
    """The requests that bring the results of calls."""

    def __init__(self, rows: Iterable[AnyRow], exchanges: Mapping[str, Exchange]) -> None:
        self._exchanges = exchanges
        self._by_call: dict[str, list[AnyRow]] = {}
        for row in rows:
            self._by_call.setdefault(row.call_key, []).append(row)

    def at_ns(self, call: AnyRow, exchange: Exchange) -> int | None:
        """Return the wall time of the first request with the result of a call, preferably of the same thread."""
        later = [row for row in self._by_call.get(call.call_key, ()) if row.started_ns > exchange.started_ns]
        return (
            min(later, key=lambda row: (not self._is_of_thread(exchange, row), row.started_ns)).started_ns
            if later
            else None
        )

    def _is_of_thread(self, exchange: Exchange, row: AnyRow) -> bool:
        other = self._exchanges.get(row.exchange_id)
        return other is not None and other.thread_id == exchange.thread_id


class _Exchange:
    """The events of one exchange, as ticks and blocks."""

    def __init__(
        self, number: int, exchange: Exchange, outline: Outline, group: int, events: Sequence[AnyRow], lanes: _Lanes
    ) -> None:
        self._number, self._exchange, self._outline = number, exchange, outline
        self._group, self._events, self._lanes = group, events, lanes
        self._connection = lanes.number(group, "connection")
        self._columns: list[tuple[Any, ...]] = list(zip(*events, strict=True)) or [()] * len(_ticks.selected_columns)
        indexes = sorted(set(self._columns[5]), key=lambda index: (index is not None, index))
        self._rows = {
            index: self._connection if index is None else lanes.number(group, "item", index) for index in indexes
        }

    def ticks(self, offset_ns: int, after: int, kinds: _Index, types: _Index) -> dict[str, Any]:
        """Return the events after a position as columns."""
        _, positions, times, kind, type, indexes, sizes = self._columns
        start = bisect_right(positions, after)
        return {
            "number": self._number,
            "exchange_id": self._exchange.exchange_id,
            "offset_ns": offset_ns,
            "has_ended": self._outline.has_ended,
            "last_pos": positions[-1] if positions else after,
            "t": times[start:],
            "size": sizes[start:],
            "kind": [kinds[each] for each in kind[start:]],
            "type": [-1 if each is None else types[each] for each in type[start:]],
            "row": [self._rows[each] for each in indexes[start:]],
        }

    def connection_blocks(self, first_byte_ns: int | None) -> Iterator[dict[str, Any]]:
        """Yield the time to the head of the response, from there to its first byte, and that of its body."""
        head = next((event for event in self._events if event.kind == "response"), None)
        if head is not None:
            yield self._block(self._connection, "head", "response head", 0, head.t_ns, first_pos=0, last_pos=head.pos)
        first = next((event for event in self._events if event.kind in BODY_KINDS), None)
        if first is None:
            return
        last = next(event for event in reversed(self._events) if event.kind in BODY_KINDS)
        began_ns = first.t_ns if first_byte_ns is None else first_byte_ns
        if head is not None and head.t_ns <= began_ns:
            positions = {"first_pos": head.pos, "last_pos": first.pos}
            yield self._block(self._connection, "first_byte", "first byte", head.t_ns, began_ns, **positions)
        to_ns = last.t_ns if self._outline.has_ended else None
        yield self._block(self._connection, "body", "body", began_ns, to_ns, first_pos=first.pos, last_pos=last.pos)

    def gap_blocks(self, rows: Iterable[AnyRow]) -> Iterator[dict[str, Any]]:
        """Yield the times of bytes that were received and not recorded."""
        for row in rows:
            try:
                gap = msgspec.json.decode(row.raw, type=GapRecord)
            except msgspec.DecodeError:
                continue
            label = f"{gap.size_bytes} bytes of the {gap.of} not recorded"
            yield self._block(
                self._connection, "gap", label, gap.from_ns, gap.to_ns, first_pos=row.pos, last_pos=row.pos
            )

    def item_blocks(self, items: Iterable[AnyRow]) -> Iterator[dict[str, Any]]:
        """Yield the items that the projections have. One that did not end reaches to the last event of its output."""
        by_index: dict[int | None, tuple[list[int], list[int]]] = {}  # positions and times
        for pos, t_ns, index in zip(*(self._columns[number] for number in (1, 2, 5)), strict=True):
            own = by_index.get(index)
            if own is None:
                own = by_index[index] = ([], [])
            own[0].append(pos)
            own[1].append(t_ns)
        for item in items:
            row = self._lanes.number(self._group, "item", item.output_index)
            positions, times = by_index.get(item.output_index) or (self._columns[1], self._columns[2])
            start = bisect_left(times, item.began_ns)
            end = len(times) if item.ended_ns is None else bisect_right(times, item.ended_ns)
            spanned, to_ns = positions[start : max(end, start + 1)], item.ended_ns
            if to_ns is None:
                to_ns = max(times[-1], item.began_ns) if times else item.began_ns
            places = {"first_pos": spanned[0], "last_pos": spanned[-1]} if spanned else {}
            label = item.name or item.type
            yield self._block(row, item.kind, label, item.began_ns, to_ns, item=item.item, **places)

    def output_blocks(self) -> Iterator[dict[str, Any]]:
        """Yield a block for each output index of the events, of which nothing else is known yet."""
        spans: dict[int, tuple[AnyRow, AnyRow]] = {}
        for event in self._events:
            if event.output_index is not None:
                row = self._rows[event.output_index]
                spans[row] = spans[row][0] if row in spans else event, event
        for row, (first, last) in spans.items():
            to_ns = last.t_ns if self._outline.has_ended else None
            yield self._block(
                row, "other", f"output {first.output_index}", first.t_ns, to_ns, first_pos=first.pos, last_pos=last.pos
            )

    def client_blocks(self, items: Iterable[AnyRow], calls: _Returned) -> Iterator[dict[str, Any]]:
        """Yield the time of the client's tools: from the end of a call to the request with its result."""
        for item in items:
            if item.kind != "tool_call" or item.has_output or item.ended_ns is None:
                continue
            at_ns = calls.at_ns(item, self._exchange)
            if at_ns is not None:
                row = self._lanes.number(self._group, "client")
                to_ns = max(at_ns - self._exchange.started_ns, item.ended_ns)
                yield self._block(row, "client", item.name or item.type, item.ended_ns, to_ns, item=item.item)

    def _block(
        self,
        row: int,
        kind: str,
        label: str,
        from_ns: int,
        to_ns: int | None,
        *,
        item: int | None = None,
        first_pos: int | None = None,
        last_pos: int | None = None,
    ) -> dict[str, Any]:
        return {
            "row": row,
            "exchange": self._number,
            "from_ns": from_ns,
            "to_ns": to_ns,
            "kind": kind,
            "label": label,
            "item": item,
            "first_pos": first_pos,
            "last_pos": last_pos,
        }
