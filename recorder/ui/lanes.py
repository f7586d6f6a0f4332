"""The timeline of a session: a tick for each event, in lanes, and blocks of items and of the
client's own time.

Everything is read from columns of the log and from the projections: nothing is folded. Items of an
exchange without projections (it is open, or could not be folded) are known by the `output_index` of
their events.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, case, select

from recorder.model.events import BODY_KINDS, Exchange, GapRecord
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.store.engine import AnyRow
from recorder.store.queries.outlines import Outline, outlines
from recorder.store.queries.reader import LogReader
from recorder.store.schema import events, tables_of, view_of
from recorder.store.sql import constant, of_session
from recorder.ui.ticks import Ticks, read_ticks
from recorder.wire.dialects.json_values import request_object, whole

GROUPS_LIMIT = 32  # exchanges drawn beside each other; more share the last group
ITEM_ROWS_LIMIT = 64  # of one group: more than a screen has

_SOUND = "audio"  # the type of items that are one

_items, _timing = tables_of["items"], tables_of["timing"]
_calls = view_of(
    "tool_calls", "session_id exchange_id item name type output_exchange_id ended_ns latency_ns"
)
_GAPS = select(events.c.exchange_id, events.c.pos, events.c.raw).where(
    of_session(events),
    events.c.exchange_id.in_(bindparam("exchange_ids", expanding=True)),
    events.c.kind == constant("gap"),
)
_ITEMS = (
    select(
        *(
            _items.c[name]
            for name in ("exchange_id", "item", "kind", "type", "output_index", "name")
        ),
        *(_items.c.began_ns, _items.c.ended_ns),
        case((_items.c.type == constant(_SOUND), _items.c.output)).label("sound"),
    )
    .where(of_session(_items))
    .order_by(_items.c.exchange_id, _items.c.item)
)
_FIRST_BYTES = select(_timing.c.exchange_id, _timing.c.first_byte_ns).where(of_session(_timing))
_CALLS = (
    select(_calls)
    .where(
        of_session(_calls),
        _calls.c.output_exchange_id.is_not(None),
        _calls.c.latency_ns.is_not(None),
    )
    .order_by(_calls.c.exchange_id, _calls.c.item)
)


class ExchangeTicks(msgspec.Struct, frozen=True):
    """The events of an exchange, column by column.

    Kinds, types and rows are numbers; -1 is that of no type.
    """

    number: int
    exchange_id: str
    offset_ns: int  # since the first exchange of the session began
    has_ended: bool
    last_pos: int
    t: Sequence[int]
    kind: Sequence[int]
    type: Sequence[int]
    row: Sequence[int]


class Lane(msgspec.Struct, frozen=True):
    """A row of the timeline.

    An item without an output index is in the row of all that have no row of their own.
    """

    kind: str
    group: int
    label: str
    output_index: int | None


class Block(msgspec.Struct, frozen=True):
    """A stretch of time in a row, with the events in it. One that is open has no end."""

    row: int
    exchange: int  # its number
    from_ns: int
    to_ns: int | None
    kind: str
    label: str
    item: int | None = None
    first_pos: int | None = None
    last_pos: int | None = None


class Timeline(msgspec.Struct, frozen=True):
    """The lanes of a session, as the viewer has them in JSON."""

    session_id: str
    is_all: bool
    exchanges: list[ExchangeTicks]
    kinds: list[str]
    types: list[str]
    rows: list[Lane]
    blocks: list[Block]


async def timeline(
    log: LogReader, session_ref: str, exchange: str | None = None, after: int = -1
) -> Timeline:
    """Return the lanes of a session; with an exchange only those of it, with its events after a
    position.

    The numbers of rows, kinds and types are valid within one answer. `is_all` is False if events
    were left out at the end, since there are more than an answer has. With `after`, a block of an
    open exchange covers its new events alone.
    """
    session, numbered = await select_exchanges(log, session_ref, None)
    values = {"session_id": session.session_id}
    summaries = {each.exchange_id: each for each in await outlines(log, session.session_id)}
    # one may be purged now
    numbered = [(number, each) for number, each in numbered if each.exchange_id in summaries]
    one = None
    if exchange is not None:
        _, [(_, chosen)] = await select_exchanges(log, session.session_id, exchange)
        one = chosen.exchange_id
    read = [each for id, each in summaries.items() if one in (None, id)]
    has_ended = one in summaries and summaries[one].has_ended
    ticks, is_all = await read_ticks(log, session.session_id, read, -1 if has_ended else after)
    broken = [id for id, each in ticks.items() if "gap" in each.kinds]
    projected = _Projected(
        items=_grouped(await log.rows(_ITEMS, **values), "exchange_id"),
        first_byte_ns={
            row.exchange_id: row.first_byte_ns for row in await log.rows(_FIRST_BYTES, **values)
        },
        calls=_grouped(await log.rows(_CALLS, **values), "exchange_id"),
        gaps=_grouped(await log.rows(_GAPS, **values, exchange_ids=broken), "exchange_id"),
    )
    return await asyncio.to_thread(
        _drawn, session.session_id, numbered, one, summaries, ticks, projected, after, is_all
    )


_Grouped = dict[Any, list[Any]]


class _Projected(NamedTuple):
    """The rows of a session that blocks are made of, by exchange."""

    items: _Grouped
    first_byte_ns: Mapping[str, int | None]
    calls: _Grouped  # of the client's tools, that were answered
    gaps: _Grouped


def _grouped(rows: Iterable[Any], column: str) -> _Grouped:
    found: _Grouped = defaultdict(list)
    key = attrgetter(column)
    for row in rows:
        found[key(row)].append(row)
    return found


def _groups(numbered: Sequence[Numbered], outlines: Mapping[str, Outline]) -> dict[str, int]:
    """Return the group of rows of each exchange: the first one in which no other exchange is under
    way.
    """
    groups: dict[str, int] = {}
    free_ns: list[float] = []  # when each group is free again
    for _, each in numbered:
        outline = outlines[each.exchange_id]
        end_ns = each.started_ns + outline.duration_ns if outline.has_ended else inf
        group = next(
            (number for number, free in enumerate(free_ns) if free <= each.started_ns), len(free_ns)
        )
        if group == len(free_ns) < GROUPS_LIMIT:
            free_ns.append(end_ns)
        group = min(group, GROUPS_LIMIT - 1)
        free_ns[group] = max(free_ns[group], end_ns)
        groups[each.exchange_id] = group
    return groups


class _Lanes:
    """The rows of an answer, numbered as they are needed."""

    def __init__(self) -> None:
        # of group, kind and output index
        self._numbers: dict[tuple[int, str, int | None], int] = {}
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

    def rows(self) -> list[Lane]:
        rows = []
        for group, kind, output_index in self._numbers:
            label = kind
            if kind == "item":
                label = "other outputs" if output_index is None else f"output {output_index}"
            rows.append(Lane(kind, group, label, output_index))
        return rows


def _drawn(
    session_id: str,
    numbered: Sequence[Numbered],
    one: str | None,
    outlines: Mapping[str, Outline],
    ticks: Mapping[str, Ticks],
    projected: _Projected,
    after: int,
    is_all: bool,
) -> Timeline:
    began_ns = numbered[0][1].started_ns if numbered else 0
    groups, lanes = _groups(numbered, outlines), _Lanes()
    kinds, types = _Index(), _Index()
    exchanges: list[ExchangeTicks] = []
    blocks: list[Block] = []
    for number, each in numbered:
        id = each.exchange_id
        if one not in (None, id):
            continue
        drawn = _Exchange(number, each, outlines[id], groups[id], ticks[id], lanes)
        exchanges.append(drawn.ticks(each.started_ns - began_ns, after, kinds, types))
        blocks += drawn.connection_blocks(projected.first_byte_ns.get(id))
        items = projected.items[id]
        if outlines[id].has_ended and items:
            blocks += drawn.item_blocks(items)
            blocks += drawn.client_blocks(projected.calls[id])
        else:
            blocks += drawn.output_blocks()
        blocks += drawn.gap_blocks(projected.gaps[id])
    return Timeline(session_id, is_all, exchanges, list(kinds), list(types), lanes.rows(), blocks)


def _label(item: AnyRow) -> str:
    """Return what an item is called: a sound by how long it is, whatever time it took to come."""
    duration_ms = whole(request_object((item.sound or "").encode()), "duration_ms")
    name: str = item.name or item.type
    return name if duration_ms is None else f"{name} {duration_ms / 1000:.1f} s"


class _Index(dict[str, int]):
    """Names and their numbers, in order of appearance."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))


