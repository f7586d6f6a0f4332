"""Whether what a recorder takes is flat: samples of it, and bounds for each figure with their
reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

MIB = 2**20


class Sample(msgspec.Struct):
    """What there was at one moment."""

    at_s: float
    starts: int  # of the recorder so far
    rss_bytes: int
    descriptors: int
    threads: int
    ingester_rss_bytes: int
    wal_bytes: int
    journal_bytes: int
    lag_s: float | None


class Bound(NamedTuple):
    """How much something may grow in the judged time, how much it may be at all, and why."""

    drift: float
    most: float
    why: str


BOUNDS: Mapping[str, Bound] = {
    "rss_bytes": Bound(
        24 * MIB,
        400 * MIB,
        "arenas settle within a few MiB; 1 KiB left by each exchange would be 50 MiB an hour",
    ),
    "descriptors": Bound(
        40,
        1_000,
        "two a stream and some idle ones, more in bursts; one leaked a minute would be 50 an hour",
    ),
    "threads": Bound(2, 64, "a fixed pool"),
    "ingester_rss_bytes": Bound(
        96 * MIB,
        512 * MIB,
        "what is not committed yet, up to 16 MiB of events and their rows; it is restarted often",
    ),
    "wal_bytes": Bound(
        48 * MIB,
        192 * MIB,
        "emptied in idle moments, cut to 64 MiB; what is ingested after a lock comes at once",
    ),
    "journal_bytes": Bound(
        32 * MIB,
        512 * MIB,
        "what passes in the longest hold, and the segments that open streams keep: two of 16 MiB",
    ),
}


class Trend(msgspec.Struct):
    """How one figure went."""

    name: str
    drift: float  # of the line through the judged samples, from their first to their last
    most: float  # of all samples
    bound: Bound

    @property
    def is_flat(self) -> bool:
        return self.drift <= self.bound.drift and self.most <= self.bound.most


def trends(samples: Sequence[Sample], judged: Sequence[Sample]) -> list[Trend]:
    """Of every figure that has bounds."""
    return [
        Trend(
            name,
            _drift([(each.at_s, getattr(each, name)) for each in judged]),
            _most(samples, name),
            bound,
        )
        for name, bound in BOUNDS.items()
    ]


def _most(samples: Sequence[Sample], name: str) -> float:
    return max((float(getattr(each, name)) for each in samples), default=0.0)


def _drift(points: Sequence[tuple[float, float]]) -> float:
    """Least squares: how far the line rises over all points."""
    if len(points) < 3:
        return 0.0
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    rise: float = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return rise * (points[-1][0] - points[0][0])
