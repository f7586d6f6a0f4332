"""The sequence that `events` compares: head, events, end; a run of deltas of one text is one step.

What two streams of the same answer may do differently without saying anything else is not in a
step's value: where the deltas of a text are cut, ids, times. The texts, their numbers and which ids
are the same stand beside. A ping or a comment within a run is moved to its end: where in a text a
silence was broken is chance.

Steps take little memory: those of one exchange are in compressed pages, and a long run has what it
has of each event as one. An event that has values of its own, as probabilities, is a step of its
own: as an object it takes three kilobytes.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any

import msgspec

from recorder.diff.alignment import Numbers
from recorder.diff.compared import (
    NO_STATEMENT,
    ComparedBlock,
    ComparedRecording,
    FinalTexts,
    Statement,
    json_of,
)
from recorder.diff.levels import joined_by_name
from recorder.diff.noise_filter import FilteredPayload, NoiseFilter, owned
from recorder.diff.report import Terms
from recorder.model.events import WHOLE, Event
from recorder.model.facts import TextAdded, UsageReported
from recorder.model.packed_events import ComputedSequence, Packed
from recorder.replay.matching.fingerprint import NO_JSON
from recorder.wire.dialects import by_name
from recorder.wire.dialects.canonical import canonical
from recorder.wire.framing.sse import BOM, Fields, parse


class CutText(ComputedSequence[str]):
    """A text, and where it is cut in pieces. Others are added at its end."""

    def __init__(self, pieces: Iterable[str] = ()) -> None:
        self._utf8 = bytearray()
        self._ends = array("I", [0])
        self.extend(pieces)

    def extend(self, pieces: Iterable[str]) -> None:
        """Add pieces."""
        for piece in pieces:
            self._utf8 += piece.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._utf8))

    @property
    def size_bytes(self) -> int:
        return len(self._utf8)

    def __str__(self) -> str:
        return self._utf8.decode("utf-8", "surrogatepass")

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[str]:
        return self._between(0, len(self))

    def _between(self, start: int, stop: int) -> Iterator[str]:
        for begin, end in pairwise(self._ends[start : stop + 1]):
            yield self._utf8[begin:end].decode("utf-8", "surrogatepass")


_KEEP_ALIVE = frozenset({"ping", "keepalive"})

_HEADERS: Mapping[str, Callable[[str], str]] = {
    "content-type": lambda value: value.partition(";")[0].strip().lower(),
    "retry-after": str.strip,
}
"""The response's headers that are compared, and what of them. Most others are new in each response.
"""


class Step(msgspec.Struct, kw_only=True, gc=False):
    """One step. Those of the same `key` have the same value."""

    kind: str  # of the event in the log
    type: str | None = None
    output_index: int | None = None
    key: bytes
    value: Any
    ids: Sequence[str] = ()
    items: tuple[int, ...] = ()  # that it is about, by their rows
    is_open: bool = False  # whether a delta of it is of a text that did not end as its deltas say
    is_delta: bool = False
    texts: CutText  # where the value has blanks; of a run, those of all its events
    positions: Numbers  # of its events in the log
    numbers: Numbers  # their sequence numbers; 0 where there is none
    # which of the numbered events each is, from 1 on; 0 of an event without a number
    ordinals: Numbers

    @property
    def name(self) -> str:
        return self.type or self.kind

    @property
    def pos(self) -> int:
        return self.positions[0]

    @property
    def count(self) -> int:
        return len(self.positions)

    @property
    def run(self) -> tuple[Any, ...]:
        """The same of all events that are one run."""
        return self.key, self.ids, self.items, self.is_open

    @property
    def text(self) -> str:
        """The texts as one."""
        return str(self.texts)

    @property
    def size_bytes(self) -> int:
        """About what it takes: its value is as long as its key, where it is long."""
        return 2 * len(self.key) + self.texts.size_bytes + 24 * self.count

    def number(self, n: int) -> int | None:
        """Return the sequence number of an event of it."""
        return self.numbers[n] if self.ordinals[n] else None

    @property
    def is_keep_alive(self) -> bool:
        return self.kind == "comment" or self.type in _KEEP_ALIVE


KEYS: Sequence[Callable[[Step], Hashable]] = (
    lambda step: step.key,
    lambda step: (step.name, step.output_index),
    lambda step: step.name,
)
"""By which steps are partners: all they say, else the same type and item, else the same type. Of
their hashes, since of two steps that only seem to be partners every difference is reported."""


class PackedSteps(Packed[Step]):
    """The steps of one exchange.

    They are read in order, mostly: the page that was read last is held.

    They are packed as objects of this process (`pickle`), since their values are what was sent:
    half an emoji, a number of a hundred digits.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        """Pack steps. `numbers` has the hashes of all, for each of the `KEYS`."""
        super().__init__()
        self.numbers = [array("q") for _ in KEYS]
        self._replaced: dict[int, Step] = {}
        self._last: tuple[int, list[Step]] = (-1, [])
        for step in steps:
            for numbers, key in zip(self.numbers, KEYS, strict=True):
                numbers.append(hash(key(step)) & 2**63 - 1)  # rapidfuzz takes no negative ones
            self._add(step, step.size_bytes)
        self.pack()

    def replace(self, number: int, step: Step) -> None:
        """Put another step in the place of one."""
        self._replaced[number] = step

    def at(self, number: int) -> Step:
        """Return the step of that number."""
        if number in self._replaced:
            return self._replaced[number]
        page = self._page_of(number)
        if page != self._last[0]:
            self._last = page, self._unpacked(self._pages[page][1])
        return self._last[1][number - self._pages[page][0]]

    def _encode(self, elements: Sequence[Step]) -> bytes:
        return pickle.dumps(elements, pickle.HIGHEST_PROTOCOL)

    def _decode(self, page: bytes) -> list[Step]:
        found: list[Step] = pickle.loads(page)
        return found


