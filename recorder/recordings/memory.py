"""Recordings of what is in no log: the records of a file, or of a journal in memory, assembled as
the ingester does.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import msgspec

from recorder.ingest.assembler import Assembler
from recorder.journal.format import START, Mark, Record
from recorder.model.events import Event, ExchangeEnd, MemoryBudget, Recording
from recorder.proxy.http.messages import Sink
from recorder.proxy.recording import new_id
from recorder.wire.recording import recording_of

JournalRecord = tuple[Mark, int, bytes]
"""Of an exchange: its meaning, its time, its payload."""

_LEFT = msgspec.json.encode(
    ExchangeEnd("client_disconnect", "the test ended before the response did")
)


def assembled(
    records: Iterable[JournalRecord],
    session_id: str,
    budget: MemoryBudget,
    recorder_id: str | None = None,
) -> list[Recording]:
    """Return the recordings that records make; a request begins an exchange, whose records follow
    it.

    Raises `RecorderError` if they are too large.
    """
    assembler = Assembler(recorder_id or session_id, lambda head, grouping: session_id)
    number = 0
    for mark, t_ns, payload in records:
        if mark is Mark.REQUEST:
            number += 1
        assembler.feed(Record(number, mark, t_ns, payload, START), START)
        budget.add(len(payload))
    events: dict[str, list[Event]] = {}
    for event in assembler.batch.events:
        events.setdefault(event.exchange_id, []).append(event)
    return [
        recording_of(exchange, events.pop(exchange.exchange_id, []), number=number)
        for number, exchange in enumerate(assembler.batch.exchanges, 1)
    ]


class MemoryJournal:
    """A journal that is not on disk, for the exchanges of one test. Threads may share it."""

    def __init__(self) -> None:
        self._recorder_id = new_id()
        self._exchanges: list[MemoryExchange] = []
        self._budget = _budget()

    def exchange(self) -> MemoryExchange:
        exchange = MemoryExchange(self._budget)
        self._exchanges.append(exchange)
        return exchange

    def flush(self) -> None:
        """Do nothing: no chunk waits."""

    def recordings(self, session_id: str) -> list[Recording]:
        """Return what was recorded so far, as parts of a session.

        An exchange that has not ended ends here.

        Raises `RecorderError` if it was too large.
        """
        # raises again what a write has met: the transport only counts what is refused
        self._budget.add(0, 0)
        records = chain.from_iterable(each.records() for each in list(self._exchanges))
        return assembled(records, session_id, _budget(), self._recorder_id)


class MemoryExchange:
    """The records of one exchange."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._records: list[JournalRecord] = []
        self._budget = budget

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        self._budget.add(len(payload))
        self._records.append((mark, t_ns, payload))

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        for mark, payload in records:
            self.write(mark, t_ns, payload)

    def later(self, t_ns: int, data: bytes, then: Sink) -> bool:
        self.write(Mark.CHUNK, t_ns, data)
        then(data)
        return False

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        if last:
            self.write(Mark.CHUNK, t_ns, last)
        self._records.append((Mark.END, t_ns, payload))

    def records(self) -> list[JournalRecord]:
        """Return the records, with an end."""
        records = list(self._records)
        if records:
            mark, t_ns, _ = records[-1]
            if mark is not Mark.END:
                records.append((Mark.END, t_ns, _LEFT))
        return records


def _budget() -> MemoryBudget:
    return MemoryBudget("The recording of this test takes", "let the test ask for less")
