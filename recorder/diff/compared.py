"""A recording as it is compared: its request, the rows of its projections, and its body block by block.

Pure; never raises on what was recorded. Each part is computed once, when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from recorder.diff.noted_facts import NotedFacts
from recorder.model.events import Event, Exchange
from recorder.model.facts import Fact
from recorder.model.recording import Recording
from recorder.projections.fact_reader import DOCUMENT_LIMIT, PAYLOAD_LIMIT, FactReader, Pieces
from recorder.projections.fold import Folding
from recorder.projections.rows import ItemRow, TimingRow, UsageRow
from recorder.replay.matching import MatchRequest
from recorder.replay.matching.fingerprint import NO_JSON, json_value, request_of
from recorder.wire.logical_request import LogicalRequests, links_of
from recorder.wire.recording import blocks


class ComparedBlock(NamedTuple):
    """A piece of a body that means something: an event, a comment, a tail; or a whole body that is not a stream."""

    event: Event  # of several parts, the last
    raw: bytes | None  # whole; `None` if it is longer than anything that is read
    facts: Sequence[Fact]


class ComparedRecording:
    """One side of a comparison. Its events are read twice: for its items and texts, and for its steps. Between the two
    nothing of an event is held.
    """

    def __init__(self, recording: Recording, requests: LogicalRequests | None = None) -> None:
        """`requests` are those of its side, if requests are compared with all that they continue."""
        self.recording, self._requests = recording, requests
        self.number, self.exchange, self.events = recording.number, recording.exchange, recording.events
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
        """Return the request as it is compared. It is not held: the last of a session may be as long as all others."""
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
        """Yield the body, in order; a gap is a block without facts, a body that is not a stream is the last block."""
        passing = _Passing(self.exchange, self.events)
        for event, kind, raw in blocks(passing.each(), PAYLOAD_LIMIT):
            yield ComparedBlock(event, event.raw, ()) if kind == "gap" else ComparedBlock(event, raw, passing.facts)
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

    If one request has only what is new since an earlier response, all are compared with what they continue.
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
    """A pass over the events of an exchange, with the facts of the last one. It joins the body that is not a stream."""

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