class ExchangeSteps(msgspec.Struct):
    """The steps of one exchange, and the final texts of its items."""

    steps: PackedSteps
    final_texts: FinalTexts


def steps(side: ComparedRecording, terms: Terms) -> ExchangeSteps:
    """Return the steps of one exchange."""
    final_texts = FinalTexts(side.noted, [] if terms.exact else side.items)
    events = _events(side, final_texts, terms)
    body = events if terms.exact else _in_runs(events)
    return ExchangeSteps(
        PackedSteps(chain(_head(side, terms), body, _end(side, terms))), final_texts
    )


def _events(side: ComparedRecording, final_texts: FinalTexts, terms: Terms) -> Iterator[Step]:
    noise_filter = NoiseFilter(
        owned(side.exchange.api, terms.rules, is_stream=side.is_stream), exact=terms.exact
    )
    unwrapped, ordinal = by_name(side.exchange.api).unwrapped, 0
    for block in side.blocks():
        statement = NO_STATEMENT if terms.exact else final_texts.statement(block)
        value, ids, texts = _value(block, unwrapped, noise_filter, statement)
        event, number = block.event, block.event.sequence_number
        if number is not None:
            ordinal += 1
            if value.__class__ is dict:
                value.pop("sequence_number", None)  # compared beside
        yield Step(
            kind=event.kind,
            type=event.type,
            output_index=event.output_index,
            key=b"%s %s " % (event.kind.encode(), (event.type or "").encode()) + canonical(value),
            value=value,
            ids=ids,
            items=statement.items,
            is_open=statement.is_open,
            is_delta=any(isinstance(fact, TextAdded) for fact in block.facts),
            texts=CutText(texts),
            positions=_one(event.pos),
            numbers=_one(number or 0),
            ordinals=_one(0 if number is None else ordinal),
        )


