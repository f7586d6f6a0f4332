"""Exchanges that have begun and not ended, and what may be wanted of the journal that tells them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recorder.ingest.capture import Capture
from recorder.ingest.damaged_exchange import Unread
from recorder.ingest.imported import Restored
from recorder.ingest.late_records import Late
from recorder.journal.format import Gap, Mark, Position, Record
from recorder.model.payloads import GapRecord, RequestHead

Told = Capture | Restored | Late | Unread


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
    asked: tuple[str, str] | None = None  # if it is known by its history, the digest of what it asks and its session
    capture: Told | None = None
    last_ns: int = 0
    records: int = 0  # told so far
    begun: int | None = None  # how many of them came before the one with which `capture` began
    lost: list[tuple[int, Gap]] = msgspec.field(default_factory=list)  # damage, and after how many records

    def lost_after(self, records: int) -> list[Gap]:
        """The damage that came after so many records."""
        return [gap for told, gap in self.lost if told == records]

    def carry(self, place: Position) -> None:
        """Its records are carried over to there, the damage as records among them."""
        self.start = place
        self.records += len(self.lost)
        if self.begun is not None:
            self.begun += sum(gap.mark == Mark.REQUEST_BODY for _, gap in self.lost)
        self.lost.clear()


NOBODY = RequestHead("", "", 0, "", "", "", [])  # of an exchange whose first record cannot be read


def nothing_told(exchange_id: str) -> None:
    """The records are told for the first time."""


class Journaled:
    """What an assembler may want of the journal again, of an exchange that is open. This one has none."""

    refusals: tuple[type[Exception], ...] = (MemoryError,)
    """What is raised where no record is at fault: troubles of the machine, or of the owner."""

    def records(self, number: int, start: Position) -> Iterable[Record]:
        """Those of an exchange, from its first one on, which begins at or behind `start`."""
        return ()

    def keep(self, name: str, session_id: str | None, records: Iterable[Record]) -> None:
        """Put aside records that cannot all be read."""
