"""A recording as it is compared: its request, the rows of its projections, its body block by block,
its final texts.

Pure; never raises on what was recorded. Each part is computed once, when it is needed. The facts of
the response are noted as they come, and joined: no delta is held. The numbers of items are those of
their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from io import StringIO
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from recorder.model.events import Event, Exchange, Recording
from recorder.model.facts import (
    Fact,
    Field,
    Handler,
    ItemFinished,
    ItemStarted,
    ItemState,
    ResponseItems,
    TextAdded,
    TextFinished,
    UsageReported,
)
from recorder.model.text import storable
from recorder.projections.fact_reader import DOCUMENT_LIMIT, PAYLOAD_LIMIT, FactReader
from recorder.projections.fold import Folding, Rows
from recorder.projections.item import ItemFact, Slot, Unmatched, slot_of
from recorder.projections.items import ITEMS_LIMIT
from recorder.projections.pieces import Pieces
from recorder.projections.rows import ItemRow, TimingRow, UsageRow
from recorder.replay.matching import MatchRequest
from recorder.replay.matching.fingerprint import NO_JSON, json_value, request_of
from recorder.wire.logical_request import LogicalRequests, links_of
from recorder.wire.recording import blocks

Parts = dict[int, str]


class NotedFacts:
    """An observer of the fold of one exchange, and what that has come to."""

    def __init__(self) -> None:
        self.numbers: Mapping[Slot, int] = {}  # of the items of that fold
        self.rows: Rows = {}  # of the projections
        self.first: dict[str, Event] = {}  # event of each kind
        self.reports: list[str] = []  # of usage, as JSON
        # statements of texts, part by part
        self.stated: list[tuple[int, Field, Parts] | ResponseItems] = []
        self._streamed: dict[tuple[int, Field], dict[int, StringIO]] = {}
        self._rowless: dict[Slot, int] = {}  # the numbers of items after the last that has a row

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            TextAdded: self._on_text,
            TextFinished: self._on_text_finished,
            ItemStarted: self._on_item,
            ItemFinished: self._on_item,
            ResponseItems: lambda fact, event: self.stated.append(fact),
            UsageReported: lambda fact, event: self.reports.append(fact.raw),
        }

    def _on_text(self, fact: TextAdded, event: Event) -> None:
        parts = self._streamed.setdefault((self.number(fact), fact.field), {})
        if fact.part not in parts:
            parts[fact.part] = StringIO()  # a piece as an object takes ten times its text
        parts[fact.part].write(fact.text)

    def _on_text_finished(self, fact: TextFinished, event: Event) -> None:
        self.stated.append((self.number(fact), fact.field, {fact.part: fact.text}))

    def _on_item(self, fact: ItemStarted | ItemFinished, event: Event) -> None:
        self.stated += stated_parts(self.number(fact), fact.stated)

    def number(self, fact: ItemFact) -> int:
        """Return the number of the item that a fact is about; of one without a row, one that no
        other item has.
        """
        slot = slot_of(fact, self.numbers)
        number = self.numbers.get(slot)
        return (
            self._rowless.setdefault(slot, ITEMS_LIMIT + len(self._rowless))
            if number is None
            else number
        )

    def streamed(self) -> dict[tuple[int, Field], Parts]:
        """Return what deltas added, by item, field and part."""
        found: dict[tuple[int, Field], Parts] = {}
        for item_and_field, parts in self._streamed.items():
            found[item_and_field] = {part: text.getvalue() for part, text in parts.items()}
        return found


def stated_parts(number: int, stated: ItemState) -> list[tuple[int, Field, Parts]]:
    """Return the texts of a statement, field by field."""
    by_field: dict[Field, Parts] = {}
    for field, part, text in stated.texts:
        by_field.setdefault(field, {})[part] = text
    return [(number, field, parts) for field, parts in by_field.items()]


class ComparedBlock(NamedTuple):
    """A piece of a body that means something: an event, a comment, a tail; or a whole body that is
    not a stream.
    """

    event: Event  # of several parts, the last
    raw: bytes | None  # whole; `None` if it is longer than anything that is read
    facts: Sequence[Fact]


class ComparedRecording:
    """One side of a comparison.

    Its events are read twice: for its items and texts, and for its steps. Between the two nothing
    of an event is held.
    """

    def __init__(self, recording: Recording, requests: LogicalRequests | None = None) -> None:
        """`requests` are those of its side, if requests are compared with all that they continue."""
        self.recording, self._requests = recording, requests
        self.number, self.exchange, self.events = (
            recording.number,
            recording.exchange,
            recording.events,
        )
        self.response, self.end = recording.response, recording.end

    @cached_property
    def request(self) -> MatchRequest:
        """Return the request as it is matched."""
        return request_of(self.recording)

    @property
    def is_logical(self) -> bool:
        """Return whether its request is compared with all that it continues."""
        return self._requests is not None

    @property
    def compared_request(self) -> MatchRequest:
        """Return the request as it is compared.

        It is not held: the last of a session may be as long as all others.
        """
        found = self._requests.of(self.recording) if self._requests is not None else None
        if found is None or found.items is None:
            return self.request
        return msgspec.structs.replace(self.request, body=found.encoded())

    @property
    def items(self) -> Sequence[ItemRow]:
        return self.noted.rows["items"]

    @property
    def usage(self) -> UsageRow:
        row: UsageRow = self.noted.rows["usage"][0]
        return row

    @property
    def timing(self) -> TimingRow:
        row: TimingRow = self.noted.rows["timing"][0]
        return row

    @property
    def is_stream(self) -> bool:
        """Return whether no piece of the body is of a document."""
        return "body" not in self.noted.first

    def blocks(self) -> Iterator[ComparedBlock]:
        """Yield the body, in order; a gap is a block without facts, a body that is not a stream is
        the last block.
        """
        passing = _Passing(self.exchange, self.events)
        for event, kind, raw in blocks(self.exchange, passing.each(), PAYLOAD_LIMIT):
            yield (
                ComparedBlock(event, event.raw, ())
                if kind == "gap"
                else ComparedBlock(event, raw, passing.facts)
            )
        yield from passing.document()

    def first(self, kind: str) -> Event | None:
        """Return the first event of a kind."""
        return self.noted.first.get(kind)

    @cached_property
    def noted(self) -> NotedFacts:
        """Return what is known when all events were read once."""
        noted = NotedFacts()
        folding = Folding(self.exchange, observer=noted.handlers())
        noted.numbers = folding.items.numbers
        for event in self.events:
            noted.first.setdefault(event.kind, event)
            folding.apply(event)
        noted.rows = folding.rows()
        return noted


def compared_sides(
    sides: Sequence[Iterable[Recording]], continued: Sequence[Iterable[Recording]]
) -> list[list[ComparedRecording]]:
    """Return the recordings of each side; `continued` are others of each, which these may continue.

    If one request has only what is new since an earlier response, all are compared with what they
    continue.
    """
    held = [[*side] for side in sides]
    is_logical = any(any(links_of(each)) for each in chain.from_iterable(held))
    found: list[list[ComparedRecording]] = []
    for side, others in zip(held, continued, strict=True):
        every = sorted([*side, *others], key=lambda each: each.number) if others else side
        requests = LogicalRequests(every, compared=True) if is_logical else None
        found.append([ComparedRecording(each, requests) for each in side])
    return found


class _Passing:
    """A pass over the events of an exchange, with the facts of the last one.

    It joins the body that is not a stream.
    """

    def __init__(self, exchange: Exchange, events: Iterable[Event]) -> None:
        self._reading, self._events = FactReader(exchange), events
        self._pieces = Pieces(DOCUMENT_LIMIT)
        self._last: Event | None = None
        self._last_piece: Event | None = None
        self.facts: Sequence[Fact] = ()

    def each(self) -> Iterator[Event]:
        """Yield the events."""
        facts_of = self._reading.facts
        for event in self._events:
            self.facts = facts_of(event)
            if event.kind == "body":
                self._pieces.add(event.raw)
                self._last_piece = event
            self._last = event
            yield event

    def document(self) -> Iterator[ComparedBlock]:
        """Yield the body that is not a stream, if there is one, when all events have passed."""
        if self._last is not None and self._last_piece is not None:
            at_the_end = self.facts if self._last.kind == "end" else self._reading.close()
            yield ComparedBlock(self._last_piece, self._pieces.take(), at_the_end)


def json_of(data: bytes | None) -> Any:
    """Return any JSON, as requests are read too (`1.0` is `1`), or `NO_JSON`."""
    return NO_JSON if data is None else json_value(data)


_NOTHING: AbstractSet[str] = frozenset()


# -- the final texts of its items, found by their numbers, and the texts of its events that only
# repeat them


class Statement(NamedTuple):
    """The statement of a block about items, and the deltas in it."""

    # that say nothing else than deltas, and items at their end, do
    texts: Sequence[AbstractSet[str]]
    items: tuple[int, ...]  # by their rows
    is_open: bool  # whether a delta of it is of a text that did not end as its deltas say


NO_STATEMENT = Statement((), (), False)


class FinalTexts:
    """The final texts of one response: read from all its events first, then compared block by
    block.
    """

    def __init__(self, texts: NotedFacts, rows: Sequence[ItemRow]) -> None:
        self._rows = rows
        self._final = [_texts(row) for row in rows]
        self._number = texts.number
        streamed = texts.streamed()
        self._agreeing = {at for at, parts in streamed.items() if self._agrees(*at, _joined(parts))}
        self._known: list[set[str]] = []
        for row, final in zip(rows, self._final, strict=True):
            self._known.append(set(filter(None, (row.name, *final.values()))))
        self._add_parts(streamed, texts)

    def statement(self, block: ComparedBlock) -> Statement:
        """Return the texts of a block that other levels show, its items, and its deltas, which are
        compared beside.
        """
        facts = block.facts
        if len(facts) == 1 and isinstance(facts[0], TextAdded):  # most of every stream
            delta = facts[0]
            number = self._number(delta)
            is_open = (number, delta.field) not in self._agreeing
            return Statement((self._known_of(number), {delta.text}), (number,), is_open)
        texts: list[AbstractSet[str]] = []
        items: list[int] = []
        is_open = False
        for fact in facts:
            if isinstance(fact, ResponseItems):
                items += self._row_numbers(fact)
            elif isinstance(fact, ItemFact):
                number = self._number(fact)
                items.append(number)
                if isinstance(fact, TextAdded):
                    texts.append({fact.text})
                    is_open = is_open or (number, fact.field) not in self._agreeing
        numbers = tuple(dict.fromkeys(items))
        return (
            Statement([*map(self._known_of, numbers), *texts], numbers, is_open)
            if numbers
            else NO_STATEMENT
        )

    def end(self, number: int) -> Any:
        """Return the final content of an item, to be compared."""
        return (self._rows[number].name, self._final[number]) if number < len(self._rows) else None

    def _known_of(self, number: int) -> AbstractSet[str]:
        return self._known[number] if number < len(self._known) else _NOTHING

    def _row_numbers(self, fact: ResponseItems) -> list[int]:
        """Return the rows of the items of the end; one past them all for none."""
        left = Unmatched(self._rows)
        numbers: list[int] = []
        for index, stated in enumerate(fact.items):
            row = left.take(index, stated)
            numbers.append(len(self._rows) if row is None else row.item)
        return numbers

    # -- what agrees with the end

    def _agrees(self, number: int, field: Field, text: str) -> bool:
        return number < len(self._final) and storable(text) == self._final[number].get(field)

    def _add_parts(self, ended: dict[tuple[int, Field], Parts], texts: NotedFacts) -> None:
        """Add texts in parts: the parts as they ended, if together they are the item's final text."""
        for number, field, stated in self._stated(texts):
            ended.setdefault((number, field), {}).update(
                {part: text for part, text in stated.items() if text}
            )
            self._add_if_whole(number, field, stated)
        for (number, field), parts in ended.items():
            self._add_if_whole(number, field, parts)

    def _stated(self, texts: NotedFacts) -> Iterator[tuple[int, Field, Parts]]:
        for each in texts.stated:
            if not isinstance(each, ResponseItems):
                yield each
                continue
            for number, stated in zip(self._row_numbers(each), each.items, strict=True):
                yield from stated_parts(number, stated)

    def _add_if_whole(self, number: int, field: Field, parts: Mapping[int, str]) -> None:
        if self._agrees(number, field, _joined(parts)):
            self._known[number].update(filter(None, parts.values()))


def _joined(parts: Mapping[int, str]) -> str:
    return "".join(parts[part] for part in sorted(parts))


def _texts(row: ItemRow) -> dict[Field, str]:
    """Split the texts of a row into one each."""
    found: dict[Field, str | None] = {
        "reasoning" if row.kind == "reasoning" else "text": row.text,
        "refusal": row.refusal,
        "arguments": row.arguments,
        "output": row.output,
        "summary": "".join(summaries(row)),
    }
    return {field: text for field, text in found.items() if text}


def summaries(row: ItemRow) -> list[str]:
    """Return the parts of a summary; none if it is too long to be kept."""
    try:
        return msgspec.json.decode(row.summary or "[]", type=list[str])
    except msgspec.DecodeError:
        return []
