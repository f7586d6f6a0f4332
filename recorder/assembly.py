"""Journal records → rows of the log: exchanges put together again from records that came interleaved.

Pure but for one question, which session a request belongs to, that it asks its owner.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection

import msgspec

from recorder.bodies import REQUEST_LIMIT, ToldRequest, grouped, overwritten, recorded_body
from recorder.capture import Capture
from recorder.dialects import by_path
from recorder.events import Event, Exchange, Session, row_root
from recorder.grouping import Grouping
from recorder.heads import ExchangeEnd, GapRecord, Imported, RequestEnd, RequestHead, ResponseHead
from recorder.late import Late
from recorder.records import Gap, Mark, Position, Record
from recorder.redactor import BY_SHAPE, Redactor
from recorder.restored import Restored

log = logging.getLogger(__name__)


class Batch(msgspec.Struct):
    """Rows that are to be committed together."""

    sessions: list[Session] = msgspec.field(default_factory=list)
    exchanges: list[Exchange] = msgspec.field(default_factory=list)
    events: list[Event] = msgspec.field(default_factory=list)
    size_bytes: int = 0

    def add(self, events: list[Event]) -> None:
        self.events += events
        for event in events:
            self.size_bytes += len(event.raw)

    def of(self, exchange_id: str) -> Batch:
        """The rows of one exchange, its session included."""
        exchanges = [exchange for exchange in self.exchanges if exchange.exchange_id == exchange_id]
        session_ids = {exchange.session_id for exchange in exchanges}
        return Batch(
            [session for session in self.sessions if session.session_id in session_ids],
            exchanges,
            [event for event in self.events if event.exchange_id == exchange_id],
        )


Told = Capture | Restored | Late


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
    capture: Told | None = None
    last_ns: int = 0


def nothing_told(exchange_id: str) -> None:
    """The records are told for the first time."""


class Assembler:
    """The records of one recorder, told in order, as a `Batch` that its owner takes and replaces."""

    def __init__(
        self,
        recorder_id: str,
        find_session: Callable[[RequestHead, Grouping], str | None],
        late: Collection[str] = (),
        *,
        redactor: Redactor = BY_SHAPE,
        told: Callable[[str], ToldRequest | None] = nothing_told,
    ) -> None:
        """`find_session` gives the id of the session that a request belongs to, or `None` if it begins one. `late` are
        exchanges whose session was purged since they were told first: they are passed over. `told` gives a request that
        was told before, as it was recorded then: that stands, whatever is a secret now and is left of it here.
        """
        self._recorder_id, self._find_session, self._late = recorder_id, find_session, late
        self._redactor, self._told = redactor, told
        self._rejected: set[int] = set()
        self.open: dict[int, OpenExchange] = {}
        self.batch = Batch()

    def tell(self, record: Record, start: Position) -> None:
        """Add a record that begins at or behind `start`. One that makes no sense costs its exchange, not the others;
        one of an exchange that began before what is told is passed over, since the log has that whole.
        """
        exchange = self.open.get(record.exchange)
        if record.exchange in self._rejected or (exchange is None and record.mark != Mark.REQUEST):
            return
        try:
            events = _MEANING[record.mark](self, record, start)  # which may make the owner take the batch
        except (ValueError, KeyError, msgspec.MsgspecError) as error:
            events = self._give_up(record, f"a record of it makes no sense to this version of recorder ({error!r})")
        self.batch.add(events)
        if exchange is not None:
            exchange.last_ns = record.t_ns

    def has_request(self, number: int) -> bool | None:
        """Whether the request of an exchange is among the rows made so far. `None`: it is not recorded further."""
        exchange = self.open.get(number)
        if number in self._rejected:
            return None
        return exchange is None or exchange.capture is not None

    def reject(self, number: int, reason: str) -> OpenExchange | None:
        """Hear no more of an exchange."""
        self._rejected.add(number)
        exchange = self.open.pop(number, None)
        name = exchange.head.exchange_id if exchange else f"number {number}"
        log.error("exchange %s of recorder %s is not recorded further: %s", name, self._recorder_id, reason)
        return exchange

    def _give_up(self, record: Record, reason: str) -> list[Event]:
        """An exchange whose records cannot be read: its part of the log ends with a gap that says why."""
        exchange = self.reject(record.exchange, reason)
        if exchange is None or exchange.capture is None:
            return []
        gap = GapRecord("response", 1, len(record.payload), "", record.t_ns, record.t_ns, reason)
        end = ExchangeEnd("recorder_crash", reason)
        return [*exchange.capture.gap(gap), *exchange.capture.end(record.t_ns, end)]

    def lose(self, reason: str) -> None:
        """Records are lost, nobody knows of which exchanges: each that is open has a gap there."""
        for exchange in self.open.values():
            gap = GapRecord("response", 1, 0, "", exchange.last_ns, exchange.last_ns, reason)
            if exchange.capture is None:
                exchange.gaps.append(msgspec.structs.replace(gap, of="request"))
            else:
                self.batch.add(exchange.capture.gap(gap))

    def end_all(self) -> None:
        """The recorder is dead and nothing more comes: what is open ended there."""
        end = msgspec.json.encode(ExchangeEnd("recorder_crash", "the recorder ended without ending the exchange"))
        for number, exchange in list(self.open.items()):
            self.tell(Record(number, Mark.END, exchange.last_ns, end, exchange.start), exchange.start)

    def _on_request(self, record: Record, start: Position) -> list[Event]:
        head = msgspec.json.decode(record.payload, type=RequestHead)
        if head.exchange_id in self._late:
            self.reject(record.exchange, f"{head.exchange_id} is of a session that was purged")
            return []
        self.open[record.exchange] = OpenExchange(start, record.t_ns, head, last_ns=record.t_ns)
        return []

    def _on_request_body(self, record: Record, start: Position) -> list[Event]:
        exchange = self.open[record.exchange]
        if exchange.capture is not None:
            return []
        if exchange.overflown or len(exchange.body) + len(record.payload) > REQUEST_LIMIT:
            exchange.overflown = True  # what is kept is the beginning, without a hole
        else:
            exchange.body += record.payload
        return []

    def _on_blank(self, record: Record, start: Position) -> list[Event]:
        self.open[record.exchange].blank_bytes += len(record.payload)
        return []

    def _on_request_end(self, record: Record, start: Position) -> list[Event]:
        self.open[record.exchange].complete = msgspec.json.decode(record.payload, type=RequestEnd).complete
        return self._begin(self.open[record.exchange])[1]

    def _on_response(self, record: Record, start: Position) -> list[Event]:
        capture, events = self._begin(self.open[record.exchange])
        return events + capture.response(record.t_ns, msgspec.json.decode(record.payload, type=ResponseHead))

    def _on_chunk(self, record: Record, start: Position) -> list[Event]:
        exchange = self.open[record.exchange]
        if exchange.capture is not None:
            return exchange.capture.chunk(record.t_ns, record.payload)
        capture, events = self._begin(exchange)
        return events + capture.chunk(record.t_ns, record.payload)

    def _on_gap(self, record: Record, start: Position) -> list[Event]:
        exchange = self.open[record.exchange]
        gap = msgspec.json.decode(record.payload, type=Gap)
        told = GapRecord(
            of="request" if gap.mark == Mark.REQUEST_BODY else "response",
            chunks=gap.chunks,
            size_bytes=gap.size_bytes,
            sha256=gap.sha256,
            from_ns=gap.from_ns,
            to_ns=gap.to_ns,
            reason=gap.reason,
        )
        if exchange.capture is None:
            exchange.gaps.append(told)
            return []
        return exchange.capture.gap(told)

    def _on_end(self, record: Record, start: Position) -> list[Event]:
        capture, events = self._begin(self.open[record.exchange])
        del self.open[record.exchange]
        return events + capture.end(record.t_ns, msgspec.json.decode(record.payload, type=ExchangeEnd))

    def _begin(self, exchange: OpenExchange) -> tuple[Told, list[Event]]:
        """The request is known as far as it will be: find its session, and open its part of the log."""
        if exchange.capture is not None:
            return exchange.capture, []
        head, wire = exchange.head, bytes(exchange.body)
        if head.imported is not None and head.imported.exchange is not None:
            exchange.capture = self._restore(head, head.imported, head.imported.exchange)
            return exchange.capture, []
        exchange.body = bytearray()
        told = self._told(head.exchange_id)
        if exchange.blank_bytes and told is None:
            exchange.gaps.append(overwritten(exchange.blank_bytes, exchange.last_ns))
        complete = exchange.complete and not exchange.overflown and not exchange.gaps
        body = recorded_body(head, wire, self._redactor, complete=complete) if told is None else told.body()
        grouping = grouped(head, body, self._redactor)
        session_id = self._session(head, grouping)
        dialect = by_path(head.method, head.target.partition("?")[0])
        row = _exchange(session_id, self._recorder_id, dialect.name, head, grouping)
        self.batch.exchanges.append(row)
        capture = Capture(session_id, head.exchange_id, dialect, exchange.started_ns, row_root(row))
        exchange.capture = capture
        if told is not None:
            events = capture.request_again(told.raws, complete=told.record.complete)
        else:
            wire, undecoded, redactions = body.wire, body.undecoded, body.redactions
            events = capture.request(
                head, body.raw, wire=wire, complete=complete, undecoded=undecoded, redactions=redactions
            )
        for gap in exchange.gaps:
            events += capture.gap(gap)
        return capture, events

    def _restore(self, head: RequestHead, imported: Imported, row: Exchange) -> Restored:
        """Open the part of the log of an exchange that stood in another one: under ids of its own, else as it was."""
        session_id = self._imported_session(imported.session)
        row = msgspec.structs.replace(row, session_id=session_id, exchange_id=head.exchange_id)
        self.batch.exchanges.append(row)
        return Restored(row)

    def _session(self, head: RequestHead, grouping: Grouping) -> str:
        if head.imported is not None:
            return self._imported_session(head.imported.session)
        found = self._find_session(head, grouping)
        if found is not None:
            return found
        name = grouping.name or _own_name(head, grouping)
        self.batch.sessions.append(Session(head.session_id, head.started_ns, name, grouping.source, "{}", "live"))
        return head.session_id

    def _imported_session(self, session: Session) -> str:
        """The log takes the same row again: each exchange of it brings it."""
        if session not in self.batch.sessions:
            self.batch.sessions.append(session)
        return session.session_id


_MEANING: dict[int, Callable[[Assembler, Record, Position], list[Event]]] = {
    Mark.REQUEST: Assembler._on_request,
    Mark.REQUEST_BODY: Assembler._on_request_body,
    Mark.BLANK: Assembler._on_blank,
    Mark.REQUEST_END: Assembler._on_request_end,
    Mark.RESPONSE: Assembler._on_response,
    Mark.CHUNK: Assembler._on_chunk,
    Mark.GAP: Assembler._on_gap,
    Mark.END: Assembler._on_end,
}


def _exchange(session_id: str, recorder_id: str, api: str, head: RequestHead, grouping: Grouping) -> Exchange:
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


def _own_name(head: RequestHead, grouping: Grouping) -> str:
    """A name for a session that brings none: its client, and what tells it from the client's other sessions."""
    client = re.sub(r"[^A-Za-z0-9]+", "-", grouping.client or "session").strip("-").lower()
    return f"{client}-{head.session_id[-6:]}"
