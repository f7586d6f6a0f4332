"""A session as a trace of events, for ui.perfetto.dev, speedscope and chrome://tracing. Its lanes
are the viewer's.

The format is the JSON of "Trace Event Format" (Google, 2016): the session is a process, a lane is a
thread, a block is a complete event (`X`), an event of the log an instant (`i`), the way from a call
to the request with its result a flow (`s`, `f`). `docs/formats.md` has the fields. No text of a
request or response is written, only sizes.

Memory holds the timeline, some hundred bytes an event, and one page of the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from recorder.model.events import BODY_KINDS, Event, Exchange, Session, payload_of
from recorder.model.facts import TextAdded
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.ui.lanes import Block, ExchangeTicks, Timeline
from recorder.wire.dialects import by_name
from recorder.wire.dialects.decoder import JsonDecoder

Json = dict[str, Any]

PROCESS = 1  # the session: the only one of the trace
FLOW = "result of a call"

_KINDS = {"connection": 0, "item": 1, "client": 2}


async def trace(
    log: LogReader, session: Session, chosen: Iterable[Numbered], timeline: Timeline
) -> AsyncIterator[bytes]:
    """Yield a trace of exchanges, piece by piece. The timeline has them all."""
    threads = _Threads(timeline)
    numbered = dict(chosen)
    # Times of the trace are since the first exchange of the session began.
    about = {"recorder_trace": 1, "session_id": session.session_id, "session": session.name}
    opening = b'{"displayTimeUnit":"ms","otherData":%b,"traceEvents":[\n' % msgspec.json.encode(
        about
    )
    for name in threads.names(session.name):
        yield opening + msgspec.json.encode(name)
        opening = b",\n"
    for ticks in timeline.exchanges:
        if ticks.number in numbered:
            async for event in _exchange(log, numbered[ticks.number], ticks, threads):
                yield b",\n" + msgspec.json.encode(event)
    for flow in threads.flows(numbered):
        yield b",\n" + msgspec.json.encode(flow)
    yield b"\n]}\n"


async def _exchange(
    log: LogReader, exchange: Exchange, ticks: ExchangeTicks, threads: _Threads
) -> AsyncIterator[Json]:
    """Yield the instants of an exchange, then its blocks, which say how much text their events
    brought.
    """
    decoder = by_name(exchange.api).decoder()
    characters: list[int] = []  # of text that each event adds
    async for event in log.events(exchange.session_id, exchange.exchange_id):
        if event.pos >= len(ticks.row):  # it came after the timeline was made
            break
        characters.append(_text_chars(decoder, event))
        yield {
            "ph": "i",
            "s": "t",
            "name": event.type or event.kind,
            "cat": event.kind,
            "ts": _us(ticks.offset_ns + event.t_ns),
            "pid": PROCESS,
            "tid": threads.first(ticks.row[event.pos]),
            "args": _known(
                exchange=ticks.number,
                pos=event.pos,
                type=event.type,
                sequence_number=event.sequence_number,
                item_id=event.item_id,
                output_index=event.output_index,
                size_bytes=len(event.raw),
                text_chars=characters[-1] or None,
            ),
        }
    for block in threads.blocks:
        if block.exchange == ticks.number:
            yield threads.complete_event(block, _sum_of(block, ticks.row, characters))


def _text_chars(decoder: JsonDecoder, event: Event) -> int:
    """Return how many characters of text an event adds.

    The decoder is given the events in order.
    """
    payload = payload_of(event)
    if event.kind not in BODY_KINDS or payload is None:
        return 0
    facts = decoder.event(event.type, payload)
    return sum(len(fact.text) for fact in facts if isinstance(fact, TextAdded))


def _known(**arguments: Any) -> Json:
    return {name: value for name, value in arguments.items() if value is not None}


def _sum_of(block: Block, rows: Sequence[int], characters: list[int]) -> int:
    """Return the characters of text that the events of a block brought to its row."""
    if block.first_pos is None or block.last_pos is None:
        return 0
    span = range(block.first_pos, min(block.last_pos + 1, len(characters)))
    return sum(characters[pos] for pos in span if rows[pos] == block.row)


class _Threads:
    """The threads of the trace, by row of the timeline.

    Complete events of a thread must lie beside or inside each other, so a block that overlaps
    another one otherwise (calls that a client answers in two requests) is on a further thread of
    its row.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._lanes, self.blocks = timeline.rows, timeline.blocks
        self._offsets = {each.number: each.offset_ns for each in timeline.exchanges}
        self._ends = {each.number: max(each.t, default=0) for each in timeline.exchanges}
        by_row: dict[int, list[Block]] = defaultdict(list)
        for block in timeline.blocks:
            by_row[block.row].append(block)
        self._thread: dict[Block, int] = {}
        self._of_row: list[range] = []
        first = 1
        for row in range(len(timeline.rows)):
            depth = 1
            for block, layer in _layers(by_row[row], self._span):
                self._thread[block] = first + layer
                depth = max(depth, layer + 1)
            self._of_row.append(range(first, first + depth))
            first += depth

    def names(self, session: str) -> Iterator[Json]:
        """Yield the names of the process and of its threads, and the order in which they are shown."""
        yield _named("process_name", 0, {"name": session})
        lanes = zip(self._lanes, self._of_row, strict=True)
        order = 0
        for lane, threads in sorted(lanes, key=lambda each: (each[0].group, _KINDS[each[0].kind])):
            group = f" ({lane.group + 1})" if lane.group else ""
            for thread in threads:
                yield _named("thread_name", thread, {"name": lane.label + group})
                yield _named("thread_sort_index", thread, {"sort_index": order})
                order += 1

    def first(self, row: int) -> int:
        """Return the first thread of a row, which has its instants."""
        return self._of_row[row].start

    def complete_event(self, block: Block, characters: int) -> Json:
        begins, ends = self._span(block)
        return {
            "ph": "X",
            "name": block.label or block.kind,
            "cat": block.kind,
            "ts": begins,
            "dur": ends - begins,
            "pid": PROCESS,
            "tid": self._thread[block],
            "args": _known(
                exchange=block.exchange,
                first_pos=block.first_pos,
                last_pos=block.last_pos,
                text_chars=characters or None,
                is_open=True if block.to_ns is None else None,
            ),
        }

    def flows(self, chosen: Collection[int]) -> Iterator[Json]:
        """Yield the two ends of each way from a call to the request with its result."""
        calls = {
            (each.exchange, each.item): each for each in self.blocks if each.kind == "tool_call"
        }
        requests = {self._offsets[each.exchange]: each for each in self.blocks if each.from_ns == 0}
        waits = [each for each in self.blocks if each.kind == "client"]
        for number, wait in enumerate(waits, 1):
            call = calls.get((wait.exchange, wait.item))
            request = requests.get(self._offsets[wait.exchange] + (wait.to_ns or 0))
            if call is None or request is None:
                continue
            if call.exchange in chosen and request.exchange in chosen:
                yield self._flow("s", number, call)
                yield self._flow("f", number, request) | {"bp": "e"}

    def _flow(self, phase: str, number: int, block: Block) -> Json:
        at = {"ts": self._span(block)[0], "pid": PROCESS, "tid": self._thread[block]}
        return {"ph": phase, "id": number, "name": FLOW, "cat": "flow", **at}

    def _span(self, block: Block) -> tuple[int, int]:
        """Return the microseconds at which a block begins and ends.

        It takes at least one: speedscope ends a shorter one before its beginning. An open block
        ends with the last event.
        """
        offset_ns = self._offsets[block.exchange]
        to_ns = self._ends[block.exchange] if block.to_ns is None else block.to_ns
        begins = _us(offset_ns + block.from_ns)
        return begins, max(begins + 1, _us(offset_ns + to_ns))


def _layers(
    blocks: list[Block], span: Callable[[Block], tuple[int, int]]
) -> Iterator[tuple[Block, int]]:
    """Yield each block of a row with the first layer in which it overlaps no other but inside of
    it.
    """
    # by layer: the ends of the blocks that the next may be inside of
    open_ends: list[list[int]] = []
    for block in sorted(blocks, key=lambda each: (span(each)[0], -span(each)[1])):
        begins, end = span(block)
        for ends in open_ends:
            while ends and ends[-1] <= begins:
                ends.pop()
        layer = next(
            (at for at, ends in enumerate(open_ends) if not ends or end <= ends[-1]), len(open_ends)
        )
        if layer == len(open_ends):
            open_ends.append([])
        open_ends[layer].append(end)
        yield block, layer


def _named(what: str, thread: int, arguments: Json) -> Json:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": arguments}


def _us(ns: int) -> int:
    """Return whole microseconds.

    Programs cut off fractions, of a beginning and a duration each, and then blocks that follow each
    other would overlap.
    """
    return ns // 1000
