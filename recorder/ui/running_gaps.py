"""The gaps between the events of an exchange that goes on: as `Timing` has them at its end, after any event.

A percentile of numbers that come one by one is the end of the lower of two heaps, so an event costs the logarithm of
their count, and not a look at all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush, heappushpop

from recorder.projections.timing import PERCENTS, STALL_NS, Gaps


class _Percentile:
    """A percentile, by nearest rank, of numbers that come one by one: those up to it in one heap, others in another."""

    def __init__(self, percent: int) -> None:
        self._percent, self._count = percent, 0
        self._low: list[int] = []  # negative: the greatest first
        self._high: list[int] = []

    def add(self, number: int) -> None:
        self._count += 1
        if -(-self._count * self._percent // 100) > len(self._low):
            heappush(self._low, -heappushpop(self._high, number))
        else:
            heappush(self._high, -heappushpop(self._low, -number))

    @property
    def value(self) -> int | None:
        return -self._low[0] if self._low else None


class RunningGaps:
    """The gaps between the events of an exchange, which all numbers of are known at any time."""

    def __init__(self) -> None:
        self._seen = 0
        self._percentiles = [_Percentile(percent) for percent in PERCENTS]
        self._longest_ns: int | None = None
        self._stalls = 0
        self._gaps = Gaps()

    def of(self, times: Sequence[int]) -> Gaps:
        """Return the gaps of these times, of which further ones may be there since the last call."""
        if len(times) == self._seen:
            return self._gaps
        for index in range(max(self._seen, 1), len(times)):
            gap = times[index] - times[index - 1]
            for percentile in self._percentiles:
                percentile.add(gap)
            if self._longest_ns is None or gap > self._longest_ns:
                self._longest_ns = gap
            self._stalls += gap > STALL_NS
        self._seen = len(times)
        self._gaps = Gaps(self._longest_ns, self._stalls, *[each.value for each in self._percentiles])
        return self._gaps
