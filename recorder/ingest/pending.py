"""The state of an assembler between two records: open exchanges, and the rows of the next commit.

An exchange may be open with something in the place of a capture, as pure as that:

* A record may be invalid for this version, or a fault of ours may raise on it. What came before it
  is in the log. Everything after it is counted and digested up to the end of the exchange, and
  reported as one gap: received is what is stored and what the gap counts.
* The events of an export are lines instead of bytes. Kinds, times, positions and bytes stay as they
  were recorded, whatever this version would make of the bytes. The ids are new, and so is the chain
  of hashes, which depends on them.
* A recovery ends what a recorder has left open that seems to be gone. If the recorder comes back
  nevertheless, its bytes come too late: only a note may follow an `end`. So they are counted, and
  the note has the counts. The same records give the same note. The captures of the exchange go on
  to make the events that are counted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import sha256
from typing import NoReturn

import msgspec

from recorder.ingest.capture import Capture
from recorder.ingest.session_in_answer import SessionInAnswer
from recorder.ingest.websocket_capture import WebSocketCapture
from recorder.journal.format import Gap, Mark, Position, Record
from recorder.model.chain import hash_after, row_root
from recorder.model.events import (
    BODY_KINDS,
    EndRecord,
    Event,
    Exchange,
    ExchangeEnd,
    GapRecord,
    LateRecord,
    RequestHead,
    ResponseHead,
    Session,
    WebSocketTurn,
)
from recorder.model.jsonl import read_event
from recorder.wire.dialects import by_name
from recorder.wire.grouping.history import Chain
from recorder.wire.grouping.session import Grouping
from recorder.wire.request_body import Body, LoggedRequest

log = logging.getLogger(__name__)

# -- an exchange that the log has ended


REASON = "the recorder came back when the log had ended this exchange: what it told is counted here, and not kept"


class LateRecordCounter:
    """A counter of the events that one exchange still gets."""

    def __init__(self, end: Event) -> None:
        """`end` is the last event in the log."""
        self._end = end
        self._events = self._body_bytes = 0
        self._body = sha256()
        self._ended: EndRecord | None = None

    def count(self, events: Iterable[Event]) -> None:
        """Count the events that the log does not have: it has a gap instead of the first."""
        for event in events:
            if event.pos < self._end.pos - 1:
                continue
            self._events += 1
            if event.kind in BODY_KINDS:
                self._body_bytes += len(event.raw)
                self._body.update(event.raw)
            if event.kind == "end":
                self._ended = msgspec.json.decode(event.raw, type=EndRecord)

    def break_off(self, gap: GapRecord) -> list[Event]:
        """Count a rest that cannot be read with the other bytes. Return the note."""
        self._body_bytes += gap.size_bytes
        return self.note()

    def note(self) -> list[Event]:
        """Return the note with the counts."""
        digest, ended = self._body.hexdigest(), self._ended
        record = LateRecord(
            REASON, self._events, self._body_bytes, digest, ended.status if ended else None
        )
        log.error(
            "exchange %s: %d bytes came after the log had ended it",
            self._end.exchange_id,
            self._body_bytes,
        )
        return [Capture.after(self._end).note(self._end.t_ns, msgspec.json.encode(record))]


class Diverted(dict[str, LateRecordCounter | None]):
    """The counters of exchanges that the log has ended; of what it takes nothing of, None."""

    def passed(self, events: Iterable[Event]) -> list[Event]:
        """Return events without theirs, which are counted; the note comes in the place of the end."""
        passed: list[Event] = []
        for event in events:
            id = event.exchange_id
            if event.kind == "note" or id not in self:
                passed.append(event)
                continue
            late = self[id]
            if late is not None:
                late.count((event,))
                passed += late.note() if event.kind == "end" else ()
            if event.kind == "end":
                del self[id]
        return passed


# -- an exchange whose events are known already


class ImportedExchange:
    """The events of one exchange, from its first to its last."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._last: Event | None = None
        self._ended = False

    def response(self, t_ns: int, head: ResponseHead) -> NoReturn:
        raise ValueError("a response head is one of the events, not a record of its own")

    def chunk(self, t_ns: int, line: bytes) -> list[Event]:
        """Return the next event. Raises `ValueError` if the line holds none."""
        event = read_event(line)
        previous = self._last.hash if self._last else row_root(self._exchange)
        pos = self._last.pos + 1 if self._last else 0
        ids = {"session_id": self._exchange.session_id, "exchange_id": self._exchange.exchange_id}
        place = {**ids, "pos": pos}
        self._last = msgspec.structs.replace(event, **place, hash=hash_after(previous, event, pos))
        self._ended = self._ended or event.kind == "end"
        return [self._last]

    def gap(self, gap: GapRecord) -> list[Event]:
        """Add a gap for events of the export that were lost on their way here."""
        events = self._continued().gap(gap)
        self._last = events[-1]
        return events

    def end(self, t_ns: int, end: ExchangeEnd) -> list[Event]:
        """End the exchange.

        If no `end` was among its events it ends here: it is unknown what else was there.
        """
        if self._ended:
            return []
        reason = end.error or "the export ends here"
        now_ns = self._last.t_ns if self._last else 0
        return self.break_off(now_ns, GapRecord("response", 1, 0, "", now_ns, now_ns, reason), end)

    def break_off(self, t_ns: int, gap: GapRecord, end: ExchangeEnd) -> list[Event]:
        """End with a gap, because the rest cannot be read.

        After an end there is no place for that.
        """
        return [] if self._ended else self._continued().break_off(t_ns, gap, end)

    def _continued(self) -> Capture:
        if self._last is not None:
            return Capture.after(self._last)
        ids = self._exchange.session_id, self._exchange.exchange_id
        return Capture(*ids, by_name("other"), 0, row_root(self._exchange))


