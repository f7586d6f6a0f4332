"""Journal records → rows of the log: exchanges assembled from records that came interleaved.

Pure but for the callbacks of its owner: the session that a request belongs to, and records read
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice

import msgspec

from recorder.ingest.capture import Capture
from recorder.ingest.message_capture import CODING, MessageCapture, OpenTurn
from recorder.ingest.pending import (
    NOBODY,
    UNREAD,
    UNREAD_REQUEST,
    AnyCapture,
    Batch,
    DamagedExchange,
    Diverted,
    ImportedExchange,
    LateRecordCounter,
    OpenExchange,
    RecordSource,
    exchange_row,
    gap_record,
    no_request,
    request_events,
)
from recorder.ingest.session_in_answer import session_in_answer
from recorder.ingest.turn_ids import turn_head
from recorder.ingest.websocket_capture import WebSocketCapture, dialect_of
from recorder.journal.format import Gap, Mark, Position, Record
from recorder.model.attribution import labels_of, owner_in
from recorder.model.chain import row_root
from recorder.model.events import (
    STDIO,
    SWITCHED,
    Event,
    Exchange,
    ExchangeEnd,
    GapRecord,
    Imported,
    RequestEnd,
    RequestHead,
    ResponseHead,
    Session,
    WebSocketTurn,
)
from recorder.wire.dialects import by_name, by_path
from recorder.wire.grouping.session import (
    HISTORY,
    NEW,
    PREVIOUS_RESPONSE,
    Grouping,
    by_history,
    own_name,
)
from recorder.wire.redaction.bodies import BY_SHAPE, Redactor
from recorder.wire.request_body import REQUEST_LIMIT, LoggedRequest, body_of, grouped, overwritten

log = logging.getLogger(__name__)

_CHUNK = int(Mark.CHUNK)  # compared with each record

REASON_LIMIT = 300  # characters of what an exception says: it may quote what it stumbled over


class Assembler:
    """The exchanges of one recorder: its records go in, in order, and rows come out as a `Batch`."""

    def __init__(
        self,
        recorder_id: str,
        find_session: Callable[[RequestHead, Grouping], str | None],
        late: Mapping[str, str] | None = None,
        *,
        redactor: Redactor = BY_SHAPE,
        find_request: Callable[[str], LoggedRequest | None] = no_request,
        journal: RecordSource | None = None,
    ) -> None:
        """`find_session` returns the id of the session that a request belongs to, or None if it
        begins one. Exchanges in `late` are skipped: since they were first ingested their session
        "was purged", or what else `late` says. `find_request` returns a request that was ingested
        before, as it was recorded then: that stays, whatever is a secret now and is left of it
        here.
        """
        self._recorder_id, self._find_session, self._late = recorder_id, find_session, late or {}
        self._redactor, self._find_request, self._journal = (
            redactor,
            find_request,
            journal or RecordSource(),
        )
        self._rejected: set[int] = set()
        self._diverted = Diverted()
        # rows of turns that the record being read begins: they come with their events
        self._turns: list[Exchange] = []
        self.open: dict[int, OpenExchange] = {}
        self.batch = Batch()

    def feed(self, record: Record, start: Position) -> None:
        """Add a record that begins at or after `start`.

        One that cannot be read costs the rest of its exchange, which is counted, and no other. One
        of an exchange that began before the first record is skipped: the log has that whole.
        """
        number, mark, t_ns, payload, _ = record
        exchange = self.open.get(number)
        if exchange is None and (mark != Mark.REQUEST or number in self._rejected):
            return
        if (
            exchange is not None
            and exchange.answer is not None
            and exchange.answer.waits_for(record)
        ):
            self._feed_all(exchange.answer.hear(record), start)
            return
        try:
            if exchange is not None and mark == _CHUNK and isinstance(exchange.capture, Capture):
                event = exchange.capture.common(t_ns, payload)
                if event is not None:
                    self.batch.add_one(event)
                    exchange.last_ns = t_ns
                    exchange.records += 1
                    return
            events = _MEANING[mark](self, record, start)  # which may make the owner take the batch
        except self._journal.refusals:
            raise
        except Exception as error:
            self._turns.clear()
            events = self._give_up(record, start, error)
        if self._turns:
            self.batch.add_rows(None, *self._turns)
            self._turns.clear()
        if events:
            self.batch.add(events)
        if exchange is not None:
            exchange.last_ns = t_ns
            exchange.records += 1

    def _feed_all(self, records: Iterable[Record], start: Position) -> None:
        for record in records:
            self.feed(record, start)

    def has_request(self, number: int) -> bool | None:
        """Return whether the request of an exchange is among the rows made so far; None if it is
        not recorded further.

        The body of one that cannot be read never is: after a crash it is moved into the file again.
        """
        exchange = self.open.get(number)
        if number in self._rejected:
            return None
        return exchange is None or exchange.begun is not None

    def reject(self, number: int, exchange_id: str, reason: str) -> None:
        """Ignore all that still comes of an exchange.

        If it is a turn, its connection and other turns go on.
        """
        if self.open[number].head.exchange_id == exchange_id:
            self._rejected.add(number)
            del self.open[number]
        else:
            self._diverted[exchange_id] = None
        log.error(
            "exchange %s of recorder %s is not recorded further: %s",
            exchange_id,
            self._recorder_id,
            reason,
        )

    def divert(self, number: int, exchange_id: str, late: LateRecordCounter) -> None:
        """Count what still comes of an exchange that the log has ended: of a connection, or of a
        turn on it.
        """
        capture = self.open[number].capture
        if isinstance(capture, DamagedExchange):
            capture.late = late
        self._diverted[exchange_id] = late

    def take(self) -> Batch:
        """Return the rows so far, without events of exchanges that are diverted, and begin the next
        commit.
        """
        batch, self.batch = self.batch, Batch()
        if self._diverted:
            batch.events = self._diverted.passed(batch.events)
        return batch

    def _name(self, number: int, exchange: OpenExchange | None) -> str:
        name = (
            exchange.head.exchange_id
            if exchange and exchange.head is not NOBODY
            else f"number {number}"
        )
        return f"exchange {name} of recorder {self._recorder_id}"

    def _give_up(self, record: Record, start: Position, error: Exception) -> list[Event]:
        """Count the rest of an exchange whose record cannot be read, by its own fault or by ours.

        The rows made of it before stay. Nothing that raised is used any further.
        """
        number, exchange = record.exchange, self.open.get(record.exchange)
        cause = f"{type(error).__name__}: {error}"[:REASON_LIMIT]
        reason = f"{UNREAD} ({cause})"
        log.error("%s: %s", self._name(number, exchange), reason, exc_info=error)
        events: list[Event] = []
        if exchange is None:
            exchange = self.open[number] = OpenExchange(start, record.t_ns, NOBODY, records=1)
            exchange.capture = DamagedExchange(None, record.t_ns, reason)
        elif exchange.capture is None:
            capture, events = self._begin_unread(exchange)
            # One reason for all: read again, the record may raise something else.
            exchange.capture = DamagedExchange(capture, record.t_ns, UNREAD_REQUEST)
        elif not isinstance(exchange.capture, DamagedExchange):
            exchange.capture = DamagedExchange(
                self._as_before(number, exchange), record.t_ns, reason
            )
            exchange.capture.late = self._diverted.get(exchange.head.exchange_id)
        if record.mark in (Mark.CHUNK, Mark.CLIENT_CHUNK):
            exchange.capture.chunk(record.t_ns, record.payload)
        if record.mark == Mark.END:
            events += self._end(
                number, exchange, record.t_ns, ExchangeEnd("recorder_crash", reason)
            )
        return events

    def _as_before(
        self, number: int, exchange: OpenExchange
    ) -> Capture | WebSocketCapture | ImportedExchange | None:
        """Return the capture as it was before the record that raised, made again from the journal."""
        if not isinstance(exchange.capture, Capture | WebSocketCapture):
            return None if isinstance(exchange.capture, DamagedExchange) else exchange.capture
        exchange.capture = begun = exchange.capture.after_request()
        seen = 0
        for gap in exchange.gaps:
            begun.gap(gap)
        for record in islice(self._journal.records(number, exchange.start), exchange.records):
            if exchange.begun is not None and seen >= exchange.begun:
                _MEANING[record.mark](self, record, exchange.start)
            seen += 1
            for lost in exchange.lost_after(seen):
                if lost.mark != Mark.REQUEST_BODY:
                    exchange.capture.gap(gap_record(lost))
        if seen == exchange.records:
            return exchange.capture
        events = [
            each for each in self.batch.events if each.exchange_id == exchange.head.exchange_id
        ]
        # without a journal: where its events end
        return Capture.after(events[-1]) if events else None

    def _begin_unread(self, exchange: OpenExchange) -> tuple[Capture | None, list[Event]]:
        """Begin an exchange whose request cannot be read: its head is recorded, and its body is
        counted.
        """
        head, size_bytes, now_ns = exchange.head, len(exchange.body), exchange.last_ns
        exchange.body = bytearray()
        grouping = Grouping()
        session_id, session = self._session(head, grouping)
        row = exchange_row(session_id, self._recorder_id, "other", head, grouping)
        capture = Capture(
            session_id, head.exchange_id, by_name("other"), exchange.started_ns, row_root(row)
        )
        events = capture.request(head, b"", wire=b"", complete=False, undecoded=UNREAD_REQUEST)
        lost = GapRecord("request", 1, size_bytes, "", exchange.started_ns, now_ns, UNREAD_REQUEST)
        for gap in (*exchange.gaps, lost):
            events += capture.gap(gap)
        self.batch.add_rows(session, row)
        exchange.session_id = session_id
        return capture, events

    def _end(self, number: int, exchange: OpenExchange, t_ns: int, end: ExchangeEnd) -> list[Event]:
        """End an open exchange; an exchange that could not be read as a whole is moved into a file."""
        capture, events = self._begin(exchange)
        events += capture.end(t_ns, end)
        if isinstance(capture, DamagedExchange):
            self._keep(number, exchange, capture)
            if exchange.begun is None:
                self._rejected.add(number)  # its body is not in the log
        if exchange.awaited is not None:
            self.batch.awaited.append(exchange.awaited)
        del self.open[number]
        return events

    def _keep(self, number: int, exchange: OpenExchange, unread: DamagedExchange) -> None:
        name = self._name(number, exchange)
        log.error(
            "%s: %d chunks, %d bytes of it could not be read",
            name,
            unread.chunks,
            unread.size_bytes,
        )
        is_in_log = exchange.begun is not None
        records = islice(self._journal.records(number, exchange.start), exchange.records + 1)
        gone = {Mark.REQUEST_BODY, Mark.BLANK} if is_in_log else {Mark.BLANK}
        wanted = (record for record in records if record.mark not in gone)
        file_name = exchange.head.exchange_id or f"{self._recorder_id}-{number}"
        self._journal.keep(file_name, exchange.session_id, wanted)

    def lose(self, reason: str) -> None:
        """Add a gap to each open exchange: records are lost, and it is unknown of which exchanges."""
        for exchange in list(self.open.values()):
            if exchange.answer is not None:
                self._feed_all(exchange.answer.release(), exchange.start)
        for exchange in self.open.values():
            for mark in exchange.losing:
                lost = Gap(mark, 1, 0, "", exchange.last_ns, exchange.last_ns, reason)
                exchange.lost.append((exchange.records, lost))
                if exchange.capture is None:
                    exchange.gaps.append(gap_record(lost))
                else:
                    self.batch.add(exchange.capture.gap(gap_record(lost)))

    def end_all(self) -> None:
        """End what is open with `recorder_crash`: the recorder is dead, and nothing more comes."""
        end = msgspec.json.encode(
            ExchangeEnd("recorder_crash", "the recorder ended without ending the exchange")
        )
        for number, exchange in list(self.open.items()):
            self.feed(
                Record(number, Mark.END, exchange.last_ns, end, exchange.start), exchange.start
            )

    def _on_request(self, record: Record, start: Position) -> list[Event]:
        head = msgspec.json.decode(record.payload, type=RequestHead)
        if head.exchange_id in self._late:
            self._rejected.add(record.exchange)
            reason = f"{head.exchange_id} is of a session that {self._late[head.exchange_id]}"
            log.error("%s is not recorded further: %s", self._name(record.exchange, None), reason)
            return []
        exchange = OpenExchange(start, record.t_ns, head, last_ns=record.t_ns, records=1)
        exchange.answer = session_in_answer(head, record.t_ns)
        self.open[record.exchange] = exchange
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
        exchange = self.open[record.exchange]
        exchange.blank_bytes += len(record.payload)
        # then the log has all of the connection, its end included
        if isinstance(exchange.capture, WebSocketCapture):
            self._rejected.add(record.exchange)
            del self.open[record.exchange]
        return []

    def _on_request_end(self, record: Record, start: Position) -> list[Event]:
        self.open[record.exchange].complete = msgspec.json.decode(
            record.payload, type=RequestEnd
        ).complete
        return self._begin(self.open[record.exchange])[1]

    def _on_response(self, record: Record, start: Position) -> list[Event]:
        exchange = self.open[record.exchange]
        capture, events = self._begin(exchange)
        head = msgspec.json.decode(record.payload, type=ResponseHead)
        if head.status == SWITCHED and isinstance(capture, Capture):
            exchange.capture = capture = self._switched(exchange, capture)
        return events + capture.response(record.t_ns, head)

    def _on_chunk(self, record: Record, start: Position) -> list[Event]:
        exchange = self.open[record.exchange]
        if exchange.capture is not None:
            return exchange.capture.chunk(record.t_ns, record.payload)
        capture, events = self._begin(exchange)
        return events + capture.chunk(record.t_ns, record.payload)

    def _on_client_chunk(self, record: Record, start: Position) -> list[Event]:
        capture = self.open[record.exchange].capture
        if isinstance(capture, WebSocketCapture | DamagedExchange):
            return capture.client_chunk(record.t_ns, record.payload)
        raise ValueError("bytes of a client on a connection that was not switched to WebSocket")

    def _on_gap(self, record: Record, start: Position) -> list[Event]:
        exchange = self.open[record.exchange]
        gap = gap_record(msgspec.json.decode(record.payload, type=Gap))
        if exchange.capture is None:
            exchange.gaps.append(gap)
            return []
        return exchange.capture.gap(gap)

    def _on_end(self, record: Record, start: Position) -> list[Event]:
        end = msgspec.json.decode(record.payload, type=ExchangeEnd)
        return self._end(record.exchange, self.open[record.exchange], record.t_ns, end)

    def _begin(self, exchange: OpenExchange) -> tuple[AnyCapture, list[Event]]:
        """Find the session of a request that is complete as far as it will be, and make its first
        events.
        """
        if exchange.capture is not None:
            return exchange.capture, []
        head, wire = exchange.head, bytes(exchange.body)
        if head.imported is not None and head.imported.exchange is not None:
            exchange.capture = self._restore(head, head.imported, head.imported.exchange)
            exchange.session_id = head.imported.session.session_id
            return exchange.capture, []
        earlier = self._find_request(head.exchange_id)
        if earlier is not None and earlier.record.undecoded == UNREAD_REQUEST:
            raise ValueError("the log has it as one that cannot be read")
        if exchange.blank_bytes and earlier is None:
            exchange.gaps.append(overwritten(exchange.blank_bytes, exchange.last_ns))
        complete = exchange.complete and not exchange.overflown and not exchange.gaps
        body = body_of(earlier, head, wire, self._redactor, complete=complete)
        dialect = dialect_of(head, body.raw)
        grouping = grouped(head, body, self._redactor)
        if exchange.answer is not None:
            grouping = exchange.answer.grouping(grouping)
        if head.imported is None and complete and not body.undecoded:
            grouping = by_history(grouping, dialect.name, head, body.raw)
        session_id, session = self._session(head, grouping)
        exchange.awaited = grouping.history
        row = exchange_row(session_id, self._recorder_id, dialect.name, head, grouping)
        capture = Capture(session_id, head.exchange_id, dialect, exchange.started_ns, row_root(row))
        events = request_events(capture, head, body, earlier, complete=complete)
        for gap in exchange.gaps:
            events += capture.gap(gap)
        self.batch.add_rows(session, row)
        exchange.body, exchange.session_id = bytearray(), session_id
        exchange.capture, exchange.begun = capture, exchange.records
        return capture, events

    def _switched(self, exchange: OpenExchange, capture: Capture) -> WebSocketCapture:
        """Return what takes the place of the capture of a connection that is switched to WebSocket."""
        head, earlier = exchange.head, self._find_request(exchange.head.exchange_id)
        is_stdio = head.method == STDIO
        dialect = capture.dialect if is_stdio else by_path(head.method, head.target)
        coding = None if is_stdio else CODING
        connection = MessageCapture.switched(
            capture, dialect, earlier.sent if earlier else (), coding=coding
        )
        begin = partial(self._begin_turn, exchange)
        return WebSocketCapture(
            connection, dialect, head.headers, self._redactor, begin, capture, is_stdio=is_stdio
        )

    def _begin_turn(
        self,
        exchange: OpenExchange,
        t_ns: int,
        number: int,
        payload: bytes,
        complete: bool,
        stream_id: str | None,
    ) -> OpenTurn:
        """Begin the exchange of a request over WebSocket: its session, and its first events.

        All its ids hang on the connection and the number, so that it is the same exchange when it
        is fed again.
        """
        head = turn_head(exchange.head, max(0, t_ns - exchange.started_ns), number)
        # it takes its messages nevertheless: they are of nothing else
        if head.exchange_id in self._late:
            late = MessageCapture(head.session_id, head.exchange_id, dialect_of(head), t_ns)
            self._diverted[head.exchange_id] = None
            return OpenTurn(late, [], lambda: None)
        earlier = self._find_request(head.exchange_id)
        body = body_of(earlier, head, payload, self._redactor, complete=complete)
        dialect = dialect_of(head)
        # of the connection
        grouping = msgspec.structs.replace(grouped(head, body, self._redactor), attempt=None)
        if complete and not body.undecoded:
            grouping = by_history(grouping, dialect.name, head, body.raw)
        session_id, session = self._session(head, grouping, exchange.session_id)
        row = exchange_row(session_id, self._recorder_id, dialect.name, head, grouping)
        before = earlier.sent if earlier else ()
        capture = MessageCapture(
            session_id, head.exchange_id, dialect, t_ns, row_root(row), sent_before=before
        )
        stream = (
            None if stream_id is None else self._redactor.redact(stream_id.encode()).body.decode()
        )
        turn = WebSocketTurn(exchange.head.exchange_id, number, stream)
        events = request_events(capture, head, body, earlier, complete=complete, turn=turn)
        self.batch.add_rows(session)
        self._turns.append(row)
        history = grouping.history
        return OpenTurn(
            capture, events, lambda: None if history is None else self.batch.awaited.append(history)
        )

    def _restore(self, head: RequestHead, imported: Imported, row: Exchange) -> ImportedExchange:
        """Begin an exchange that another log had: with new ids, else unchanged."""
        row = msgspec.structs.replace(
            row, session_id=imported.session.session_id, exchange_id=head.exchange_id
        )
        self.batch.add_rows(imported.session, row)
        return ImportedExchange(row)

    def _session(
        self, head: RequestHead, grouping: Grouping, otherwise: str | None = None
    ) -> tuple[str, Session | None]:
        """Return the session id of a request, and its row if it may be new: the log accepts the
        same row again.

        A request that names none, and continues none that the log has, is of the session
        `otherwise`, if there is one.
        """
        if head.imported is not None:
            return head.imported.session.session_id, head.imported.session
        found = self._find_session(head, grouping)
        if found is not None:
            return found, None
        if otherwise is not None and grouping.source in (NEW, HISTORY, PREVIOUS_RESPONSE):
            return otherwise, None
        name = grouping.name or own_name(head, grouping)
        labels = (
            head.labels if isinstance(head.labels, str) else labels_of(owner_in(head.attribution))
        )
        return head.session_id, Session(
            head.session_id, head.started_ns, name, grouping.source, labels, "live"
        )


_MEANING: dict[int, Callable[[Assembler, Record, Position], list[Event]]] = {
    Mark.REQUEST: Assembler._on_request,
    Mark.REQUEST_BODY: Assembler._on_request_body,
    Mark.BLANK: Assembler._on_blank,
    Mark.REQUEST_END: Assembler._on_request_end,
    Mark.RESPONSE: Assembler._on_response,
    Mark.CHUNK: Assembler._on_chunk,
    Mark.CLIENT_CHUNK: Assembler._on_client_chunk,
    Mark.GAP: Assembler._on_gap,
    Mark.END: Assembler._on_end,
}
