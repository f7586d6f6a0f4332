"""Playing recorded frames again at the times they came, on a clock that is given.

Deadlines are absolute, from the first frame on, so an error at one frame is not passed on to the next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable

from recorder.model.events import Event

SPIN_S = 0.0015  # an event loop wakes up to a millisecond late: the last bit is slept in the thread itself


class Clock:
    """The real time. Tests give one of their own."""

    now_ns: Callable[[], int] = staticmethod(time.monotonic_ns)

    async def sleep_until(self, deadline_ns: int) -> None:
        """Return at `deadline_ns` of `now_ns`, or at once if it is past."""
        left_s = (deadline_ns - self.now_ns()) / 1e9
        if left_s > SPIN_S:
            await asyncio.sleep(left_s - SPIN_S)
        left_s = (deadline_ns - self.now_ns()) / 1e9
        if left_s > 0:
            time.sleep(left_s)


async def paced(events: AsyncIterable[Event], speed: float | None, clock: Clock) -> AsyncIterator[Event]:
    """The events of one exchange, each when it is due: at `speed` times the original, or at once for `None`."""
    started_ns = first_ns = None
    async for event in events:
        if speed is not None:
            if started_ns is None or first_ns is None:
                started_ns, first_ns = clock.now_ns(), event.t_ns
            await clock.sleep_until(started_ns + int((event.t_ns - first_ns) / speed))
        yield event
