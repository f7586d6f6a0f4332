"""Tables of cases, each run in one test: to collect a test takes longer than most of these cases."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def table(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each case, all of them, and fail with a list of those that fail.

    It reads as `pytest.mark.parametrize` does, above a test that needs no fixture of its own for each case. That one
    is for cases which are worth a line in the report.
    """
    arguments = (names,) if isinstance(names, str) else names
    rows = [(case,) if isinstance(names, str) else tuple(case) for case in cases]

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        fixtures = [each for name, each in signature.parameters.items() if name not in arguments]

        @functools.wraps(test)
        def run(*bound: Any, **given: Any) -> None:
            run_all(lambda *row: test(*bound, **dict(zip(arguments, row, strict=True)), **given), rows)

        vars(run)["__signature__"] = signature.replace(parameters=fixtures)
        return run

    return decorate


def run_all(test: Test, rows: Iterable[tuple[Any, ...]]) -> None:
    """Run a test with each row of arguments; fail with all that failed, each with its row."""
    failed: list[Exception] = []
    row: tuple[Any, ...] | None = None
    for row in rows:
        try:
            test(*row)
        except Exception as error:
            error.add_note("of the case " + ", ".join(repr(value)[:200] for value in row))
            failed.append(error)
    if row is None:
        pytest.skip("the table has no case")
    if failed:
        raise ExceptionGroup(f"cases that fail: {len(failed)}", failed)
