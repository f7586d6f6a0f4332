"""The journal: what passed, in order, on disk before the client has it.

One directory a recorder, `<root>/<recorder_id>/`, holding segments `000001.seg`, `000002.seg` … of records. The writer
appends each record with one `writev(2)` to an `O_APPEND` file, so `kill -9` at any moment leaves every finished write
in the file and at most one torn record at its end. The writer holds a lock on the directory while it lives; whoever
gets that lock knows it is dead.

Rules of this file:

* It knows records, not HTTP and not SSE. Payloads are the caller's.
* Nothing the writer does ever raises to the caller of a record: a client must not suffer from a full disk. What cannot
  be kept is counted and digested, and stands in the journal as one `GAP` record as soon as there is room for it.
* Reading is elsewhere (`recorder.segments`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from recorder.errors import RecorderError
from recorder.records import DATA_MARKS, HEADER, MAGIC, RECORD_LIMIT, Gap, Mark, record_bytes
from recorder.segments import SUFFIX, segment_name, try_lock

log = logging.getLogger(__name__)

SEGMENT_BYTES = 16 * 2**20  # small enough to be deleted soon, large enough that rotation costs nothing
SEGMENTS = 8  # at least so many fit under the bound: only whole ones can be deleted
LIMIT_BYTES = 2**30  # an hour of a busy gateway without its database; `limit_now` has the other half of the bound
FREE_SHARE = 0.10  # of the free space: a recorder must not be what fills the disk
CONTROL_SLACK = 16 * 2**20  # heads, gaps and ends may pass the bound by this much: without them a gap would be silent
OWING_LIMIT = 10_000  # ended exchanges whose last records still wait for room on the disk
REMEASURE_NS = 100_000_000  # how often a writer at its bound looks whether the ingester has made room


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


class Journal:
    """The write side of one recorder's journal. Used from one thread; `close` when the recorder ends."""

    def __init__(
        self,
        root: Path,
        recorder_id: str,
        *,
        limit_bytes: int = LIMIT_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        writev: Callable[[int, list[bytes]], int] = os.writev,
    ) -> None:
        """Create `<root>/<recorder_id>/` and lock it. Raises `RecorderError` if that directory cannot be written."""
        self.recorder_id = recorder_id
        self.directory = root / recorder_id
        self._limit_bytes, self._longest_segment_bytes, self._writev = limit_bytes, segment_bytes, writev
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.mkdir(mode=0o700)
            lock = try_lock(self.directory)
        except OSError as error:
            raise RecorderError(f"The journal {self.directory} cannot be written: {error.strerror}.") from error
        if lock is None:
            raise RecorderError(f"The journal {self.directory} belongs to another recorder that is still running.")
        self._lock = lock
        self._fd = -1
        self._segment = self._size = self._used = self._exchanges = 0
        self._limit, self._segment_bytes = limit_bytes, segment_bytes
        self._measured_ns = 0
        self._torn = False
        self._owing: deque[JournalExchange] = deque()
        self._rotate()

    def exchange(self) -> JournalExchange:
        """The handle that one exchange writes its records with."""
        self._exchanges += 1
        return JournalExchange(self, self._exchanges)

    @property
    def full(self) -> bool:
        """Whether chunks are counted only, because the journal is at its bound."""
        if self._used < self._limit:
            return False
        self._make_room()
        return self._used >= self._limit

    def write(self, exchange: int, mark: Mark, t_ns: int, payload: bytes) -> str | None:
        """Append one record. Returns why it was not written, or `None` if it was."""
        if self._used >= self._limit:
            slack = 0 if mark in DATA_MARKS else CONTROL_SLACK
            if self.full and self._used >= self._limit + slack:
                return "the journal is at its bound"
        if (self._torn or self._size >= self._segment_bytes) and not self._rotate() and self._torn:
            return "the end of the journal is torn and cannot be mended"
        buffers = record_bytes(exchange, mark, t_ns, payload)
        size = HEADER.size + len(payload)
        try:
            written = self._writev(self._fd, buffers)
            if written != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._drop_torn_record()
            return error.strerror or type(error).__name__
        self._size += size
        self._used += size
        return None

    def settle(self) -> None:
        """Write what ended exchanges still owe, as far as there is room."""
        while self._owing and self._owing[0].pay():
            self._owing.popleft()

    def owes(self, exchange: JournalExchange) -> None:
        if len(self._owing) < OWING_LIMIT:
            self._owing.append(exchange)
        else:
            log.error("exchange %d ends without a record: the journal has no room", exchange.number)

    def close(self) -> None:
        """Write what is owed if possible, and let go of the directory."""
        self.settle()
        if self._owing:
            log.error("%d exchanges end without a record: the journal has no room", len(self._owing))
        os.close(self._fd)
        self._fd = -1  # a late record is refused, and does not land in whatever gets this number next
        os.close(self._lock)

    def _rotate(self) -> bool:
        """Go on in a new segment; returns whether that worked. It gets its name when it can be read: a reader that sees
        it takes the one before for finished.
        """
        path = self.directory / segment_name(self._segment + 1)
        partial = path.with_suffix(".partial")
        try:
            fd = os.open(partial, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return self._not_rotated(partial, error)
        try:
            if os.write(fd, MAGIC) != len(MAGIC):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.rename(partial, path)
        except OSError as error:
            os.close(fd)
            return self._not_rotated(partial, error)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size, self._torn = fd, len(MAGIC), False
        self._segment += 1
        self._measure()
        return True

    def _not_rotated(self, partial: Path, error: OSError) -> bool:
        with contextlib.suppress(OSError):
            partial.unlink()
        if self._fd < 0:
            raise RecorderError(f"The journal {self.directory} cannot be written: {error.strerror}.") from error
        return False

    def _drop_torn_record(self) -> None:
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._torn = True  # a next segment must follow before anything else does: then a reader drops the tail

    def _make_room(self) -> None:
        """At the bound: look from time to time whether the ingester has deleted segments, and end the current one, so
        that it can delete that one too.
        """
        now_ns = time.monotonic_ns()
        if now_ns - self._measured_ns >= REMEASURE_NS:
            self._measured_ns = now_ns
            if not (self._size > len(MAGIC) and self._rotate()):
                self._measure()

    def _measure(self) -> None:
        """How much the segments take, and how much they may take now."""
        try:
            sizes = [entry.stat().st_size for entry in os.scandir(self.directory) if entry.name.endswith(SUFFIX)]
            disk = os.statvfs(self.directory)
        except OSError:
            return
        self._used = sum(sizes)
        self._limit = min(self._limit_bytes, int((disk.f_bavail * disk.f_frsize + self._used) * FREE_SHARE))
        self._segment_bytes = min(self._longest_segment_bytes, self._limit // SEGMENTS)


class JournalExchange:
    """What one exchange writes. No method raises, whatever the disk does."""

    def __init__(self, journal: Journal, number: int) -> None:
        self.number = number
        self._journal = journal
        self._owed: list[_Loss | tuple[Mark, int, bytes]] = []

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        """Append a record of this exchange, or count it as lost. Data over `RECORD_LIMIT` becomes several records."""
        if len(payload) > RECORD_LIMIT:
            for start in range(0, len(payload), RECORD_LIMIT):
                self.write(mark, t_ns, payload[start : start + RECORD_LIMIT])
            return
        if self._owed and not self.pay():
            self._owe(mark, t_ns, payload, "the journal is at its bound")
            return
        refusal = self._journal.write(self.number, mark, t_ns, payload)
        if refusal is not None:
            self._owe(mark, t_ns, payload, refusal)

    def end(self, t_ns: int, payload: bytes) -> None:
        """Append the last record of this exchange; if there is no room now, the journal does so later."""
        self._journal.settle()
        self._owe(Mark.END, t_ns, payload, "")
        if not self.pay():
            self._journal.owes(self)

    def pay(self) -> bool:
        """Write the records still owed, in order. Returns whether none is left."""
        while self._owed:
            first = self._owed[0]
            if isinstance(first, _Loss) and len(self._owed) == 1 and self._journal.full:
                return False  # the next chunk will be lost too: one gap, not one a chunk
            if self._journal.write(self.number, *(first.record() if isinstance(first, _Loss) else first)) is not None:
                return False
            del self._owed[0]
        return True

    def _owe(self, mark: Mark, t_ns: int, payload: bytes, reason: str) -> None:
        if mark not in DATA_MARKS:
            self._owed.append((mark, t_ns, payload))
            return
        last = self._owed[-1] if self._owed else None
        if not isinstance(last, _Loss) or last.mark != mark:
            last = _Loss(mark, t_ns, reason)
            self._owed.append(last)
        last.add(t_ns, payload)
