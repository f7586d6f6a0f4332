"""Which event loop a test runs on, and how it waits.

`both_loops` runs a test on asyncio's loop and on uvloop, `on_uvloop` on uvloop only, where the proxy lives.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

Test = Callable[..., Coroutine[Any, Any, None]]

DEADLINE_S = 30.0  # after which a test that waits for something fails: the machine may have other things to do


async def eventually(condition: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
    """Wait until `condition` holds. Raises `AssertionError` if it does not."""
    until_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until_s, f"not within {within_s:g} s"
        await asyncio.sleep(0.005)


class Clock:
    """The clock of the loop that runs, which is asyncio's: a test puts it forward, so that timers are due."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        now, self._ahead_s = asyncio.get_running_loop().time, 0.0
        patched.setattr(asyncio.get_running_loop(), "time", lambda: now() + self._ahead_s)

    async def forward(self, seconds: float) -> None:
        """Let that much time pass."""
        self._ahead_s += seconds
        for _ in range(10):  # for what is due, and what comes of it
            await asyncio.sleep(0)


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
