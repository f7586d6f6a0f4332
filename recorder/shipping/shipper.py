"""Journal → bucket: each segment that is finished is put there, then deleted.

The journal is the buffer: while the bucket is away it grows up to its bound
(`recorder.journal.writer.LIMIT_BYTES`). The place up to which it is shipped is written down as an
ingester writes down its own, so whoever measures how far a journal is behind measures this too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recorder.journal.format import MAGIC, START, Position
from recorder.journal.locks import claimed_of_dead
from recorder.journal.reader import (
    SEGMENT_BEGINNING,
    ingested,
    remove,
    segment_name,
    segment_numbers,
    write_ingested,
)
from recorder.shipping.bucket import Bucket
from recorder.shipping.segments import END, segment_object


class Shipper:
    """A shipper of one journal.

    Its methods raise `BucketError`; the same call goes on where it stopped.
    """

    def __init__(self, bucket: Bucket, directory: Path) -> None:
        self._bucket, self.directory = bucket, directory

    def step(self, *, writer_is_dead: bool = False) -> bool:
        """Ship the oldest segment that is finished. Return whether there was one."""
        numbers = segment_numbers(self.directory)
        if not writer_is_dead:
            numbers = numbers[:-1]  # the last one is being written
        if not numbers:
            return False
        number = numbers[0]
        path = self.directory / segment_name(number)
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # somebody deleted it; its writer puts it back
            return False
        begins = len(MAGIC) if number == 1 else SEGMENT_BEGINNING
        if len(data) > begins:
            self._bucket.put(segment_object(self.directory.name, path, data), data)
            following = Position(number + 1, 0)
            # first: or its writer puts the segment back
            write_ingested(self.directory, following, following)
        path.unlink(missing_ok=True)
        return True

    def finish(self, between: Callable[[], object]) -> None:
        """Ship the rest of a journal whose recorder is dead, say that nothing follows, and remove
        the journal.

        `between` is called after each segment: a long journal must not keep a living one waiting.
        """
        while self.step(writer_is_dead=True):
            between()
        if ingested(self.directory) != START:
            self._bucket.put(f"{self.directory.name}/{END}", MAGIC)
        remove(self.directory)


def ship_rest(
    bucket: Bucket, directory: Path, between: Callable[[], object] = lambda: None
) -> bool:
    """Ship one journal to its end, if its recorder is dead and no other process ships it.

    Return whether it was so.

    Raise `BucketError`.
    """
    with claimed_of_dead(directory) as mine:
        if mine:
            Shipper(bucket, directory).finish(between)
    return mine


def ship_left_behind(
    bucket: Bucket, root: Path, between: Callable[[], object] = lambda: None
) -> None:
    """Ship what dead recorders left in their journals. Raise `BucketError`."""
    for directory in sorted(root.iterdir()) if root.exists() else []:
        ship_rest(bucket, directory, between)
