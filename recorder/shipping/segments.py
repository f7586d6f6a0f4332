"""The names in a bucket, and what it has of each recorder.

| name | is |
|---|---|
| `RECORDER/000001-SHA256.seg` | a segment of its journal, byte for byte |
| `RECORDER/end` | the recorder has ended: no segment follows |
| `RECORDER/carried-SEGMENT-OFFSET` | the records of exchanges that are open at that place, of a collector |
| `RECORDER/lease-000001` | see `recorder.shipping.lease` |

Before `RECORDER` there may be one folder, `EDGE/`, of an edge that may write nowhere else. Any
other name is of another program, and is not touched.

The checksum is in the name, so that it holds in every store, and another content would be another
object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from recorder.errors import RecorderError
from recorder.journal.format import MAGIC, READABLE
from recorder.journal.reader import PREFIX, SUFFIX
from recorder.shipping.bucket import StoredObject

END = "end"
LEASE = "lease-"
# a segment has 16 MiB, and the record with which it is full one of 16 MiB
SEGMENT_LIMIT_BYTES = 64 * 2**20

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(
    rf"(?P<folder>(?:[\w-][\w.-]{{0,127}}/)?{_UUID})/"
    rf"(?:(?P<segment>\d{{6,9}})-(?P<sha256>[0-9a-f]{{64}}){re.escape(SUFFIX)}"
    rf"|{LEASE}(?P<lease>\d{{6,9}})|(?P<carried>{PREFIX}\d+-\d+)|{END})",
    re.ASCII,
)


class UnreadableSegmentError(RecorderError):
    """A segment that this version cannot take. It stays where it is."""


class Segment(NamedTuple):
    """One segment in a bucket."""

    number: int
    sha256: str
    object: StoredObject

    def require_size(self) -> None:
        """Raise `UnreadableSegmentError` if it is too long to be one."""
        if self.object.size_bytes > SEGMENT_LIMIT_BYTES:
            raise UnreadableSegmentError(f"{self.object.name} is too long for a segment.")

    def check(self, data: bytes) -> None:
        """Raise `UnreadableSegmentError` if this is not the segment that was shipped, or one of
        another version.
        """
        if sha256(data).hexdigest() != self.sha256:
            raise UnreadableSegmentError(
                f"{self.object.name} is not what was shipped: its checksum differs."
            )
        if data[: len(MAGIC)] not in READABLE:
            raise UnreadableSegmentError(
                f"{self.object.name} was written by another version of recorder: upgrade this collector."
            )


class Shipped(msgspec.Struct):
    """What a bucket has of one recorder."""

    segments: list[Segment] = []
    carried: list[str] = []
    lease: int = 0  # the highest number, 0 without one
    leases: list[str] = []
    leased_s: float = 0.0  # when the newest lease was written, by the clock of the store
    has_ended: bool = False

    @property
    def newest(self) -> int:
        """Return the number of the newest segment; 0 without one."""
        return self.segments[-1].number if self.segments else 0

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing but leases."""
        return not (self.segments or self.carried or self.has_ended)


def by_recorder(objects: Iterable[StoredObject]) -> dict[str, Shipped]:
    """Return what a bucket has, by recorder with the folder before it, segments in order."""
    found: dict[str, Shipped] = {}
    for each in objects:
        name = _NAME.fullmatch(each.name)
        if name is None:
            continue
        shipped = found.setdefault(name["folder"], Shipped())
        if name["segment"]:
            shipped.segments.append(Segment(int(name["segment"]), name["sha256"], each))
        elif name["lease"]:
            shipped.leases.append(each.name)
            shipped.lease = max(shipped.lease, int(name["lease"]))
            shipped.leased_s = max(shipped.leased_s, each.stored_s)
        elif name["carried"]:
            shipped.carried.append(each.name)
        else:
            shipped.has_ended = True
    for shipped in found.values():
        shipped.segments.sort()
        shipped.leases.sort(key=in_order)
    return found


def recorder_of(folder: str) -> str:
    """Return the recorder whose objects are in a folder."""
    return folder.rpartition("/")[2]


def settled(before: Mapping[str, Shipped], found: dict[str, Shipped]) -> dict[str, Shipped]:
    """Return what was found, without segments that are newer than the newest of a list before.

    A folder is not read at one moment: who sees a segment may have missed the one before it, and
    sees that the next time.
    """
    for folder, shipped in found.items():
        earlier = before.get(folder, Shipped())
        shipped.segments = [each for each in shipped.segments if each.number <= earlier.newest]
        shipped.has_ended = shipped.has_ended and earlier.has_ended
    return found


def in_order(name: str) -> tuple[int, str]:
    """Return what sorts leases, and carried records, by their numbers: these may outgrow their
    zeros in some weeks.
    """
    return len(name), name


def segment_object(recorder_id: str, path: Path, data: bytes) -> str:
    """Return the name of the object of a segment."""
    return f"{recorder_id}/{path.stem}-{sha256(data).hexdigest()}{SUFFIX}"
