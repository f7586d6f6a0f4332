"""The rest of an exchange after a record that cannot be read: counted, and not understood.

A record may be invalid for this version, or a fault of ours may raise on it. What came before it is in the log.
Everything after it is counted and digested up to the end of the exchange, and reported as one gap: received is what is
stored and what the gap counts. As pure as `recorder.ingest.capture`, in whose place it is used.
"""

from __future__ import annotations

from hashlib import sha256

from recorder.ingest.capture import Capture
from recorder.ingest.imported import ImportedExchange
from recorder.ingest.late_records import LateRecordCounter
from recorder.ingest.websocket_capture import WebSocketCapture
from recorder.model.events import Event
from recorder.model.payloads import ExchangeEnd, GapRecord, ResponseHead

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
        """`capture` is as it was before the record that cannot be read; None if the log can have nothing of the
        exchange.
        """
        self._capture, self._reason = capture, reason
        self._from_ns = self._to_ns = t_ns
        self._digest = sha256()
        self._has_digest = True
        self.chunks = self.size_bytes = 0
        self.late: LateRecordCounter | None = None  # used in the end, if the log has ended the exchange already

    def response(self, t_ns: int, head: ResponseHead) -> list[Event]:
        return []

    def chunk(self, t_ns: int, data: bytes) -> list[Event]:
        self._to_ns = t_ns
        self.chunks += 1
        self.size_bytes += len(data)
        self._digest.update(data)
        return []

    def client_chunk(self, t_ns: int, data: bytes) -> list[Event]:
        """Count bytes of a client on a connection that was switched to WebSocket, with those of the server."""
        return self.chunk(t_ns, data)

    def gap(self, gap: GapRecord) -> list[Event]:
        """Count a gap in the rest. Its bytes are not in the journal: then there is no digest of all of it."""
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
        gap = GapRecord("response", self.chunks, self.size_bytes, digest, self._from_ns, self._to_ns, self._reason)
        if self.late is not None and not isinstance(self._capture, WebSocketCapture):
            return self.late.break_off(gap)
        return self._capture.break_off(t_ns, gap, ExchangeEnd("recorder_crash", self._reason))