def _value(
    block: ComparedBlock,
    unwrapped: Callable[[bytes], bytes],
    noise_filter: NoiseFilter,
    statement: Statement,
) -> FilteredPayload:
    """Return the payload of a block, and the fields of the stream around it."""
    if block.raw is None:
        return FilteredPayload("(too long to be read)", (), [])
    if block.event.kind in ("comment", "gap"):
        return FilteredPayload(block.raw.decode("utf-8", "backslashreplace").strip(), (), [])
    reports = [fact.raw for fact in block.facts if isinstance(fact, UsageReported)]
    if block.event.kind == "body":
        return noise_filter.apply(_payload(block.raw), statement.texts, reports, block.raw)
    payload, around = _read(block.event, block.raw)
    data = unwrapped(payload)
    filtered = noise_filter.apply(_payload(data), statement.texts, reports, data)
    value = filtered.value if isinstance(filtered.value, dict) else {"(data)": filtered.value}
    return filtered._replace(value={**value, **around})


def _read(event: Event, raw: bytes) -> tuple[bytes, Mapping[str, str]]:
    """Return the data of a block, and its other lines: mostly those of the event before."""
    start, length = event.data_start, event.data_length
    if event.kind == "frame" and start is not None and length is not None:
        return raw[start : start + length], _known_lines(raw[:start] + raw[start + length :])
    fields = parse(raw.removeprefix(BOM))
    return raw if fields.data is None else fields.data, _around(fields)


@lru_cache(64)
def _known_lines(raw: bytes) -> Mapping[str, str]:
    return _around(parse(raw.removeprefix(BOM)))


def _around(fields: Fields) -> Mapping[str, str]:
    found = {"(event line)": fields.event, "(id line)": fields.id, "(retry line)": fields.retry}
    return {
        name: each.decode("utf-8", "backslashreplace")
        for name, each in found.items()
        if each is not None
    }


def _payload(data: bytes) -> Any:
    value = json_of(data)
    return data.decode("utf-8", "backslashreplace") if value is NO_JSON else value


def _in_runs(steps: Iterable[Step]) -> Iterator[Step]:
    run: Step | None = None
    held: list[Step] = []  # keep-alives that came after the last step
    for step in steps:
        if step.is_keep_alive:
            if not (held and _goes_on(held[-1], step)):
                held.append(step)
        elif not (run is not None and step.is_delta and _goes_on(run, step)):
            if run is not None:
                yield run
            yield from held
            held, run = [], step
    if run is not None:
        yield run
    yield from held


def _goes_on(run: Step, step: Step) -> bool:
    """Return whether a step continues the run; then it is added."""
    if run.run != step.run:
        return False
    _extend(run, step)
    return True


def _extend(run: Step, rest: Step) -> None:
    run.texts.extend(rest.texts)
    run.positions.extend(rest.positions)
    run.numbers.extend(rest.numbers)
    run.ordinals.extend(rest.ordinals)


def joined(run: Step, rest: Step) -> Step:
    """Join two equal runs."""
    whole = msgspec.structs.replace(
        run,
        texts=CutText(run.texts),
        positions=run.positions[:],
        numbers=run.numbers[:],
        ordinals=run.ordinals[:],
    )
    _extend(whole, rest)
    return whole


def _head(side: ComparedRecording, terms: Terms) -> Iterator[Step]:
    """Yield status and headers, the content type without its parameters; exactly, as they were
    sent.
    """
    head, event = side.response, side.first("response")
    if head is None or event is None:
        return
    sent = sorted((name.lower(), value) for name, value in head.headers)
    if terms.exact:
        headers = joined_by_name(sent)
    else:
        headers = {}
        for name, value in sent:
            if name in _HEADERS:
                headers.setdefault(name, _HEADERS[name](value))
    yield _step(event, {"status": head.status, **headers})


def _end(side: ComparedRecording, terms: Terms) -> Iterator[Step]:
    end, event = side.end, side.first("end")
    if end is not None and event is not None:
        outcome = end.outcome if terms.exact or end.outcome not in WHOLE else "eof"
        value = {"status": end.status, "outcome": outcome, "lossless": end.lossless}
        yield _step(event, {**value, "error": end.error} if terms.exact else value)


def _step(event: Event, value: Any) -> Step:
    key = event.kind.encode() + canonical(value)
    pos = _one(event.pos)
    return Step(
        kind=event.kind,
        key=key,
        value=value,
        texts=CutText(),
        positions=pos,
        numbers=_one(0),
        ordinals=_one(0),
    )


def _one(number: int) -> Numbers:
    return array("q", (number,))
