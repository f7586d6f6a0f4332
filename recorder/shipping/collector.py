"""Bucket → store: the segments of each recorder, in order, each once.

A collector makes the journal of a recorder again in a folder of its own, segment by segment, and
has an ingester read it: what holds for a journal holds for this one. The place in the log says what
of it is needed, so segments from before it are deleted, and another collector that takes over
begins there. Records of open exchanges that are carried over go into the bucket too, before the
place is committed that needs them.

Rules of this file:

* The folder is a copy of what the bucket has. It is emptied before anything is put into it.
* A segment that cannot be taken stays, and so do those after it: nothing is skipped. Other
  recorders go on.
* A recorder of which nothing comes is let go: then it costs no request. If nothing is open, its
  segments are deleted.
* Whatever fails, the next look goes on from what is in the log.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from recorder.errors import BucketError, RecorderError, StoreError
from recorder.ingest.ingester import Ingester
from recorder.journal.format import START, Position
from recorder.journal.locks import claimed
from recorder.journal.reader import (
    INGESTER_LOCK,
    PARTIAL,
    SUFFIX,
    carried_path,
    is_journal,
    remove,
    segment_name,
)
from recorder.shipping.bucket import Bucket
from recorder.shipping.lease import Leases
from recorder.shipping.segments import END, Segment, Shipped, by_recorder, in_order
from recorder.shipping.status import Status
from recorder.store.write.retry import COMPLAIN_S, Pause, Stopped
from recorder.store.write.writer import Store
from recorder.wire.redaction.bodies import BY_SHAPE, Redactor

log = logging.getLogger(__name__)

# an edge ends a segment each second: a quarter of a minute is read again after a restart
CARRY_SEGMENTS = 16
Fetched = tuple[Segment, bytes]

# that ask the bucket: an answer takes some tens of milliseconds, and edges want several a second
# each
THREADS = 16
# of one recorder in one look, or one segment: 256 MiB in all threads, then the others come
FETCH_BYTES = 8 * 2**20
FETCH_SEGMENTS = 8  # the same in numbers: a look takes seconds, or leases run out meanwhile
# after a recorder could not be begun: the store refused, or a collector here has not let go of it
LATER_S = 2.0
TAKEN_AT_ONCE = 4  # leases in one look: several collectors that begin together share the recorders
QUIET_S = 30.0  # without a segment: by then a recorder has nothing open, or a model thinks
# without a segment: longer than a laptop is off whose journal has the rest of a stream
GONE_S = 7 * 86400.0
# after what cannot be taken: an upgrade or a person may help, and nothing else is kept waiting
AGAIN_S = 60.0


def clean(root: Path) -> None:
    """Remove what collectors of this machine left that were killed: the bucket has all of it."""
    for directory in sorted(root.iterdir()) if root.exists() else []:
        with claimed(directory) if is_journal(directory) else nullcontext(False) as is_left:
            if is_left:
                remove(directory)


class Collector:
    """A collector of all recorders in a bucket whose leases it gets. Used from one thread."""

    def __init__(
        self,
        bucket: Bucket,
        store: Store,
        root: Path,
        pause: Pause,
        redactor: Redactor = BY_SHAPE,
        *,
        keep: Bucket | None = None,
        status: Status | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`root` is the folder for journals.

        `keep` gets the segments that are deleted from the bucket. `status` is kept up to date.
        """
        self._bucket, self._root, self._pause, self._clock = bucket, root, pause, clock
        me = f"{platform.node()} {os.getpid()} {secrets.token_hex(8)}"
        self._leases = Leases(bucket, me, clock)
        self._held: dict[str, _Collection] = {}
        self._quiet: dict[str, _Quiet] = {}  # recorders that were let go because nothing came
        self._not_before: dict[str, float] = {}
        self._complained_s = float("-inf")
        self.status = status or Status(bucket.url)
        self._parts = (bucket, keep, store, pause, redactor)
        self._keep, self._threads = keep, ThreadPoolExecutor(THREADS, thread_name_prefix="bucket")
        self._outdated: list[str] = []  # objects that were seen in this look

    def step(self) -> bool:
        """Look at the bucket once, and ingest what there is. Return whether there was something.

        Raise `StoreError` or `Stopped` when the database refuses for good, or the pause says so:
        then this collector is of no use any more.
        """
        try:
            found = by_recorder(self._bucket.list())
        except BucketError as error:
            self._complain(error)
            return False
        self.status.problems.pop(self._bucket.url, None)
        self._weigh(found)
        for recorder_id in [*self._held]:
            if recorder_id not in found:
                self._drop(recorder_id)
        for recorder_id in self._quiet.keys() - found.keys():
            del self._quiet[recorder_id]
        wanted = self._wanted(found)
        has_taken = False
        for begin in range(0, len(wanted), THREADS):
            if self._pause(0):
                break
            batch = wanted[begin : begin + THREADS]
            fetching = [self._threads.submit(self._fetch, each, found[each]) for each in batch]
            for recorder_id, fetched in zip(batch, fetching, strict=True):
                has_taken = self._collect(recorder_id, found[recorder_id], fetched) or has_taken
        self._weigh(found)
        self._delete_outdated()
        return has_taken

    def _wanted(self, found: Mapping[str, Shipped]) -> list[str]:
        """Return the recorders to look at: those of this collector, and some of the others."""
        now_s = self._clock()
        others: list[str] = []
        for recorder_id, shipped in found.items():
            if recorder_id in self._held or self._not_before.get(recorder_id, 0) > now_s:
                continue
            if self._is_quiet(recorder_id, shipped):
                continue
            if self._leases.may_be_had(recorder_id, shipped):
                others.append(recorder_id)
        return [*self._held, *others[:TAKEN_AT_ONCE]]

    def _is_quiet(self, recorder_id: str, shipped: Shipped) -> bool:
        """Return whether all was taken that there is of a recorder, and nothing is to be done."""
        quiet = self._quiet.get(recorder_id)
        if quiet is None or shipped.has_ended or quiet.newest != shipped.newest:
            return False
        return quiet.has_ended or not _is_gone(shipped)

    def _is_over(
        self, recorder_id: str, shipped: Shipped, collection: _Collection, has_news: bool
    ) -> bool:
        """Return whether nothing has come of a recorder for long; then what it has open may be
        ended.
        """
        now_s = self._clock()
        if has_news:
            collection.news_s = now_s
        if now_s - collection.news_s < QUIET_S:
            return False
        is_gone = _is_gone(shipped)
        if is_gone:
            log.error(
                "recorder %s is gone: what it had open ends where the log has it", recorder_id
            )
        if collection.rest(is_gone=is_gone):
            self._quiet[recorder_id] = _Quiet(shipped.newest, is_gone)
        return True

    def _fetch(self, recorder_id: str, shipped: Shipped) -> list[Fetched] | None:
        """Return segments that are next of one recorder; None if its lease is not to be had.

        In a thread.
        """
        if not self._leases.hold(recorder_id, shipped):
            return None
        collection = self._held.get(recorder_id)
        return [] if collection is None else collection.fetch(shipped)

    def _delete_outdated(self) -> None:
        """Delete what is not needed any more, of all recorders with one request."""
        names, self._outdated = self._outdated, []
        try:
            if self._keep is not None:
                segments = [name for name in names if name.endswith(SUFFIX)]
                list(self._threads.map(self._copy, segments))
            self._bucket.delete(names)
        except BucketError as error:  # the next look sees them again
            self._complain(error)

    def _copy(self, name: str) -> None:
        assert self._keep is not None
        self._keep.put(name, self._bucket.get(name))

    def close(self) -> None:
        """Let go of all recorders. What was taken is in the log."""
        is_there = True  # the bucket: of one that is away nobody waits for more than one answer
        for recorder_id in [*self._held]:
            is_there = self._drop(recorder_id, releases=is_there)
        self._threads.shutdown()

    def _collect(
        self, recorder_id: str, shipped: Shipped, fetching: Future[list[Fetched] | None]
    ) -> bool:
        """Take what was fetched of one recorder, if it is for this collector.

        Return whether there was something.
        """
        try:
            fetched = fetching.result()
            if fetched is None:
                self._drop(recorder_id)
                return False
            if shipped.is_empty:
                self._outdated += shipped.leases  # which somebody could not delete
                self._drop(recorder_id)
                return False
            collection = self._held.get(recorder_id)
            if collection is None:  # where it begins is known now, so the next look fetches
                self._begin(recorder_id, shipped)
                return True
            collection.take(fetched, shipped)
            is_over = collection.has_finished or self._is_over(
                recorder_id, shipped, collection, bool(fetched)
            )
            self._outdated += collection.outdated(shipped)
            self.status.segments += len(fetched)
            self.status.size_bytes += sum(len(data) for _, data in fetched)
            self.status.problems.pop(recorder_id, None)
            if collection.has_finished:
                self._outdated += shipped.leases
            if is_over:
                self._drop(recorder_id)
            return bool(fetched)
        except (StoreError, Stopped):
            raise
        except BucketError as error:
            self._complain(error)
            if recorder_id not in self._held:
                self._not_before[recorder_id] = self._clock() + LATER_S
        except Exception as error:
            # what is wrong with one recorder must not keep others from being collected
            is_ours = not isinstance(error, RecorderError)
            log.error(
                "the segments of %s stay where they are: %s", recorder_id, error, exc_info=is_ours
            )
            self.status.problems[recorder_id] = str(error)
            self._not_before[recorder_id] = self._clock() + AGAIN_S
            self._drop(recorder_id)
        return False

    def _begin(self, recorder_id: str, shipped: Shipped) -> None:
        collection = _Collection(recorder_id, self._root, *self._parts)
        try:
            collection.begin(shipped)
        except BaseException:
            collection.close()
            raise
        collection.news_s = self._clock()
        self._held[recorder_id] = collection

    def _drop(self, recorder_id: str, *, releases: bool = True) -> bool:
        """Let go of a recorder. Return whether its lease is deleted; else that runs out."""
        collection = self._held.pop(recorder_id, None)
        if collection is not None:
            collection.close()
        with suppress(BucketError):
            if releases:
                self._leases.release(recorder_id)
                return True
        return False

    def _weigh(self, found: dict[str, Shipped]) -> None:
        """Note what waits: segments of recorders that this collector has, and of those that nobody
        has taken.
        """
        waiting: list[Segment] = []
        for recorder_id, shipped in found.items():
            collection = self._held.get(recorder_id)
            if collection is not None:
                waiting += collection.left(shipped.segments)
            elif shipped.lease == 0 and not self._is_quiet(recorder_id, shipped):
                waiting += shipped.segments
        self.status.recorders, self.status.waiting = len(self._held), len(waiting)
        self.status.oldest_s = min((each.object.stored_s for each in waiting), default=None)

    def _complain(self, error: BucketError) -> None:
        self.status.problems[self._bucket.url] = str(error)
        now_s = self._clock()
        if now_s - self._complained_s > COMPLAIN_S:
            self._complained_s = now_s
            log.warning("%s", error)


