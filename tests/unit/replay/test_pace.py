"""`recorder.replay.pace`: frames are due at absolute times since the request, so that no error is
passed on.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.events import Event
from recorder.replay.pace import LOOP, Clock, Waiting, paced

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


async def played(
    times_ns: list[int], speed: float | None, clock: TestClock, work_ns: int = 0
) -> list[int]:
    """When each frame came, since the request; the consumer takes `work_ns` over each."""
    came: list[int] = []
    asked_ns = clock.time_ns
    async for _ in paced(frames(times_ns), speed, clock):
        came.append(clock.time_ns - asked_ns)
        clock.time_ns += work_ns
    return came


times = st.lists(st.integers(0, 10_000 * MS), min_size=1).map(sorted)


@given(times)
async def test_at_speed_one_frames_come_when_they_came(recorded: list[int]) -> None:
    assert await played(recorded, 1.0, TestClock()) == recorded


@given(times, st.floats(0.01, 100))
async def test_speed_divides_every_time(recorded: list[int], speed: float) -> None:
    assert await played(recorded, speed, TestClock()) == [int(t_ns / speed) for t_ns in recorded]


@given(times)
async def test_at_top_speed_nothing_waits(recorded: list[int]) -> None:
    assert await played(recorded, None, TestClock()) == [0] * len(recorded)


async def test_a_late_frame_does_not_delay_the_next() -> None:
    recorded = [number * 10 * MS for number in range(1_000)]
    came = await played(recorded, 1.0, TestClock(late_ns=2 * MS), work_ns=5 * MS)
    assert max(at - t_ns for at, t_ns in zip(came, recorded, strict=True)) <= 2 * MS


async def _lateness_ns() -> list[int]:
    late: list[int] = []
    for wait_ms in (0, 1, 2, 5, 20) * 5:
        deadline_ns = LOOP.now_ns() + wait_ms * MS
        await LOOP.sleep_until(deadline_ns)
        late.append(LOOP.now_ns() - deadline_ns)
    return late


async def test_the_loop_s_clock_is_never_early() -> None:
    assert min(await _lateness_ns()) >= 0


@pytest.mark.timed
async def test_the_loop_s_clock_is_hardly_late() -> None:
    assert statistics.median(await _lateness_ns()) < 2 * MS


async def turns_beside(streams: int, late: list[int]) -> int:
    """How often another task has its turn in a fifth of a second, beside streams with an event
    every 20 ms.
    """
    turns = 0

    async def play(number: int) -> None:
        started_ns = LOOP.now_ns() + number * MS // 5
        for event in range(10):
            await LOOP.sleep_until(started_ns + event * 20 * MS)
            late.append(LOOP.now_ns() - started_ns - event * 20 * MS)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count())
        async with asyncio.TaskGroup() as playing:
            for number in range(streams):
                playing.create_task(play(number))
            playing.create_task(asyncio.sleep(0.2))
        counting.cancel()
    return turns


@pytest.mark.timed
async def test_a_hundred_streams_leave_the_loop_to_others() -> None:
    """If each slept the thread for its last bit, as one alone may, there would be a fiftieth of the
    turns.
    """
    late: list[int] = []
    assert await turns_beside(100, late) > await turns_beside(0, []) / 20
    assert min(late) >= 0
    assert sorted(late)[len(late) // 2] < 10 * MS


async def test_without_a_timeout_a_client_waits_for_ever() -> None:
    clock = TestClock()
    await Waiting(clock).pause(10**6)
    assert clock.time_ns >= 10**15
