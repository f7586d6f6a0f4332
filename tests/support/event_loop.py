"""Which event loop a test runs on, and how it waits.

`on_uvloop` runs a test on uvloop, where the program runs. `both_loops` runs it on asyncio's loop
too, which the program has on Windows: for what the loops do differently, such as buffers,
half-closed connections, resets and TLS.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import Any, TypeVar

import pytest
import uvloop

T = TypeVar("T")
Test = Callable[..., Coroutine[Any, Any, None]]

# after which a test that waits for something fails: the machine may have other things to do
DEADLINE_S = 30.0
POLL_S = 0.005
STOOD = 20  # looks at a value that has not changed: a tenth of a second


async def eventually(condition: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
    """Wait until `condition` holds. Raises `AssertionError` if it does not."""
    until_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until_s, f"not within {within_s:g} s"
        await asyncio.sleep(POLL_S)


async def turns(count: int = 20) -> None:
    """Let the loop go round: what was sent in this process arrives, and what follows from it is
    done.
    """
    for _ in range(count):
        await asyncio.sleep(0)


async def settled(value: Callable[[], object]) -> None:
    """Wait until a value stands still.

    Where a busy machine lets it stand still too early, a test claims less.
    """
    before, stood = value(), 0
    while stood < STOOD:
        await asyncio.sleep(POLL_S)
        now = value()
        stood = stood + 1 if now == before else 0
        before = now


class Clock:
    """The clock of the loop that runs, which is asyncio's: a test puts it forward, so that timers
    are due.
    """

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        now, self._ahead_s = asyncio.get_running_loop().time, 0.0
        patched.setattr(asyncio.get_running_loop(), "time", lambda: now() + self._ahead_s)

    async def forward(self, seconds: float) -> None:
        """Let that much time pass."""
        self._ahead_s += seconds
        await turns()


@contextmanager
def beside(entered: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Run a context on a loop in a thread of its own, for a test that blocks, such as by a command
    in its process.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def call(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(DEADLINE_S)

    async def enter() -> Any:
        return await stack.enter_async_context(entered())

    stack = AsyncExitStack()
    try:
        yield call(enter())
    finally:
        call(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def on_uvloop(test: Test) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test(*args, **kwargs))

    return run


def both_loops(test: Test) -> Callable[..., None]:
    def run(*args: Any, loop_factory: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(test(*args, **kwargs))

    signature = inspect.signature(test)
    parameter = inspect.Parameter("loop_factory", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), parameter])  # type: ignore[attr-defined]
    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    factories = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    parametrized: Callable[..., None] = pytest.mark.parametrize(
        "loop_factory", list(factories.values()), ids=list(factories)
    )(run)
    return parametrized
