"""Rows of the log as they come from a journal, and those that are committed together."""

from __future__ import annotations

import msgspec

from recorder.journal.format import Gap, Mark
from recorder.model.events import Event, Exchange, Session
from recorder.model.payloads import GapRecord, RequestHead
from recorder.wire.grouping.session import Grouping


class Batch(msgspec.Struct):
    """Rows that are to be committed together."""

    sessions: list[Session] = msgspec.field(default_factory=list)
    exchanges: list[Exchange] = msgspec.field(default_factory=list)
    events: list[Event] = msgspec.field(default_factory=list)
    size_bytes: int = 0
    asked: set[str] = msgspec.field(default_factory=set)  # `OpenExchange.asked` of those that end in it

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


def exchange_row(session_id: str, recorder_id: str, api: str, head: RequestHead, grouping: Grouping) -> Exchange:
    """The row of a request."""
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


def gap_record(gap: Gap) -> GapRecord:
    """What a journal says of a gap, as the log has it."""
    return GapRecord(
        of="request" if gap.mark == Mark.REQUEST_BODY else "response",
        chunks=gap.chunks,
        size_bytes=gap.size_bytes,
        sha256=gap.sha256,
        from_ns=gap.from_ns,
        to_ns=gap.to_ns,
        reason=gap.reason,
    )
