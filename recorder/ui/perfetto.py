"""A session as a trace of events, for ui.perfetto.dev, speedscope and chrome://tracing. Its lanes are the viewer's.

The format is the JSON of "Trace Event Format" (Google, 2016): the session is a process, a lane is a thread, a block is
a complete event (`X`), an event of the log an instant (`i`), the way from a call to the request with its result a flow
(`s`, `f`). `docs/formats.md` has the fields. No text of a request or response is written, only sizes.

Memory holds the timeline, some hundred bytes an event, and one page of the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from recorder.model.events import BODY_KINDS, Event, Exchange, Session
from recorder.model.facts import TextAdded
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.wire.dialects import by_name
from recorder.wire.dialects.dialect import FactDecoder

Json = dict[str, Any]

PROCESS = 1  # the session: the only one of the trace
FLOW = "result of a call"

_KINDS = {"connection": 0, "item": 1, "client": 2}


async def trace(
    log: LogReader, session: Session, chosen: Iterable[Numbered], timeline: Mapping[str, Any]
) -> AsyncIterator[bytes]:
    """Yield a trace of exchanges, piece by piece. `timeline` is that of `recorder.ui.lanes` and has them all."""
    lanes = _Lanes(timeline)
    numbered = dict(chosen)
    opening = b'{"displayTimeUnit":"ms","otherData":%b,"traceEvents":[\n' % msgspec.json.encode(_about(session))
    for event in lanes.names(session.name):
        yield opening + msgspec.json.encode(event)
        opening = b",\n"
    for ticks in timeline["exchanges"]:
        if ticks["number"] in numbered:
            counter = _TextCounter(numbered[ticks["number"]].api)
            async for line in _exchange(log, numbered[ticks["number"]], ticks, lanes, counter):
                yield b",\n" + msgspec.json.encode(line)
    for flow in lanes.flows(numbered):
        yield b",\n" + msgspec.json.encode(flow)
    yield b"\n]}\n"


def _about(session: Session) -> Json:
    """Return what the trace says about itself: the times in it are since the first exchange of the session began."""
    return {"recorder_trace": 1, "session_id": session.session_id, "session": session.name}


async def _exchange(
    log: LogReader, exchange: Exchange, ticks: Mapping[str, Any], lanes: _Lanes, counter: _TextCounter
) -> AsyncIterator[Json]:
    """Yield the instants of an exchange, then its blocks, which say how much text their events brought."""
    characters = list[int]()
    async for event in log.events(exchange.session_id, exchange.exchange_id):
        if event.pos >= len(ticks["row"]):  # it came after the timeline was made
            break
        added = counter.added(event)
        characters.append(added)
        yield {
            "ph": "i",
            "s": "t",
            "name": event.type or event.kind,
            "cat": event.kind,
            "ts": _us(ticks["offset_ns"] + event.t_ns),
            "pid": PROCESS,
            "tid": lanes.thread(ticks["row"][event.pos]),
            "args": _arguments(ticks["number"], event, added),
        }
    for block in lanes.blocks_of(ticks["number"]):
        yield lanes.block_event(block, _sum_of(block, ticks["row"], characters))


def _arguments(number: int, event: Event, added: int) -> Json:
    known = {
        "exchange": number,
        "pos": event.pos,
        "type": event.type,
        "sequence_number": event.sequence_number,
        "item_id": event.item_id,
        "output_index": event.output_index,
        "size_bytes": len(event.raw),
        "text_chars": added or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _sum_of(block: Mapping[str, Any], rows: list[int], characters: list[int]) -> int:
    """Return the characters of text that the events of a block brought to its row."""
    if block["first_pos"] is None or block["last_pos"] is None:
        return 0
    span = range(block["first_pos"], min(block["last_pos"] + 1, len(characters)))
    return sum(characters[pos] for pos in span if rows[pos] == block["row"])


class _TextCounter:
    """The characters of text that each event of an exchange adds, given in order."""

    def __init__(self, api: str) -> None:
        self._decoder: FactDecoder = by_name(api).decoder()

    def added(self, event: Event) -> int:
        start, length = event.data_start, event.data_length
        if event.kind not in BODY_KINDS or start is None or length is None:
            return 0
        facts = self._decoder.event(event.type, event.raw[start : start + length])
        return sum(len(fact.text) for fact in facts if isinstance(fact, TextAdded))


class _Lanes:
    """The threads of the trace, by row of the timeline.

    Complete events of a thread must lie beside or inside each other, so a block that overlaps another one otherwise
    (calls that a client answers in two requests) is on a further thread of its row.
    """

    def __init__(self, timeline: Mapping[str, Any]) -> None:
        self._rows = timeline["rows"]
        self._offsets = {each["number"]: each["offset_ns"] for each in timeline["exchanges"]}
        self._ends = {each["number"]: max(each["t"], default=0) for each in timeline["exchanges"]}
        self._blocks = list(timeline["blocks"])
        self._place = dict[int, tuple[int, int]]()  # of a block: its row, and the thread in it
        depth = [1] * len(self._rows)
        for row, blocks in self._by_row().items():
            for block, layer in _layers(blocks, self._span):
                self._place[id(block)] = row, layer
                depth[row] = max(depth[row], layer + 1)
        self._first = [1 + sum(depth[:row]) for row in range(len(depth))]
        self._depth = depth

    def names(self, session: str) -> Iterator[Json]:
        """Yield the names of the process and of its threads, and the order in which they are shown."""
        yield _named("process_name", 0, {"name": session})
        order = sorted(
            range(len(self._rows)), key=lambda row: (self._rows[row]["group"], _KINDS[self._rows[row]["kind"]])
        )
        threads = [(row, self._first[row] + layer) for row in order for layer in range(self._depth[row])]
        for place, (row, thread) in enumerate(threads):
            group = f" ({self._rows[row]['group'] + 1})" if self._rows[row]["group"] else ""
            yield _named("thread_name", thread, {"name": self._rows[row]["label"] + group})
            yield _named("thread_sort_index", thread, {"sort_index": place})

    def thread(self, row: int) -> int:
        return self._first[row]

    def blocks_of(self, number: int) -> Iterator[Mapping[str, Any]]:
        return (block for block in self._blocks if block["exchange"] == number)

    def block_event(self, block: Mapping[str, Any], characters: int) -> Json:
        begins, ends = self._span(block)
        row, layer = self._place[id(block)]
        known = {
            "exchange": block["exchange"],
            "first_pos": block["first_pos"],
            "last_pos": block["last_pos"],
            "text_chars": characters or None,
            "is_open": True if block["to_ns"] is None else None,
        }
        return {
            "ph": "X",
            "name": block["label"] or block["kind"],
            "cat": block["kind"],
            "ts": begins,
            "dur": ends - begins,
            "pid": PROCESS,
            "tid": self._first[row] + layer,
            "args": {name: value for name, value in known.items() if value is not None},
        }

    def flows(self, chosen: Mapping[int, Exchange]) -> Iterator[Json]:
        """Yield the two ends of each way from a call to the request with its result."""
        calls = {(each["exchange"], each["item"]): each for each in self._blocks if each["kind"] == "tool_call"}
        begun = {self._offsets[each["exchange"]]: each for each in self._blocks if each["from_ns"] == 0}
        for number, waited in enumerate((each for each in self._blocks if each["kind"] == "client"), 1):
            call = calls.get((waited["exchange"], waited["item"]))
            request = begun.get(self._offsets[waited["exchange"]] + waited["to_ns"])
            if call is None or request is None or not {call["exchange"], request["exchange"]} <= chosen.keys():
                continue
            yield self._flow("s", number, call)
            yield self._flow("f", number, request) | {"bp": "e"}

    def _flow(self, phase: str, number: int, block: Mapping[str, Any]) -> Json:
        row, layer = self._place[id(block)]
        at = {"ts": self._span(block)[0], "pid": PROCESS, "tid": self._first[row] + layer}
        return {"ph": phase, "id": number, "name": FLOW, "cat": "flow", **at}

    def _span(self, block: Mapping[str, Any]) -> tuple[int, int]:
        """Return the microseconds at which a block begins and ends. It takes at least one: speedscope ends a shorter
        one before its beginning. An open block ends with the last event.
        """
        to_ns = block["to_ns"] if block["to_ns"] is not None else self._ends[block["exchange"]]
        begins = _us(self._offsets[block["exchange"]] + block["from_ns"])
        return begins, max(begins + 1, _us(self._offsets[block["exchange"]] + to_ns))

    def _by_row(self) -> dict[int, list[Mapping[str, Any]]]:
        rows = dict[int, list[Mapping[str, Any]]]()
        for block in self._blocks:
            rows.setdefault(block["row"], []).append(block)
        return rows


def _layers(blocks: list[Mapping[str, Any]], span: Any) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield each block of a row with the first layer in which it overlaps no other but inside of it."""
    open_ends = list[list[int]]()  # by layer: the ends of the blocks that the next may be inside of
    for block in sorted(blocks, key=lambda each: (span(each)[0], -span(each)[1])):
        begins, end = span(block)
        for ends in open_ends:
            while ends and ends[-1] <= begins:
                ends.pop()
        layer = next((at for at, ends in enumerate(open_ends) if not ends or end <= ends[-1]), len(open_ends))
        open_ends[layer:] = open_ends[layer:] or [[]]
        open_ends[layer].append(end)
        yield block, layer


def _named(what: str, thread: int, arguments: Json) -> Json:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": arguments}


def _us(ns: int) -> int:
    """Return whole microseconds. Programs cut off fractions, of a beginning and a duration each, and then blocks that
    follow each other would overlap.
    """
    return ns // 1000
