"""The state of an assembler between two records: open exchanges, and the rows of the next commit."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recorder.ingest.capture import Capture
from recorder.ingest.stand_ins import DamagedExchange, ImportedExchange
from recorder.ingest.websocket_capture import WebSocketCapture
from recorder.journal.format import Gap, Mark, Position, Record
from recorder.model.events import Event, Exchange, Session
from recorder.model.payloads import GapRecord, RequestHead, WebSocketTurn
from recorder.wire.grouping.history import Chain
from recorder.wire.grouping.session import Grouping
from recorder.wire.request_body import Body, LoggedRequest

AnyCapture = Capture | WebSocketCapture | ImportedExchange | DamagedExchange


class OpenExchange(msgspec.Struct):
    """An exchange that has begun and not ended."""

    start: Position
    started_ns: int
    head: RequestHead
    body: bytearray = msgspec.field(default_factory=bytearray)
    complete: bool = False
    overflown: bool = False
    blank_bytes: int = 0  # of the body, that the log has or had
    gaps: list[GapRecord] = msgspec.field(default_factory=list)
    session_id: str | None = None
    awaited: Chain | None = None  # its request, if a later one may be known by it
    capture: AnyCapture | None = None
    last_ns: int = 0
    records: int = 0  # ingested so far
    begun: int | None = None  # how many of them came before the one with which `capture` began
    lost: list[tuple[int, Gap]] = msgspec.field(default_factory=list)  # damage, and after how many records

    @property
    def exchange_ids(self) -> list[str]:
        """Return its id, and those of the turns that have not ended, if it is a connection."""
        turns = self.capture.open_ids if isinstance(self.capture, WebSocketCapture) else ()
        return [self.head.exchange_id, *turns]

    @property
    def losing(self) -> list[Mark]:
        """Return the marks of which records may be lost in a damaged stretch of the journal."""
        if self.capture is None:
            return [Mark.REQUEST_BODY]
        return [Mark.CHUNK, Mark.CLIENT_CHUNK] if isinstance(self.capture, WebSocketCapture) else [Mark.CHUNK]

    def lost_after(self, records: int) -> list[Gap]:
        """Return the damage that came after so many records."""
        return [gap for after, gap in self.lost if after == records]

    def carry(self, place: Position) -> None:
        """Adjust to its records being carried over to a place, the damage as records among them."""
        self.start = place
        self.records += len(self.lost)
        if self.begun is not None:
            self.begun += sum(gap.mark == Mark.REQUEST_BODY for _, gap in self.lost)
        self.lost.clear()


NOBODY = RequestHead("", "", 0, "", "", "", [])  # of an exchange whose first record cannot be read


def no_request(exchange_id: str) -> None:
    """Return None: no request was ingested before."""


class RecordSource:
    """Access to the records of an open exchange in the journal. This one has no journal."""

    refusals: tuple[type[Exception], ...] = (MemoryError,)
    """Exceptions for which no record is at fault: troubles of the machine, or of the owner."""

    def records(self, number: int, start: Position) -> Iterable[Record]:
        """Yield the records of an exchange, from its first one on, which begins at or after `start`."""
        return ()

    def keep(self, name: str, session_id: str | None, records: Iterable[Record]) -> None:
        """Move records that cannot all be read into a file."""


class Batch(msgspec.Struct):
    """The rows of one commit."""

    sessions: list[Session] = msgspec.field(default_factory=list)
    exchanges: list[Exchange] = msgspec.field(default_factory=list)
    events: list[Event] = msgspec.field(default_factory=list)
    size_bytes: int = 0
    awaited: list[Chain] = msgspec.field(default_factory=list)  # the requests of exchanges that end in this batch

    def add(self, events: list[Event]) -> None:
        self.events += events
        for event in events:
            self.size_bytes += len(event.raw)

    def add_one(self, event: Event) -> None:
        self.events.append(event)
        self.size_bytes += len(event.raw)

    def of(self, exchange_id: str) -> Batch:
        """Return the rows of one exchange, its session included."""
        exchanges = [exchange for exchange in self.exchanges if exchange.exchange_id == exchange_id]
        session_ids = {exchange.session_id for exchange in exchanges}
        return Batch(
            [session for session in self.sessions if session.session_id in session_ids],
            exchanges,
            [event for event in self.events if event.exchange_id == exchange_id],
        )


def exchange_row(session_id: str, recorder_id: str, api: str, head: RequestHead, grouping: Grouping) -> Exchange:
    """Return the row of a request."""
    return Exchange(
        session_id=session_id,
        exchange_id=head.exchange_id,
        started_ns=head.started_ns,
        recorder_id=recorder_id,
        provider=head.upstream,
        api=api,
        method=head.method,
        target=head.target,
        client=grouping.client,
        client_version=grouping.client_version,
        thread_id=grouping.thread_id,
        turn_id=grouping.turn_id,
        attempt=grouping.attempt,
        resumes_response_id=grouping.resumes_response_id,
        resumes_after=grouping.resumes_after,
    )


def request_events(
    capture: Capture,
    head: RequestHead,
    body: Body,
    earlier: LoggedRequest | None,
    *,
    complete: bool,
    turn: WebSocketTurn | msgspec.UnsetType = msgspec.UNSET,
) -> list[Event]:
    """Return the events of a request: those that the log has already, if it was ingested before."""
    if earlier is not None:
        return capture.request_again(earlier.raws, complete=earlier.record.complete)
    return capture.request(
        head,
        body.raw,
        wire=body.wire,
        complete=complete,
        undecoded=body.undecoded,
        redactions=body.redactions,
        websocket=turn,
    )


def gap_record(gap: Gap) -> GapRecord:
    """Return a gap of a journal as the log has it."""
    return GapRecord(
        of="response" if gap.mark == Mark.CHUNK else "request",
        chunks=gap.chunks,
        size_bytes=gap.size_bytes,
        sha256=gap.sha256,
        from_ns=gap.from_ns,
        to_ns=gap.to_ns,
        reason=gap.reason,
    )
