"""The sequence that `events` compares: head, events, end; a run of deltas of one text is one step.

What two streams of the same answer may do differently without saying anything else is not in a step's value: where the
deltas of a text are cut, ids, times. The texts, their numbers and which ids are the same stand beside. A ping or a
comment within a run is moved to its end: where in a text a silence was broken is chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from recorder.diff.compared import NOT_JSON, ComparedBlock, ComparedRecording, json_of
from recorder.diff.field_owners import owned
from recorder.diff.final_texts import NO_STATEMENT, FinalTexts, Statement
from recorder.diff.noise_filter import FilteredPayload, NoiseFilter
from recorder.diff.report import Terms
from recorder.model.events import WHOLE, Event
from recorder.model.facts import Fact, TextAdded, UsageReported
from recorder.replay.matching.fingerprint import canonical
from recorder.wire.sse import BOM, parse

_KEEP_ALIVE = frozenset({"ping", "keepalive"})

_HEADERS: Mapping[str, Callable[[str], str]] = {
    "content-type": lambda value: value.partition(";")[0].strip().lower(),
    "retry-after": str.strip,
}
"""The response's headers that are compared, and what of them. Most others are made anew for each response."""


class Step(msgspec.Struct, gc=False):
    """One step. Those of the same `key` have the same value."""

    kind: str  # of the event in the log
    type: str | None
    output_index: int | None
    key: bytes
    value: Any
    ids: Sequence[str]
    statement: Statement
    is_delta: bool
    texts: list[str]  # where the value has blanks; of a run, those of all its events
    positions: list[int]  # of its events in the log
    numbers: list[int | None]  # their sequence numbers
    ordinals: list[int]  # which of the numbered events each is

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
        return self.key, self.ids, self.statement.items, self.statement.is_open

    @property
    def is_keep_alive(self) -> bool:
        return self.kind == "comment" or self.type in _KEEP_ALIVE


class ExchangeSteps(msgspec.Struct):
    """The steps of one exchange, and the final texts of its items."""

    steps: list[Step]
    final_texts: FinalTexts


def steps(side: ComparedRecording, terms: Terms) -> ExchangeSteps:
    """Return the steps of one exchange."""
    final_texts = FinalTexts(side.texts, [] if terms.exact else side.items)
    events = _events(side, final_texts, terms)
    body = events if terms.exact else _in_runs(events)
    return ExchangeSteps([*_head(side, terms), *body, *_end(side, terms)], final_texts)


def _events(side: ComparedRecording, final_texts: FinalTexts, terms: Terms) -> Iterator[Step]:
    noise_filter = NoiseFilter(owned(side.exchange.api, terms.rules, is_stream=side.is_stream), exact=terms.exact)
    ordinal = 0
    for block in side.blocks():
        statement = NO_STATEMENT if terms.exact else final_texts.statement(block)
        (value, ids, texts), event = _value(block, noise_filter, statement), block.event
        number = event.sequence_number
        if number is not None and value.__class__ is dict:
            value.pop("sequence_number", None)  # compared beside
        facts = block.facts
        is_delta = isinstance(facts[0], TextAdded) if len(facts) == 1 else _has_delta(facts)
        key = b"%s %s " % (event.kind.encode(), (event.type or "").encode()) + canonical(value)
        ordinal += number is not None
        about = event.kind, event.type, event.output_index, key, value, ids, statement, is_delta, texts
        yield Step(*about, [event.pos], [number], [ordinal])


def _has_delta(facts: Sequence[Fact]) -> bool:
    return any(isinstance(fact, TextAdded) for fact in facts)


def _value(block: ComparedBlock, noise_filter: NoiseFilter, statement: Statement) -> FilteredPayload:
    """Return the payload of a block, and the fields of the stream around it."""
    if block.raw is None:
        return FilteredPayload("(too long to be read)", (), [])
    if block.event.kind in ("comment", "gap"):
        return FilteredPayload(block.raw.decode("utf-8", "backslashreplace").strip(), (), [])
    reports = [fact.raw for fact in block.facts if isinstance(fact, UsageReported)]
    if block.event.kind == "body":
        return noise_filter.apply(_payload(block.raw), statement.texts, reports, block.raw)
    data, around = _read(block.event, block.raw)
    value, ids, texts = noise_filter.apply(_payload(data), statement.texts, reports, data)
    return FilteredPayload({**value, **around} if isinstance(value, dict) else {"(data)": value, **around}, ids, texts)


def _read(event: Event, raw: bytes) -> tuple[bytes, Mapping[str, str]]:
    """Return the data of a block, and its other lines: mostly those of the event before."""
    start, length = event.data_start, event.data_length
    if event.kind == "frame" and start is not None and length is not None:
        return raw[start : start + length], _around(raw[:start] + raw[start + length :])
    data = parse(raw.removeprefix(BOM)).data
    return raw if data is None else data, _around(raw)


@lru_cache(64)
def _around(raw: bytes) -> Mapping[str, str]:
    fields = parse(raw.removeprefix(BOM))
    found = {"(event line)": fields.event, "(id line)": fields.id, "(retry line)": fields.retry}
    return {name: each.decode("utf-8", "backslashreplace") for name, each in found.items() if each is not None}


def _payload(data: bytes) -> Any:
    value = json_of(data)
    return data.decode("utf-8", "backslashreplace") if value is NOT_JSON else value


def _in_runs(steps: Iterable[Step]) -> list[Step]:
    made: list[Step] = []
    held: list[Step] = []  # keep-alives that came after the last step
    for step in steps:
        if step.is_keep_alive:
            if not (held and _goes_on(held[-1], step)):
                held.append(step)
        elif not (made and step.is_delta and _goes_on(made[-1], step)):
            made += held
            held = []
            made.append(step)
    return [*made, *held]


def _goes_on(run: Step, step: Step) -> bool:
    """Return whether a step continues the run; then it is added."""
    if run.key != step.key or run.ids != step.ids or not run.statement.goes_with(step.statement):
        return False
    run.texts += step.texts
    run.positions += step.positions
    run.numbers += step.numbers
    run.ordinals += step.ordinals
    return True


def joined(run: Step, rest: Step) -> Step:
    """Join two equal runs."""
    lists = ("texts", "positions", "numbers", "ordinals")
    return msgspec.structs.replace(run, **{name: [*getattr(run, name), *getattr(rest, name)] for name in lists})


def _head(side: ComparedRecording, terms: Terms) -> Iterator[Step]:
    """Yield status and headers, the content type without its parameters; exactly, as they were sent."""
    head, event = side.response, side.first("response")
    if head is None or event is None:
        return
    headers: dict[str, str] = {}
    for name, value in sorted((name.lower(), value) for name, value in head.headers):
        if terms.exact:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        elif name in _HEADERS:
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
    return Step(event.kind, None, None, key, value, (), NO_STATEMENT, False, [], [event.pos], [None], [0])