class _Exchange:
    """The events of one exchange, as ticks and blocks."""

    def __init__(
        self,
        number: int,
        exchange: Exchange,
        outline: Outline,
        group: int,
        events: Ticks,
        lanes: _Lanes,
    ) -> None:
        self._number, self._exchange, self._outline = number, exchange, outline
        self._group, self._events, self._lanes = group, events, lanes
        self._connection = lanes.number(group, "connection")
        self._by_index = events.by_output()
        self._rows: dict[int | None, int] = {None: self._connection}
        for index in sorted(index for index in self._by_index if index is not None):
            self._rows[index] = lanes.number(group, "item", index)

    def ticks(self, offset_ns: int, after: int, kinds: _Index, types: _Index) -> ExchangeTicks:
        """Return the events after a position."""
        events = self._events
        new = slice(max(0, after + 1 - events.first_pos), None)
        numbers: dict[str | None, int] = {None: -1}
        for type in dict.fromkeys(events.types[new]):
            if type is not None:
                numbers[type] = types[type]
        return ExchangeTicks(
            number=self._number,
            exchange_id=self._exchange.exchange_id,
            offset_ns=offset_ns,
            has_ended=self._outline.has_ended,
            last_pos=events.first_pos + len(events) - 1,
            t=events.t_ns[new],
            kind=tuple(map(kinds.__getitem__, events.kinds[new])),
            type=tuple(map(numbers.__getitem__, events.types[new])),
            row=tuple(map(self._rows.__getitem__, events.output_indices[new])),
        )

    def connection_blocks(self, first_byte_ns: int | None) -> Iterator[Block]:
        """Yield the time to the head of the response, from there to its first byte, and that of its
        body.
        """
        row, kinds, t_ns = self._connection, self._events.kinds, self._events.t_ns
        head = next((place for place, kind in enumerate(kinds) if kind == "response"), None)
        if head is not None:
            yield self._block(row, "head", "response head", 0, t_ns[head], (0, self._pos(head)))
        first = next((place for place, kind in enumerate(kinds) if kind in BODY_KINDS), None)
        if first is None:
            return
        last = next(place for place in reversed(range(len(kinds))) if kinds[place] in BODY_KINDS)
        began_ns = t_ns[first] if first_byte_ns is None else first_byte_ns
        if head is not None and t_ns[head] <= began_ns:
            at = self._pos(head), self._pos(first)
            yield self._block(row, "first_byte", "first byte", t_ns[head], began_ns, at)
        to_ns = t_ns[last] if self._outline.has_ended else None
        yield self._block(row, "body", "body", began_ns, to_ns, (self._pos(first), self._pos(last)))

    def gap_blocks(self, rows: Iterable[AnyRow]) -> Iterator[Block]:
        """Yield the times of bytes that were received and not recorded."""
        for row in rows:
            try:
                gap = msgspec.json.decode(row.raw, type=GapRecord)
            except msgspec.DecodeError:
                continue
            label = f"{gap.size_bytes} bytes of the {gap.of} not recorded"
            yield self._block(
                self._connection, "gap", label, gap.from_ns, gap.to_ns, (row.pos, row.pos)
            )

    def item_blocks(self, items: Iterable[AnyRow]) -> Iterator[Block]:
        """Yield the items that the projections have.

        One that did not end reaches to the last event of its output.

        A sound comes at the same time as the message that has its words: sounds have a row of their
        own.
        """
        for item in items:
            index = None if item.type == _SOUND else item.output_index
            row = self._lanes.number(self._group, "item", index)
            yield self._item_block(
                row, item, self._by_index.get(item.output_index, range(len(self._events)))
            )

    def _item_block(self, row: int, item: AnyRow, places: Sequence[int]) -> Block:
        """Return the block of an item, given the places of the events that may be of it."""
        at_ns = self._events.t_ns.__getitem__
        start, end, to_ns = (
            bisect_left(places, item.began_ns, key=at_ns),
            len(places),
            item.ended_ns,
        )
        if to_ns is None:
            to_ns = max(at_ns(places[-1]), item.began_ns) if places else item.began_ns
        else:
            end = bisect_right(places, to_ns, key=at_ns)
        spanned = places[start : max(end, start + 1)]
        at = (self._pos(spanned[0]), self._pos(spanned[-1])) if spanned else None
        return self._block(row, item.kind, _label(item), item.began_ns, to_ns, at, item.item)

    def output_blocks(self) -> Iterator[Block]:
        """Yield a block for each row of outputs that events have, of which nothing else is known
        yet.
        """
        spans: dict[int, list[int]] = defaultdict(list)
        for index, places in self._by_index.items():
            if index is not None:
                spans[self._rows[index]] += places
        t_ns = self._events.t_ns
        for row, places in spans.items():
            first, last = min(places), max(places)
            label = f"output {self._events.output_indices[first]}"
            to_ns = t_ns[last] if self._outline.has_ended else None
            yield self._block(
                row, "other", label, t_ns[first], to_ns, (self._pos(first), self._pos(last))
            )

    def _pos(self, place: int) -> int:
        return self._events.first_pos + place

    def client_blocks(self, calls: Iterable[AnyRow]) -> Iterator[Block]:
        """Yield the time of the client's tools: from the end of a call to the request with its
        result.
        """
        for call in calls:
            row, to_ns = self._lanes.number(self._group, "client"), call.ended_ns + call.latency_ns
            yield self._block(
                row, "client", call.name or call.type, call.ended_ns, to_ns, item=call.item
            )

    def _block(
        self,
        row: int,
        kind: str,
        label: str,
        from_ns: int,
        to_ns: int | None,
        at: tuple[int, int] | None = None,
        item: int | None = None,
    ) -> Block:
        """Return a block; `at` are the positions of its first and its last event."""
        first_pos, last_pos = at or (None, None)
        return Block(row, self._number, from_ns, to_ns, kind, label, item, first_pos, last_pos)
