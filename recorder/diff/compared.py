"""A recording as it is compared: its request, the rows of its projections, and its body block by block.

Pure; never raises on what was recorded. Each part is computed once, when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import Fact, UsageReported
from recorder.model.recording import Recording
from recorder.projections.fact_reader import DOCUMENT_LIMIT, PAYLOAD_LIMIT, FactReader, Pieces
from recorder.projections.fold import Folding, Rows
from recorder.projections.item import ItemRow
from recorder.projections.timing import TimingRow
from recorder.projections.usage import UsageRow
from recorder.replay.matching import MatchRequest
from recorder.replay.matching.fingerprint import NO_JSON, json_value, request_of
from recorder.wire.logical_request import LogicalRequests, links_of
from recorder.wire.recording import blocks


class ComparedBlock(NamedTuple):
    """A piece of a body that means something: an event, a comment, a tail; or a whole body that is no stream."""

    event: Event  # of several parts, the last
    raw: bytes | None  # whole; `None` if it is longer than anything that is read
    facts: Sequence[Fact]


class ComparedRecording:
    """One side of a comparison."""

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
        return self._rows["items"]

    @property
    def usage(self) -> UsageRow:
        row: UsageRow = self._rows["usage"][0]
        return row

    @property
    def timing(self) -> TimingRow:
        row: TimingRow = self._rows["timing"][0]
        return row

    @cached_property
    def reports(self) -> Sequence[str]:
        """Return every report of usage, as JSON."""
        return [fact.raw for block in self.blocks for fact in block.facts if isinstance(fact, UsageReported)]

    @cached_property
    def blocks(self) -> Sequence[ComparedBlock]:
        """Return the body, in order; a gap is a block without facts, a body that is no stream is the last block."""
        facts = {event.pos: self._reading.facts(event) for event in self.events}  # in order, as a reader needs them
        found = [
            ComparedBlock(event, event.raw, ()) if kind == "gap" else ComparedBlock(event, raw, facts[event.pos])
            for event, kind, raw in blocks(self.events, PAYLOAD_LIMIT)
        ]
        return [*found, *self._document(facts)]

    @cached_property
    def body(self) -> bytes:
        return self.recording.body

    def of(self, kind: str) -> Iterator[Event]:
        """Yield the events of a kind."""
        return (each for each in self.events if each.kind == kind)

    def _document(self, facts: dict[int, Sequence[Fact]]) -> Iterator[ComparedBlock]:
        """Yield the body that is no stream, if there is one."""
        pieces, last = Pieces(DOCUMENT_LIMIT), None
        for event in self.events:
            if event.kind == "body":
                pieces.add(event.raw)
                last = event
        if last is not None:
            is_over = self.events[-1].kind == "end"
            at_the_end = facts[self.events[-1].pos] if is_over else self._reading.close()
            yield ComparedBlock(last, pieces.take(), at_the_end)

    @cached_property
    def _reading(self) -> FactReader:
        return _Remembering(self.exchange)

    @cached_property
    def _rows(self) -> Rows:
        folding = Folding(self.exchange, self._reading)
        folding.tell_all(self.events)
        return folding.rows()


def compared_sides(
    sides: Sequence[Iterable[Recording]], continued: Sequence[Iterable[Recording]]
) -> list[list[ComparedRecording]]:
    """Return the recordings of each side; `continued` are others of each, which these may continue.

    If one request has only what is new since an earlier response, all are compared with what they continue.
    """
    held = [[*side] for side in sides]
    is_logical = any(any(links_of(each)) for side in held for each in side)
    found: list[list[ComparedRecording]] = []
    for side, others in zip(held, continued, strict=True):
        every = sorted([*side, *others], key=lambda each: each.number) if others else side
        requests = LogicalRequests(every, compared=True) if is_logical else None
        found.append([ComparedRecording(each, requests) for each in side])
    return found


class _Remembering(FactReader):
    """A reader that reads each event once, however often its facts are needed."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._facts: dict[int, Sequence[Fact]] = {}

    def delta(self, event: Event) -> None:
        """Have all facts read by `others`."""

    def others(self, event: Event) -> Sequence[Fact]:
        return self.facts(event)

    def facts(self, event: Event) -> Sequence[Fact]:
        found = self._facts.get(event.pos)
        if found is None:
            delta = super().delta(event)
            found = self._facts[event.pos] = super().others(event) if delta is None else (delta,)
        return found

    def close(self) -> Sequence[Fact]:
        return self._at_the_end

    @cached_property
    def _at_the_end(self) -> Sequence[Fact]:
        return super().close()


def json_of(data: bytes | None) -> Any:
    """Return any JSON, as requests are read too (`1.0` is `1`), or `NOT_JSON`."""
    return NOT_JSON if data is None else json_value(data)


NOT_JSON = NO_JSON
