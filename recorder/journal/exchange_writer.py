"""What one exchange writes to a journal: records in order, and a count of what there was no room for.

No file is known here: `recorder.journal.writer` has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from typing import Protocol

import msgspec

from recorder.journal.format import DATA_MARKS, RECORD_LIMIT, Gap, Mark

log = logging.getLogger(__name__)

Then = Callable[[bytes], None]
"""Takes a chunk that is in the journal now, and does not raise."""


class Writer(Protocol):
    """`recorder.journal.writer.Journal`."""

    @property
    def full(self) -> bool: ...

    @property
    def is_waiting(self) -> bool: ...

    def write(self, exchange: int, mark: Mark, t_ns: int, payload: bytes) -> str | None: ...

    def write_together(self, records: Sequence[tuple[JournalExchange, int, int, bytes, Then | None]]) -> bool: ...

    def wait(self, exchange: JournalExchange, t_ns: int, payload: bytes, then: Then) -> bool: ...

    def flush(self) -> None: ...

    def settle(self) -> None: ...

    def owes(self, exchange: JournalExchange) -> None: ...


class _Loss:
    """The running count behind a `Gap`."""

    def __init__(self, mark: Mark, t_ns: int, reason: str) -> None:
        self.mark, self.reason = mark, reason
        self.from_ns = self.to_ns = t_ns
        self.chunks = self.size_bytes = 0
        self.digest = sha256()

    def add(self, t_ns: int, data: bytes) -> None:
        self.to_ns = t_ns
        self.chunks += 1
        self.size_bytes += len(data)
        self.digest.update(data)

    def record(self) -> tuple[Mark, int, bytes]:
        gap = Gap(
            self.mark, self.chunks, self.size_bytes, self.digest.hexdigest(), self.from_ns, self.to_ns, self.reason
        )
        return Mark.GAP, self.to_ns, msgspec.json.encode(gap)


class JournalExchange:
    """What one exchange writes. No method raises, whatever the disk does; a fault of the journal itself is a reason
    for a gap, like a full disk, and logged once with its traceback.

    `later(t_ns, payload, then)` appends a chunk, at the latest with the next `Journal.flush`, and hands it to `then`.
    It returns whether that is to be called. Whatever is written before that call is written after the chunk.
    """

    def __init__(self, journal: Writer, number: int) -> None:
        self.number = number
        self.owed: list[_Loss | tuple[Mark, int, bytes]] = []  # what must come first
        self.later = partial(journal.wait, self)
        self._journal = journal
        self._has_failed = False

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        """Append a record of this exchange, or count it as lost. Data over `RECORD_LIMIT` becomes several records."""
        if len(payload) > RECORD_LIMIT:
            for start in range(0, len(payload), RECORD_LIMIT):
                self.write(mark, t_ns, payload[start : start + RECORD_LIMIT])
            return
        if self._journal.is_waiting:
            self._journal.flush()
        if self.owed and not self.pay():
            self._owe(mark, t_ns, payload, "the journal is at its bound")
            return
        refusal = self._append(mark, t_ns, payload)
        if refusal is not None:
            self._owe(mark, t_ns, payload, refusal)

    def write_all(self, t_ns: int, records: Iterable[tuple[Mark, bytes]]) -> None:
        """Append several, with one call if nothing is in the way."""
        if self._journal.is_waiting:
            self._journal.flush()
        told = [(self, mark, t_ns, payload, None) for mark, payload in records]
        if not self._append_together(told):
            for _, mark, _, payload, _ in told:
                self.write(mark, t_ns, payload)

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        """Append the last chunk, if there is one, and the last record; if there is no room, the journal does later."""
        if self._journal.is_waiting:
            self._journal.flush()
        self._journal.settle()
        chunks = [(self, Mark.CHUNK, t_ns, last, None)] if last else []
        if self._append_together([*chunks, (self, Mark.END, t_ns, payload, None)]):
            return
        if last:
            self.write(Mark.CHUNK, t_ns, last)
        self._owe(Mark.END, t_ns, payload, "")
        if not self.pay():
            self._journal.owes(self)

    def pay(self) -> bool:
        """Write the records still owed, in order. Returns whether none is left."""
        while self.owed:
            first = self.owed[0]
            if isinstance(first, _Loss) and len(self.owed) == 1 and self._journal.full:
                return False  # the next chunk will be lost too: one gap, not one a chunk
            if self._append(*(first.record() if isinstance(first, _Loss) else first)) is not None:
                return False
            del self.owed[0]
        return True

    def lose(self, t_ns: int, data: bytes, error: Exception) -> None:
        """Count a chunk that a fault of ours kept out of the journal."""
        self._owe(Mark.CHUNK, t_ns, data, self._fault(error))

    def _append(self, mark: Mark, t_ns: int, payload: bytes) -> str | None:
        try:
            return self._journal.write(self.number, mark, t_ns, payload)
        except Exception as error:
            return self._fault(error)

    def _append_together(self, records: Sequence[tuple[JournalExchange, int, int, bytes, Then | None]]) -> bool:
        try:
            return self._journal.write_together(records)
        except Exception as error:
            self._fault(error)
            return False

    def _fault(self, error: Exception) -> str:
        """Log a fault of ours, the first of this exchange; return the reason that its gap gives."""
        reason = f"the recording failed: {type(error).__name__}"
        if not self._has_failed:
            self._has_failed = True
            log.error("a chunk could not be recorded: %s", reason, exc_info=error)
        return reason

    def _owe(self, mark: Mark, t_ns: int, payload: bytes, reason: str) -> None:
        if mark not in DATA_MARKS:
            self.owed.append((mark, t_ns, payload))
            return
        last = self.owed[-1] if self.owed else None
        if not isinstance(last, _Loss) or last.mark != mark:
            last = _Loss(mark, t_ns, reason)
            self.owed.append(last)
        last.add(t_ns, payload)
