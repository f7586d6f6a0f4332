"""What the recorder adds to the time of a chunk: the same streams through it and around it, in the
same rounds.

For a machine of two cores that has little else to do. A bound is several times what was measured
there (docs/performance.md): what it is to find is a recorder that has begun to wait for something.
"""

from __future__ import annotations

from statistics import median

import pytest

from benchmarks.paces import Paced
from benchmarks.settings import Settings
from benchmarks.streams import SCENARIOS, Scenario, rounds

P50_US, P99_US, FIRST_US = 300, 3_000, 2_000
STREAMS = Scenario("50 streams, 50 events/s each", 50, lambda _: Paced(50, 50), ())


def added(scenario: Scenario, *figures: str) -> dict[str, float]:
    """How much later than around it, in µs: the median of rounds."""
    measured = rounds(scenario, Settings())
    assert all(row["broken"] == 0 for each in measured for row in each.values())
    return {
        figure: median(each["recording"][figure] - each["direct"][figure] for each in measured)
        for figure in figures
    }


@pytest.mark.slow
def test_a_chunk_of_50_streams_comes_hardly_later_than_without_a_recorder() -> None:
    measured = added(STREAMS, "p50_us", "p99_us")
    assert measured["p50_us"] <= P50_US
    assert measured["p99_us"] <= P99_US


@pytest.mark.slow
def test_a_first_chunk_comes_hardly_later_than_without_a_recorder() -> None:
    assert added(SCENARIOS["first"], "first_us")["first_us"] <= FIRST_US
