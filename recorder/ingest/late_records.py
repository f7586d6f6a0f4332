"""Records of an exchange that the log has ended without its recorder.

A recovery ends what a recorder has left open that seems to be gone. If the recorder comes back nevertheless, its bytes
come too late: only a note may follow an `end`. So they are counted, and the note has the counts. The same records give
the same note. The captures of the exchange go on to make the events that are counted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import sha256

import msgspec

from recorder.ingest.capture import Capture
from recorder.model.events import BODY_KINDS, Event
from recorder.model.payloads import EndRecord, GapRecord, LateRecord

log = logging.getLogger(__name__)

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
        record = LateRecord(REASON, self._events, self._body_bytes, digest, ended.status if ended else None)
        log.error("exchange %s: %d bytes came after the log had ended it", self._end.exchange_id, self._body_bytes)
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
