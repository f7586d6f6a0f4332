"""An exchange whose events are known already: those of an export, with lines instead of bytes.

Kinds, times, positions and bytes stay as they were recorded, whatever this version would make of the bytes. The ids are
new, and so is the chain of hashes, which depends on them. As pure as `recorder.ingest.capture`, in whose place it is
used.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec

from recorder.ingest.capture import Capture
from recorder.model.chain import hash_after, row_root
from recorder.model.events import Event, Exchange
from recorder.model.jsonl import read_event
from recorder.model.payloads import ExchangeEnd, GapRecord, ResponseHead
from recorder.wire.dialects import by_name


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
        """End the exchange. If no `end` was among its events it ends here: it is unknown what else was there."""
        if self._ended:
            return []
        reason = end.error or "the export ends here"
        capture, now_ns = self._continued(), self._last.t_ns if self._last else 0
        return [
            *capture.gap(GapRecord("response", 1, 0, "", now_ns, now_ns, reason)),
            *capture.end(now_ns, end),
        ]

    def break_off(self, t_ns: int, gap: GapRecord, end: ExchangeEnd) -> list[Event]:
        """End with a gap, because the rest cannot be read. After an end there is no place for that."""
        return [] if self._ended else self._continued().break_off(t_ns, gap, end)

    def _continued(self) -> Capture:
        if self._last is not None:
            return Capture.after(self._last)
        ids = self._exchange.session_id, self._exchange.exchange_id
        return Capture(*ids, by_name("other"), 0, row_root(self._exchange))
