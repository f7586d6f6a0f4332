"""One exchange, read to be compared: its request, what its response comes to, and its body block by block.

Pure; never raises on what was recorded. What is asked for is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec

from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.model.facts import Fact, UsageReported
from recorder.model.payloads import EndRecord, RequestRecord, ResponseHead
from recorder.projections.fact_reader import DOCUMENT_LIMIT, PAYLOAD_LIMIT, Pieces, Reading
from recorder.projections.fold import Folding, Rows
from recorder.projections.item import ItemRow
from recorder.projections.timing import TimingRow
from recorder.projections.usage import UsageRow
from recorder.replay.matching import Request
from recorder.replay.matching.fingerprint import NO_JSON, json_value
from recorder.wire.conclusion import concluded
from recorder.wire.sse import ends_block

Decoded = TypeVar("Decoded")


class Block(NamedTuple):
    """A piece of a body that means something: an event, a comment, a tail; or a whole body that is no stream."""

    event: Event  # of several parts, the last
    raw: bytes | None  # whole; `None` if it is longer than anything that is read
    facts: Sequence[Fact]


class Side:
    """An exchange with its events."""

    def __init__(self, number: int, exchange: Exchange, events: Iterable[Event]) -> None:
        self.number = number
        self.exchange = exchange
        self.events: Sequence[Event] = list(events)

    @cached_property
    def head(self) -> RequestRecord | None:
        return next((_decoded(each.raw, RequestRecord) for each in self.of("request") if each.pos == 0), None)

    @cached_property
    def request(self) -> Request:
        """What was asked, as it is matched."""
        head, exchange = self.head, self.exchange
        body = b"".join(each.raw for each in self.of("request") if each.pos and each.type == "body")
        headers = head.headers if head else []
        return Request(exchange.method, exchange.target, exchange.provider, headers, body)

    @cached_property
    def response(self) -> ResponseHead | None:
        return next((_decoded(each.raw, ResponseHead) for each in self.of("response")), None)

    @cached_property
    def end(self) -> EndRecord | None:
        try:
            return concluded(self.exchange, self.events)
        except msgspec.MsgspecError:
            return None

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
        """Every report of usage, as JSON."""
        return [fact.raw for block in self.blocks for fact in block.facts if isinstance(fact, UsageReported)]

    @cached_property
    def blocks(self) -> Sequence[Block]:
        """The body, in order."""
        return list(_blocks(self._reading, self.events))

    @cached_property
    def body(self) -> bytes:
        return b"".join(each.raw for each in self.events if each.kind in BODY_KINDS)

    @cached_property
    def _reading(self) -> Reading:
        return _Remembering(self.exchange)

    @cached_property
    def _rows(self) -> Rows:
        folding = Folding(self.exchange, self._reading)
        folding.tell_all(self.events)
        return folding.rows()

    def of(self, kind: str) -> Iterator[Event]:
        """The events of a kind."""
        return (each for each in self.events if each.kind == kind)


class _Remembering(Reading):
    """Reads each event once, however often it is asked."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._facts: dict[int, Sequence[Fact]] = {}

    def facts(self, event: Event) -> Sequence[Fact]:
        found = self._facts.get(event.pos)
        if found is None:
            found = self._facts[event.pos] = super().facts(event)
        return found

    def close(self) -> Sequence[Fact]:
        return self._at_the_end

    @cached_property
    def _at_the_end(self) -> Sequence[Fact]:
        return super().close()


def _blocks(reading: Reading, events: Sequence[Event]) -> Iterator[Block]:
    parts, document = Pieces(PAYLOAD_LIMIT), Pieces(DOCUMENT_LIMIT)
    last: Event | None = None  # of a document
    facts: Sequence[Fact] = ()
    for event in events:
        facts, kind = reading.facts(event), event.kind
        if kind in ("frame", "comment"):
            yield Block(event, event.raw, facts)
        elif kind in ("part", "tail"):
            parts.add(event.raw)
            if kind == "tail" or ends_block(event.raw):
                yield Block(event, parts.take(), facts)
        elif kind == "body":
            document.add(event.raw)
            last = event
        elif kind == "gap":
            parts.take()
            yield Block(event, event.raw, ())
    if last is not None:
        is_over = bool(events) and events[-1].kind == "end"
        yield Block(last, document.take(), facts if is_over else reading.close())


def _decoded(raw: bytes, type: type[Decoded]) -> Decoded | None:
    try:
        return msgspec.json.decode(raw, type=type)
    except (msgspec.DecodeError, RecursionError):
        return None


def json_of(data: bytes | None) -> Any:
    """Any JSON, as requests are read too (`1.0` is `1`), or `NOT_JSON`."""
    return NOT_JSON if data is None else json_value(data)


NOT_JSON = NO_JSON
