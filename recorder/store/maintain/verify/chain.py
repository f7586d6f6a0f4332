"""Verification of the events of one exchange: its chain of hashes, its order, its sums.

A pure function of one exchange, fed event by event: it keeps counts and digests only. It knows no
database: what surrounds an exchange is verified by `recorder.store.maintain.verify.log`.

The basis: every event is hashed together with the one before it, and `end` has the counts of what
came before. So nothing in the middle of an exchange can be changed, removed, added or moved unseen.
If its last events are cut off, `end` is missing; a note behind `end` that is removed leaves no
trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from recorder.model.chain import hash_after, root, row_root
from recorder.model.events import (
    BODY_KINDS,
    LEFT_OUT,
    EndRecord,
    Event,
    Exchange,
    GapRecord,
    RequestRecord,
    ResponseHead,
)
from recorder.wire.content_coding import codings

FINDINGS_LIMIT = 20  # of one exchange: whoever has seen so many looks at the exchange itself

_EMPTY = sha256().hexdigest()
_UNREADABLE = (TypeError, ValueError, OverflowError, msgspec.MsgspecError)

Record = TypeVar("Record")

Comparisons = list[tuple[str, Any, Any]]
"""A name, what a record says of it, and what it is."""


class LogFinding(msgspec.Struct, frozen=True):
    """Something that is not as it was recorded."""

    exchange_id: str | None
    "Id of the exchange, a UUIDv7."
    pos: int | None  # None if it is about more than one event
    "Position of the event."
    check: str
    "What was checked."
    message: str
    "What is wrong, as a sentence."

    def line(self, session_id: str) -> str:
        """Return it with its place.

        Ids in it may be anything: whoever changed them wrote what he liked.
        """
        exchange = f"/{self.exchange_id}" if self.exchange_id else ""
        pos = "" if self.pos is None else f" @{self.pos}"
        return f"bad     {session_id}{exchange}{pos}: {self.message}"


class RecordedGap(msgspec.Struct, frozen=True):
    """Bytes that were not kept."""

    exchange_id: str
    "Id of the exchange, a UUIDv7."
    pos: int
    "Position of the gap."
    of: str
    "Of what bytes were not kept."
    chunks: int
    "Number of chunks."
    size_bytes: int
    "Number of bytes."
    reason: str
    "Why."


class ChainVerifier:
    """The events of one exchange, in order of their positions, checked against each other and its
    row.
    """

    def __init__(self, session_id: str, exchange_id: str, exchange: Exchange | None = None) -> None:
        """Without `exchange`, its row, the events are checked against each other only."""
        self._exchange_id, self._exchange = exchange_id, exchange
        # what the next event may be chained to
        self._previous = _roots(session_id, exchange_id, exchange)
        self._next = 0
        self._unlisted = 0
        self._sums = Sums()
        self._request: RequestRecord | None = None
        self._end: EndRecord | None = None
        self.findings: list[LogFinding] = []
        self.gaps: list[RecordedGap] = []
        self.events = 0
        self.end_pos: int | None = None
        self.head = self._previous[0]  # the hash of `end`; of the last event, if there is none

    def feed(self, event: Event) -> None:
        """Check the next event."""
        self.events += 1
        self._check_place(event)
        self._check_link(event)
        if self.end_pos is None:
            self.head = event.hash
            try:
                self._read(event)
            except _UNREADABLE as error:
                self._find(event.pos, "content", f"its content makes no sense ({error})")
        elif event.kind != "note":
            self._find(event.pos, "order", f"a `{event.kind}` comes after the end of the exchange")
        self._next = max(0, event.pos + 1)

    def close(self) -> list[LogFinding]:
        """Check the sums after the last event; return all findings."""
        if not self.events:
            self._find(None, "order", "the exchange has no events: they were removed")
        elif self._request is None:
            self._find(None, "order", "the exchange has no request at its beginning")
        else:
            self._compare(0, "request", self._sums.request(self._request))
        if self._exchange is not None and self._request is not None:
            self._compare(0, "request", _row(self._request, self._exchange))
        if self._unlisted:
            self.findings.append(
                LogFinding(self._exchange_id, None, "more", f"and {self._unlisted} findings more")
            )
        return self.findings

    # -- one event after the other

    def _check_place(self, event: Event) -> None:
        if event.pos == self._next:
            return
        if event.pos < self._next:
            self._find(
                event.pos,
                "position",
                "there is a second event at this position, or one before the first",
            )
        else:
            span = (
                f"{self._next} to {event.pos - 1}"
                if event.pos > self._next + 1
                else str(self._next)
            )
            self._find(
                self._next, "position", f"missing: position {span}, removed from the exchange"
            )
        self._previous = ()  # what it is chained to is not here

    def _check_link(self, event: Event) -> None:
        """Check the hash.

        After a break the chain continues from the event, so that one change is one finding.
        """
        try:
            due = [hash_after(previous, event, event.pos) for previous in self._previous]
        except _UNREADABLE as error:
            self._find(event.pos, "hash", f"its columns hold what no event has ({error})")
            due = [event.hash]
        if due and event.hash not in due:
            message = (
                "it was changed or moved, or the event before it was: its hash follows from neither"
            )
            self._find(event.pos, "hash", message)
            self._previous = (event.hash, *due)
        else:
            self._previous = (event.hash,)

    def _read(self, event: Event) -> None:
        if event.pos == 0 or event.kind == "request":
            self._read_request(event)
        self._sums.add(event)
        if event.kind == "gap":
            gap = _decoded(event, GapRecord)
            self._sums.add_gap(gap)
            if len(self.gaps) < FINDINGS_LIMIT:
                of = (gap.of, gap.chunks, gap.size_bytes, gap.reason)
                self.gaps.append(RecordedGap(self._exchange_id, event.pos, *of))
        elif event.kind == "end":
            self.end_pos = event.pos
            self._read_end(event)

    def _read_request(self, event: Event) -> None:
        if event.pos == 0 and event.kind == "request" and event.type is None:
            self._request = _decoded(event, RequestRecord)
        elif event.pos == 0 or event.type != "body":
            self._find(event.pos, "order", f"a `{event.kind}` cannot stand there")

    def _read_end(self, event: Event) -> None:
        self._end = end = _decoded(event, EndRecord)
        comparisons: Comparisons = [("events", end.events, event.pos)]
        if not self._sums.are_unknown_to(end):
            complete = self._request is not None and self._request.complete
            comparisons += [
                *self._sums.response(end),
                ("lossless", end.lossless, self._sums.lossless(end, complete)),
            ]
        self._compare(event.pos, "end", comparisons)

    def _compare(self, pos: int, record: str, comparisons: Comparisons) -> None:
        for name, stated, found in comparisons:
            if stated != found:
                self._find(pos, "sums", f"the `{record}` says {name} {stated}, but it is {found}")

    def _find(self, pos: int | None, check: str, message: str) -> None:
        if len(self.findings) < FINDINGS_LIMIT:
            self.findings.append(LogFinding(self._exchange_id, pos, check, message))
        else:
            self._unlisted += 1


class Sums:
    """The sums over the events of an exchange."""

    def __init__(self) -> None:
        self._request, self._body = sha256(), sha256()
        self._request_bytes = self._body_bytes = self._frames = self._parts = 0
        self._gap_chunks = self._gap_bytes = self._request_gaps = 0
        self._read_bytes: int | None = None
        self._status: int | None = None
        self._add: Mapping[str, Callable[[Event], None]] = {
            **dict.fromkeys(BODY_KINDS, self._on_body),
            "request": self._on_request,
            "response": self._on_response,
            "reads": self._on_reads,
        }

    def add(self, event: Event) -> None:
        add = self._add.get(event.kind)
        if add is not None:
            add(event)

    def add_gap(self, gap: GapRecord) -> None:
        if gap.of == "request":
            self._request_gaps += 1
        else:
            self._gap_chunks += gap.chunks
            self._gap_bytes += gap.size_bytes

    def _on_body(self, event: Event) -> None:
        if event.type == LEFT_OUT:
            return
        self._body.update(event.raw)
        self._body_bytes += len(event.raw)
        self._frames += event.kind == "frame"
        self._parts += event.kind == "part"

    def _on_request(self, event: Event) -> None:
        if event.type == "body":
            self._request.update(event.raw)
            self._request_bytes += len(event.raw)

    def _on_response(self, event: Event) -> None:
        self._status = _decoded(event, ResponseHead).status

    def _on_reads(self, event: Event) -> None:
        reads = msgspec.json.decode(event.raw, type=list[tuple[int, int]])
        if event.type is not None:  # those of the client of a WebSocket connection
            return
        self._read_bytes = (self._read_bytes or 0) + sum(size for _, size in reads)

    # -- what records say, and what it is

    def request(self, record: RequestRecord) -> Comparisons:
        """Compare a request record.

        Of a body that was not decoded, all sizes are those of the kept bytes.
        """
        comparisons: Comparisons = [("body_bytes", record.body_bytes, self._request_bytes)]
        if record.undecoded is not None or not codings(record.headers):
            comparisons.append(("wire_bytes", record.wire_bytes, self._request_bytes))
            comparisons.append(("wire_sha256", record.wire_sha256, self._request.hexdigest()))
        return comparisons

    def are_unknown_to(self, end: EndRecord) -> bool:
        """Return whether an end was added behind what the log had, without knowledge of what came
        before it.
        """
        knows_nothing = end.body_bytes == 0 and end.wire_sha256 == end.body_sha256 == _EMPTY
        return (
            end.outcome == "recorder_crash"
            and knows_nothing
            and end.http_status is None
            and not end.lossless
        )

    def response(self, end: EndRecord) -> Comparisons:
        """Compare an end.

        Kept bytes and gaps are what was received: of the wire as far as it is known, of the body
        always.
        """
        digest = self._body.hexdigest()
        # the log does not say which part is the last
        frames = range(self._frames, self._frames + self._parts + 1)
        comparisons: Comparisons = [
            ("http_status", end.http_status, self._status),
            ("body_bytes", end.body_bytes, self._body_bytes),
            ("body_sha256", end.body_sha256, digest),
            ("frames", end.frames, end.frames if end.frames in frames else self._frames),
            ("gap_chunks", end.gap_chunks, self._gap_chunks),
            ("gap_bytes", end.gap_bytes, self._gap_bytes),
        ]
        is_kept_as_sent = end.coding is None and end.undecoded is None
        received = (
            self._body_bytes if self._read_bytes is None and is_kept_as_sent else self._read_bytes
        )
        if received is not None:
            comparisons.append(("wire_bytes", end.wire_bytes, received + self._gap_bytes))
        if is_kept_as_sent:
            comparisons.append(("wire_sha256", end.wire_sha256, digest))
        return comparisons

    def lossless(self, end: EndRecord, request_is_complete: bool) -> bool:
        known = end.outcome != "recorder_crash" and request_is_complete and not self._request_gaps
        return known and not self._gap_chunks and end.undecoded is None


def _roots(session_id: str, exchange_id: str, exchange: Exchange | None) -> tuple[bytes, ...]:
    """Return the hashes that a first event may be chained to: in an older log, its ids without its
    row.
    """
    return root(session_id, exchange_id), *([row_root(exchange)] if exchange is not None else [])


def _row(record: RequestRecord, exchange: Exchange) -> Comparisons:
    """Compare a request record with the columns that repeat it in the row of its exchange."""
    return [
        ("method", record.method, exchange.method),
        ("target", record.target, exchange.target),
        ("upstream", record.upstream, exchange.provider),
    ]


def _decoded(event: Event, type: type[Record]) -> Record:
    return msgspec.json.decode(event.raw, type=type)
