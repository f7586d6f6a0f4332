"""The journal: what passed, in order, on disk before the client has it.

One directory a recorder, `<root>/<recorder_id>/`, holding segments `000001.seg`, `000002.seg` … of
records. The writer appends each record with one `writev(2)` to an `O_APPEND` file, so `kill -9` at
any moment leaves every finished write in the file and at most one torn record at its end. The
writer holds a lock on the directory while it lives; a process that gets that lock knows that the
writer is dead.

Rules of this file:

* It knows records, not HTTP and not SSE. Payloads are the caller's.
* Nothing the writer does ever raises to the caller of a record: a client must not suffer from a
  full disk. Bytes that cannot be stored are counted and digested, and become one `GAP` record in
  the journal as soon as there is room for it.
* Reading is elsewhere (`recorder.journal.reader`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from recorder.errors import RecorderError
from recorder.files import to_disk
from recorder.journal.format import (
    DATA_MARKS,
    HEADER,
    MAGIC,
    RECORD_LIMIT,
    Loss,
    Mark,
    record_bytes,
    record_header,
    segment_record,
)
from recorder.journal.held_files import HeldFiles
from recorder.journal.locks import try_lock
from recorder.journal.reader import PARTIAL, SUFFIX, segment_name

log = logging.getLogger(__name__)

# small enough to be deleted soon, large enough that rotation costs nothing
SEGMENT_BYTES = 16 * 2**20
SEGMENTS = 8  # at least so many fit under the bound: only whole ones can be deleted
# an hour of a busy gateway without its database; `_measure` has the other half of the bound
LIMIT_BYTES = 2**30
FREE_SHARE = 0.10  # of the free space: a recorder must not be what fills the disk
# heads, gaps and ends may pass the bound by this much: without them a gap would be silent
CONTROL_SLACK = 16 * 2**20
OWING_LIMIT = 10_000  # ended exchanges whose last records still wait for room on the disk
TOGETHER = 400  # chunks of one write: a system call takes 1,024 buffers, and a chunk is two of them
TURN_NS = 30_000  # chunks of one turn of the loop are a third of that apart, or less
TOGETHER_BYTES = 64 * 2**10  # beyond that the call costs little, and what waits is not yet sent
_CHUNK = int(Mark.CHUNK)
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
# how often a writer at its bound looks whether the ingester has made room
REMEASURE_NS = 100_000_000

Then = Callable[[bytes], None]
"""Takes a chunk that is in the journal now, and does not raise."""


class Journal:
    """The write side of one recorder's journal.

    Used from one thread; `close` when the recorder ends.
    """

    def __init__(
        self,
        root: Path,
        recorder_id: str,
        *,
        limit_bytes: int = LIMIT_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        writev: Callable[[int, list[bytes]], int] = os.writev,
        durable: bool = False,
    ) -> None:
        """Create `<root>/<recorder_id>/` and lock it.

        Raises `RecorderError` if that directory cannot be written.

        `durable`: the caller calls `sync`, so a finished segment that is not yet synced stays open
        for it.
        """
        self.recorder_id = recorder_id
        self.directory = root / recorder_id
        self._limit_bytes, self._longest_segment_bytes, self._writev = (
            limit_bytes,
            segment_bytes,
            writev,
        )
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.mkdir(mode=0o700)
            lock = try_lock(self.directory)
        except OSError as error:
            raise RecorderError(
                f"The journal {self.directory} cannot be written: {error.strerror}."
            ) from error
        if lock is None:
            raise RecorderError(
                f"The journal {self.directory} belongs to another recorder that is still running."
            )
        self._durable = durable
        self._finished = (
            [os.open(each, os.O_RDONLY) for each in (root.parent, root)] if durable else []
        )
        # A thread may be in `sync` just now, with a descriptor that is no longer needed: that
        # closes it.
        self.files = HeldFiles(
            self.directory, lock, self._finished.append if durable else os.close, durable
        )
        self._fd = -1
        self._segment = self._size = self._empty_bytes = self._used = self._exchanges = 0
        self._limit, self._segment_bytes = limit_bytes, segment_bytes
        self._measured_ns = 0
        self._torn = self._closed = self._has_failed = False
        self._owing: deque[ExchangeWriter] = deque()
        self._waiting: list[tuple[ExchangeWriter, int, int, bytes, Then]] = []
        self._waiting_bytes = self._last_ns = 0
        self._rotate()

    def exchange(self) -> ExchangeWriter:
        """Return the writer of a new exchange."""
        self._exchanges += 1
        return ExchangeWriter(self, self._exchanges)

    @property
    def is_waiting(self) -> bool:
        """True if there are chunks for `flush` to write."""
        return bool(self._waiting)

    @property
    def full(self) -> bool:
        """True if the journal is at its bound: then chunks are only counted."""
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

    def wait(self, exchange: ExchangeWriter, t_ns: int, payload: bytes, then: Then) -> bool:
        """Append a chunk, at once or with the next `flush`. Returns whether that is to be called.

        One that comes alone would only be late: another turn of the loop costs more than the call
        that it saves. If this raises, by a fault of ours, the chunk is neither written nor handed
        on.
        """
        is_alone = t_ns - self._last_ns > TURN_NS and not self._waiting
        self._last_ns = t_ns
        if is_alone:
            exchange.write(Mark.CHUNK, t_ns, payload)
            _hand_on(then, payload)
            return False
        self._waiting.append((exchange, _CHUNK, t_ns, payload, then))
        self._waiting_bytes += len(payload)
        if len(self._waiting) < TOGETHER and self._waiting_bytes < TOGETHER_BYTES:
            return len(self._waiting) == 1
        self.flush()
        return False

    def flush(self) -> None:
        """Append the chunks that wait, with one call if nothing is in the way, and hand each on.

        Does not raise.

        Whatever becomes of the records, clients get their bytes.
        """
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        try:
            together = len(waiting) > 1 and self.write_together(waiting)
        except Exception as error:  # a fault of ours: each chunk by itself then
            self._report(error)
            together = False
        for exchange, _, t_ns, payload, then in waiting:
            if not together:
                try:
                    exchange.write(Mark.CHUNK, t_ns, payload)
                except Exception as error:
                    exchange.lose(t_ns, payload, error)
            _hand_on(then, payload)

    def write_together(
        self, records: Sequence[tuple[ExchangeWriter, int, int, bytes, Then | None]]
    ) -> bool:
        """Append records with one call.

        Returns whether that worked: what goes wrong leaves nothing behind, and is for those to deal
        with whose records they are.
        """
        buffers: list[bytes] = []
        size = 0
        for exchange, mark, t_ns, payload, _ in records:
            if exchange.owed or len(payload) > RECORD_LIMIT:
                return False
            header = record_header(exchange.number, mark, t_ns, payload)
            buffers += (header, payload)
            size += len(header) + len(payload)
        if self._torn or self._size >= self._segment_bytes or self._used + size > self._limit:
            return False
        try:
            if self._writev(self._fd, buffers) != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self._drop_torn_record()
            return False
        self._size += size
        self._used += size
        return True

    def sync(self) -> None:
        """Bring all that was written before this call onto the disk.

        In any thread, one at a time. Raises `OSError`.
        """
        current = os.dup(self._fd)  # first: a segment that is finished from now on is in both
        finished = len(self._finished)
        descriptors = [*self._finished[:finished], current]
        try:
            for descriptor in descriptors:
                to_disk(descriptor)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            del self._finished[:finished]

    def look(self) -> None:
        """Put back files that others have deleted (`HeldFiles`).

        Call it once a second, in the thread that writes.
        """
        if self._closed:
            return
        self.files.look()
        name = segment_name(self._segment)
        self._fd = self.files[name]
        # Cut off: it is counted in a finished segment, and what comes would stand where no reader
        # expects it.
        if not self._torn and self.files.size_bytes(name) < self._size and self._rotate():
            self.files.look()

    def seal(self) -> None:
        """End the current segment if it has a record and is the only one: a shipper takes whole
        ones only.

        While others wait for it, it is not hurried: then they get as long as they may be.
        """
        is_only_one = not (self.directory / segment_name(self._segment - 1)).exists()
        if is_only_one and self._size > self._empty_bytes:
            self._rotate()

    def settle(self) -> None:
        """Write what ended exchanges still owe, as far as there is room."""
        while self._owing and self._owing[0].pay():
            self._owing.popleft()

    def owes(self, exchange: ExchangeWriter) -> None:
        if len(self._owing) < OWING_LIMIT:
            self._owing.append(exchange)
        else:
            log.error("exchange %d ends without a record: the journal has no room", exchange.number)

    def close(self) -> None:
        """Write what is owed if possible, and let go of the directory."""
        self.flush()
        self.settle()
        if self._owing:
            log.error(
                "%d exchanges end without a record: the journal has no room", len(self._owing)
            )
        self.look()
        self.files.close()
        for descriptor in self._finished:
            os.close(descriptor)
        # a late record is refused, and does not land in what gets this number next
        self._fd, self._closed = -1, True

    def _report(self, error: Exception) -> None:
        """Log a fault of ours, the first only: there may be one with every chunk."""
        if not self._has_failed:
            self._has_failed = True
            log.error(
                "chunks could not be written together: %s", type(error).__name__, exc_info=error
            )

    def _rotate(self) -> bool:
        """Continue in a new segment; return whether that worked.

        It gets its name when it can be read: a reader that sees it takes the one before for
        finished.
        """
        if self._closed:
            return False
        path = self.directory / segment_name(self._segment + 1)
        partial = path.with_suffix(PARTIAL)
        beginning = MAGIC + segment_record(self._size) if self._segment else MAGIC
        try:
            fd = os.open(partial, _FLAGS, 0o600)
        except OSError as error:
            return self._not_rotated(partial, error)
        try:
            if os.write(fd, beginning) != len(beginning):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.rename(partial, path)
        except OSError as error:
            os.close(fd)
            return self._not_rotated(partial, error)
        if self._durable:
            self._finished += [
                *([os.dup(self._fd)] if self._fd >= 0 else []),
                os.open(self.directory, os.O_RDONLY),
            ]
        if self._fd >= 0:
            self.files.finish(segment_name(self._segment), self._size)
        self.files.hold(path.name, fd)
        self._fd, self._size, self._empty_bytes, self._torn = (
            fd,
            len(beginning),
            len(beginning),
            False,
        )
        self._segment += 1
        self._measure()
        return True

    def _not_rotated(self, partial: Path, error: OSError) -> bool:
        with contextlib.suppress(OSError):
            partial.unlink()
        if self._fd < 0:
            raise RecorderError(
                f"The journal {self.directory} cannot be written: {error.strerror}."
            ) from error
        return False

    def _drop_torn_record(self) -> None:
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            # a next segment must follow before anything else does: then a reader drops the tail
            self._torn = True

    def _make_room(self) -> None:
        """At the bound: look from time to time whether the ingester has deleted segments, and end
        the current one, so that it can delete that one too.
        """
        now_ns = time.monotonic_ns()
        if now_ns - self._measured_ns >= REMEASURE_NS:
            self._measured_ns = now_ns
            if not (self._size > self._empty_bytes and self._rotate()):
                self._measure()

    def _measure(self) -> None:
        """Measure how much the segments take, and how much they may take now."""
        try:
            sizes = [
                entry.stat().st_size
                for entry in os.scandir(self.directory)
                if entry.name.endswith(SUFFIX)
            ]
            disk = os.statvfs(self.directory)
        except OSError:
            return
        self._used = sum(sizes)
        self._limit = min(
            self._limit_bytes, int((disk.f_bavail * disk.f_frsize + self._used) * FREE_SHARE)
        )
        self._segment_bytes = min(self._longest_segment_bytes, self._limit // SEGMENTS)


class ExchangeWriter:
    """The writer of one exchange's records, in order, with a count of the bytes for which there was
    no room.

    No method raises, whatever the disk does; a fault of the journal itself is a reason for a gap,
    like a full disk, and logged once with its traceback.

    `later(t_ns, payload, then)` appends a chunk, at the latest with the next `Journal.flush`, and
    hands it to `then`. It returns whether that is to be called. Whatever is written before that
    call is written after the chunk.
    """

    def __init__(self, journal: Journal, number: int) -> None:
        self.number = number
        self.owed: list[Loss | tuple[Mark, int, bytes]] = []  # what must come first
        # no call of ours in between: each chunk passes here
        self.later = partial(journal.wait, self)
        self._journal = journal
        self._has_failed = False

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        """Append a record of this exchange, or count it as lost.

        Data over `RECORD_LIMIT` becomes several records.
        """
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
        written = [(self, mark, t_ns, payload, None) for mark, payload in records]
        if not self._append_together(written):
            for _, mark, _, payload, _ in written:
                self.write(mark, t_ns, payload)

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        """Append the last chunk, if there is one, and the last record; if there is no room, the
        journal does later.
        """
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
            if all(isinstance(each, Loss) for each in self.owed) and self._journal.full:
                return False  # the next chunk will be lost too: one gap, not one a chunk
            if self._append(*(first.record() if isinstance(first, Loss) else first)) is not None:
                return False
            del self.owed[0]
        return True

    def lose(self, t_ns: int, data: bytes, error: Exception) -> None:
        """Count a chunk that is not in the journal because of an error of the recorder."""
        self._owe(Mark.CHUNK, t_ns, data, self._fault(error))

    def _append(self, mark: Mark, t_ns: int, payload: bytes) -> str | None:
        try:
            return self._journal.write(self.number, mark, t_ns, payload)
        except Exception as error:
            return self._fault(error)

    def _append_together(
        self, records: Sequence[tuple[ExchangeWriter, int, int, bytes, Then | None]]
    ) -> bool:
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
        loss = self._open_loss(mark)
        if loss is None:
            loss = Loss(mark, t_ns, reason)
            self.owed.append(loss)
        loss.add(t_ns, payload)

    def _open_loss(self, mark: Mark) -> Loss | None:
        """Return the count that a lost chunk belongs to, if there is one: chunks of two directions
        take turns.
        """
        for each in reversed(self.owed):
            if not isinstance(each, Loss):
                break
            if each.mark == mark:
                return each
        return None


def _hand_on(then: Then, payload: bytes) -> None:
    try:
        then(payload)
    except Exception:  # which it does not: but one client's trouble must never be another one's
        log.exception("a chunk could not be handed on")
