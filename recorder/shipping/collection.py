"""The segments of one recorder, for as long as a collector has its lease.

Used from the thread of its collector, but for `fetch`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from recorder.errors import BucketError, RecorderError
from recorder.ingest.ingester import Ingester
from recorder.journal.format import START, Position
from recorder.journal.locks import claimed
from recorder.journal.reader import (
    INGESTER_LOCK,
    PARTIAL,
    carried_path,
    remove,
    segment_name,
)
from recorder.shipping.bucket import Bucket
from recorder.shipping.segments import END, Segment, Shipped, in_order, recorder_of
from recorder.store.write.retry import Pause
from recorder.store.write.writer import Store
from recorder.wire.redaction.bodies import Redactor

log = logging.getLogger(__name__)

# an edge ends a segment every two seconds: half a minute is read again after a restart
CARRY_SEGMENTS = 16
# of one recorder in one look, or one segment: 256 MiB in all threads, then the others come
FETCH_BYTES = 8 * 2**20
FETCH_SEGMENTS = 8  # the same in numbers: a look takes seconds, and the others wait
Fetched = tuple[Segment, bytes]


class Collection:
    """The segments of one recorder, for as long as this collector has its lease."""

    def __init__(
        self,
        folder: str,
        root: Path,
        bucket: Bucket,
        keep: Bucket | None,
        store: Store,
        pause: Pause,
        redactor: Redactor,
    ) -> None:
        # with its folder in the bucket, and without: that is how the log has it
        self._folder, self._recorder_id = folder, recorder_of(folder)
        self._directory = root / self._recorder_id
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
        if offset is None and shipped.segments and shipped.segments[0].number > 1:
            log.error(
                "%s begins in its middle, with segment %d: another log has those before, and a "
                "prefix is for one log.",
                *(self._folder, shipped.segments[0].number),
            )
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

    def take(
        self, fetched: Sequence[Fetched], shipped: Shipped, between: Callable[[], object]
    ) -> None:
        """Ingest segments. After the last one of a recorder that has ended, end what is open.

        `between` is called between large commits.
        """
        assert self._ingester is not None
        for segment, data in fetched:
            path = self._directory / segment_name(segment.number)
            partial = path.with_suffix(PARTIAL)
            partial.write_bytes(data)
            partial.rename(path)
        self._ingester.drain(between)
        if fetched:
            self._newest = fetched[-1][0].number
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
            f"{self._folder}/{END}",
        )
        if self._keep is not None:
            for name in [*segments, end]:  # with its end it can be collected again
                self._keep.put(name, self._bucket.get(name))
        self._bucket.delete([*segments, *shipped.carried])
        for name in self._carried - {*shipped.carried}:  # since that was seen
            self._bucket.delete([name])
        self._ingester.forget()
        self._bucket.delete([end])
        shipped.segments, shipped.carried, shipped.has_ended = [], [], False
        self.has_finished = True

    def _put_carried(self, path: Path) -> None:
        self._carried.add(self._object(path))
        try:
            self._bucket.put(self._object(path), path.read_bytes())
        except BucketError as error:
            raise OSError(0, str(error)) from error

    def _object(self, path: Path) -> str:
        return f"{self._folder}/{path.name}"
