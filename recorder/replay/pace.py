"""The one clock of replays: recorded times are counted from the request, on an event loop or in a
thread without one.

Rules of this file:

* Deadlines are absolute, so an error at one of them is not passed on to the next.
* Waits do not hold each other up. The thread itself sleeps only for a stream that is alone, for its
  last bit, and what that stream has sent goes out first.
* A client that waits so long for nothing that its own read timeout ends first gets that timeout:
  the outcome `timeout`.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from recorder.errors import UpstreamError
from recorder.model.events import Event

if TYPE_CHECKING:
    from recorder.proxy.http.messages import Request

T = TypeVar("T")

FOREVER_S = 10 * 365 * 86400.0  # of a stall: until somebody gives up
# an event loop wakes up to a millisecond late: the last bit is slept in the thread itself
SPIN_S = 0.0015


class Clock(ABC):
    """A monotonic clock that can be waited on."""

    now_ns: Callable[[], int] = staticmethod(time.monotonic_ns)

    @abstractmethod
    async def sleep_until(self, deadline_ns: int) -> None:
        """Return at `deadline_ns` of `now_ns`, or at once if it is past."""


class LoopClock(Clock):
    """The real time for any number of streams on event loops.

    One stream alone is a tenth of a millisecond late. With others beside it, it takes what the loop
    gives, a millisecond or two: if each of a hundred put the thread to sleep for its last bit, all
    would wait for all.
    """

    def __init__(self) -> None:
        self._sleepers: set[object] = set()

    async def sleep_until(self, deadline_ns: int) -> None:
        if deadline_ns <= self.now_ns():
            await asyncio.sleep(0)  # of many that are due at once, each still leaves by itself
            return
        me = object()
        self._sleepers.add(me)
        try:
            while (left_s := (deadline_ns - self.now_ns()) / 1e9) > 0:
                spin_s = SPIN_S if len(self._sleepers) == 1 else 0.0
                if left_s <= spin_s:
                    time.sleep(left_s)
                else:
                    # uvloop may wake up early: look at the clock again
                    await asyncio.sleep(left_s - spin_s)
        finally:
            self._sleepers.discard(me)


class ThreadClock(Clock):
    """The real time for a separate thread, without an event loop: a coroutine that waits on it
    never suspends.
    """

    async def sleep_until(self, deadline_ns: int) -> None:
        left_s = (deadline_ns - self.now_ns()) / 1e9
        if left_s > 0:
            time.sleep(left_s)


LOOP = LoopClock()  # one for all: it knows who else sleeps
THREAD = ThreadClock()


class Waiting:
    """The waits of one request: deadlines of a clock, as long as the client that sent it has
    patience.
    """

    def __init__(self, clock: Clock, request: Request | None = None) -> None:
        self.clock = clock
        self.started_ns = clock.now_ns()
        timeouts = request.extensions.get("timeout") if request is not None else None
        self._patience_s: float | None = (timeouts or {}).get("read")

    async def until(self, deadline_ns: int) -> None:
        """Wait for a deadline. Raises `UpstreamError` if the client's read timeout ends first."""
        now_ns = self.clock.now_ns()
        if self._patience_s is None or deadline_ns - now_ns <= self._patience_s * 1e9:
            await self.clock.sleep_until(deadline_ns)
            return
        await self.clock.sleep_until(now_ns + int(self._patience_s * 1e9))
        raise UpstreamError(f"nothing came for {self._patience_s:g} s", "timeout")

    async def pause(self, seconds: float) -> None:
        await self.until(self.clock.now_ns() + int(seconds * 1e9))

    async def within(self, deadline_ns: int, awaited: Awaitable[T]) -> T:
        """Return the result of `awaited`.

        Raises `TimeoutError` at the deadline; without an event loop, as soon as something comes
        after it."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            result = await awaited
        else:
            async with asyncio.timeout((deadline_ns - self.clock.now_ns()) / 1e9):
                result = await awaited
        if self.clock.now_ns() >= deadline_ns:
            raise TimeoutError
        return result


class Pace:
    """The times of a recording, at `speed` times the original from the request on; for `None`
    nothing waits.
    """

    def __init__(self, waiting: Waiting, speed: float | None) -> None:
        self._waiting, self._speed = waiting, speed

    async def until(self, t_ns: int) -> None:
        """Return when what was recorded at `t_ns` is due. Others have their turn in any case."""
        if self._speed is None:
            await asyncio.sleep(0)
        else:
            await self._waiting.until(self._waiting.started_ns + int(t_ns / self._speed))


async def paced(
    events: AsyncIterable[Event], speed: float | None, clock: Clock = LOOP
) -> AsyncIterator[Event]:
    """Yield the events of one exchange when they are due, as if its request were sent now; for
    `None` at once.
    """
    pace = Pace(Waiting(clock), speed)
    async for event in events:
        if speed is not None:
            await pace.until(event.t_ns)
        yield event