# -- an exchange with a record that cannot be read


UNREAD = "a record of it makes no sense to this version of recorder"
UNREAD_REQUEST = "the request cannot be read by this version of recorder"


class DamagedExchange:
    """A counter for the rest of an exchange, used instead of its capture."""

    def __init__(
        self,
        capture: Capture | WebSocketCapture | ImportedExchange | None,
        t_ns: int,
        reason: str,
    ) -> None:
        """`capture` is as it was before the record that cannot be read; None if the log can have
        nothing of the exchange.
        """
        self._capture, self._reason = capture, reason
        self._from_ns = self._to_ns = t_ns
        self._digest = sha256()
        self._has_digest = True
        self.chunks = self.size_bytes = 0
        # used in the end, if the log has ended the exchange already
        self.late: LateRecordCounter | None = None

    def response(self, t_ns: int, head: ResponseHead) -> list[Event]:
        return []

    def chunk(self, t_ns: int, data: bytes) -> list[Event]:
        self._to_ns = t_ns
        self.chunks += 1
        self.size_bytes += len(data)
        self._digest.update(data)
        return []

    def client_chunk(self, t_ns: int, data: bytes) -> list[Event]:
        """Count bytes of a client on a connection that was switched to WebSocket, with those of the
        server.
        """
        return self.chunk(t_ns, data)

    def gap(self, gap: GapRecord) -> list[Event]:
        """Count a gap in the rest.

        Its bytes are not in the journal: then there is no digest of all of it.
        """
        if gap.of == "request":
            return self._capture.gap(gap) if self._capture is not None else []
        self._to_ns = gap.to_ns
        self.chunks += gap.chunks
        self.size_bytes += gap.size_bytes
        self._has_digest = False
        return []

    def end(self, t_ns: int, end: ExchangeEnd) -> list[Event]:
        if self._capture is None:
            return []
        digest = self._digest.hexdigest() if self._has_digest and self.chunks else ""
        gap = GapRecord(
            "response",
            self.chunks,
            self.size_bytes,
            digest,
            self._from_ns,
            self._to_ns,
            self._reason,
        )
        if self.late is not None and not isinstance(self._capture, WebSocketCapture):
            return self.late.break_off(gap)
        return self._capture.break_off(t_ns, gap, ExchangeEnd("recorder_crash", self._reason))


AnyCapture = Capture | WebSocketCapture | ImportedExchange | DamagedExchange


# -- open exchanges, and the rows of the next commit


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
    answer: SessionInAnswer | None = None  # that may name its session
    awaited: Chain | None = None  # its request, if a later one may be known by it
    capture: AnyCapture | None = None
    last_ns: int = 0
    records: int = 0  # ingested so far
    begun: int | None = None  # how many of them came before the one with which `capture` began
    # damage, and after how many records
    lost: list[tuple[int, Gap]] = msgspec.field(default_factory=list)

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
        return (
            [Mark.CHUNK, Mark.CLIENT_CHUNK]
            if isinstance(self.capture, WebSocketCapture)
            else [Mark.CHUNK]
        )

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
        """Yield the records of an exchange, from its first one on, which begins at or after
        `start`.
        """
        return ()

    def keep(self, name: str, session_id: str | None, records: Iterable[Record]) -> None:
        """Move records that cannot all be read into a file."""


class Batch(msgspec.Struct):
    """The rows of one commit."""

    sessions: list[Session] = msgspec.field(default_factory=list)
    exchanges: list[Exchange] = msgspec.field(default_factory=list)
    events: list[Event] = msgspec.field(default_factory=list)
    size_bytes: int = 0
    # the requests of exchanges that end in this batch
    awaited: list[Chain] = msgspec.field(default_factory=list)

    def add_rows(self, session: Session | None, *exchanges: Exchange) -> None:
        """Add rows that are not in it yet."""
        if session is not None and session not in self.sessions:
            self.sessions.append(session)
        self.exchanges += [row for row in exchanges if row not in self.exchanges]

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


def exchange_row(
    session_id: str, recorder_id: str, api: str, head: RequestHead, grouping: Grouping
) -> Exchange:
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
