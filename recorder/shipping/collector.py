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
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from recorder.errors import BucketError, RecorderError, StoreError
from recorder.journal.locks import claimed
from recorder.journal.reader import SUFFIX, is_journal, remove
from recorder.shipping.bucket import Bucket
from recorder.shipping.collection import Collection, Fetched
from recorder.shipping.lease import Leases
from recorder.shipping.segments import Segment, Shipped, by_recorder, recorder_of, settled
from recorder.shipping.status import Status
from recorder.store.write.retry import COMPLAIN_S, Pause, Stopped
from recorder.store.write.writer import Store
from recorder.wire.redaction.bodies import BY_SHAPE, Redactor

log = logging.getLogger(__name__)

# that ask the bucket: an answer takes some tens of milliseconds, and edges want several a second
# each
THREADS = 16
# after a recorder could not be begun: the store refused, or a collector here has not let go of it
LATER_S = 2.0
TAKEN_AT_ONCE = 16  # leases in one look: several collectors that begin together share the recorders
# while a look is too short for what is there: one that has less to do takes the others
TAKEN_BEHIND = 2
LIST_AGAIN_S = 5.0  # after so long in one look: other recorders may have begun, or ended
QUIET_S = 30.0  # without a segment: by then a recorder has nothing open, or a model thinks
# without a segment: longer than a laptop is off whose journal has the rest of a stream
GONE_S = 7 * 86400.0
# after what cannot be taken: an upgrade or a person may help, and nothing else is kept waiting
AGAIN_S = 60.0
# of all objects: what comes waits for as long
SLOW_LIST_S = 3.0
SLOW = "takes seconds for a list: it is slow, or has many objects that are not of edges."


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
        self._held: dict[str, Collection] = {}
        self._quiet: dict[str, _Quiet] = {}  # recorders that were let go because nothing came
        self._not_before: dict[str, float] = {}
        self._complained_s = float("-inf")
        self._is_behind = False
        self.status = status or Status(bucket.url)
        self._parts = (bucket, keep, store, pause, redactor)
        self._keep, self._threads = keep, ThreadPoolExecutor(THREADS, thread_name_prefix="bucket")
        self._keeping: list[Future[None]] = []
        self._outdated: list[str] = []  # objects that were seen in this look

    def step(self) -> bool:
        """Look at the bucket once, and ingest what there is. Return whether there was something.

        Raise `StoreError` or `Stopped` when the database refuses for good, or the pause says so:
        then this collector is of no use any more.
        """
        began_s = time.monotonic()
        try:
            found = by_recorder(self._bucket.list())
            if not self._bucket.lists_in_order:
                found = settled(found, by_recorder(self._bucket.list()))
        except BucketError as error:
            self._complain(error)
            return False
        self._forget_all_but(found)
        self._refuse_doubles(found)
        if time.monotonic() - began_s > SLOW_LIST_S:
            self._complain(BucketError(f"{self._bucket.url} {SLOW}"))
        self._weigh(found)
        has_taken = self._collect_all(found, began_s)
        self._delete_outdated()
        return has_taken

    def _collect_all(self, found: Mapping[str, Shipped], began_s: float) -> bool:
        """Take what there is, some of each recorder in turn: where much waits a list takes long.

        Return whether there was something.
        """
        wanted = self._wanted(found)
        has_taken = False
        while self._collect_some(found, wanted):
            has_taken = True
            self._weigh(found)
            self._is_behind = time.monotonic() - began_s > LIST_AGAIN_S
            if self.status.waiting == 0 or self._is_behind:
                break
            wanted = [*self._held]
        self._weigh(found)
        return has_taken

    def _collect_some(self, found: Mapping[str, Shipped], recorder_ids: Iterable[str]) -> bool:
        """Take the next segments of each recorder, while those after it are fetched. Return whether
        there was something.
        """
        has_taken = False
        wanted = deque(recorder_ids)
        fetching = deque[tuple[str, Future[list[Fetched] | None]]]()
        while (wanted or fetching) and not self._pause(0):
            while wanted and len(fetching) < THREADS:
                recorder_id = wanted.popleft()
                fetched = self._threads.submit(self._fetch, recorder_id, found[recorder_id])
                fetching.append((recorder_id, fetched))
            recorder_id, fetched = fetching.popleft()
            has_taken = self._collect(recorder_id, found[recorder_id], fetched) or has_taken
        return has_taken

    def _forget_all_but(self, found: Mapping[str, Shipped]) -> None:
        """Let go of recorders of which the bucket has nothing: it has new ones forever."""
        for recorder_id in self._held.keys() - found.keys():
            self._drop(recorder_id)
        for known in (self._quiet, self._not_before, self.status.problems):
            for name in known.keys() - found.keys():
                del known[name]
        self._leases.forget_all_but(found.keys())

    def _refuse_doubles(self, found: Mapping[str, Shipped]) -> None:
        """Name recorders that are in the folders of two edges: one is not who it says it is."""
        folders: dict[str, str] = {}
        for folder in sorted(found, key=lambda each: each not in self._held):
            first = folders.setdefault(recorder_of(folder), folder)
            if first != folder and folder not in self._held:
                self._not_before[folder] = self._clock() + AGAIN_S
                self._cannot_take(folder, f"{first} is of the same recorder. Delete the wrong one.")

    def _keep_leases(self) -> None:
        """Keep the leases of all recorders, in a thread: a large commit takes longer than a lease
        lasts.
        """
        if wait(self._keeping, timeout=0).not_done or not self._leases.is_one_due:
            return
        self._keeping = [self._threads.submit(self._leases.keep)]

    def _cannot_take(self, recorder_id: str, why: str, error: Exception | None = None) -> None:
        """Say that what a recorder shipped stays, once for each reason."""
        if self.status.problems.get(recorder_id) != why or error is not None:
            log.error(
                "the segments of %s stay where they are: %s", recorder_id, why, exc_info=error
            )
        self.status.problems[recorder_id] = why

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
        return [*self._held, *others[: TAKEN_BEHIND if self._is_behind else TAKEN_AT_ONCE]]

    def _is_quiet(self, recorder_id: str, shipped: Shipped) -> bool:
        """Return whether all was taken that there is of a recorder, and nothing is to be done."""
        quiet = self._quiet.get(recorder_id)
        if quiet is None or shipped.has_ended or quiet.newest != shipped.newest:
            return False
        return quiet.has_ended or not _is_gone(shipped, time.time())

    def _is_over(
        self, recorder_id: str, shipped: Shipped, collection: Collection, has_news: bool
    ) -> bool:
        """Return whether nothing has come of a recorder for long; then what it has open may be
        ended.
        """
        now_s = self._clock()
        if has_news:
            collection.news_s = now_s
        if now_s - collection.news_s < QUIET_S:
            return False
        # by the clock of the store: that of this machine may have jumped
        is_gone = _is_gone(shipped, shipped.leased_s)
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
        names, self._outdated = [*dict.fromkeys(self._outdated)], []
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
        self._threads.shutdown(cancel_futures=True)
        for recorder_id in self._held.keys() | self._leases.held:
            is_there = self._drop(recorder_id, releases=is_there)

    def _collect(
        self, recorder_id: str, shipped: Shipped, fetching: Future[list[Fetched] | None]
    ) -> bool:
        """Take what was fetched of one recorder, if it is for this collector.

        Return whether there was something.
        """
        try:
            return self._take(recorder_id, shipped, fetching.result())
        except (StoreError, Stopped):
            raise
        except BucketError as error:
            self._complain(error)
            if recorder_id not in self._held:
                self._not_before[recorder_id] = self._clock() + LATER_S
        except OSError as error:
            why = f"{self._root} cannot be written: {error.strerror}. Make room on this machine."
            self._leave(recorder_id, why)
        except Exception as error:
            # what is wrong with one recorder must not keep others from being collected
            is_ours = not isinstance(error, RecorderError)
            self._leave(recorder_id, str(error), error if is_ours else None)
        return False

    def _take(self, recorder_id: str, shipped: Shipped, fetched: Sequence[Fetched] | None) -> bool:
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
        self._keep_leases()
        collection.take(fetched, shipped, self._keep_leases)
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

    def _leave(self, recorder_id: str, why: str, error: Exception | None = None) -> None:
        """Let go of a recorder that cannot be taken now, for a while."""
        self._cannot_take(recorder_id, why, error)
        self._not_before[recorder_id] = self._clock() + AGAIN_S
        self._drop(recorder_id)

    def _begin(self, recorder_id: str, shipped: Shipped) -> None:
        collection = Collection(recorder_id, self._root, *self._parts)
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
                wait(self._keeping)  # or it makes the next number after that
                self._leases.release(recorder_id)
                return True
        return False

    def _weigh(self, found: Mapping[str, Shipped]) -> None:
        """Note what waits: segments of recorders that this collector has, and of those that nobody
        has taken.
        """
        waiting: list[Segment] = []
        for recorder_id, shipped in found.items():
            collection = self._held.get(recorder_id)
            if collection is not None:
                waiting += collection.left(shipped.segments)
            elif self._leases.may_be_had(recorder_id, shipped) and not self._is_quiet(
                recorder_id, shipped
            ):
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


def _is_gone(shipped: Shipped, now_s: float) -> bool:
    """Return whether a recorder shipped its newest segment so long ago that no more is expected."""
    return bool(shipped.segments) and now_s - shipped.segments[-1].object.stored_s > GONE_S