class _Quiet(NamedTuple):
    """A recorder that was let go."""

    newest: int  # segment at that time
    has_ended: bool  # what it had open


def _is_gone(shipped: Shipped) -> bool:
    """Return whether a recorder shipped its newest segment so long ago that no more is expected."""
    return bool(shipped.segments) and time.time() - shipped.segments[-1].object.stored_s > GONE_S


class _Collection:
    """The segments of one recorder, for as long as this collector has its lease."""

    def __init__(
        self,
        recorder_id: str,
        root: Path,
        bucket: Bucket,
        keep: Bucket | None,
        store: Store,
        pause: Pause,
        redactor: Redactor,
    ) -> None:
        self._recorder_id, self._directory = recorder_id, root / recorder_id
        self._bucket, self._keep, self._store = bucket, keep, store
        self._options: Any = {"pause": pause, "redactor": redactor}
        self._claim, self._is_mine = ExitStack(), False
        self._ingester: Ingester | None = None
        self._newest = 0  # segment that was taken
        self.news_s = 0.0  # when something was taken
        self._carried: set[str] = set()  # objects that were made here
        self.has_finished = False

    def begin(self, shipped: Shipped) -> None:
        """Make the folder, and begin where the log is.

        Raise `BucketError` if that cannot be read.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._is_mine = self._claim.enter_context(claimed(self._directory))
        if not self._is_mine:
            raise BucketError(f"Another collector of this machine still has {self._directory}.")
        for path in self._directory.iterdir():
            if path.name != INGESTER_LOCK:
                path.unlink()
        with self._store.looking():
            offset = self._store.offset(self._recorder_id)
        place = Position(*offset) if offset else START
        carried = carried_path(self._directory, place)
        if self._object(carried) in shipped.carried:
            carried.write_bytes(self._bucket.get(self._object(carried)))
        self._newest = place.segment - 1
        self._ingester = Ingester(
            self._store,
            self._directory,
            carry_segments=CARRY_SEGMENTS,
            carried=self._put_carried,
            **self._options,
        )

    def left(self, segments: Iterable[Segment]) -> list[Segment]:
        """Return the segments that are not in the log."""
        return [each for each in segments if each.number > self._newest]

    def fetch(self, shipped: Shipped) -> list[Fetched]:
        """Return the next segments.

        Those before one that cannot be taken are returned without it. In a thread.
        """
        fetched: list[Fetched] = []
        left_bytes = FETCH_BYTES
        for segment in self.left(shipped.segments)[:FETCH_SEGMENTS]:
            left_bytes -= segment.object.size_bytes
            if fetched and left_bytes < 0:
                break
            try:
                segment.require_size()
                data = self._bucket.get(segment.object.name)
                segment.check(data)
            except RecorderError:
                if not fetched:
                    raise
                break
            fetched.append((segment, data))
        return fetched

    def take(self, fetched: Iterable[Fetched], shipped: Shipped) -> None:
        """Ingest segments. After the last one of a recorder that has ended, end what is open."""
        assert self._ingester is not None
        for segment, data in fetched:
            path = self._directory / segment_name(segment.number)
            partial = path.with_suffix(PARTIAL)
            partial.write_bytes(data)
            partial.rename(path)
            self._ingester.drain()
            self._newest = segment.number
        if shipped.has_ended and not self.left(shipped.segments):
            self._finish(shipped)

    def outdated(self, shipped: Shipped) -> list[str]:
        """Return the objects that are not needed any more."""
        if self._ingester is None or self.has_finished:
            return []
        place = self._ingester.place
        names = [each.object.name for each in shipped.segments if each.number < place.segment]
        # Not what is after it: a collector that was thought dead may have put that, and the log may
        # be there.
        current = in_order(self._object(carried_path(self._directory, place)))
        names += [name for name in shipped.carried if in_order(name) < current]
        return [*names, *shipped.leases[:-1]]

    def rest(self, *, is_gone: bool) -> bool:
        """Return whether segments are needed although nothing comes: for what is open, and for its
        rest if a recorder that `is_gone` comes back after all.
        """
        assert self._ingester is not None
        if is_gone:
            self._ingester.end_in_log()
        self._ingester.leave_segment()
        return self._ingester.place.segment <= self._newest

    def close(self) -> None:
        """Remove the folder, if it is this collector's."""
        if self._is_mine:
            remove(self._directory)
        self._claim.close()

    def _finish(self, shipped: Shipped) -> None:
        """End what is open: nothing follows.

        Its place in the log goes after the segments, which it says are done.
        """
        assert self._ingester is not None
        self._ingester.end()
        segments, end = (
            [each.object.name for each in shipped.segments],
            f"{self._recorder_id}/{END}",
        )
        if self._keep is not None:
            for name in [*segments, end]:  # with its end it can be collected again
                self._keep.put(name, self._bucket.get(name))
        self._bucket.delete([*segments, *shipped.carried])
        for name in self._carried - {*shipped.carried}:  # since that was seen
            self._bucket.delete([name])
        self._ingester.forget()
        self._bucket.delete([end])
        self.has_finished = True

    def _put_carried(self, path: Path) -> None:
        self._carried.add(self._object(path))
        try:
            self._bucket.put(self._object(path), path.read_bytes())
        except BucketError as error:
            raise OSError(0, str(error)) from error

    def _object(self, path: Path) -> str:
        return f"{self._recorder_id}/{path.name}"
