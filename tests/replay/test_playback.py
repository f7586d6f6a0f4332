"""`recorder.replay.playback`: frames are due at absolute times, so that no error is passed on."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from recorder.model.events import Event
from recorder.replay.playback import Clock, paced

MS = 1_000_000


class TestClock(Clock):
    """A clock that stands still but for sleeping, and wakes up late by what it is told."""

    __test__ = False

    def __init__(self, late_ns: int = 0) -> None:
        self.time_ns = 1_000 * MS
        self.late_ns = late_ns
        self.now_ns = lambda: self.time_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        self.time_ns = max(self.time_ns, deadline_ns + self.late_ns)


async def frames(times_ns: list[int]) -> AsyncIterator[Event]:
    for pos, t_ns in enumerate(times_ns):
        yield Event("s", "x", pos, "frame", t_ns, None, None, None, None, b"", None, None, b"")


async def played(times_ns: list[int], speed: float | None, clock: TestClock, work_ns: int = 0) -> list[int]:
    """When each frame came, since the first; the consumer takes `work_ns` over each."""
    came: list[int] = []
    async for _ in paced(frames(times_ns), speed, clock):
        came.append(clock.time_ns)
        clock.time_ns += work_ns
    return [at - came[0] for at in came]


times = st.lists(st.integers(0, 10_000 * MS), min_size=1).map(sorted)


@given(times)
async def test_at_speed_one_frames_come_when_they_came(recorded: list[int]) -> None:
    assert await played(recorded, 1.0, TestClock()) == [t_ns - recorded[0] for t_ns in recorded]


@given(times, st.floats(0.01, 100))
async def test_speed_divides_every_time(recorded: list[int], speed: float) -> None:
    expected = [int((t_ns - recorded[0]) / speed) for t_ns in recorded]
    assert await played(recorded, speed, TestClock()) == expected


@given(times)
async def test_at_top_speed_nothing_waits(recorded: list[int]) -> None:
    assert await played(recorded, None, TestClock()) == [0] * len(recorded)


async def test_a_late_frame_does_not_delay_the_next() -> None:
    recorded = [number * 10 * MS for number in range(1_000)]
    came = await played(recorded, 1.0, TestClock(late_ns=2 * MS), work_ns=5 * MS)
    assert max(at - t_ns for at, t_ns in zip(came, recorded, strict=True)) <= 2 * MS


async def test_the_real_clock_is_not_early_and_hardly_late() -> None:
    clock = Clock()
    late: list[int] = []
    for wait_ms in (0, 1, 2, 5, 20) * 5:
        deadline_ns = time.monotonic_ns() + wait_ms * MS
        await clock.sleep_until(deadline_ns)
        late.append(time.monotonic_ns() - deadline_ns)
    assert min(late) >= 0
    assert sorted(late)[len(late) // 2] < 2 * MS
